//! The methods of the control plane as commands call them: inside a tool call over its socket, through the daemon while
//! one runs, else in the files.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::lock::inspect;
use nexus_base::redact::Redactor;
use nexus_operations::{Operations, RuntimeError};
use nexus_protocol::error::{ErrorCode, WireError};
use nexus_protocol::methods::Method;
use nexus_workspace::{Layout, StartOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::{client_runtime, environment};
use crate::context::{Context, home, trust_folder};
use crate::failure::{Exit, Failure};
use crate::tool_call;

/// Longest wait for files that somebody else is busy with.
const PATIENCE: Duration = Duration::from_secs(10);

/// Calls a method: the daemon carries it out while one runs, since it alone writes then.
pub(crate) fn call<T: DeserializeOwned>(
    context: &Context,
    method: Method,
    params: &impl Serialize,
) -> Result<T, Failure> {
    if tool_call::is_inside() {
        return in_tool_call(method, params);
    }
    let layout = context.existing()?;
    if inspect(&layout.lock()).is_none() {
        return in_files(context, layout, method, params);
    }
    let client = context.client()?;
    Ok(client_runtime()?.block_on(client.call(method, params))?)
}

/// Calls a method that only looks, in the files, also beside a daemon that does not answer.
pub(crate) fn look<T: DeserializeOwned>(
    context: &Context,
    method: Method,
    params: &impl Serialize,
) -> Result<T, Failure> {
    if tool_call::is_inside() {
        return in_tool_call(method, params);
    }
    in_files(context, context.existing()?, method, params)
}

fn in_tool_call<T: DeserializeOwned>(method: Method, params: &impl Serialize) -> Result<T, Failure> {
    let params = serde_json::to_value(params).map_err(|error| Failure::caused(&error))?;
    let answer = tool_call::call(method, params)?.map_err(|error| wire_failure(&error))?;
    understood(method, answer)
}

fn in_files<T: DeserializeOwned>(
    context: &Context,
    layout: Layout,
    method: Method,
    params: &impl Serialize,
) -> Result<T, Failure> {
    let redactor = Redactor::new();
    // With unreadable settings the token is unknown, and then it cannot be hidden; the key shapes are.
    if let Ok(loaded) = context.loaded(&layout) {
        redactor.register(loaded.settings.runtime.auth.token.expose());
    }
    let not_running = context.not_running(&layout);
    let operations = Operations::offline(StartOptions {
        layout,
        trust_folder: trust_folder()?,
        port: None,
        environment: environment(),
        home: home().unwrap_or_else(|| "/nonexistent".into()),
        redactor: Arc::new(redactor),
    });
    let params = serde_json::to_value(params).map_err(|error| Failure::caused(&error))?;
    let work = operations.call(method, Some(params));
    let answer = client_runtime()?.block_on(async {
        // Changes are brought to their end, however long that takes.
        if method.entry().is_mutating() { Ok(work.await) } else { tokio::time::timeout(PATIENCE, work).await }
    });
    let answer = answer.map_err(|_| {
        Failure::new("a database does not answer").hint("nexus status shows who holds the workspace")
    })?;
    match answer {
        Ok(value) => understood(method, value),
        Err(RuntimeError::NeedsDaemon { .. }) => Err(not_running),
        Err(error) => Err(wire_failure(&error.to_wire())),
    }
}

fn understood<T: DeserializeOwned>(method: Method, value: Value) -> Result<T, Failure> {
    serde_json::from_value(value)
        .map_err(|error| Failure::new(format!("answer to {} not understood: {error}", method.entry().name)))
}

fn wire_failure(error: &WireError) -> Failure {
    let exit = if error.code == ErrorCode::NotFound { Exit::Missing } else { Exit::Failed };
    Failure::new(error.message.as_str()).maybe_hint(error.hint.as_deref()).exit(exit)
}
