//! The owner as a turn asks them: a question put, shown to whoever watches, and waited for.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use nexus_agent::ports::{Approval, ApprovalAsk, Approve, TurnFacts};
use nexus_base::id::RequestId;
use nexus_identity::{Ask, Kind};
use nexus_store::identity::PermissionStatus;

use crate::Runtime;
use crate::runtime::Shared;

/// How long a question waits when nobody watches: long enough for a program that looks every second.
const UNWATCHED: Duration = Duration::from_secs(5);

/// Puts questions to the owner once the daemon is there to carry them.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnerConsent {
    runtime: Arc<OnceLock<Weak<Shared>>>,
    /// The conversation that shows the question.
    root: Option<RequestId>,
}

impl OwnerConsent {
    /// Learns the daemon, which is made after those who ask.
    pub(crate) fn of(&self, runtime: &Runtime) {
        // Set once, by whoever puts the daemon together.
        let _ = self.runtime.set(Arc::downgrade(&runtime.shared));
    }

    /// Returns who is asked in one run, where whoever follows it sees the question.
    pub(crate) fn in_run(&self, root: &RequestId) -> Self {
        Self { root: Some(root.clone()), ..self.clone() }
    }

    fn runtime(&self) -> Option<Runtime> {
        self.runtime.get()?.upgrade().map(|shared| Runtime { shared })
    }
}

#[async_trait]
impl Approve for OwnerConsent {
    async fn ask(&self, turn: &TurnFacts, ask: &ApprovalAsk) -> Approval {
        let refused = |reason: String| Approval::Refused { reason };
        let Some(runtime) = self.runtime() else {
            return refused("nobody is there to ask yet".to_owned());
        };
        let summary = runtime.redact(&ask.summary);
        let mut reason = ask.reason.clone();
        if summary != ask.summary {
            // A host can be named like a key; hidden is not the same as harmless.
            reason.push_str("; what looks like a key in it is shown as [redacted] and runs as it is");
        }
        let question = Ask {
            requester: format!("session:{}", turn.session),
            platform: "agent".to_owned(),
            kind: if ask.runs_command { Kind::Exec } else { Kind::Tool },
            tool: Some(ask.tool.clone()),
            tool_call_id: Some(ask.call.clone()),
            session: Some(turn.session.clone()),
            request_id: self.root.clone(),
            summary,
            resources: ask.resources.clone(),
            reason: Some(runtime.redact(&reason)),
        };
        let patience = runtime.shared.workshop.settings().tools.approval_timeout;
        let watched = runtime.shared.bus.is_watched();
        let patience = if watched { patience } else { patience.min(UNWATCHED) };
        match runtime.ask_owner(question, patience).await {
            Ok((PermissionStatus::Approved, _)) => Approval::Granted,
            Ok((PermissionStatus::Denied, Some(word))) => refused(format!("the owner said no: {word}")),
            Ok((PermissionStatus::Denied, None)) => {
                refused("the owner said no; do without, or ask what they would rather have".to_owned())
            }
            Ok(_) if watched => refused(format!(
                "the owner did not allow it within {} s; ask them, or do without",
                patience.as_secs()
            )),
            Ok(_) => refused(
                "nobody was there to answer: the owner answers in `nexus chat` or with `nexus approvals`"
                    .to_owned(),
            ),
            Err(error) => refused(format!("the question could not be put: {error}")),
        }
    }
}
