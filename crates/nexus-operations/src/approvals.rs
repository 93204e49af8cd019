//! Consent: questions put to the owner, their answers, and what stands because of them.

use std::time::Duration;

use nexus_base::text::visible;
use nexus_identity::{ApprovalError, Ask, Asked, Consent, Kind, Lasting};
use nexus_protocol::control::answers::{self, Grants, Revoked};
use nexus_protocol::control::{
    ApprovalAnswer, ApprovalKind, ApprovalRequest, ApprovalScope, ApprovalStatus, ApprovalView, Approvals,
    ApprovalsOf, GrantView, Listing, Named,
};
use nexus_store::identity::{GrantRow, PermissionRequest, PermissionStatus};

use crate::call::{Call, invalid, missing, rows};
use crate::{CallerKind, Daemon, RuntimeError};

/// Longest anybody waits for an answer in one call.
const MAX_WAIT: Duration = Duration::from_secs(600);

pub(crate) async fn list(call: &Call<'_>, of: ApprovalsOf) -> Result<Approvals, RuntimeError> {
    let questions = &call.daemon()?.questions;
    questions.expire().await?;
    let limit = u32::try_from(rows(of.limit)?).unwrap_or(u32::MAX);
    let listed = questions.approvals.list(of.all, limit).await?;
    Ok(Approvals { approvals: listed.into_iter().map(view).collect() })
}

pub(crate) async fn show(call: &Call<'_>, named: Named) -> Result<ApprovalView, RuntimeError> {
    let questions = &call.daemon()?.questions;
    questions.expire().await?;
    let found = questions.approvals.show(&named.id).await?;
    Ok(view(found.ok_or_else(|| missing("permission request", named.id))?))
}

pub(crate) async fn request(
    call: &Call<'_>,
    request: ApprovalRequest,
) -> Result<answers::Asked, RuntimeError> {
    let wait = request.wait_ms.map_or(Duration::ZERO, Duration::from_millis);
    if wait > MAX_WAIT {
        return Err(invalid(format!("waitMs must be at most {}", MAX_WAIT.as_millis())));
    }
    let ask = Ask {
        requester: call.caller.name(),
        platform: "control-plane".to_owned(),
        kind: match request.kind {
            ApprovalKind::Tool => Kind::Tool,
            ApprovalKind::Exec => Kind::Exec,
            ApprovalKind::Access => Kind::Access,
        },
        tool: None,
        tool_call_id: None,
        session: None,
        request_id: None,
        summary: call.redact(&request.summary),
        resources: request.resources,
        reason: request.reason.map(|reason| call.redact(&reason)),
    };
    let daemon = call.daemon()?;
    match daemon.questions.put(ask).await.map_err(approval_problem)? {
        Asked::Granted(grant_id) => {
            Ok(answers::Asked::Standing { status: ApprovalStatus::Approved, grant_id })
        }
        Asked::Open(open) if wait.is_zero() => Ok(answers::Asked::Question(Box::new(view(*open)))),
        Asked::Open(open) => {
            let settled = settled(daemon, &open.new.id, wait).await?;
            Ok(answers::Asked::Question(Box::new(view(settled))))
        }
    }
}

pub(crate) async fn approve(call: &Call<'_>, answer: ApprovalAnswer) -> Result<ApprovalView, RuntimeError> {
    let lasting = match answer.scope {
        ApprovalScope::Once => Lasting::Once,
        ApprovalScope::Day => Lasting::Day,
        ApprovalScope::Always => Lasting::Always,
    };
    settle(call, answer, Consent::Yes(lasting)).await
}

pub(crate) async fn deny(call: &Call<'_>, answer: ApprovalAnswer) -> Result<ApprovalView, RuntimeError> {
    settle(call, answer, Consent::No).await
}

