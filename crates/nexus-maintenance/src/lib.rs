//! Looking after a workspace: making it, checking it, backing it up, restoring it. None of it needs a daemon.

pub mod backup;
pub mod doctor;
mod init;
mod left_over;

pub use init::{InitError, init};
pub use left_over::sweep;
