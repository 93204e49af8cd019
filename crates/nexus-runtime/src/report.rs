//! Reports that need no daemon: what `status`, `trace`, `sessions` and `identity` show.

mod prompt;
mod status;
mod trace;

pub use prompt::{compaction_view, compactions, prompt_in_full, prompt_view};
pub use status::{IdentityReport, StatusReport, StatusRequest, identity, status};
pub use trace::{recent_requests, request_view, sessions};
