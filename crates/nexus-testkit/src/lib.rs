//! For tests only: workspaces in a temporary home, the real binary run in them, daemons that are
//! started, killed and asked, a scripted model server, and a plain HTTP exchange for what the typed
//! client would never send.
//!
//! Everything here panics with the whole story when it does not work, because its callers are tests.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test helper fails by panicking")]

mod daemon;
mod files;
pub mod http;
pub mod load;
pub mod model;
mod run;
pub mod scenario;
pub mod script;
mod until;
pub mod witness;
mod workspace;

pub use daemon::{Daemon, DaemonOptions, StartFailure};
pub use files::allow_many_files;
pub use nexus_client as client;
pub use run::{Finished, Run};
pub use until::until;
pub use workspace::Workspace;
