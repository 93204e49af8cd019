//! The way to the planes: the running server, or this process for the length of one command.

use std::time::{Duration, Instant};

use nexus_kernel::{Authority, Client, ClientError, RunDir, ServeError, ServeOptions, Server};

use super::inside;
use crate::failure::{Exit, Failure};

/// How long one answer may take; making a workspace inside another takes the longest.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long another command may hold the planes before this one gives up.
const TURN_PATIENCE: Duration = Duration::from_secs(30);
/// Pause between tries.
const PAUSE: Duration = Duration::from_millis(5);

/// A connection that has shaken hands, and the planes behind it if they are in this process.
pub(super) struct Reached {
    pub(super) client: Client,
    _planes: Option<Server>,
}

/// Connects to the running server.
pub(super) fn running(run_dir: &RunDir) -> Result<Reached, Failure> {
    let client = Client::connect(&run_dir.root_socket(), PATIENCE).map_err(|_| not_running(run_dir))?;
    greet(client, None)
}

/// Connects to the running server, or serves this one command in this process under the same checks.
pub(super) fn running_or_own(run_dir: &RunDir) -> Result<Reached, Failure> {
    let give_up = Instant::now() + TURN_PATIENCE;
    loop {
        if let Ok(client) = Client::connect(&run_dir.root_socket(), PATIENCE) {
            return greet(client, None);
        }
        let mut options = ServeOptions::new(run_dir.clone());
        options.hooks = inside::hooks();
        match Server::in_process(options) {
            Ok((planes, client)) => return greet(client, Some(planes)),
            // Another command has its turn, or a server is just starting.
            Err(ServeError::Running { .. }) if Instant::now() < give_up => std::thread::sleep(PAUSE),
            Err(error) => return Err(serve_failure(&error)),
        }
    }
}

fn greet(mut client: Client, planes: Option<Server>) -> Result<Reached, Failure> {
    client.handshake(Authority::USER).map_err(|error| failure(&error))?;
    Ok(Reached { client, _planes: planes })
}

/// Makes the failure of a command that needs a running server.
fn not_running(run_dir: &RunDir) -> Failure {
    Failure::new(format!("no workspace kernel is running in {}", run_dir.path().display()))
        .hint("nexus kernel serve starts one")
        .exit(Exit::Missing)
}

/// Turns a refusal or a broken connection into what the person reads.
pub(super) fn failure(error: &ClientError) -> Failure {
    let failure = Failure::caused(error);
    match error {
        ClientError::Refused { code, reason } => failure.maybe_hint(advice(*code, reason)),
        ClientError::Connect(_) | ClientError::Io(_) | ClientError::Closed | ClientError::NotTheProtocol => {
            failure.hint("the logs of both planes are in the run folder, under root/ and kernel/")
        }
    }
}

/// Turns a server that does not start into what the person reads.
pub(super) fn serve_failure(error: &ServeError) -> Failure {
    Failure::caused(error).maybe_hint(error.hint())
}

fn advice(code: u64, reason: &str) -> Option<&'static str> {
    match (code, reason) {
        (201 | 202, "arming_required" | "role_required") => Some("confirm it with --arming --role operator"),
        (102, "reserved_ws_id") => Some("root, kernel, engine and system are the planes' own names"),
        (102, _) => Some("an id has 1 to 35 letters, digits, _ and -"),
        (500, "workspace_in_use") => Some("nexus stop stops its daemon; --stop does so first"),
        (500, reason) if reason.starts_with("kernel_") => Some("nexus kernel serve --kernel-only starts it"),
        _ => None,
    }
}
