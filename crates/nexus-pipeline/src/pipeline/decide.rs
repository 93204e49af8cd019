//! Stages two to four: who it is, whether they may, and whether the owner has to agree first (S2).

use std::time::{Duration, Instant};

use nexus_automation::{Handled, HookPoint, Merged};
use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{RequestId, SessionLabel};
use nexus_base::text::ask_about_message;
use nexus_identity::{
    ApprovalError, Ask, Asked, Decision, Kind, Permissions, Principal, Routing, Source, Verdict,
};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::events::{Event, InboxOutcome};
use nexus_store::identity::{PermissionRequest, PermissionStatus};
use nexus_store::runtime::{RequestStatus, RequestUpdate, StageTiming};
use serde_json::{Value, json};

use super::Pipeline;
use super::send_options::{SendOptions, check_label};
use super::system::part_of;
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

/// Whether the owner has agreed to something.
enum Agreed {
    Yes,
    Open(String),
    No(String),
}

impl Agreed {
    fn of(question: PermissionRequest) -> Self {
        match question.status {
            PermissionStatus::Pending => Self::Open(question.new.id),
            PermissionStatus::Approved => Self::Yes,
            PermissionStatus::Denied => Self::No("the owner refused".to_owned()),
            PermissionStatus::Expired => Self::No("nobody agreed in time".to_owned()),
        }
    }
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
        let automations = &self.automations;
        let mut merged = automations.stage(HookPoint::AfterReceiveEvent, way, None, Value::Null).await;
        let clock = StageClock::start();
        let source = match part_of(send_options) {
            Some(part) => Source::System { name: part.to_owned() },
            None => Source::Owner { entity: self.owner.clone() },
        };
        let principal = self.access.principal(source).await?;
        let update = RequestUpdate {
            principal_id: principal.entity_id().cloned(),
            principal_type: Some(principal.kind().to_owned()),
            principal_is_user: Some(matches!(principal, Principal::Owner { .. })),
            ..RequestUpdate::default()
        };
        self.recorder.stage(
            request,
            request,
            Stage::ResolveIdentity,
            clock.stop(Stage::ResolveIdentity),
            update,
        );
        let who = Some(&principal);
        merged.extend(automations.stage(HookPoint::AfterResolveIdentity, way, who, Value::Null).await);

        let clock = StageClock::start();
        let verdict = self.access.decide(&principal, &event.id, &send_options.session);
        let (agreed, permissions) = match verdict.decision {
            Decision::Allow => {
                let question = match asked {
                    Asking::NotYet => None,
                    Asking::Perhaps => self.questions.approvals.show(request.as_str()).await?,
                };
                (question.map_or(Agreed::Yes, Agreed::of), verdict.permissions.clone())
            }
            Decision::Deny => {
                let reason = verdict.reason.clone().unwrap_or_else(|| "denied".to_owned());
                (Agreed::No(reason), Permissions::nothing())
            }
            Decision::Ask => {
                (self.ask_about(event, request, send_options).await?, verdict.upon_consent.clone())
            }
        };
        self.record_access(request, send_options, &verdict, &permissions, &clock);
        match agreed {
            Agreed::Yes => {}
            Agreed::Open(question) => return Ok(Decided::Held { question }),
            Agreed::No(reason) => {
                self.close_denied(event, request, reason).await?;
                return Ok(Decided::Ended);
            }
        }
        if verdict.decision == Decision::Ask {
            self.access.log_consent(&principal, &event.id, request);
        }

        let decided = json!({"decision": verdict.decision.as_str(), "policy": verdict.policy});
        merged.extend(automations.stage(HookPoint::AfterResolveAccess, way, who, decided).await);

        let clock = StageClock::start();
        merged.extend(automations.stage(HookPoint::RunAutomations, way, who, Value::Null).await);
        let update = RequestUpdate {
            hooks_matched: Some(json!(merged.matched)),
            hooks_fired: Some(json!(merged.fired)),
            hooks_handled: merged.handled.as_ref().map(|handled| handled.by.clone()),
            hooks_context: (!merged.enrich.is_empty()).then(|| json!(merged.enrich)),
            ..RequestUpdate::default()
        };
        self.recorder.stage(
            request,
            request,
            Stage::RunAutomations,
            clock.stop(Stage::RunAutomations),
            update,
        );

