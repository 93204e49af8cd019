//! Reports put together from several rows and files: what `status`, `trace`, `sessions` and `identity` show.

mod prompt;
mod status;
mod trace;

pub(crate) use prompt::{compaction_view, compactions, prompt_in_full, prompt_view};
pub use status::{IdentityReport, StatusReport};
pub(crate) use status::{StatusRequest, identity, status};
pub(crate) use trace::{recent_requests, request_view, sessions};