async fn settle(
    call: &Call<'_>,
    answer: ApprovalAnswer,
    consent: Consent,
) -> Result<ApprovalView, RuntimeError> {
    let questions = &call.daemon()?.questions;
    questions.expire().await?;
    // Whoever asks does not answer: a token that may approve would otherwise approve itself.
    let asked = questions.approvals.show(&answer.id).await?;
    let asked = asked.ok_or_else(|| missing("permission request", &answer.id))?;
    let caller = call.caller;
    if asked.new.requester == caller.name() && caller.kind() != CallerKind::Owner {
        return Err(RuntimeError::Forbidden {
            reason: "requests cannot be answered by whoever made them".to_owned(),
        });
    }
    let reason = answer.reason.map(|reason| call.redact(&reason));
    let settled = questions.answer(&answer.id, &caller.name(), consent, reason).await;
    Ok(view(settled.map_err(approval_problem)?))
}

pub(crate) async fn grants(call: &Call<'_>, listing: Listing) -> Result<Grants, RuntimeError> {
    let limit = u32::try_from(rows(listing.limit)?).unwrap_or(u32::MAX);
    let grants = call.daemon()?.questions.approvals.grants(limit).await?;
    Ok(Grants { grants: grants.into_iter().map(grant_view).collect() })
}

pub(crate) async fn revoke_grant(call: &Call<'_>, named: Named) -> Result<Revoked, RuntimeError> {
    let approvals = &call.daemon()?.questions.approvals;
    approvals.revoke_grant(&named.id, &call.caller.name()).await.map_err(|error| match error {
        ApprovalError::Missing(id) => missing("standing grant", id),
        other => approval_problem(other),
    })?;
    Ok(Revoked { revoked: named.id })
}

/// Waits until a question is answered, has run out, or the caller's patience has.
async fn settled(daemon: &Daemon, id: &str, wait: Duration) -> Result<PermissionRequest, RuntimeError> {
    tokio::select! {
        outcome = daemon.questions.outcome(id, wait) => {
            outcome?.ok_or_else(|| missing("permission request", id))
        }
        () = daemon.lifecycle.stopping().cancelled() => Err(RuntimeError::NotServing { state: "stopping" }),
    }
}

fn view(request: PermissionRequest) -> ApprovalView {
    ApprovalView {
        id: request.new.id,
        kind: request.new.kind,
        requester: request.new.requester,
        shown: visible::lines(&request.new.summary).into_iter().map(|line| line.text).collect(),
        summary: request.new.summary,
        resources: request.new.resources,
        reason: request.new.reason,
        tool: request.new.tool,
        session: request.new.session,
        status: match request.status {
            PermissionStatus::Pending => ApprovalStatus::Pending,
            PermissionStatus::Approved => ApprovalStatus::Approved,
            PermissionStatus::Denied => ApprovalStatus::Denied,
            PermissionStatus::Expired => ApprovalStatus::Expired,
        },
        created_at: request.new.created_at,
        expires_at: request.new.expires_at,
        responder: request.responder,
        responded_at: request.responded_at,
        grant_id: request.grant_id,
    }
}

fn grant_view(grant: GrantRow) -> GrantView {
    GrantView {
        id: grant.new.id,
        requester: grant.new.requester,
        resources: grant.new.resources,
        granted_by: grant.new.granted_by,
        created_at: grant.new.created_at,
        expires_at: grant.new.expires_at,
        revoked_at: grant.revoked_at,
    }
}

fn approval_problem(error: ApprovalError) -> RuntimeError {
    let hint = match &error {
        ApprovalError::OnlyOnce => Some("approve it without --for"),
        ApprovalError::Settled(_) => Some("`nexus approvals list --all` shows its outcome"),
        ApprovalError::TooMany => Some("answer some of them first: `nexus approvals list`"),
        ApprovalError::Invalid(_) | ApprovalError::Missing(_) | ApprovalError::Store(_) => None,
    };
    match error {
        ApprovalError::Missing(id) => missing("permission request", id),
        ApprovalError::Store(error) => error.into(),
        ApprovalError::Invalid(_)
        | ApprovalError::TooMany
        | ApprovalError::Settled(_)
        | ApprovalError::OnlyOnce => {
            RuntimeError::Invalid { message: error.to_string(), hint: hint.map(str::to_owned) }
        }
    }
}
