//! Asking the owner: how long a question stands, what consent leaves behind, and who already has it.
//! Waiting for the answer and telling anybody about it is the runtime's.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::id::{RequestId, SessionLabel, ToolCallId, new_ulid};
use nexus_base::words;
use nexus_store::identity::{
    GrantRow, NewGrant, NewPermissionRequest, PermissionAnswer, PermissionRequest, PermissionStatus,
};
use nexus_store::{Identity, StoreError};

/// A question about a tool or a command runs out after this: its turn is waiting.
const TOOL_STANDS: Duration = Duration::from_secs(120);
/// Any other question runs out after this.
const STANDS: Duration = Duration::from_secs(24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Open questions one requester may have. More would only teach the owner to say yes unread.
const MAX_OPEN: u32 = 16;
/// Most resources one question names, and how long each may be.
const MAX_RESOURCES: usize = 32;
const MAX_RESOURCE_LEN: usize = 1_000;
/// Longest summary, in characters. It is never cut: what is asked about is shown as a whole, or not asked.
const MAX_SUMMARY: usize = 64 * 1024;
/// Longest reason, in characters.
const MAX_REASON: usize = 2_000;

words! {
    /// What consent is asked for.
    pub enum Kind {
        /// A tool call.
        Tool = "tool",
        /// A command.
        Exec = "exec",
        /// Anything else.
        Access = "access",
    }
}

/// How long consent holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lasting {
    /// This one time.
    Once,
    Day,
    /// Until it is taken back.
    Always,
}

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Who asks.
    pub requester: String,
    /// Over which way.
    pub platform: String,
    pub kind: Kind,
    /// The tool, for tool calls.
    pub tool: Option<String>,
    pub tool_call_id: Option<ToolCallId>,
    /// The session it happens in.
    pub session: Option<SessionLabel>,
    /// The request it happens in.
    pub request_id: Option<RequestId>,
    /// What would happen, in full.
    pub summary: String,
    /// What it would open.
    pub resources: Vec<String>,
    /// Why they ask.
    pub reason: Option<String>,
}

/// What became of a question at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A standing consent covers it; its id.
    Granted(String),
    /// The owner has to answer, or did when the same question was put before.
    Open(Box<PermissionRequest>),
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Yes, for so long.
    Yes(Lasting),
    No,
}

/// Why a question was not put or an answer not taken.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The question itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Too many open ones.
    #[error("{MAX_OPEN} requests from this requester are already open")]
    TooMany,
    /// There is none of that id.
    #[error("no permission request has the id {0}")]
    Missing(String),
    /// It was answered or ran out before.
    #[error("the permission request was already {0}")]
    Settled(PermissionStatus),
    /// Consent for commands never stands.
    #[error("a command can only be approved once, not permanently")]
    OnlyOnce,
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Kind {
    const fn stands(self) -> Duration {
        match self {
            Self::Tool | Self::Exec => TOOL_STANDS,
            Self::Access => STANDS,
        }
    }
}

/// Questions, answers and consents of a workspace.
#[derive(Debug, Clone)]
pub struct Approvals {
    identity: Identity,
}

impl Approvals {
    /// Works on these rows.
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// Puts a question, unless a standing consent answers it.
    pub async fn ask(&self, ask: Ask) -> Result<Asked, ApprovalError> {
        self.ask_as(new_ulid(), ask).await
    }

    /// Puts a question under an id of the asker's choice. Putting it again under the same id finds the
    /// first one, however it stands, so that a step cut off by a crash can be repeated.
    pub async fn ask_as(&self, id: String, ask: Ask) -> Result<Asked, ApprovalError> {
        check(&ask)?;
        if let Some(known) = self.identity.permission_request(&id).await? {
            return Ok(Asked::Open(Box::new(known)));
        }
        if let Some(grant) = self.standing(&ask).await? {
            self.identity.grant_used_later(grant.clone(), ask.requester);
            return Ok(Asked::Granted(grant));
        }
        let now = Timestamp::steady();
        let new = NewPermissionRequest {
            id,
            requester: ask.requester,
            platform: ask.platform,
            kind: ask.kind.as_str().to_owned(),
            tool: ask.tool,
            tool_call_id: ask.tool_call_id,
            session: ask.session,
            request_id: ask.request_id,
            summary: ask.summary,
            resources: ask.resources,
            reason: ask.reason,
            created_at: now,
            // A clock that is set while the owner thinks must not answer for them.
            expires_at: Timestamp::steady().plus(ask.kind.stands()),
        };
        if !self.identity.add_permission_request(new.clone(), MAX_OPEN).await? {
            return Err(ApprovalError::TooMany);
        }
        let status = PermissionStatus::Pending;
        Ok(Asked::Open(Box::new(PermissionRequest {
            new,
            status,
            responder: None,
            responded_at: None,
            grant_id: None,
        })))
    }

