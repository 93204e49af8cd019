//! The configuration document `state/config.json`: parse, validate, resolve to immutable settings,
//! edit without losing anything.
//!
//! One table ([`field`]) says which keys exist, what they may hold and what they are when unset;
//! checking, listing, the JSON Schema and the typed settings all follow from it. A bad value in a
//! required section stops the start; anywhere else its default is used and a warning says so.

mod check;
mod document;
mod edit;
mod error;
mod field;
mod resolve;
mod schema;
mod settings;

pub use document::{Document, MAX_DOCUMENT_SIZE};
pub use edit::{is_known, keep_last_good, known_keys, lacks_token, parse_value, rotate_token, set};
pub use error::{ConfigError, Problem};
pub use field::is_owner_only;
pub use resolve::{ListedValue, Loaded, Overrides, Source, load, resolve};
pub use schema::schema;
pub use settings::{
    AclSettings, AgentSettings, AgentsSettings, AuthMode, AuthSettings, BashNetwork, BashSettings, Bind,
    BudgetSettings, CredentialSettings, DropPolicy, LocalModelsSettings, LogLevel, LoggingSettings,
    MemoryAgent, MemorySettings, ModelsSettings, ProjectSettings, ProviderSettings, QueueMode, QueueSettings,
    RotationSettings, RuntimeCredentials, RuntimeSettings, Settings, Token, ToolLogPlace, ToolsSettings,
    UnknownSenderPolicy, WebSettings,
};
