//! Consent: questions put to the owner, their answers, and what stands because of them.

use std::time::Duration;

use nexus_base::text::visible;
use nexus_identity::{ApprovalError, Ask, Asked, Consent, Kind, Lasting};
use nexus_protocol::control::answers::{self, Grants, Revoked};
use nexus_protocol::control::{
    ApprovalAnswer, ApprovalKind, ApprovalRequest, ApprovalScope, ApprovalStatus, ApprovalView, Approvals,
    ApprovalsOf, GrantView, Named,
};
use nexus_store::identity::{GrantRow, PermissionRequest, PermissionStatus};
use serde_json::Value;

use super::{Caller, invalid, missing, rows, shown};
use crate::{Runtime, RuntimeError};

/// Longest anybody waits for an answer in one call.
const MAX_WAIT: Duration = Duration::from_secs(600);

impl Runtime {
    pub(super) async fn approvals_list(&self, of: ApprovalsOf) -> Result<Value, RuntimeError> {
        self.expire_questions().await?;
        let limit = u32::try_from(rows(of.limit)?).unwrap_or(u32::MAX);
        let approvals =
            self.shared.questions.approvals.list(of.all, limit).await?.into_iter().map(view).collect();
        shown(&Approvals { approvals })
    }

    pub(super) async fn approval_show(&self, named: Named) -> Result<Value, RuntimeError> {
        self.expire_questions().await?;
        let found = self.shared.questions.approvals.show(&named.id).await?;
        shown(&view(found.ok_or_else(|| missing("permission request", named.id))?))
    }

    pub(super) async fn approval_request(
        &self,
        caller: &Caller,
        request: ApprovalRequest,
    ) -> Result<Value, RuntimeError> {
        let wait = request.wait_ms.map_or(Duration::ZERO, Duration::from_millis);
        if wait > MAX_WAIT {
            return Err(invalid(format!("waitMs must be at most {}", MAX_WAIT.as_millis())));
        }
        let ask = Ask {
            requester: caller.name(),
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
            summary: self.redact(&request.summary),
            resources: request.resources,
            reason: request.reason.map(|reason| self.redact(&reason)),
        };
        match self.put_question(ask).await? {
            Asked::Granted(grant_id) => {
                shown(&answers::Asked::Standing { status: ApprovalStatus::Approved, grant_id })
            }
            Asked::Open(open) if wait.is_zero() => shown(&answers::Asked::Question(Box::new(view(*open)))),
            Asked::Open(open) => {
                let settled = self.settled_question(&open.new.id, wait).await?;
                shown(&answers::Asked::Question(Box::new(view(settled))))
            }
        }
    }

    pub(super) async fn approval_answer(
        &self,
        caller: &Caller,
        answer: ApprovalAnswer,
        agrees: bool,
    ) -> Result<Value, RuntimeError> {
        let consent = match (agrees, answer.scope) {
            (false, _) => Consent::No,
            (true, ApprovalScope::Once) => Consent::Yes(Lasting::Once),
            (true, ApprovalScope::Day) => Consent::Yes(Lasting::Day),
            (true, ApprovalScope::Always) => Consent::Yes(Lasting::Always),
        };
        self.expire_questions().await?;
        let approvals = &self.shared.questions.approvals;
        // Whoever asks does not answer: a token that may approve would otherwise approve itself.
        let asked =
            approvals.show(&answer.id).await?.ok_or_else(|| missing("permission request", &answer.id))?;
        if asked.new.requester == caller.name() && caller.kind() != "owner" {
            return Err(RuntimeError::Forbidden {
                reason: "requests cannot be answered by whoever made them".to_owned(),
            });
        }
        let reason = answer.reason.map(|reason| self.redact(&reason));
        let questions = &self.shared.questions;
        let settled =
            questions.answer(&answer.id, &caller.name(), consent, reason).await.map_err(approval_problem)?;
        shown(&view(settled))
    }

    pub(super) async fn grants_list(&self, limit: usize) -> Result<Value, RuntimeError> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let grants: Vec<GrantView> =
            self.shared.questions.approvals.grants(limit).await?.into_iter().map(grant_view).collect();
        shown(&Grants { grants })
    }

    pub(super) async fn grant_revoke(&self, caller: &Caller, named: Named) -> Result<Value, RuntimeError> {
        let approvals = &self.shared.questions.approvals;
        approvals.revoke_grant(&named.id, &caller.name()).await.map_err(|error| match error {
            ApprovalError::Missing(id) => missing("standing grant", id),
            other => approval_problem(other),
        })?;
        shown(&Revoked { revoked: named.id })
    }

    async fn put_question(&self, ask: Ask) -> Result<Asked, RuntimeError> {
        self.shared.questions.put(ask).await.map_err(approval_problem)
    }

    /// Waits until a question is answered, has run out, or the caller's patience has.
    async fn settled_question(&self, id: &str, wait: Duration) -> Result<PermissionRequest, RuntimeError> {
        tokio::select! {
            outcome = self.shared.questions.outcome(id, wait) => {
                outcome?.ok_or_else(|| missing("permission request", id))
            }
            () = self.shared.stopping.cancelled() => Err(RuntimeError::NotServing { state: "stopping" }),
        }
    }

    async fn expire_questions(&self) -> Result<(), RuntimeError> {
        Ok(self.shared.questions.expire().await?)
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
