//! The loop of one turn: reply, calls, results, reply, until the model has said everything.

mod calls;
mod room;

use std::sync::Arc;

use nexus_base::error::chain;
use nexus_base::id::{MessageId, ToolCallId};
use nexus_base::task;
use nexus_llm::{Content, Conversation, Model, ModelError, ModelName, ModelReply, Usage};
use nexus_protocol::tool::Replay;
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use tokio_util::sync::CancellationToken;

use crate::budget::{Limits, Meter};
use crate::channel::Channel;
use crate::compaction::Window;
use crate::context::{ContextRecord, SizedCount};
use crate::estimate::{messages_bytes, tools_bytes};
use crate::history::{Past, PastCall, PastMessage, PastTurn, append, summary_text, to_messages};
use crate::ports::{Dispatch, Hooks, Ledger, ProgressSink, Spending, Step};
use crate::prompt::{Assignment, Location, Prompts, SystemPrompt};
use nexus_tools::coordination::WAIT;
use nexus_tools::ports::{Approve, Call, LedgerError, TurnFacts};
use nexus_tools::{Role, RunFacts, Toolbox};

use self::calls::Calls;
use self::room::NoReply;

/// Longest reply asked of a model, in tokens.
const REPLY_TOKENS: u32 = 8_192;
/// Most of a reply that is kept, in bytes.
const MAX_REPLY_LEN: usize = 4 * 1024 * 1024;

/// An older tool whose text some models still put their reply into.
const RESPOND_ALIAS: &str = "respond_to_user";

/// What an agent is made of; shared by all its turns.
#[derive(Debug)]
pub struct AgentParts {
    /// The workspace.
    pub layout: Layout,
    /// Settings in force when the turn began.
    pub settings: Arc<Settings>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The session's tools.
    pub toolbox: Toolbox,
    /// Limits of one turn.
    pub limits: Limits,
    /// How much of a conversation the model can be sent.
    pub window: Window,
    /// What it was made for.
    pub assignment: Assignment,
    /// Prompts that were put together lately.
    pub prompts: Arc<Prompts>,
}

/// One agent, ready to take turns.
#[derive(Debug)]
pub struct Agent {
    pub(crate) parts: AgentParts,
}

/// What a turn begins with.
pub struct TurnInput<'a> {
    /// Manager or worker.
    pub role: Role,
    /// What it follows on.
    pub past: Past,
    /// This turn: the words it answers, and what an earlier attempt already did.
    pub current: PastTurn,
    /// Where steps are kept.
    pub ledger: &'a dyn Ledger,
    /// What an earlier attempt was told besides the words; nobody is asked for it again.
    pub told: Option<ContextRecord>,
    /// Where costs are counted.
    pub spending: &'a dyn Spending,
    /// How workers are sent off.
    pub dispatch: &'a dyn Dispatch,
    /// What the turn is, for those who stand around it.
    pub facts: TurnFacts,
    /// Where it is said, if not on the control plane.
    pub channel: Option<Channel>,
    /// The run it belongs to.
    pub run: RunFacts,
    /// Those who stand around its steps.
    pub hooks: &'a dyn Hooks,
    /// Who is asked before something leaves its box.
    pub approve: &'a dyn Approve,
    /// Who is told about progress.
    pub progress: ProgressSink<'a>,
    /// Ends the turn early, keeping what was said.
    pub cancel: CancellationToken,
}

impl std::fmt::Debug for TurnInput<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TurnInput").field("role", &self.role).finish_non_exhaustive()
    }
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The model said everything.
    Final,
    /// It ended with `wait`.
    Waiting,
    /// It was cancelled.
    Aborted,
    /// It could not go on.
    Failed {
        /// Why, for the person.
        reason: String,
    },
}

/// What a turn gave.
#[derive(Debug, Clone)]
pub struct TurnOutcome {
    /// How it ended.
    pub end: End,
    /// Everything said, earlier attempts included.
    pub said: String,
    /// The last reply's text and reasoning, when it is not yet in the ledger.
    pub last_message: Option<(String, Option<String>)>,
    /// Cost of this attempt.
    pub usage: Usage,
    /// The model that answered.
    pub model: ModelName,
    /// What was sent, part by part.
    pub context: Option<ContextRecord>,
    /// What it followed on, and itself without the last reply: what the next turn follows on.
    pub follows: Option<(Past, PastTurn)>,
}

