//! `nexus completions`: a script that teaches a shell our commands.

use clap::Args;
use clap_complete::Shell;

use crate::failure::Outcome;
use crate::output;

/// Arguments of `nexus completions`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  nexus completions bash > ~/.local/share/bash-completion/completions/nexus"
)]
pub(crate) struct Arguments {
    /// Name of the shell
    shell: Shell,
}

/// Runs `nexus completions`.
pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::cli::tree(), "nexus", &mut script);
    output::text(&String::from_utf8_lossy(&script))
}