        let Routing { session, delay, .. } = &verdict.routing;
        let Merged { enrich, handled, session: wanted, .. } = merged;
        let run = Run {
            permissions: permissions.to_json(),
            send_options: rerouted(send_options.routed(&verdict.routing), wanted.as_deref()),
            persona: session.as_ref().and_then(|rule| rule.persona.clone()),
            delay: *delay,
            enrichment: enrich,
        };
        match handled {
            Some(handled) => {
                self.close_handled(event, request, &run, &handled).await?;
                Ok(Decided::Ended)
            }
            None => Ok(Decided::Run(Box::new(run))),
        }
    }

    /// Ends a message that an automation dealt with: with its reply, or with the promise closed.
    async fn close_handled(
        &self,
        event: &Event,
        request: &RequestId,
        run: &Run,
        handled: &Handled,
    ) -> Result<(), StoreError> {
        if let Some(reply) = &handled.reply {
            let (session, item) = self.place(event, request, run);
            return self.broker.answer(session, item, reply).await.map(drop);
        }
        self.store.events().close_inbox(event.id.clone(), InboxOutcome::Handled).await?;
        self.store.runtime().request_finished_later(
            request.clone(),
            RequestStatus::HandledByAutomation,
            RequestUpdate::default(),
        );
        failpoint::hit("s2.handled");
        self.automations.unseen(event, request, &run.send_options.session);
        Ok(())
    }

    fn record_access(
        &self,
        request: &RequestId,
        send_options: &SendOptions,
        verdict: &Verdict,
        permissions: &Permissions,
        clock: &StageClock,
    ) {
        let update = RequestUpdate {
            access_decision: Some(verdict.decision.as_str().to_owned()),
            access_policy: verdict.policy.clone(),
            permissions: Some(permissions.to_json()),
            session_key: Some(send_options.routed(&verdict.routing).session),
            ..RequestUpdate::default()
        };
        self.recorder.stage(request, request, Stage::ResolveAccess, clock.stop(Stage::ResolveAccess), update);
    }

    /// Puts the question about a message, or finds how it stands.
    async fn ask_about(
        &self,
        event: &Event,
        request: &RequestId,
        send_options: &SendOptions,
    ) -> Result<Agreed, StoreError> {
        let ask = Ask {
            requester: send_options.caller.clone(),
            platform: event.body.platform.clone(),
            kind: Kind::Access,
            tool: None,
            tool_call_id: None,
            session: Some(send_options.session.clone()),
            request_id: Some(request.clone()),
            summary: ask_about_message(&event.body.content),
            resources: vec![format!("message:{}:{}", event.body.platform, send_options.session)],
            reason: Some("a policy says that you are asked first".to_owned()),
        };
        let asked = match self.questions.put_as(request.to_string(), ask).await {
            Ok(asked) => asked,
            Err(ApprovalError::Store(error)) => return Err(error),
            Err(
                error @ (ApprovalError::TooMany
                | ApprovalError::Invalid(_)
                | ApprovalError::Missing(_)
                | ApprovalError::Settled(_)
                | ApprovalError::OnlyOnce),
            ) => return Ok(Agreed::No(error.to_string())),
        };
        failpoint::hit("s2.asked");
        Ok(match asked {
            Asked::Granted(_) => Agreed::Yes,
            Asked::Open(question) => Agreed::of(*question),
        })
    }

    async fn close_denied(
        &self,
        event: &Event,
        request: &RequestId,
        reason: String,
    ) -> Result<(), StoreError> {
        self.store.events().close_inbox(event.id.clone(), InboxOutcome::Denied).await?;
        let update = RequestUpdate {
            error_stage: Some(Stage::ResolveAccess.name().to_owned()),
            error_message: Some(reason),
            ..RequestUpdate::default()
        };
        self.store.runtime().request_finished_later(request.clone(), RequestStatus::Denied, update);
        failpoint::hit("s2.closed");
        Ok(())
    }
}

/// Returns the send_options with the session an automation wants, if a person could have named that, too.
fn rerouted(send_options: SendOptions, wanted: Option<&str>) -> SendOptions {
    match wanted.map(|label| check_label(&SessionLabel::new(label))) {
        Some(Ok(session)) => SendOptions { session, ..send_options },
        Some(Err(error)) => {
            tracing::warn!(%error, "an automation wanted a session that is none");
            send_options
        }
        None => send_options,
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
