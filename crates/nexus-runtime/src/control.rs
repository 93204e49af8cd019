//! The control plane behind its doors: who is calling, whether they may, and every method of the
//! table carried out. Frames, sockets and HTTP are the server's.

mod approvals;
mod automations;
mod caller;
mod chat;
mod compactions;
mod config;
mod credentials;
mod files;
mod logs;
mod memory;
mod metrics;
mod models;
mod rows;
mod skills;
mod tokens;

use nexus_identity::{Operation, Tokens};
use nexus_pipeline::sessions::CompactionRequest;
use nexus_protocol::control as wire;
use nexus_protocol::control::answers::WorkspaceStatus;
use nexus_protocol::methods::{Action, Method, Path};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::runtime::Runtime;
use crate::tool_sources::ToolSources;
use crate::{RuntimeError, report};
use nexus_workspace::StartOptions;

pub use self::automations::sample;
pub use self::caller::Caller;
pub use self::rows::{automation as automation_view, invocation as invocation_view};

/// Rows given when the caller does not say, and at most.
const LISTED: usize = 50;
const MAX_LISTED: usize = 1_000;

/// What the control plane keeps beside the rest of the daemon.
#[derive(Debug)]
pub(crate) struct Control {
    /// How the daemon was started, to read its configuration again.
    pub(crate) options: StartOptions,
    pub(crate) tokens: Tokens,
    /// Counts up whenever a token may have stopped working.
    pub(crate) tokens_changed: watch::Sender<u64>,
    /// One configuration edit at a time.
    pub(crate) editing: tokio::sync::Mutex<()>,
    /// Projects whose tools other programs asked for.
    pub(crate) tool_sources: ToolSources,
}

impl Control {
    pub(crate) fn new(options: StartOptions, identity: &nexus_store::Identity) -> Self {
        Self {
            options,
            tokens: Tokens::new(identity.clone()),
            tokens_changed: watch::Sender::new(0),
            editing: tokio::sync::Mutex::new(()),
            tool_sources: ToolSources::default(),
        }
    }
}

