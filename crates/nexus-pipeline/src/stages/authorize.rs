//! Stage three: whether a message may run, and whether the owner has to agree first (S2).

use nexus_base::failpoint;
use nexus_base::text::ask_about_message;
use nexus_identity::{ApprovalError, Ask, Asked, Decision, Kind, Permissions, Principal, Verdict};
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::events::InboxOutcome;
use nexus_store::identity::{PermissionRequest, PermissionStatus};
use nexus_store::runtime::{RequestStatus, RequestUpdate};

use super::{Asking, Message, StageClock};
use crate::pipeline::Pipeline;

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

pub(super) async fn authorize(
    pipeline: &Pipeline,
    message: &Message,
    principal: &Principal,
    asking: Asking,
) -> Result<Authorized, StoreError> {
    tracing::trace!("stage three: authorize");
    let clock = StageClock::start();
    let (event, request) = (&message.event, &message.request);
    let verdict = pipeline.access.decide(principal, &event.id, &message.options.session);
    let (agreed, permissions) = match verdict.decision {
        Decision::Allow => {
            let question = match asking {
                Asking::NotYet => None,
                Asking::Perhaps => pipeline.questions.approvals.show(request.as_str()).await?,
            };
            (question.map_or(Agreed::Yes, Agreed::of), verdict.permissions.clone())
        }
        Decision::Deny => {
            let reason = verdict.reason.clone().unwrap_or_else(|| "denied".to_owned());
            (Agreed::No(reason), Permissions::nothing())
        }
        Decision::Ask => (ask_about(pipeline, message).await?, verdict.upon_consent.clone()),
    };
    let update = RequestUpdate {
        access_decision: Some(verdict.decision.as_str().to_owned()),
        access_policy: verdict.policy.clone(),
        permissions: Some(permissions.to_json()),
        session_key: Some(message.options.routed(&verdict.routing).session),
        ..RequestUpdate::default()
    };
    let timing = clock.stop(Stage::ResolveAccess);
    pipeline.recorder.stage(request, request, Stage::ResolveAccess, timing, update);
    match agreed {
        Agreed::Yes => {}
        Agreed::Open(question) => return Ok(Authorized::Open { question }),
        Agreed::No(reason) => {
            close_denied(pipeline, message, reason).await?;
            return Ok(Authorized::No);
        }
    }
    if verdict.decision == Decision::Ask {
        pipeline.access.log_consent(principal, &event.id, request);
    }
    Ok(Authorized::Yes(Box::new(Access { verdict, permissions })))
}

/// Puts the question about a message, or finds how it stands.
async fn ask_about(pipeline: &Pipeline, message: &Message) -> Result<Agreed, StoreError> {
    let Message { event, request, options } = message;
    let ask = Ask {
        requester: options.caller.to_string(),
        platform: event.body.platform.clone(),
        kind: Kind::Access,
        tool: None,
        tool_call_id: None,
        session: Some(options.session.clone()),
        request_id: Some(request.clone()),
        summary: ask_about_message(&event.body.content),
        resources: vec![format!("message:{}:{}", event.body.platform, options.session)],
        reason: Some("a policy requires your consent first".to_owned()),
    };
    let asked = match pipeline.questions.put_as(request.to_string(), ask).await {
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

async fn close_denied(pipeline: &Pipeline, message: &Message, reason: String) -> Result<(), StoreError> {
    pipeline.store.events().close_inbox(message.event.id.clone(), InboxOutcome::Denied).await?;
    let update = RequestUpdate {
        error_stage: Some(Stage::ResolveAccess.name().to_owned()),
        error_message: Some(reason),
        ..RequestUpdate::default()
    };
    let request = message.request.clone();
    pipeline.store.runtime().request_finished_later(request, RequestStatus::Denied, update);
    failpoint::hit("s2.closed");
    Ok(())
}
