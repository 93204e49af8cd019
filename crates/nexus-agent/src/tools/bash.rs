//! `bash`: a command in the sandbox.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use nexus_process::{Confinement, Launch, LaunchError, Outcome, Status};
use nexus_protocol::run::RUN_SOCKET_VARIABLE;
use nexus_protocol::tool::{Replay, ToolOutput, ToolSpec};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::shell::{Shell, Unconfined};

pub(super) const NAME: &str = "bash";

/// How long a command runs when the model does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest a command may run.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest command taken.
const COMMAND_LIMIT: usize = 64 * 1024;
/// The most bytes of each output stream the model sees.
const OUTPUT_LIMIT: usize = 32 * 1024;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_owned(),
        description: "Run a shell command in the task folder, sandboxed: no network, writes only there. \
                      Background processes end with it."
            .to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {
                "command": {"type": "string"},
                "timeout_ms": {"type": "integer", "description": "default 120000, at most 600000"}
            },
            "required": ["command"]
        }),
        replay: Replay::Unsafe,
    }
}

pub(super) async fn call(shell: &Shell, arguments: &Arguments, cancel: &CancellationToken) -> ToolOutput {
    match run(shell, arguments, cancel).await {
        Ok(output) => output,
        Err(text) => ToolOutput::error(text),
    }
}

async fn run(shell: &Shell, arguments: &Arguments, cancel: &CancellationToken) -> Result<ToolOutput, String> {
    let command = arguments.text("command")?;
    if command.trim().is_empty() {
        return Err("the command is empty".to_owned());
    }
    if command.len() > COMMAND_LIMIT || command.contains('\0') {
        return Err(format!(
            "the command is longer than {COMMAND_LIMIT} bytes or holds a NUL character; write a script to a file and \
             run that"
        ));
    }
    let timeout = arguments
        .optional_number("timeout_ms")?
        .map_or(DEFAULT_TIMEOUT, |wanted| Duration::from_millis(wanted.max(1)).min(LONGEST_TIMEOUT));
    let confinement = confinement(shell)?;
    let is_confined = matches!(confinement, Confinement::Sandbox(_));

    let mut launch = if Path::new("/bin/bash").exists() {
        Launch::new("/bin/bash", &shell.folder, confinement).arguments([
            "--noprofile",
            "--norc",
            "-c",
            command,
        ])
    } else {
        Launch::new("/bin/sh", &shell.folder, confinement).arguments(["-c", command])
    };
    launch = launch
        .environment(shell.environment.clone())
        .deadline(timeout)
        .output_limit(OUTPUT_LIMIT)
        .cancel(cancel.clone());
    if let Some(helper) = &shell.helper {
        launch = launch.helper(helper.clone());
    }
    if let Some(record) = &shell.record {
        launch = launch.record(record.clone());
    }
    if let Some(open) = &shell.run_socket {
        let socket =
            open().map_err(|error| format!("the socket to the daemon could not be opened: {error}"))?;
        launch = launch.run_socket(RUN_SOCKET_VARIABLE, socket);
    }
    let outcome = launch.run().await.map_err(|error| explain(&error))?;
    let restored = shell.modes.restore();
    let remedy = is_confined.then(|| nexus_process::remedy(&outcome, &shell.profile)).flatten();
    let mut text = render(&outcome, timeout, remedy.as_deref());
    for path in &restored {
        end_line(&mut text);
        let _ =
            write!(text, "[sandbox] The permissions of {} were put back; leave them alone.", path.display());
    }
    Ok(ToolOutput { is_error: !outcome.succeeded() || !restored.is_empty(), text })
}

fn confinement(shell: &Shell) -> Result<Confinement, String> {
    let support = nexus_process::support();
    match shell.unconfined {
        _ if support.is_usable() => Ok(Confinement::Sandbox(shell.profile.clone())),
        Unconfined::AllowedByOwner => Ok(Confinement::Unsandboxed),
        Unconfined::Refuse => Err(format!(
            "commands cannot be confined on this machine ({}), so none are run unasked; tell the owner, who can allow \
             this one or run it",
            support.gaps.join("; ")
        )),
    }
}

fn explain(error: &LaunchError) -> String {
    match error {
        LaunchError::NoSandbox { reason } => format!("the command was not run: no sandbox here ({reason})"),
        LaunchError::Profile(reason) => format!("the command was not run: {reason}"),
        LaunchError::Setup { reason } => {
            format!("the command was not run: the sandbox could not be set up ({reason})")
        }
        LaunchError::NoFolder { path } => {
            format!("the command was not run: the task folder {} is gone; make it with write", path.display())
        }
        LaunchError::Program { program, source } => {
            format!("the command was not run: starting {}: {source}", program.display())
        }
        LaunchError::InputTooLong { length } => format!("the command was not run: input of {length} bytes"),
    }
}

fn render(outcome: &Outcome, timeout: Duration, remedy: Option<&str>) -> String {
    let mut text = outcome.stdout.text();
    let errors = outcome.stderr.text();
    if !errors.is_empty() {
        end_line(&mut text);
        text.push_str("[stderr]\n");
        text.push_str(&errors);
    }
    end_line(&mut text);
    let seconds = outcome.duration.as_secs_f32();
    let _ = match outcome.status {
        Status::Exited(0) if text.is_empty() => write!(text, "[no output]"),
        Status::Exited(0) => Ok(()),
        Status::Exited(code) => write!(text, "[exit code {code}]"),
        Status::Signaled(signal) => write!(text, "[ended by signal {signal} after {seconds:.1} s]"),
        Status::TimedOut => write!(
            text,
            "[ended after {} ms, its timeout; raise timeout_ms (at most {}) or do less at once]",
            timeout.as_millis(),
            LONGEST_TIMEOUT.as_millis()
        ),
        Status::Cancelled => write!(text, "[cancelled after {seconds:.1} s]"),
    };
    if let Some(remedy) = remedy {
        end_line(&mut text);
        text.push_str(remedy);
    }
    text
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use nexus_process::Captured;

    use super::*;

    fn check(status: Status, stdout: &str, stderr: &str, remedy: Option<&str>, expected: &str) {
        let captured = |text: &str| Captured { head: text.as_bytes().to_vec(), ..Captured::default() };
        let outcome = Outcome {
            status,
            stdout: captured(stdout),
            stderr: captured(stderr),
            duration: Duration::from_millis(1500),
            strays: 0,
        };
        assert_eq!(render(&outcome, Duration::from_secs(9), remedy), expected);
    }

    #[test]
    fn every_ending_reads_well() {
        check(Status::Exited(0), "", "", None, "[no output]");
        check(Status::Exited(0), "text", "", None, "text\n");
        check(
            Status::Exited(2),
            "",
            "bad\n",
            Some("[sandbox] way out"),
            "[stderr]\nbad\n[exit code 2]\n[sandbox] way out",
        );
        check(Status::Signaled(9), "a", "b", None, "a\n[stderr]\nb\n[ended by signal 9 after 1.5 s]");
        check(Status::Cancelled, "", "", None, "[cancelled after 1.5 s]");
        check(
            Status::TimedOut,
            "",
            "",
            None,
            "[ended after 9000 ms, its timeout; raise timeout_ms (at most 600000) or do less at once]",
        );
    }
}
