//! `nexus kernel serve`: the planes, in the foreground.

use clap::Args;
use nexus_kernel::{DEFAULT_MAX_CONNECTIONS, Planes, RunDir, ServeOptions, Server};
use tokio::signal::unix::{SignalKind, signal};

use super::{inside, reach};
use crate::failure::{Failure, Outcome};
use crate::output;

/// Arguments of `nexus kernel serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints one line on stdout once it accepts requests. Decisions go to root/root.log and kernel/kernel.log
in the run folder and, unless --quiet, to stderr. SIGTERM and Ctrl-C stop it.

Examples:
  nexus kernel serve
  nexus kernel serve --run-dir /srv/workspaces --quiet
  nexus kernel serve --kernel-only &  nexus kernel serve --root-only")]
pub(crate) struct Arguments {
    /// Serve only Root and forward to a Kernel in another process
    #[arg(long, conflicts_with = "kernel_only")]
    root_only: bool,
    /// Serve only the Kernel
    #[arg(long)]
    kernel_only: bool,
    /// Number of connections each plane accepts at a time
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_CONNECTIONS)]
    max_connections: usize,
    /// Write decisions to their files only
    #[arg(long)]
    quiet: bool,
}

/// Runs `nexus kernel serve`.
pub(super) fn run(run_dir: RunDir, arguments: &Arguments) -> Outcome {
    let failed = |error: std::io::Error| Failure::new(format!("waiting for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let planes = match (arguments.root_only, arguments.kernel_only) {
        (true, _) => Planes::RootOnly,
        (false, true) => Planes::KernelOnly,
        (false, false) => Planes::Both,
    };
    let socket = match planes {
        Planes::Both | Planes::RootOnly => run_dir.root_socket(),
        Planes::KernelOnly => run_dir.kernel_socket(),
    };
    let mut options = ServeOptions::new(run_dir);
    options.planes = planes;
    options.max_connections = arguments.max_connections;
    options.echo = !arguments.quiet;
    options.hooks = inside::hooks();
    runtime.block_on(async {
        // Asked for before anything is announced: whoever reads the line may send a signal at once.
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let server = Server::start(options).map_err(|error| reach::serve_failure(&error))?;
        // With nobody reading stdout, nobody waits for the line.
        let _ = output::line(&format!("serving {}", socket.display()));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        server.stop();
        Ok(())
    })
}