impl Runtime {
    /// Carries out one method for a caller who may.
    ///
    /// # Errors
    /// They may not, the parameters are wrong, or it did not work.
    pub async fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: Option<Value>,
    ) -> Result<Value, RuntimeError> {
        self.permit(caller, method)?;
        match method {
            Method::Connect
            | Method::EventsSubscribe
            | Method::EventsUnsubscribe
            | Method::Metrics
            | Method::Mcp => {
                Err(invalid(format!("{} is only available on a WebSocket", method.entry().name)))
            }
            Method::Health => {
                nothing(params)?;
                shown(&self.health_report().await)
            }
            Method::Status => {
                nothing(params)?;
                self.workspace_status()
            }
            Method::LogsTail => {
                let tail: wire::LogsTail = read(params)?;
                self.logs_tail(tail.lines.unwrap_or(LISTED)).await
            }
            Method::ChatSend => shown(&self.chat_send(caller, read(params)?).await?),
            Method::ChatInject => shown(&self.chat_inject(caller, read(params)?).await?),
            Method::ChatHistory => {
                let of: wire::HistoryOf = read(params)?;
                shown(&self.chat_history(of.session, rows(of.limit)?).await?)
            }
            Method::ChatWait => self.wait_for(read(params)?).await,
            Method::ChatAbort => shown(&self.chat_abort(read(params)?).await?),
            Method::RequestsList => {
                let listing: wire::Listing = read(params)?;
                shown(&json!({ "requests": self.recent_requests(rows(listing.limit)?).await? }))
            }
            Method::RequestsGet => {
                let named: wire::Named = read(params)?;
                shown(&self.request(&nexus_base::id::RequestId::new(named.id)).await?)
            }
            Method::SessionsList => {
                let listing: wire::Listing = read(params)?;
                shown(&json!({ "sessions": self.sessions(rows(listing.limit)?).await? }))
            }
            Method::SessionsResolve => self.session_resolve(read(params)?).await,
            Method::SessionsPreview => self.session_previews(read(params)?).await,
            Method::SessionsCompactions => self.session_compactions(read(params)?).await,
            Method::SessionsCompact => self.session_shorten(read(params)?, CompactionRequest::Compact).await,
            Method::SessionsReset => self.session_shorten(read(params)?, CompactionRequest::Reset).await,
            Method::SessionsUndo => self.undo_compaction(read(params)?).await,
            Method::AgentsList => {
                nothing(params)?;
                self.agents_list()
            }
            Method::AgentIdentityGet => {
                nothing(params)?;
                let status: WorkspaceStatus =
                    serde_json::from_value(self.workspace_status()?).map_err(|error| broken(&error))?;
                shown(&status.identity)
            }
            Method::AgentsFilesList => self.agent_files(&read(params)?),
            Method::AgentsFilesGet => self.agent_file(&read(params)?),
            Method::AgentsFilesSet => self.set_agent_file(&read(params)?),
            Method::ConfigGet => self.config_get(&read(params)?),
            Method::ConfigSchema => {
                nothing(params)?;
                self.config_schema()
            }
            Method::ConfigSet => {
                let set: wire::ConfigSet = read(params)?;
                self.config_patch(caller, [(set.key, set.value)].into_iter().collect()).await
            }
            Method::ConfigPatch => {
                let patch: wire::ConfigPatch = read(params)?;
                self.config_patch(caller, patch.values).await
            }
            Method::ConfigReload => {
                nothing(params)?;
                self.config_reload().await
            }
            Method::ConfigRotateToken => {
                nothing(params)?;
                self.rotate_owner_token().await
            }
            Method::AutomationsList => {
                nothing(params)?;
                self.automations_list().await
            }
            Method::AutomationsGet => self.automation_get(read(params)?).await,
            Method::AutomationsEnable => self.automation_switch(read(params)?, true).await,
            Method::AutomationsDisable => self.automation_switch(read(params)?, false).await,
            Method::AutomationsRegister => self.automation_register(read(params)?).await,
            Method::AutomationsRemove => self.automation_remove(read(params)?).await,
            Method::AutomationsTest => self.automation_test(read(params)?).await,
            Method::AutomationsInvocations => self.automation_invocations(read(params)?).await,
            Method::CredentialsList => {
                nothing(params)?;
                self.credentials_list()
            }
            Method::CredentialsVerify => self.credentials_verify(read(params)?).await,
            Method::CredentialsSync => {
                nothing(params)?;
                self.credentials_sync().await
            }
            Method::ApprovalsList => self.approvals_list(read(params)?).await,
            Method::ApprovalsShow => self.approval_show(read(params)?).await,
            Method::ApprovalsRequest => self.approval_request(caller, read(params)?).await,
            Method::ApprovalsApprove => self.approval_answer(caller, read(params)?, true).await,
            Method::ApprovalsDeny => self.approval_answer(caller, read(params)?, false).await,
            Method::GrantsList => {
                let listing: wire::Listing = read(params)?;
                self.grants_list(rows(listing.limit)?).await
            }
            Method::GrantsRevoke => self.grant_revoke(caller, read(params)?).await,
            Method::TokensList => {
                nothing(params)?;
                self.tokens_list().await
            }
            Method::TokensCreate => self.token_create(caller, read(params)?).await,
            Method::TokensRevoke => self.token_revoke(read(params)?).await,
            Method::TokensRotate => self.token_rotate(caller, read(params)?).await,
            Method::UsageStatus => self.usage_status(read(params)?).await,
            Method::UsageCost => self.usage_cost(read(params)?).await,
            Method::SkillsStatus => {
                nothing(params)?;
                self.skills_status().await
            }
            Method::SkillsInfo => self.skill_info(read(params)?).await,
            Method::MemoryRecall
            | Method::MemoryAdd
            | Method::MemoryChanges
            | Method::MemoryEntities
            | Method::MemoryStats
            | Method::MemoryForget => self.memory_call(method, params).await,
            Method::ModelsList => {
                nothing(params)?;
                shown(&self.models_view())
            }
            Method::ModelsAllow => self.model_answer(read(params)?, true).await,
            Method::ModelsRefuse => self.model_answer(read(params)?, false).await,
        }
    }

    /// Checks that a caller may use a method and leaves a row about it.
    ///
    /// Looking is not recorded when it is allowed: a client that shows the state of things would
    /// fill the log, and hide in it what matters.
    ///
    /// # Errors
    /// They may not.
    pub fn permit(&self, caller: &Caller, method: Method) -> Result<(), RuntimeError> {
        let entry = method.entry();
        let permission = entry.permission();
        let name = caller.name();
        let operation = Operation { caller: &name, kind: caller.kind(), permission: &permission };
        let access = &self.shared.pipeline.access;
        if !caller.may(&permission) {
            let reason = format!("{} needs {permission}, which this token does not have", entry.name);
            access.log_operation(&operation, Some(&reason));
            return Err(RuntimeError::Forbidden { reason });
        }
        if entry.path == Path::Iam && entry.action != Action::Read {
            access.log_operation(&operation, None);
        }
        Ok(())
    }

    /// Leaves a row about a call that was refused for what it asked, not for its method.
    fn refuse(&self, caller: &Caller, method: Method, reason: &str) {
        let (name, permission) = (caller.name(), method.entry().permission());
        let operation = Operation { caller: &name, kind: caller.kind(), permission: &permission };
        self.shared.pipeline.access.log_operation(&operation, Some(reason));
    }

    /// Hides every known secret in a text that leaves.
    pub fn redact(&self, text: &str) -> String {
        self.shared.redactor.redact(text)
    }

    fn workspace_status(&self) -> Result<Value, RuntimeError> {
        let control = &self.shared.control;
        let settings = self.shared.agent_factory.settings();
        let request = report::StatusRequest {
            layout: &control.options.layout,
            settings: &settings,
            trust: control.options.standing(),
        };
        shown_as::<WorkspaceStatus>(&report::status(&request).map_err(|error| broken(&error))?)
    }
}