    /// Takes the owner's answer.
    ///
    /// # Errors
    /// See [`ApprovalError`]; an answer that comes too late is one.
    pub async fn answer(
        &self,
        id: &str,
        responder: &str,
        consent: Consent,
        reason: Option<String>,
    ) -> Result<PermissionRequest, ApprovalError> {
        let missing = || ApprovalError::Missing(id.to_owned());
        let before = self.identity.permission_request(id).await?.ok_or_else(missing)?;
        let now = Timestamp::steady();
        if before.status != PermissionStatus::Pending {
            return Err(ApprovalError::Settled(before.status));
        }
        if before.new.expires_at <= Timestamp::steady() {
            return Err(ApprovalError::Settled(PermissionStatus::Expired));
        }
        let (status, lasts) = match consent {
            Consent::No => (PermissionStatus::Denied, None),
            Consent::Yes(Lasting::Once) => (PermissionStatus::Approved, None),
            Consent::Yes(Lasting::Day) => (PermissionStatus::Approved, Some(Some(now.plus(DAY)))),
            Consent::Yes(Lasting::Always) => (PermissionStatus::Approved, Some(None)),
        };
        // A shell runs whatever it is told, so consent to one command says nothing about the next.
        let is_command = before.new.kind == Kind::Exec.as_str()
            || before.new.resources.iter().any(|resource| resource.starts_with("exec:"));
        if lasts.is_some() && is_command {
            return Err(ApprovalError::OnlyOnce);
        }
        let grant = lasts.map(|expires_at| NewGrant {
            id: new_ulid(),
            requester: before.new.requester.clone(),
            resources: before.new.resources.clone(),
            created_at: now,
            expires_at,
            granted_by: responder.to_owned(),
            reason,
        });
        let answer = PermissionAnswer {
            id: id.to_owned(),
            status,
            responder: responder.to_owned(),
            platform: "control-plane".to_owned(),
            at: now,
            grant,
        };
        let after = self.identity.answer_permission(answer).await?.ok_or_else(missing)?;
        // Two answers at once: the first one stands.
        if after.responded_at != Some(now) || after.status != status {
            return Err(ApprovalError::Settled(after.status));
        }
        Ok(after)
    }

    /// Ends questions whose time is over and returns them.
    pub async fn expire(&self) -> Result<Vec<PermissionRequest>, StoreError> {
        self.identity.expire_permissions(Timestamp::steady()).await
    }

    /// Returns one question.
    pub async fn show(&self, id: &str) -> Result<Option<PermissionRequest>, StoreError> {
        self.identity.permission_request(id).await
    }

    /// Returns questions, newest first: the open ones, or all.
    pub async fn list(&self, all: bool, limit: u32) -> Result<Vec<PermissionRequest>, StoreError> {
        self.identity.list_permission_requests(all, limit).await
    }

    /// Returns standing consents, newest first.
    pub async fn grants(&self, limit: u32) -> Result<Vec<GrantRow>, StoreError> {
        self.identity.list_grants(None, limit).await
    }

    /// Takes a standing consent back.
    pub async fn revoke_grant(&self, id: &str, actor: &str) -> Result<(), ApprovalError> {
        match self.identity.revoke_grant(id, actor).await? {
            true => Ok(()),
            false => Err(ApprovalError::Missing(id.to_owned())),
        }
    }

    /// Returns a live consent of this requester to everything the question names.
    async fn standing(&self, ask: &Ask) -> Result<Option<String>, StoreError> {
        let now = Timestamp::steady();
        let grants = self.identity.list_grants(Some(&ask.requester), u32::MAX).await?;
        let covering = grants
            .into_iter()
            .filter(|grant| grant.is_live(now))
            .find(|grant| ask.resources.iter().all(|resource| grant.new.resources.contains(resource)));
        Ok(covering.map(|grant| grant.new.id))
    }
}

fn check(ask: &Ask) -> Result<(), ApprovalError> {
    let invalid = |text: String| Err(ApprovalError::Invalid(text));
    let is_text = |text: &str, most: usize| !text.trim().is_empty() && text.chars().count() <= most;
    if !is_text(&ask.summary, MAX_SUMMARY) {
        return invalid(format!("a summary must have 1 to {MAX_SUMMARY} characters"));
    }
    if !ask.reason.as_deref().is_none_or(|reason| is_text(reason, MAX_REASON)) {
        return invalid(format!("a reason must have 1 to {MAX_REASON} characters"));
    }
    let is_resource = |resource: &String| {
        !resource.is_empty() && resource.len() <= MAX_RESOURCE_LEN && !resource.chars().any(char::is_control)
    };
    if ask.resources.is_empty()
        || ask.resources.len() > MAX_RESOURCES
        || !ask.resources.iter().all(is_resource)
    {
        return invalid(format!(
            "resources must list 1 to {MAX_RESOURCES} entries of 1 to {MAX_RESOURCE_LEN} bytes without control \
             characters"
        ));
    }
    Ok(())
}
