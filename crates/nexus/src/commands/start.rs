//! `nexus start`: the daemon, in the foreground.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use nexus_base::redact::Redactor;
use nexus_runtime::StartError;
use nexus_workspace::StartOptions;

use crate::context::{Context, home, trust_folder};
use crate::failure::{Exit, Failure, Outcome};
use crate::logging::{self, Watched};
use crate::output;

/// Threads that carry the daemon; databases and tools have their own.
const THREADS: usize = 2;

/// Arguments of `nexus start`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints one line on stdout once it accepts messages, readable log lines on stderr, and JSON lines to
state/logs/nex.log. SIGTERM and Ctrl-C stop it gracefully; SIGHUP makes it reload its configuration.

Examples:
  nexus start
  nexus start --workspace ~/work --port 0    any free port")]
pub(crate) struct Arguments {
    /// Port to listen on instead of the configured one; 0 picks a free port
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Run the governed workspace with this id, created by `nexus kernel ws create --init`
    #[arg(long, value_name = "ID", conflicts_with = "workspace")]
    ws: Option<String>,
    /// Write the log to its file only
    #[arg(long, hide = true)]
    unwatched: bool,
}

/// Runs `nexus start`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let context = match &arguments.ws {
        Some(id) => &Context::new(Some(crate::kernel::workspace_root(id)?)),
        None => context,
    };
    let layout = context.existing()?;
    no_core_files();
    let redactor = Arc::new(Redactor::new());
    // A configuration that cannot be used is reported by the start itself, with key and fix.
    let level = match context.loaded(&layout) {
        Ok(loaded) => {
            redactor.register(loaded.settings.runtime.auth.token.expose());
            loaded.settings.logging.level.as_str()
        }
        Err(_) => "info",
    };
    let watched = if arguments.unwatched { Watched::Not } else { Watched::OnStderr };
    logging::begin(&layout.log_file(), level, Arc::clone(&redactor), watched)
        .map_err(|error| Failure::caused(&error))?;
    let options = StartOptions {
        layout,
        trust_folder: trust_folder()?,
        port: arguments.port,
        environment: super::environment(),
        home: home().unwrap_or_else(|| PathBuf::from("/")),
        redactor,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("nexus")
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("starting the event loop: {error}")))?;
    let outcome = runtime.block_on(nexus_runtime::start(
        options,
        |address| {
            // Whoever waits for this line reads it from a pipe; with nobody reading, nobody waits.
            let _ = output::line(&format!("listening on http://{address}"));
        },
        |runtime, listener, ending| nexus_server::serve(runtime, listener, ending.cancelled_owned()),
    ));
    // Nothing that still runs may hold up the end: what counts is in the databases.
    runtime.shutdown_background();
    outcome.map_err(|error| failure(&error))
}

/// Keeps a crash from writing the daemon's memory, and the secrets in it, to a file, and other programs of
/// the same user from reading it.
fn no_core_files() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // A limit can always be lowered; should it not, a core file is all that is lost.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // A core that is piped to a program knows no limit. Programs the daemon starts are as they were.
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

fn failure(error: &StartError) -> Failure {
    let exit = match error {
        StartError::NoWorkspace(_) => Exit::Missing,
        StartError::AlreadyRunning(_)
        | StartError::Lock(_)
        | StartError::Config(_)
        | StartError::Store(_)
        | StartError::PortTaken { .. }
        | StartError::Listen { .. }
        | StartError::Serve(_) => Exit::Failed,
    };
    let failure = Failure::caused(error).maybe_hint(error.hint()).exit(exit);
    tracing::error!(error = failure.message(), "the daemon did not start");
    failure
}
