//! The `nexus` binary: the sandbox helper, or a command.

mod cli;
mod commands;
mod context;
mod control;
mod failure;
mod kernel;
mod logging;
mod output;
mod terminal;
mod tool_call;
mod untrusted;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A helper on its way to becoming a confined tool process does nothing else before.
    nexus_process::run_if_sandbox_helper();
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}
