//! The loop of one turn: reply, calls, results, reply, until the model has said everything.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nexus_base::file::FileError;
use nexus_base::id::{MessageId, ToolCallId};
use nexus_llm::{Content, Conversation, Model, ModelError, ModelEvent, ModelName, ModelReply, Usage};
use nexus_protocol::tool::{Replay, ToolOutput};
use nexus_workspace::Layout;
use nexus_workspace::config::Settings;
use tokio_util::sync::CancellationToken;

use crate::budget::{Limits, Meter};
use crate::coordination::{self, WAIT};
use crate::history::{OUTCOME_UNKNOWN, PastCall, PastMessage, PastTurn, to_messages};
use crate::ports::{Call, CallEnd, Dispatch, Ledger, LedgerError, Progress, ProgressSink, Step};
use crate::prompt::{self, SystemPrompt};
use crate::toolbox::{self, Toolbox};

/// Longest reply asked of a model, in tokens.
const REPLY_TOKENS: u32 = 8_192;

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
    /// A worker's assignment, for its system prompt.
    pub assignment: Option<String>,
    /// Where steps are kept.
    pub ledger: &'a dyn Ledger,
    /// How workers are sent off.
    pub dispatch: &'a dyn Dispatch,
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
        let mut meter = Meter::new(self.parts.limits);
        let prompt = match self.prompt(&input) {
            Ok(prompt) => prompt,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                return Ok(self.outcome(fail(format!("{error}: {cause}")), &input, &meter, None, None));
            }
        };
        let prompt = Some(prompt);
        if let Some(end) = self.settle_open_calls(&mut input).await? {
            return Ok(self.outcome(end, &input, &meter, None, prompt));
        }
        loop {
            if input.cancel.is_cancelled() {
                return Ok(self.outcome(End::Aborted, &input, &meter, None, prompt));
            }
            if let Err(reason) = meter.begin_step() {
                return Ok(self.outcome(fail(reason), &input, &meter, None, prompt));
            }
            let partial = Mutex::new(String::new());
            let reply = self.reply(&input, prompt.as_ref(), &partial).await;
            let reply = match reply {
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
            let step = read_reply(reply);
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
            if self.run_calls(&step.calls, &mut input, &mut meter).await? {
                return Ok(self.outcome(End::Waiting, &input, &meter, None, prompt));
            }
        }
    }

    fn prompt(&self, input: &TurnInput<'_>) -> Result<SystemPrompt, FileError> {
        prompt::assemble(&self.parts.layout, &self.parts.settings, input.role, input.assignment.as_deref())
    }

    async fn reply(
        &self,
        input: &TurnInput<'_>,
        prompt: Option<&SystemPrompt>,
        partial: &Mutex<String>,
    ) -> Result<ModelReply, ModelError> {
        let conversation = Conversation {
            system: prompt.map_or_else(|| Arc::from(""), |prompt| Arc::clone(&prompt.text)),
            messages: to_messages(input.past.iter().chain([&input.current])),
            tools: self.parts.toolbox.specs(),
            max_tokens: REPLY_TOKENS,
        };
        let sink = |event: ModelEvent| match event {
            ModelEvent::TextDelta(text) => {
                partial.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
                (input.progress)(Progress::Text(&text));
            }
            ModelEvent::ThinkingDelta(_) => {}
        };
        self.parts.model.reply(&conversation, &sink, &input.cancel).await
    }

    /// Deals with calls that a crash cut off: looks again where looking is all they did, and tells
    /// the model that the outcome of the others is unknown.
    async fn settle_open_calls(&self, input: &mut TurnInput<'_>) -> Result<Option<End>, LedgerError> {
        let waited = input.current.last_reply_called(WAIT);
        let mut meter = Meter::new(self.parts.limits);
        for open in input.current.open_calls() {
            let call = Call {
                id: open.id,
                model_call_id: open.model_call_id,
                tool: open.tool,
                arguments: open.arguments,
            };
            match self.parts.toolbox.replay(&call.tool) {
                Replay::Safe | Replay::Transactional => {
                    self.run_call(&call, input, &mut meter).await?;
                }
                Replay::Unsafe => {
                    let output = ToolOutput::error(OUTCOME_UNKNOWN);
                    input.ledger.record_result(&call.id, &output, CallEnd::Interrupted).await?;
                    input.current.resolve(&call.id, output.text, true);
                }
            }
        }
        Ok(waited.then_some(End::Waiting))
    }

    /// Runs a reply's calls in order; returns whether the model asked to wait.
    async fn run_calls(
        &self,
        calls: &[Call],
        input: &mut TurnInput<'_>,
        meter: &mut Meter,
    ) -> Result<bool, LedgerError> {
        let mut waits = false;
        for call in calls {
            waits |= self.run_call(call, input, meter).await?;
        }
        Ok(waits)
    }

    async fn run_call(
        &self,
        call: &Call,
        input: &mut TurnInput<'_>,
        meter: &mut Meter,
    ) -> Result<bool, LedgerError> {
        (input.progress)(Progress::CallStarted { call });
        let started = Instant::now();
        let mut waits = false;
        let mut recorded = false;
        let mut end = CallEnd::Ran;
        let refusal = toolbox::check_arguments(&call.arguments)
            .and_then(|()| meter.begin_call(&call.tool, &call.arguments))
            .err();
        let output = if let Some(refusal) = refusal {
            ToolOutput::error(refusal)
        } else if call.tool == WAIT && input.role == Role::Manager {
            let output = wait_answer(input).await?;
            waits = !output.is_error;
            output
        } else if coordination::is_coordination(&call.tool) {
            match coordination::parse(&call.tool, &call.arguments) {
                Ok(what) => {
                    let done = input.dispatch.coordinate(&call.id, what).await?;
                    recorded = done.recorded;
                    done.output
                }
                Err(message) => ToolOutput::error(message),
            }
        } else {
            let output = self.parts.toolbox.call(call, &input.cancel).await;
            if input.cancel.is_cancelled() && output.is_error {
                end = CallEnd::Interrupted;
            }
            output
        };
        if !recorded {
            input.ledger.record_result(&call.id, &output, end).await?;
        }
        let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        (input.progress)(Progress::CallEnded { call, is_error: output.is_error, milliseconds });
        input.current.resolve(&call.id, output.text, output.is_error);
        Ok(waits)
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
}

/// A manager may wait when it has spoken or has workers out; otherwise somebody would sit before silence.
async fn wait_answer(input: &TurnInput<'_>) -> Result<ToolOutput, LedgerError> {
    if !input.current.said().is_empty() || input.dispatch.outstanding().await? > 0 {
        return Ok(ToolOutput::ok("waiting"));
    }
    Ok(ToolOutput::error(
        "nothing to wait for: no worker is out and you have said nothing in this turn; answer first",
    ))
}

fn fail(reason: String) -> End {
    End::Failed { reason }
}

fn read_reply(reply: ModelReply) -> Step {
    let mut text = String::new();
    let mut thinking: Option<String> = None;
    let mut calls = Vec::new();
    for part in reply.content {
        match part {
            Content::Text { text: more } => {
                if !text.is_empty() && !more.is_empty() {
                    text.push('\n');
                }
                text.push_str(&more);
            }
            Content::Thinking { text: more, .. } => thinking.get_or_insert_default().push_str(&more),
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
    Step { message_id: MessageId::generate(), text, thinking, calls }
}

impl From<&Call> for PastCall {
    fn from(call: &Call) -> Self {
        Self {
            id: call.id.clone(),
            model_call_id: call.model_call_id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            result: None,
        }
    }
}
