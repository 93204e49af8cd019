//! What every other crate uses: ids, time, secrets and their redaction, atomic files,
//! locks, failpoints and the path jail. It knows nothing of Nexus's own files or tables.

pub mod clock;
pub mod conversation;
pub mod error;
pub mod failpoint;
pub mod file;
pub mod host;
pub mod id;
pub mod jail;
pub mod lock;
pub mod redact;
pub mod task;
pub mod text;
mod words;
