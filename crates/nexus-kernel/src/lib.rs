//! Governed workspaces: one machine, several workspaces, and a gate in front of making and removing
//! them. `Root` validates and forwards, the `Kernel` decides and acts inside a path jail.
//!
//! What a workspace holds is not known here; making a Nexus workspace and asking whether a daemon
//! runs in one come in as [`Hooks`].

mod accept;
pub mod check;
mod client;
pub mod code;
pub mod frame;
pub mod handshake;
mod hooks;
mod json;
mod kernel;
mod link;
mod log;
mod peer;
pub mod policy;
mod reply;
mod request;
mod root;
mod run_dir;
mod server;
mod stream;
pub mod torture;
mod workspaces;
mod ws_id;

pub use client::{Authority, CONTROL_WORKSPACE, Client, ClientError, Reply};
pub use code::{Code, Reject};
pub use frame::{Envelope, Role};
pub use hooks::{Hooks, InUseHook, InitHook, StopHook};
pub use request::{Method, Request};
pub use run_dir::{MAX_SOCKET_PATH_BYTES, RunDir, RunDirError};
pub use server::{
    DEFAULT_KERNEL_PATIENCE, DEFAULT_MAX_CONNECTIONS, Planes, ServeError, ServeOptions, Server, answers,
};
pub use ws_id::{MAX_WS_ID_BYTES, RESERVED, WsId, is_legal as is_legal_ws_id};
