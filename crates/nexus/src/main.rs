//! The `nexus` binary: the sandbox helper, the caller inside a tool call, or a command.

mod cli;
mod commands;
mod context;
mod failure;
mod forward;
mod kernel;
mod logging;
mod output;
mod terminal;
mod untrusted;

use std::process::ExitCode;

fn main() -> ExitCode {
    // A helper on its way to becoming a confined tool process does nothing else before.
    nexus_process::run_if_sandbox_helper();
    if let Some(descriptor) = forward::descriptor() {
        return forward::run(&descriptor);
    }
    match cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}
