//! What one call runs under: whose it is, what its run has read, whom it may ask.

use std::sync::Arc;

use nexus_base::id::{RequestId, ToolCallId};
use nexus_protocol::tool::ToolOutput;
use tokio_util::sync::CancellationToken;

use crate::ports::{Approval, ApprovalAsk, Approve, TurnFacts};
use crate::taint::{Level, Taint};

/// The run a turn belongs to.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// The owner's request that everything in it goes back to.
    pub root_request_id: RequestId,
    /// What it has read.
    pub taint: Arc<Taint>,
}

/// What one call runs under.
pub struct Scope<'a> {
    pub call: &'a ToolCallId,
    /// The turn it happens in.
    pub turn: &'a TurnFacts,
    /// The run it belongs to.
    pub run: &'a RunFacts,
    /// How far the run was to be trusted when the model made the call.
    pub level: Level,
    /// Who is asked before something leaves its box.
    pub approve: &'a dyn Approve,
    /// Commands may look at the task folder and not change it; why.
    pub look_only: Option<String>,
    /// Ends the call early.
    pub cancel: &'a CancellationToken,
}

impl std::fmt::Debug for Scope<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Scope")
            .field("call", &self.call)
            .field("run", &self.run)
            .finish_non_exhaustive()
    }
}

impl Scope<'_> {
    /// Asks the owner; the error is for the model.
    pub(crate) async fn consent(&self, ask: Consent) -> Result<(), String> {
        let Consent { tool, runs_command, summary, resources, reason } = ask;
        let ask = ApprovalAsk {
            call: self.call.clone(),
            tool: tool.to_owned(),
            runs_command,
            summary: summary.clone(),
            resources,
            reason: reason.clone(),
        };
        let answer = tokio::select! {
            answer = self.approve.ask(self.turn, &ask) => answer,
            () = self.cancel.cancelled() => {
                Approval::Refused { reason: "the turn was stopped while waiting for the owner's consent".to_owned() }
            }
        };
        match answer {
            Approval::Granted => Ok(()),
            Approval::Refused { reason: refusal } => {
                let what = summary.lines().next().unwrap_or_default().trim_end_matches(':');
                Err(format!("not done: {what}. It needs the owner's consent because {reason}; {refusal}"))
            }
        }
    }
}

/// The most bytes of a command or a content that the owner is asked about: nobody reads more, and less than all of it
/// is no ground for a yes.
const MAX_ASKED: usize = 16 * 1024;

/// Returns what the owner is asked about, a heading and below it the exact text; the error is for the model.
pub(crate) fn in_full(heading: &str, text: &str) -> Result<String, String> {
    if text.len() > MAX_ASKED {
        return Err(format!(
            "not done: it needs the owner's consent, and {} bytes are too many to review; do it in parts of at most \
             {MAX_ASKED} bytes",
            text.len()
        ));
    }
    Ok(format!("{heading}\n{text}"))
}

/// A question to the owner.
#[derive(Debug)]
pub(crate) struct Consent {
    pub(crate) tool: &'static str,
    pub(crate) runs_command: bool,
    /// What would happen: a first line of our own, and below it the exact command or content.
    pub(crate) summary: String,
    /// What the answer is bound to.
    pub(crate) resources: Vec<String>,
    /// Why it is asked, as the end of a sentence after "because".
    pub(crate) reason: String,
}

/// What a call gave, and whose words are in it.
#[derive(Debug)]
pub struct Done {
    /// For the model.
    pub output: ToolOutput,
    /// Where words come from that nobody vouches for.
    pub untrusted: Option<String>,
}

impl Done {
    /// A result that holds nothing from outside.
    pub fn own(output: ToolOutput) -> Self {
        Self { output, untrusted: None }
    }

    /// A result with words from `source` in it.
    pub fn from_outside(output: ToolOutput, source: impl Into<String>) -> Self {
        Self { output, untrusted: Some(source.into()) }
    }
}

impl From<Result<String, String>> for Done {
    fn from(result: Result<String, String>) -> Self {
        Self::own(match result {
            Ok(text) => ToolOutput::ok(text),
            Err(text) => ToolOutput::error(text),
        })
    }
}