impl TurnOutcome {
    /// The outcome of a turn that no model had a part in.
    pub fn without_model(end: End, said: String) -> Self {
        let nobody = ModelName { provider: "none".to_owned(), model: "none".to_owned() };
        Self {
            end,
            said,
            last_message: None,
            usage: Usage::default(),
            model: nobody,
            context: None,
            follows: None,
        }
    }
}

impl Agent {
    /// Puts an agent together.
    pub fn new(parts: AgentParts) -> Self {
        Self { parts }
    }

    /// Takes one turn. Failures of models, tools and limits are outcomes.
    ///
    /// # Errors
    /// The ledger cannot be written; the turn stays pending and can be resumed.
    pub async fn take_turn(&self, mut input: TurnInput<'_>) -> Result<TurnOutcome, LedgerError> {
        tracing::trace!("the turn is taken");
        let mut meter = Meter::new(self.parts.limits, &input.current);
        let mut record = input.told.clone().unwrap_or_default();
        let prompt = match self.prompt(&input).await {
            Ok(prompt) => prompt,
            Err(reason) => return Ok(self.outcome(fail(reason), &input, &meter, None, None)),
        };
        self.enrich(&mut input, &mut record).await?;
        self.settle_open_calls(&mut input).await?;
        let mut conversation = self.begin(&prompt, &input, &mut record);
        record.prompt = Some(self.keep_sent(&prompt, &conversation.tools, &input).await?);
        if input.role == Role::Manager && input.current.last_reply_did(WAIT) {
            return Ok(self.outcome(End::Waiting, &input, &meter, None, Some(record)));
        }
        meter.spent = input.spending.so_far().await?;
        loop {
            if input.cancel.is_cancelled() {
                return Ok(self.outcome(End::Aborted, &input, &meter, None, Some(record)));
            }
            if let Err(reason) = meter.begin_step() {
                return Ok(self.outcome(fail(reason), &input, &meter, None, Some(record)));
            }
            let reply = match self.ask(&mut conversation, &mut input, &mut meter, &mut record).await? {
                Ok(reply) => reply,
                Err(NoReply { error, partial }) => {
                    let last = (!partial.is_empty()).then_some((partial, None));
                    let end = match error {
                        ModelError::Cancelled => End::Aborted,
                        other => fail(explained(&other)),
                    };
                    return Ok(self.outcome(end, &input, &meter, last, Some(record)));
                }
            };
            let step = self.read_reply(reply);
            if step.calls.is_empty() {
                let last =
                    (!step.text.is_empty() || step.thinking.is_some()).then_some((step.text, step.thinking));
                return Ok(self.outcome(End::Final, &input, &meter, last, Some(record)));
            }
            input.ledger.record_step(&step).await?;
            input.current.messages.push(PastMessage::Assistant {
                text: step.text.clone(),
                calls: step.calls.iter().map(PastCall::from).collect(),
            });
            match self.run_calls(&step.calls, &mut input, &mut meter).await? {
                Calls::Done => {}
                Calls::Wait => return Ok(self.outcome(End::Waiting, &input, &meter, None, Some(record))),
                Calls::Over(reason) => {
                    return Ok(self.outcome(fail(reason), &input, &meter, None, Some(record)));
                }
            }
            if let Some(message) = input.current.messages.last() {
                append(&mut conversation.messages, message);
            }
        }
    }

    /// Reads the identity files, or finds that none has changed, on a thread that may wait for the disk.
    async fn prompt(&self, input: &TurnInput<'_>) -> Result<SystemPrompt, String> {
        let AgentParts { prompts, layout, settings, assignment, .. } = &self.parts;
        let (prompts, layout, settings) = (Arc::clone(prompts), layout.clone(), Arc::clone(settings));
        let (assignment, session, role) = (assignment.clone(), input.facts.session.clone(), input.role);
        let channel = input.channel.clone();
        let assembled = task::blocking(move || {
            let location = Location { session: &session, channel: channel.as_ref() };
            prompts.assemble(&layout, &settings, role, location, &assignment)
        })
        .await;
        match assembled {
            Ok(assembled) => assembled.map_err(|error| chain(&error)),
            Err(error) => Err(format!("the prompt could not be put together: {error}")),
        }
    }

