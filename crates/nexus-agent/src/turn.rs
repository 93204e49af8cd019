//! The loop of one turn: reply, calls, results, reply, until the model has said everything.

mod calls;

use std::sync::{Arc, Mutex, PoisonError};

use nexus_base::id::{MessageId, ToolCallId};
use nexus_llm::{Content, Conversation, Model, ModelError, ModelEvent, ModelName, ModelReply, Usage};
use nexus_protocol::tool::Replay;
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use tokio_util::sync::CancellationToken;

use crate::budget::{Limits, Meter};
use crate::coordination::WAIT;
use crate::history::{PastCall, PastMessage, PastTurn, append, to_messages};
use crate::ports::{
    Approve, Call, Dispatch, Hooks, Ledger, LedgerError, Progress, ProgressSink, Step, TurnFacts,
};
use crate::prompt::{self, SystemPrompt};
use crate::toolbox::Toolbox;

use self::calls::Calls;

/// Longest reply asked of a model, in tokens.
const REPLY_TOKENS: u32 = 8_192;

/// An older tool whose text some models still put their reply into.
const RESPOND_ALIAS: &str = "respond_to_user";

/// Who an agent is in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Talks to the person.
    Manager,
    /// Does a task and reports.
    Worker,
}

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
}

/// One agent, ready to take turns.
#[derive(Debug)]
pub struct Agent {
    parts: AgentParts,
}

/// What a turn begins with.
pub struct TurnInput<'a> {
    /// Manager or worker.
    pub role: Role,
    /// Earlier turns, oldest first.
    pub past: Vec<PastTurn>,
    /// This turn: the words it answers, and what an earlier attempt already did.
    pub current: PastTurn,
    /// Where steps are kept.
    pub ledger: &'a dyn Ledger,
    /// How workers are sent off.
    pub dispatch: &'a dyn Dispatch,
    /// What the turn is, for those who stand around it.
    pub facts: TurnFacts,
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
    pub prompt: Option<SystemPrompt>,
}

impl TurnOutcome {
    /// The outcome of a turn that no model had a part in.
    pub fn without_model(end: End, said: String) -> Self {
        let nobody = ModelName { provider: "none".to_owned(), model: "none".to_owned() };
        Self { end, said, last_message: None, usage: Usage::default(), model: nobody, prompt: None }
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
        let mut meter = Meter::new(self.parts.limits, &input.current);
        let prompt = match prompt::assemble(&self.parts.layout, &self.parts.settings, input.role) {
            Ok(prompt) => prompt,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                return Ok(self.outcome(fail(format!("{error}: {cause}")), &input, &meter, None, None));
            }
        };
        self.enrich(&mut input).await;
        self.settle_open_calls(&mut input).await?;
        let mut conversation = Conversation {
            system: Arc::clone(&prompt.text),
            messages: to_messages(input.past.iter().chain([&input.current])),
            tools: self.parts.toolbox.specs(),
            max_tokens: REPLY_TOKENS,
        };
        // The conversation has it all; a long history is not kept twice.
        input.past = Vec::new();
        let prompt = Some(prompt);
        if input.role == Role::Manager && input.current.last_reply_did(WAIT) {
            return Ok(self.outcome(End::Waiting, &input, &meter, None, prompt));
        }
        loop {
            if input.cancel.is_cancelled() {
                return Ok(self.outcome(End::Aborted, &input, &meter, None, prompt));
            }
            if let Err(reason) = meter.begin_step() {
                return Ok(self.outcome(fail(reason), &input, &meter, None, prompt));
            }
            let partial = Mutex::new(String::new());
            let reply = match self.reply(&input, &conversation, &partial).await {
                Ok(reply) => reply,
                Err(error) => {
                    let said = partial.into_inner().unwrap_or_else(PoisonError::into_inner);
                    let last = (!said.is_empty()).then_some((said, None));
                    let end = match error {
                        ModelError::Cancelled => End::Aborted,
                        ModelError::RateLimited { .. }
                        | ModelError::ContextTooLong
                        | ModelError::Unauthorized { .. }
                        | ModelError::Unavailable { .. }
                        | ModelError::Rejected { .. } => fail(error.to_string()),
                    };
                    return Ok(self.outcome(end, &input, &meter, last, prompt));
                }
            };
            meter.usage.add(&reply.usage);
            let step = self.read_reply(reply);
            if step.calls.is_empty() {
                let last =
                    (!step.text.is_empty() || step.thinking.is_some()).then_some((step.text, step.thinking));
                return Ok(self.outcome(End::Final, &input, &meter, last, prompt));
            }
            input.ledger.record_step(&step).await?;
            input.current.messages.push(PastMessage::Assistant {
                text: step.text.clone(),
                calls: step.calls.iter().map(PastCall::from).collect(),
            });
            match self.run_calls(&step.calls, &mut input, &mut meter).await? {
                Calls::Done => {}
                Calls::Wait => return Ok(self.outcome(End::Waiting, &input, &meter, None, prompt)),
                Calls::Over(reason) => return Ok(self.outcome(fail(reason), &input, &meter, None, prompt)),
            }
            if let Some(message) = input.current.messages.last() {
                append(&mut conversation.messages, message);
            }
        }
    }

    /// Lets those around the turn add to its newest message, unless an earlier attempt went past it.
    async fn enrich(&self, input: &mut TurnInput<'_>) {
        let Some(PastMessage::User { frame, .. }) = input.current.messages.last_mut() else { return };
        for piece in input.hooks.context_ready(&input.facts).await {
            frame.push_str(&format!("<{0}>\n{1}\n</{0}>\n", piece.source, piece.text.trim_end()));
        }
    }

    async fn reply(
        &self,
        input: &TurnInput<'_>,
        conversation: &Conversation,
        partial: &Mutex<String>,
    ) -> Result<ModelReply, ModelError> {
        let sink = |event: ModelEvent| match event {
            ModelEvent::TextDelta(text) => {
                partial.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
                (input.progress)(Progress::Text(&text));
            }
            ModelEvent::ThinkingDelta(_) => {}
        };
        self.parts.model.reply(conversation, &sink, &input.cancel).await
    }

    fn outcome(
        &self,
        end: End,
        input: &TurnInput<'_>,
        meter: &Meter,
        last_message: Option<(String, Option<String>)>,
        prompt: Option<SystemPrompt>,
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
        TurnOutcome { end, said, last_message, usage: meter.usage, model: self.parts.model.name(), prompt }
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

fn fail(reason: String) -> End {
    End::Failed { reason }
}
