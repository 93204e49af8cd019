//! `nexus kernel …`: the governed workspaces of this machine. The planes themselves live in
//! `nexus-kernel`; here are the words of the command line and what the Kernel must be told about the
//! inside of a Nexus workspace.

mod inside;
mod probe;
mod reach;
mod serve;
mod torture;
pub(crate) mod ws;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nexus_kernel::{RunDir, WsId};

use crate::failure::{Exit, Failure, Outcome};

/// Arguments of `nexus kernel`.
#[derive(Debug, Args)]
#[command(after_help = "\
Workspaces created here are stored in the run folder, beside the sockets and logs of the two planes: Root
checks every frame and forwards it, the Kernel checks it again and acts.

Examples:
  nexus kernel serve
  nexus kernel ws create testws
  nexus kernel ws destroy testws --arming --role operator
  nexus kernel torture")]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: RunFolder,
    #[command(subcommand)]
    command: KernelCommand,
}

/// Where the workspaces lie.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunFolder {
    /// Run folder [default: NEXUS_RUN_DIR or ~/.nexus/run]
    #[arg(long, global = true, value_name = "FOLDER")]
    run_dir: Option<PathBuf>,
}

/// Everything `nexus kernel` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum KernelCommand {
    /// Serve Root and Kernel until stopped
    Serve(serve::Arguments),
    /// Show the state of the running kernel
    Status(probe::StatusArguments),
    /// Check whether the kernel answers
    Ping(probe::PingArguments),
    /// Run every known attack and fault against a server in a temporary folder
    Torture(torture::Arguments),
    /// Create, list and destroy workspaces
    #[command(subcommand, after_help = "Example:\n  nexus kernel ws list")]
    Ws(ws::WsCommand),
}

/// Runs `nexus kernel`.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        KernelCommand::Serve(command) => serve::run(arguments.place.resolve()?, command),
        KernelCommand::Status(command) => probe::status(&arguments.place.resolve()?, command),
        KernelCommand::Ping(command) => probe::ping(&arguments.place.resolve()?, command),
        KernelCommand::Torture(command) => torture::run(command),
        KernelCommand::Ws(command) => ws::perform(&arguments.place.resolve()?, command),
    }
}

/// Returns the folder of a governed workspace that exists, for `nexus start --ws ID`.
pub(crate) fn workspace_root(id: &str) -> Result<PathBuf, Failure> {
    let target = WsId::parse_target(id.as_bytes()).map_err(|reject| {
        Failure::new(format!("{id:?} is not a workspace id: {}", reject.reason)).exit(Exit::Usage)
    })?;
    let path = RunFolder { run_dir: None }.resolve()?.workspace(&target);
    match std::fs::symlink_metadata(&path) {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err(Failure::new(format!("{} is not a folder", path.display()))),
        Err(_) => Err(Failure::new(format!("there is no workspace {target}"))
            .hint(format!("nexus kernel ws create {target} --init creates one"))
            .exit(Exit::Missing)),
    }
}

impl RunFolder {
    /// Settles which run folder is meant: flag, then environment, then the default below home.
    fn resolve(&self) -> Result<RunDir, Failure> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = self.run_dir.clone().or_else(|| variable("NEXUS_RUN_DIR"));
        let path = match named {
            Some(path) => path,
            None => variable("HOME").map(|home| home.join(".nexus/run")).ok_or_else(|| {
                Failure::new("the home folder is unknown").hint("set HOME or NEXUS_RUN_DIR")
            })?,
        };
        Ok(RunDir::new(nexus_base::file::resolve(&path)))
    }
}
