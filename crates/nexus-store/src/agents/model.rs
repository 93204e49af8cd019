//! The nouns of `agents.db`: sessions, queue items, turns, messages, tool calls and outbox lines.

use nexus_base::clock::Timestamp;
use nexus_base::conversation::{QueueMode, Role};
use nexus_base::id::{
    BootId, EventId, MessageId, OutboxId, QueueItemId, RequestId, SessionLabel, ToolCallId, TurnId,
};

use super::columns::{ItemFacts, PermissionSnapshot, SessionSettings, UnreadableColumn};
use crate::words::words;

words! {
    /// Where a worker's task stands.
    TaskStatus {
        /// Waiting to be taken.
        Pending = "pending",
        /// Taken.
        Running = "running",
        /// Reported a result.
        Completed = "completed",
        /// Reported a failure.
        Failed = "failed",
        /// Ended by its parent or the person.
        Cancelled = "cancelled",
    }
}

words! {
    /// What a queue item is.
    ItemKind {
        /// A person's words.
        Message = "message",
        /// A worker's task.
        Task = "task",
        /// A worker's result for its parent.
        WorkerResult = "worker_result",
        /// Words of another agent.
        AgentMessage = "agent_message",
        /// The runtime's own words, such as BOOT.md.
        System = "system",
    }
}

words! {
    /// How an item meets a busy session.
    ItemMode {
        /// Ends the running turn; everything waiting becomes one next turn.
        Interrupt = "interrupt",
        /// One at a time, in order.
        Followup = "followup",
        /// Everything waiting in this mode becomes one turn.
        Collect = "collect",
    }
}

impl From<QueueMode> for ItemMode {
    fn from(mode: QueueMode) -> Self {
        match mode {
            QueueMode::Interrupt | QueueMode::Steer => Self::Interrupt,
            QueueMode::Followup | QueueMode::Queue => Self::Followup,
            QueueMode::Collect => Self::Collect,
        }
    }
}

words! {
    /// Where a queue item stands.
    ItemStatus {
        /// Waiting.
        Pending = "pending",
        /// Taken by a turn.
        Processing = "processing",
        /// Ended; `outcome` says how.
        Done = "done",
    }
}

words! {
    /// How a queue item ended.
    ItemOutcome {
        /// Its turn completed.
        Completed = "completed",
        /// Its turn failed, visibly.
        Failed = "failed",
        /// Its turn was interrupted; partial output is kept.
        Aborted = "aborted",
        /// Its words were shortened into a later item because the queue was full.
        Merged = "merged",
        /// Refused because the queue was full.
        Rejected = "rejected",
        /// Cancelled before it was taken.
        Cancelled = "cancelled",
    }
}

words! {
    /// Where a turn stands.
    TurnStatus {
        /// Running, or cut off by a crash.
        Pending = "pending",
        /// Ended well.
        Completed = "completed",
        /// Ended with an error.
        Failed = "failed",
        /// Interrupted.
        Aborted = "aborted",
    }
}

words! {
    /// Who speaks in a message.
    MessageRole {
        /// The person, another agent or the runtime.
        User = "user",
        /// The model.
        Assistant = "assistant",
    }
}

words! {
    /// Where a tool call stands.
    CallStatus {
        /// Written down before it runs; without a result after a crash its outcome is unknown.
        Intended = "intended",
        /// Did what was asked.
        Completed = "completed",
        /// Ran and did not do what was asked.
        Failed = "failed",
        /// Cut off; whether it acted is unknown.
        Interrupted = "interrupted",
    }
}

words! {
    /// What an outbox line is to its reader.
    OutboxState {
        /// A reply.
        Final = "final",
        /// What had been said before an interruption.
        Aborted = "aborted",
        /// A visible failure.
        Error = "error",
    }
}

words! {
    /// Where an outbox line stands.
    OutboxStatus {
        /// Must be said.
        Pending = "pending",
        /// Being said.
        Sending = "sending",
        /// Readable by its reader.
        Delivered = "delivered",
    }
}

/// A session row.
#[derive(Debug, Clone)]
pub struct SessionRecord {
    /// Stable name.
    pub label: SessionLabel,
    /// Last turn on its path.
    pub head_turn_id: Option<TurnId>,
    /// Persona it speaks as; empty before onboarding.
    pub persona: String,
    /// Manager or worker.
    pub role: Role,
    /// Who dispatched it.
    pub parent: Option<SessionLabel>,
    pub dispatch_id: Option<ToolCallId>,
    /// What it was sent to do.
    pub task: Option<String>,
    /// Where that stands.
    pub task_status: Option<TaskStatus>,
    /// Why it is being ended, while its last turn still runs.
    pub cancel_reason: Option<String>,
    /// Manager 0, its workers 1, …
    pub depth: u32,
    /// What was fixed when it was made, if the row can be read.
    pub settings: Result<SessionSettings, UnreadableColumn>,
    /// `active` or `archived`.
    pub status: String,
    /// Last change.
    pub updated_at: Timestamp,
}

/// A session to be made if it is not there.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Stable name.
    pub label: SessionLabel,
    /// Persona it speaks as.
    pub persona: String,
    /// Manager or worker.
    pub role: Role,
    /// Where it comes from: `nexus`, `subagent`.
    pub origin: &'static str,
    /// What is fixed from now on.
    pub settings: SessionSettings,
}

