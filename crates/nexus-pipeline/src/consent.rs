//! The owner as a turn asks them: a question put, shown to whoever watches, and waited for.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_base::id::RequestId;
use nexus_base::redact::Redactor;
use nexus_identity::{Ask, Asked, Kind};
use nexus_store::identity::PermissionStatus;
use nexus_tools::ports::{Approval, ApprovalAsk, Approve, TurnFacts};
use tokio_util::sync::CancellationToken;

use crate::questions::Questions;

/// How long a question waits when nobody watches: long enough for a program that looks every second.
const UNWATCHED: Duration = Duration::from_secs(5);

/// Puts questions to the owner.
#[derive(Debug, Clone)]
pub struct OwnerConsent {
    pub questions: Arc<Questions>,
    pub redactor: Arc<Redactor>,
    /// Ends every wait.
    pub stopping: CancellationToken,
}

/// Whom the turns of one run ask, where whoever follows the run sees the question.
#[derive(Debug)]
pub(crate) struct RunConsent {
    owner: OwnerConsent,
    /// The conversation that shows the question.
    root: RequestId,
    patience: Duration,
}

impl OwnerConsent {
    /// Puts a question and returns what the owner said within `patience`; nobody waits long while nobody watches.
    pub async fn ask(&self, question: Ask, patience: Duration) -> Approval {
        let refused = |reason: String| Approval::Refused { reason };
        let watched = self.questions.is_watched();
        let patience = if watched { patience } else { patience.min(UNWATCHED) };
        match self.answer(question, patience).await {
            Ok((PermissionStatus::Approved, _)) => Approval::Granted,
            Ok((PermissionStatus::Denied, Some(word))) => refused(format!("the owner refused: {word}")),
            Ok((PermissionStatus::Denied, None)) => {
                refused("the owner refused; do without it, or ask what they would prefer".to_owned())
            }
            Ok(_) if watched => refused(format!(
                "the owner did not allow it within {} s; ask them, or do without it",
                patience.as_secs()
            )),
            Ok(_) => refused(
                "nobody was available to answer; the owner answers in `nexus chat` or with `nexus approvals`"
                    .to_owned(),
            ),
            Err(error) => refused(format!("the owner could not be asked: {error}")),
        }
    }

    /// Returns who is asked in one run.
    pub(crate) fn in_run(&self, root: &RequestId, patience: Duration) -> RunConsent {
        RunConsent { owner: self.clone(), root: root.clone(), patience }
    }

    async fn answer(
        &self,
        ask: Ask,
        patience: Duration,
    ) -> Result<(PermissionStatus, Option<String>), String> {
        let questions = &self.questions;
        match questions.put(ask).await.map_err(|error| error.to_string())? {
            Asked::Granted(_) => Ok((PermissionStatus::Approved, None)),
            Asked::Open(request) => {
                let id = &request.new.id;
                let outcome = tokio::select! {
                    outcome = questions.outcome(id, patience) => outcome.map_err(|error| error.to_string())?,
                    () = self.stopping.cancelled() => return Err("the daemon is stopping".to_owned()),
                };
                let settled = outcome.ok_or_else(|| format!("no permission request named {id}"))?;
                Ok((settled.status, questions.word(id)))
            }
        }
    }
}

#[async_trait]
impl Approve for RunConsent {
    async fn ask(&self, turn: &TurnFacts, ask: &ApprovalAsk) -> Approval {
        let redact = |text: &str| self.owner.redactor.redact(text);
        let summary = redact(&ask.summary);
        let mut reason = ask.reason.clone();
        if summary != ask.summary {
            // A host can be named like a key; hidden is not the same as harmless.
            reason.push_str("; text that looks like a key is shown as [redacted] and runs unchanged");
        }
        let question = Ask {
            requester: format!("session:{}", turn.session),
            platform: "agent".to_owned(),
            kind: if ask.runs_command { Kind::Exec } else { Kind::Tool },
            tool: Some(ask.tool.clone()),
            tool_call_id: Some(ask.call.clone()),
            session: Some(turn.session.clone()),
            request_id: Some(self.root.clone()),
            summary,
            resources: ask.resources.clone(),
            reason: Some(redact(&reason)),
        };
        self.owner.ask(question, self.patience).await
    }
}