/// Returns a fresh id, for crates that may not name the one that makes them.
pub fn fresh_id() -> String {
    nexus_base::id::new_ulid()
}

/// Returns the present moment, likewise.
pub fn now() -> nexus_base::clock::Timestamp {
    nexus_base::clock::Timestamp::now()
}

/// Reads parameters as one type; absent ones are an empty object.
fn read<T: DeserializeOwned>(params: Option<Value>) -> Result<T, RuntimeError> {
    let params = params.unwrap_or_else(|| json!({}));
    serde_json::from_value(params).map_err(|error| invalid(format!("params: {error}")))
}

fn nothing(params: Option<Value>) -> Result<(), RuntimeError> {
    read::<wire::Nothing>(params).map(drop)
}

fn shown(value: &impl Serialize) -> Result<Value, RuntimeError> {
    serde_json::to_value(value).map_err(|error| RuntimeError::Store {
        message: format!("the answer is not valid JSON: {error}"),
        hint: None,
    })
}

/// Shows a value as the type its method answers with; a value of another shape is our mistake.
pub(crate) fn shown_as<T: DeserializeOwned + Serialize>(
    value: &impl Serialize,
) -> Result<Value, RuntimeError> {
    let typed: T = serde_json::from_value(shown(value)?).map_err(|error| RuntimeError::Store {
        message: format!("the answer does not have the expected form: {error}"),
        hint: None,
    })?;
    shown(&typed)
}

fn rows(asked: Option<usize>) -> Result<usize, RuntimeError> {
    match asked {
        None => Ok(LISTED),
        Some(limit @ 1..=MAX_LISTED) => Ok(limit),
        Some(limit) => Err(invalid(format!("limit is {limit} and must be between 1 and {MAX_LISTED}"))),
    }
}

fn invalid(message: impl Into<String>) -> RuntimeError {
    RuntimeError::Invalid { message: message.into(), hint: None }
}

fn missing(what: &'static str, name: impl Into<String>) -> RuntimeError {
    RuntimeError::NotFound { what, name: name.into() }
}

/// A file or a part of the machine that does not answer as it should.
fn broken(error: &dyn std::error::Error) -> RuntimeError {
    RuntimeError::Store { message: nexus_base::error::chain(error), hint: None }
}
