//! Stage three: whether a message may run, and whether the owner has to agree first (S2).

use nexus_base::failpoint;
use nexus_base::id::RequestId;
use nexus_base::text::ask_about_message;
use nexus_identity::{ApprovalError, Ask, Asked, Decision, Kind, Permissions, Principal, Verdict};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::events::{Event, InboxOutcome};
use nexus_store::identity::{PermissionRequest, PermissionStatus};
use nexus_store::runtime::{RequestStatus, RequestUpdate};

use super::Pipeline;
use super::decide::{Asking, StageClock};
use super::send_options::SendOptions;

/// What stage three found.
pub(super) enum Authorized {
    Yes(Box<Access>),
    /// The owner has not answered this question yet.
    Open {
        question: String,
    },
    /// It was denied and is closed.
    No,
}

/// What a message may do, and which policy says so.
pub(super) struct Access {
    pub(super) verdict: Verdict,
    pub(super) permissions: Permissions,
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
    pub(super) async fn authorize(
        &self,
        event: &Event,
        request: &RequestId,
        send_options: &SendOptions,
        principal: &Principal,
        asked: Asking,
    ) -> Result<Authorized, StoreError> {
        let clock = StageClock::start();
        let verdict = self.access.decide(principal, &event.id, &send_options.session);
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
            Agreed::Open(question) => return Ok(Authorized::Open { question }),
            Agreed::No(reason) => {
                self.close_denied(event, request, reason).await?;
                return Ok(Authorized::No);
            }
        }
        if verdict.decision == Decision::Ask {
            self.access.log_consent(principal, &event.id, request);
        }
        Ok(Authorized::Yes(Box::new(Access { verdict, permissions })))
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
