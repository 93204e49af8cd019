//! One file per command family: its arguments, its help and what it does.

pub(crate) mod approvals;
pub(crate) mod automation;
pub(crate) mod backup;
pub(crate) mod bindings;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod credential;
pub(crate) mod doctor;
pub(crate) mod hook;
pub(crate) mod identity;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod manual;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod models;
pub(crate) mod project;
pub(crate) mod restore;
pub(crate) mod sessions;
pub(crate) mod skills;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod tokens;
pub(crate) mod trace;
pub(crate) mod trust;
pub(crate) mod undo;
pub(crate) mod up;
pub(crate) mod usage;

use nexus_protocol::methods::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::failure::Failure;

/// Makes the small runtime of a command that only waits for the daemon.
pub(crate) fn client_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("starting the event loop: {error}")))
}

/// Calls a method of the running daemon.
fn call<T: DeserializeOwned>(
    context: &Context,
    method: Method,
    params: &impl Serialize,
) -> Result<T, Failure> {
    let client = context.client()?;
    Ok(client_runtime()?.block_on(client.call(method, params))?)
}

/// Returns this process's environment, as far as it is text.
pub(crate) fn environment() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
