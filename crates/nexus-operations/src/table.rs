//! The one table of what each method needs and who carries it out. A method without a row does not compile.

use nexus_pipeline::RuntimeError;
use nexus_protocol::methods::Method;
use nexus_store::DatabaseName;
use serde_json::Value;

use crate::call::{Call, invalid, read, shown};
use crate::{
    agents, approvals, automations, chat, config, credentials, logs, memory, models, requests, sessions,
    skills, status, tokens, usage,
};

/// What a method needs to be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A running daemon.
    Daemon,
    /// The files of the workspace and these databases.
    Databases(&'static [DatabaseName]),
}

const DAEMON: Needs = Needs::Daemon;
const FILES: Needs = Needs::Databases(&[]);
const AGENTS: Needs = Needs::Databases(&[DatabaseName::Agents]);
const RUNTIME: Needs = Needs::Databases(&[DatabaseName::Runtime]);
const REQUESTS: Needs =
    Needs::Databases(&[DatabaseName::Events, DatabaseName::Agents, DatabaseName::Runtime]);
const MEMORY: Needs = Needs::Databases(&[
    DatabaseName::Events,
    DatabaseName::Identity,
    DatabaseName::Memory,
    DatabaseName::Embeddings,
]);
const ALL: Needs = Needs::Databases(&DatabaseName::ALL);

macro_rules! handlers {
    ($($method:ident $needs:ident => $handler:path),+ $(,)?) => {
        pub(crate) const fn needs(method: Method) -> Needs {
            match method {
                $(Method::$method => $needs),+
            }
        }

        /// Has the method's handler answer; parameters are read as the type the handler takes.
        pub(crate) async fn dispatch(call: &Call<'_>, params: Option<Value>) -> Result<Value, RuntimeError> {
            match call.method {
                // Boxed, or every call would be as large as the largest handler.
                $(Method::$method => shown(&Box::pin($handler(call, read(params)?)).await?)),+
            }
        }
    };
}

handlers! {
    Connect DAEMON => of_a_connection,
    Health DAEMON => status::health,
    Status FILES => status::workspace,
    Metrics DAEMON => of_a_connection,
    Mcp DAEMON => of_a_connection,
    LogsTail FILES => logs::tail,
    ChatSend DAEMON => chat::send,
    ChatInject DAEMON => chat::inject,
    ChatHistory AGENTS => chat::history,
    ChatWait DAEMON => chat::wait,
    ChatAbort DAEMON => chat::abort,
    RequestsList REQUESTS => requests::list,
    RequestsGet REQUESTS => requests::get,
    RequestsPrompt REQUESTS => requests::prompt,
    SessionsList AGENTS => sessions::list,
    SessionsResolve AGENTS => sessions::resolve,
    SessionsPreview AGENTS => sessions::preview,
    SessionsCompactions AGENTS => sessions::compactions,
    SessionsCompact DAEMON => sessions::compact,
    SessionsReset DAEMON => sessions::reset,
    SessionsUndo AGENTS => sessions::undo,
    EventsSubscribe DAEMON => of_a_connection,
    EventsUnsubscribe DAEMON => of_a_connection,
    AgentsList FILES => agents::list,
    AgentIdentityGet FILES => agents::identity,
    AgentsFilesList FILES => agents::files,
    AgentsFilesGet FILES => agents::file,
    AgentsFilesSet FILES => agents::set_file,
    ConfigGet FILES => config::get,
    ConfigSchema FILES => config::schema,
    ConfigSet DAEMON => config::set,
    ConfigPatch DAEMON => config::patch,
    ConfigReload DAEMON => config::reload,
    ConfigRotateToken DAEMON => config::rotate_token,
    AutomationsList RUNTIME => automations::list,
    AutomationsGet RUNTIME => automations::get,
    AutomationsEnable RUNTIME => automations::enable,
    AutomationsDisable RUNTIME => automations::disable,
    AutomationsRegister RUNTIME => automations::add,
    AutomationsRemove RUNTIME => automations::remove,
    AutomationsTest RUNTIME => automations::test,
    AutomationsInvocations RUNTIME => automations::invocations,
    CredentialsList FILES => credentials::list,
    CredentialsVerify FILES => credentials::verify,
    CredentialsSync FILES => credentials::sync,
    CredentialsScan FILES => credentials::scan,
    ApprovalsList DAEMON => approvals::list,
    ApprovalsShow DAEMON => approvals::show,
    ApprovalsRequest DAEMON => approvals::request,
    ApprovalsApprove DAEMON => approvals::approve,
    ApprovalsDeny DAEMON => approvals::deny,
    GrantsList DAEMON => approvals::grants,
    GrantsRevoke DAEMON => approvals::revoke_grant,
    TokensList DAEMON => tokens::list,
    TokensCreate DAEMON => tokens::create,
    TokensRevoke DAEMON => tokens::revoke,
    TokensRotate DAEMON => tokens::rotate,
    UsageStatus RUNTIME => usage::status,
    UsageCost RUNTIME => usage::cost,
    SkillsStatus FILES => skills::status,
    SkillsInfo FILES => skills::info,
    SkillsUse FILES => skills::instructions,
    MemoryRecall MEMORY => memory::recall,
    MemoryAdd MEMORY => memory::add,
    MemoryChanges MEMORY => memory::changes,
    MemoryEntities MEMORY => memory::entities,
    MemoryStats MEMORY => memory::stats,
    MemoryForget ALL => memory::forget,
    ModelsList DAEMON => models::list,
    ModelsAllow DAEMON => models::allow,
    ModelsRefuse DAEMON => models::refuse,
}

async fn of_a_connection(call: &Call<'_>, _: Value) -> Result<Value, RuntimeError> {
    Err(invalid(format!("{} is only available on a WebSocket", call.method.entry().name)))
}
