//! Looking after a workspace: making it, checking it, backing it up, restoring it. None of it needs a daemon.

pub mod backup;
pub mod doctor;
mod init;
mod stale_files;

pub use init::{InitError, init};
pub use stale_files::sweep;
