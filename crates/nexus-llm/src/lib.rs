//! Models behind one trait: a neutral conversation in, a streamed reply out.
//!
//! The offline guide implements the same trait, so nothing above this crate can tell a network
//! model from a local one. Provider wire formats stay inside this crate.

mod anthropic;
mod chain;
mod client;
mod conversation;
mod error;
mod local;
mod openai;
mod probe;
mod provider;
mod refusal;
mod table;

pub use chain::{Chain, Keys, Learned, Link, MayUse, Needs, Patience};
pub use client::{Access, Client, Endpoint, Timeouts};
pub use conversation::{Content, Conversation, Message, Role, StopReason, Usage};
pub use conversation::{Model, ModelEvent, ModelName, ModelReply, ReplySink};
pub use error::{ModelError, Tried};
pub use local::{LOCAL_SERVERS, LocalModel, LocalServer, discover, local_base, local_name};
pub use probe::{ProbeRequest, Verdict, probe};
pub use provider::{Chat, PROVIDERS, Provider, Wire, provider};
pub use table::{ModelFacts, ModelTable, Prices};
