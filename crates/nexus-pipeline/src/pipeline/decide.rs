//! Stages two to four, one below the other: who it is, whether they may, and what automations make of it.

use std::time::{Duration, Instant};

use nexus_automation::HookPoint;
use nexus_base::clock::Timestamp;
use nexus_base::id::RequestId;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::events::Event;
use nexus_store::runtime::StageTiming;
use serde_json::{Value, json};

use super::Pipeline;
use super::authorize::Authorized;
use super::send_options::SendOptions;
use crate::hooks::OnTheWay;

/// What was decided about a message.
#[derive(Debug)]
pub(super) enum Decided {
    /// It runs.
    Run(Box<Run>),
    /// It waits for the owner's answer to this question.
    Held { question: String },
    /// It ended here and is closed.
    Ended,
}

/// How a message runs.
#[derive(Debug)]
pub(super) struct Run {
    /// What it may do.
    pub(super) permissions: Value,
    /// Where it goes.
    pub(super) send_options: SendOptions,
    /// Who answers, if a policy names somebody.
    pub(super) persona: Option<String>,
    /// How long after it came in it may begin.
    pub(super) delay: Option<Duration>,
    /// What automations add to what the model is told about it.
    pub(super) enrichment: Vec<(String, String)>,
}

/// Whether a question about a message may have been put before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// It just came in.
    NotYet,
    /// It was held, or an earlier life of the daemon or a restore may have asked.
    Perhaps,
}

impl Pipeline {
    /// Decides. Repeatable: whatever was asked is asked under the request's own id, and a decision that
    /// ended the message has closed it. A question under that id counts whatever policies say now, so
    /// that one about a restored message holds it, too; a message that just came in has none.
    pub(super) async fn decide(
        &self,
        event: &Event,
        request: &RequestId,
        send_options: &SendOptions,
        asked: Asking,
    ) -> Result<Decided, StoreError> {
        let way = OnTheWay { event, request, session: &send_options.session };
        let hooks = &self.automations;
        let mut merged = hooks.stage(HookPoint::AfterReceiveEvent, way, None, Value::Null).await;

        let principal = self.identify(request, send_options).await?;
        let who = Some(&principal);
        merged.extend(hooks.stage(HookPoint::AfterResolveIdentity, way, who, Value::Null).await);

        let access = match self.authorize(event, request, send_options, &principal, asked).await? {
            Authorized::Yes(access) => access,
            Authorized::Open { question } => return Ok(Decided::Held { question }),
            Authorized::No => return Ok(Decided::Ended),
        };
        let verdict = json!({"decision": access.verdict.decision.as_str(), "policy": access.verdict.policy});
        merged.extend(hooks.stage(HookPoint::AfterResolveAccess, way, who, verdict).await);

        self.automate(way, &principal, send_options, &access, merged).await
    }
}

/// A stage's start, for its timing.
pub(super) struct StageClock {
    started: Timestamp,
    watch: Instant,
}

impl StageClock {
    pub(super) fn start() -> Self {
        Self { started: Timestamp::now(), watch: Instant::now() }
    }

    pub(super) fn stop(&self, stage: Stage) -> StageTiming {
        StageTiming {
            stage: stage.name().to_owned(),
            started_at: self.started,
            duration_us: microseconds(self.watch),
        }
    }
}

pub(super) fn microseconds(watch: Instant) -> u64 {
    u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX)
}