    /// Puts the first request of the turn together and notes its parts.
    fn begin(
        &self,
        prompt: &SystemPrompt,
        input: &TurnInput<'_>,
        record: &mut ContextRecord,
    ) -> Conversation {
        let conversation = Conversation {
            system: Arc::clone(&prompt.text),
            messages: to_messages(&input.past, &input.current),
            tools: self.parts.toolbox.specs(),
            max_tokens: REPLY_TOKENS,
        };
        record.note_prompt(prompt);
        let tools = &conversation.tools;
        record.tools = SizedCount { count: tools.len(), bytes: tools_bytes(tools) };
        record.summary_bytes = input.past.summary.as_ref().map(|summary| summary_text(summary).len());
        let newest = input.current.messages.iter().rev().find_map(|message| match message {
            PastMessage::User { frame, text } => Some((frame.len(), text.len())),
            PastMessage::Assistant { .. } => None,
        });
        (record.frame_bytes, record.words_bytes) = newest.unwrap_or_default();
        let newest = record.frame_bytes + record.words_bytes + record.summary_bytes.unwrap_or(0);
        record.history = SizedCount {
            count: input.past.turns.len(),
            bytes: messages_bytes(&conversation.messages).saturating_sub(newest),
        };
        conversation
    }

    fn outcome(
        &self,
        end: End,
        input: &TurnInput<'_>,
        meter: &Meter,
        last_message: Option<(String, Option<String>)>,
        context: Option<ContextRecord>,
    ) -> TurnOutcome {
        let mut said = input.current.said();
        if let Some((text, _)) = &last_message
            && !text.trim().is_empty()
        {
            if !said.is_empty() {
                said.push_str("\n\n");
            }
            said.push_str(text);
        }
        TurnOutcome {
            end,
            said,
            last_message,
            usage: meter.usage,
            model: meter.model.clone().unwrap_or_else(|| self.parts.model.name()),
            context,
            follows: Some((input.past.clone(), input.current.clone())),
        }
    }

    fn read_reply(&self, reply: ModelReply) -> Step {
        let mut text = String::new();
        let mut thinking: Option<String> = None;
        let mut calls = Vec::new();
        for part in reply.content {
            match part {
                Content::Text { text: more } => add_line(&mut text, &more),
                Content::Thinking { text: more, .. } => thinking.get_or_insert_default().push_str(&more),
                Content::ToolUse { name, input, .. } if name == RESPOND_ALIAS => {
                    let said = ["text", "message"].iter().find_map(|name| input.get(name)?.as_str());
                    add_line(&mut text, said.unwrap_or_default());
                }
                Content::ToolUse { id, name, input } => {
                    calls.push(Call {
                        id: ToolCallId::generate(),
                        model_call_id: id,
                        tool: name,
                        arguments: input,
                    });
                }
                // A model cannot answer its own calls; whatever it says there is dropped.
                Content::ToolResult { .. } => {}
            }
        }
        if text.len() > MAX_REPLY_LEN {
            let whole = text.len();
            text.truncate(text.floor_char_boundary(MAX_REPLY_LEN));
            text.push_str(&format!("\n[cut: the reply had {whole} bytes and {MAX_REPLY_LEN} are kept]"));
        }
        let acts = calls.iter().any(|call| match self.parts.toolbox.replay(&call.tool) {
            Replay::Unsafe => true,
            Replay::Safe | Replay::Transactional => false,
        });
        Step { message_id: MessageId::generate(), text, thinking, calls, acts }
    }
}

fn add_line(text: &mut String, more: &str) {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
}

/// Says what went wrong and what can be done about it.
fn explained(error: &ModelError) -> String {
    match error.hint() {
        Some(hint) => format!("{error} ({hint})"),
        None => error.to_string(),
    }
}

fn fail(reason: String) -> End {
    End::Failed { reason }
}