/// An item for a session's queue.
#[derive(Debug, Clone)]
pub struct NewItem {
    /// Fixed id: the event's, or `task:{dispatch}`, `result:{dispatch}`, `message:{call}`.
    pub id: QueueItemId,
    pub session: SessionLabel,
    /// Its own request.
    pub request_id: RequestId,
    /// The request that led to it.
    pub parent_request_id: Option<RequestId>,
    /// The request at the top of the tree.
    pub root_request_id: RequestId,
    /// The event in `events.db`, when there is one.
    pub source_event_id: Option<EventId>,
    pub kind: ItemKind,
    /// How it meets a busy session.
    pub mode: ItemMode,
    /// What the model is told about it.
    pub facts: ItemFacts,
    /// The words.
    pub content: String,
    /// What it may do, decided once at admission.
    pub permissions: PermissionSnapshot,
}

/// A queue item row.
#[derive(Debug, Clone)]
pub struct Item {
    /// What was put in.
    pub new: NewItem,
    /// Where it stands.
    pub status: ItemStatus,
    /// How it ended.
    pub outcome: Option<ItemOutcome>,
    /// Claims so far.
    pub attempt: u32,
    /// Life of the daemon that claimed it last.
    pub boot_id: Option<BootId>,
    /// The turn that took it.
    pub turn_id: Option<TurnId>,
    /// Why it ended as it did.
    pub error: Option<String>,
    /// When it was put in.
    pub enqueued_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// What a full queue does with one more message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The oldest waiting message is shortened into the next one.
    Summarize,
    /// The oldest waiting message is refused, visibly.
    DropOldest,
    /// The new message is refused, visibly.
    RejectNew,
}

/// What admission did.
#[derive(Debug, Clone)]
pub enum Admitted {
    /// The item waits.
    Queued,
    /// The item waits; an older one was shortened into another or refused to make room.
    QueuedInPlaceOf(Box<Untaken>),
    /// It had been admitted before.
    AlreadyThere,
    /// It was refused; a visible line is in the outbox.
    Refused(Box<Untaken>),
}

/// An item that ended without a turn.
#[derive(Debug, Clone)]
pub struct Untaken {
    pub item: Item,
    /// What the person is told about it.
    pub line: Option<OutboxRecord>,
}

/// What ending workers led to besides the rows; whoever asked for it sees to the rest.
#[derive(Debug, Clone, Default)]
pub struct Aftermath {
    /// Turns that run now and must be ended by whoever runs them.
    pub running: Vec<(SessionLabel, TurnId)>,
    /// Items that ended without a turn.
    pub ended: Vec<Item>,
    /// Sessions that now have a result waiting.
    pub wake: Vec<SessionLabel>,
    /// Reports that were written.
    pub reported: Vec<Reported>,
    /// Workers that were cancelled.
    pub cancelled: usize,
}

/// A worker's report, written for its parent.
#[derive(Debug, Clone)]
pub struct Reported {
    pub worker: SessionLabel,
    /// Whom it reported to.
    pub parent: SessionLabel,
    /// How its task ended.
    pub status: TaskStatus,
    /// The tree both belong to.
    pub root: RequestId,
}

/// A turn with everything said and done in it.
#[derive(Debug, Clone)]
pub struct TurnRecord {
    pub id: TurnId,
    /// The turn before it.
    pub parent: Option<TurnId>,
    /// Turns before it.
    pub depth: u32,
    /// Where it stands.
    pub status: TurnStatus,
    /// Session that produced it.
    pub session: SessionLabel,
    /// Request that led to it.
    pub request_id: RequestId,
    /// Claims so far.
    pub attempt: u32,
    /// `provider/model`, once known.
    pub model: Option<String>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// What it read that nobody vouches for, one source a line.
    pub taint: Option<String>,
    /// What was said, in order.
    pub messages: Vec<MessageRecord>,
}

/// One message of a turn.
#[derive(Debug, Clone)]
pub struct MessageRecord {
    pub id: MessageId,
    /// Place in the turn.
    pub sequence: u32,
    /// Who speaks.
    pub role: MessageRole,
    /// The context block that stood before the words, exactly as sent.
    pub frame: Option<String>,
    /// The words.
    pub content: String,
    /// Reasoning kept apart.
    pub thinking: Option<String>,
    /// Tool calls the model made in this message.
    pub calls: Vec<CallRecord>,
}

/// One tool call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The call; also the dispatch id.
    pub id: ToolCallId,
    /// Id the model gave it.
    pub model_call_id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as JSON text.
    pub arguments_json: String,
    /// Where it stands.
    pub status: CallStatus,
    /// What it gave back.
    pub result: Option<String>,
    /// Worker session it started.
    pub spawned: Option<SessionLabel>,
    /// When it was written down.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
}

/// A line that must be said, or was.
#[derive(Debug, Clone)]
pub struct OutboxRecord {
    /// `{turn}:{n}`.
    pub id: OutboxId,
    /// Turn that said it; none for a refusal at admission.
    pub turn_id: Option<TurnId>,
    /// Session it was said in.
    pub session: SessionLabel,
    /// Request it answers.
    pub request_id: RequestId,
    /// Tree that request belongs to.
    pub root_request_id: RequestId,
    /// Stable id for readers to drop what they have seen.
    pub message_id: MessageId,
    /// What it is to its reader.
    pub state: OutboxState,
    /// The words.
    pub text: String,
    /// The message or event it quotes.
    pub reply_to: Option<String>,
    /// Where it stands.
    pub status: OutboxStatus,
    /// When it was written.
    pub created_at: Timestamp,
}
