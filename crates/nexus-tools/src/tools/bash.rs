//! `bash`: a command in the sandbox.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::failpoint;
use nexus_base::text::visible;
use nexus_process::{Confinement, Launch, LaunchError, Network, Outcome, SandboxProfile, Status};
use nexus_protocol::run::RUN_SOCKET_VARIABLE;
use nexus_protocol::tool::ToolOutput;

use super::Trail;
use super::arguments::Arguments;
use super::shell::{Shell, Terms, Unconfined};
use super::watch::Watch;
use crate::changes::{Snapshot, hash_of};
use crate::marks::FileMarks;
use crate::ports::Role;
use crate::scope::{Consent, Done, Scope, in_full};
use crate::taint::Level;

pub(super) const NAME: &str = "bash";

/// How long a command runs when the model does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest a command may run.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// The longest command taken.
const COMMAND_LIMIT: usize = 64 * 1024;
/// The most bytes kept of each output stream; what of them the model sees at once is decided above.
const OUTPUT_LIMIT: usize = 1024 * 1024;
/// How long a program in the background is waited for to say something, which is often why it does not run.
const FIRST_WORDS: Duration = Duration::from_secs(2);
/// What a command says that brings somebody's words from the network.
const FETCHERS: [&str; 5] = ["curl", "wget", "http://", "https://", "ftp://"];
/// What a command with the network brings.
const FROM_THE_NETWORK: &str = "the output of a command with network access";

pub(super) async fn call(
    shell: &Shell,
    arguments: &Arguments,
    scope: &Scope<'_>,
    trail: &Trail,
    marks: Option<&dyn FileMarks>,
) -> Done {
    match run(shell, arguments, scope, trail, marks).await {
        Ok(done) => done,
        Err(text) => Done::own(ToolOutput::error(text)),
    }
}

async fn run(
    shell: &Shell,
    arguments: &Arguments,
    scope: &Scope<'_>,
    trail: &Trail,
    marks: Option<&dyn FileMarks>,
) -> Result<Done, String> {
    let background = arguments.switch("background")?;
    if let Some(number) = arguments.optional_number("program")? {
        return look_at(shell, number, arguments.switch("stop")?).await;
    }
    if background && arguments.optional_text("command")?.is_none() {
        let (programs, owner) = shell.background()?;
        return Ok(Done::own(ToolOutput::ok(programs.list(owner))));
    }
    let command = arguments.text("command")?;
    if command.trim().is_empty() {
        return Err("the command is empty".to_owned());
    }
    if command.len() > COMMAND_LIMIT || command.contains('\0') {
        return Err(format!(
            "the command is longer than {COMMAND_LIMIT} bytes or contains a NUL character; write a script to a file \
             and run that"
        ));
    }
    let timeout = arguments
        .optional_number("timeout_ms")?
        .map_or(DEFAULT_TIMEOUT, |wanted| Duration::from_millis(wanted.max(1)).min(MAX_TIMEOUT));
    if background && scope.level != Level::Clean {
        return Err(
            "not started: a run that has read somebody else's words starts nothing that goes on without it"
                .to_owned(),
        );
    }
    let terms = terms(shell, command, arguments.switch("network")?, background, scope).await?;
    let profile = shell.profile(terms);
    let confinement = confinement(shell, command, &profile, scope).await?;
    let is_confined = matches!(confinement, Confinement::Sandbox(_));
    if background {
        return in_background(shell, command, confinement, trail, scope).await;
    }
    let launch = with_socket(shell, launch(shell, command, confinement, timeout, scope), scope)?;
    let brings = reads_outside(shell, command, terms).then_some(FROM_THE_NETWORK);
    let snapshot = if terms.look_only { None } else { keep_folder(shell, trail).await? };
    let watch = Watch::begin(marks, &shell.folder, scope, brings).await?;
    failpoint::hit("tool.bash.before_run");
    let outcome = launch.run().await;
    failpoint::hit("tool.bash.ran");
    let changed = match snapshot {
        Some(snapshot) => compare(snapshot).await,
        None => None,
    };
    let shown = outcome.as_ref().map(|outcome| render(outcome, timeout, None)).unwrap_or_default();
    let read = watch.end(command, &shown, changed).await;
    let outcome = outcome.map_err(|error| explain(&error))?;
    let restored = shell.modes.restore();
    let remedy = is_confined.then(|| nexus_process::remedy(&outcome, &profile)).flatten();
    let remedy = remedy.map(|remedy| match &scope.look_only {
        Some(reason) => format!("{remedy}\n[gate] The task folder is read-only now: {reason}"),
        None => remedy,
    });
    let mut text = render(&outcome, timeout, remedy.as_deref());
    for path in &restored {
        end_line(&mut text);
        let _ = write!(
            text,
            "[sandbox] The permissions of {} were restored; do not change them.",
            path.display()
        );
    }
    let output = ToolOutput { is_error: !outcome.succeeded() || !restored.is_empty(), text };
    Ok(match brings.map(str::to_owned).or(read) {
        Some(source) => Done::from_outside(output, source),
        None => Done::own(output),
    })
}

/// Tells whether the output of a command may be somebody's words from the network.
fn reads_outside(shell: &Shell, command: &str, terms: Terms) -> bool {
    match terms.network {
        Network::Off => false,
        // Asked for and given: to fetch something is what it is for.
        Network::On if shell.network == Network::Off => true,
        // The owner's policy opens it to every command; most of them build and test.
        Network::On => FETCHERS.iter().any(|sign| command.contains(sign)),
    }
}

/// Settles what the command may do, asking the owner where it wants more than it has.
async fn terms(
    shell: &Shell,
    command: &str,
    network: bool,
    background: bool,
    scope: &Scope<'_>,
) -> Result<Terms, String> {
    let clean = scope.level == Level::Clean;
    let mut terms = Terms {
        network: if clean { shell.network } else { Network::Off },
        look_only: scope.look_only.is_some(),
        identity: clean,
    };
    if network && terms.network == Network::Off {
        let reason = scope.run.taint.reason().unwrap_or_else(|| "commands have no network here".to_owned());
        let (how, opens) = match background {
            true => ("in the background, until it is stopped, with network access", "background-network"),
            false => ("with network access", "network"),
        };
        let consent = consent(shell, command, how, opens, reason)?;
        scope.consent(consent).await?;
        terms.network = Network::On;
    }
    Ok(terms)
}

/// A question about one command, bound to its very bytes and folder, with all of it to be read.
fn consent(shell: &Shell, command: &str, how: &str, opens: &str, reason: String) -> Result<Consent, String> {
    let bound = [command.as_bytes(), shell.folder.as_os_str().as_encoded_bytes(), opens.as_bytes()];
    let hash = hash_of(&bound.join(&0));
    let folder = visible::line(&shell.folder.to_string_lossy());
    Ok(Consent {
        tool: NAME,
        runs_command: true,
        summary: in_full(&format!("run in {folder} {how}:"), command)?,
        resources: vec![format!("exec:{hash}"), format!("{opens}:{hash}")],
        reason,
    })
}

fn launch(
    shell: &Shell,
    command: &str,
    confinement: Confinement,
    timeout: Duration,
    scope: &Scope<'_>,
) -> Launch {
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
        .cancel(scope.cancel.clone());
    if let Some(helper) = &shell.helper {
        launch = launch.helper(helper.clone());
    }
    if let Some(record) = &shell.record {
        launch = launch.record(record.clone());
    }
    launch
}

/// Gives a command its socket to the daemon, which serves it until the call ends.
fn with_socket(shell: &Shell, launch: Launch, scope: &Scope<'_>) -> Result<Launch, String> {
    let Some(open) = &shell.tool_socket else { return Ok(launch) };
    let socket = open(scope.run.taint.provenance(Role::Worker))
        .map_err(|error| format!("the socket to the daemon could not be opened: {error}"))?;
    Ok(launch.tool_socket(RUN_SOCKET_VARIABLE, socket))
}

/// Starts a program that goes on after the call. It gets no socket: that one ends with the call.
async fn in_background(
    shell: &Shell,
    command: &str,
    confinement: Confinement,
    trail: &Trail,
    scope: &Scope<'_>,
) -> Result<Done, String> {
    let (programs, owner) = shell.background()?;
    if matches!(confinement, Confinement::Unsandboxed) {
        return Err("not started: without a sandbox nothing ends a program that goes on".to_owned());
    }
    // Undo goes back to before it; what it changes later is not compared.
    keep_folder(shell, trail).await?;
    let launch = launch(shell, command, confinement, MAX_TIMEOUT, scope);
    let number = programs.start(owner, command, launch, shell.temp())?;
    programs.first_words(number, FIRST_WORDS).await;
    let mut text = programs.look(owner, number)?;
    let _ = write!(
        text,
        "[background] It is program {number} of this conversation and ends with the daemon, after a day, or with \
         bash {{\"program\": {number}, \"stop\": true}}; bash {{\"program\": {number}}} shows what it says."
    );
    Ok(Done::own(ToolOutput::ok(text)))
}

async fn look_at(shell: &Shell, number: u64, stop: bool) -> Result<Done, String> {
    let (programs, owner) = shell.background()?;
    let text = match stop {
        true => programs.stop(owner, number).await?,
        false => programs.look(owner, number)?,
    };
    Ok(Done::own(ToolOutput::ok(text)))
}

/// Keeps the task folder as it is; a command does not run when that cannot be done.
async fn keep_folder(shell: &Shell, trail: &Trail) -> Result<Option<Snapshot>, String> {
    let Some(changes) = trail.changes.clone() else { return Ok(None) };
    let (author, folder) = (trail.author.clone(), shell.folder.clone());
    let kept = tokio::task::spawn_blocking(move || changes.before_command(author, &folder)).await;
    match kept {
        Ok(Ok(snapshot)) => Ok(Some(snapshot)),
        // The launch says what is wrong with the folder, in its own words.
        Ok(Err(error)) if error.is_not_found() => Ok(None),
        Ok(Err(error)) => Err(format!("not run: the task folder could not be saved for undo: {error}")),
        Err(error) => Err(format!("not run: the task folder could not be saved for undo: {error}")),
    }
}

/// Returns the files a command changed, if that is known.
async fn compare(snapshot: Snapshot) -> Option<Vec<PathBuf>> {
    // The record from before stands when it fails: undo knows what was there.
    match tokio::task::spawn_blocking(move || snapshot.after_command()).await {
        Ok(Ok(changed)) => return changed,
        Ok(Err(error)) => tracing::warn!(%error, "changes made by a command not recorded"),
        Err(error) => tracing::warn!(%error, "changes made by a command not recorded"),
    }
    None
}

async fn confinement(
    shell: &Shell,
    command: &str,
    profile: &SandboxProfile,
    scope: &Scope<'_>,
) -> Result<Confinement, String> {
    let support = &shell.support;
    if support.is_usable() {
        return Ok(Confinement::Sandbox(profile.clone()));
    }
    // Only a sandbox keeps a command to looking; nobody's consent to doing without one stands for the gate.
    if let Some(reason) = &scope.look_only {
        return Err(format!(
            "not run: {reason} This machine cannot keep commands from changing files ({}).",
            support.gaps.join("; ")
        ));
    }
    match shell.unconfined {
        Unconfined::AllowedByOwner => Ok(Confinement::Unsandboxed),
        Unconfined::Ask => {
            let reason = format!("commands cannot be confined on this machine ({})", support.gaps.join("; "));
            let consent = consent(shell, command, "WITHOUT a sandbox", "unconfined", reason)?;
            scope.consent(consent).await?;
            Ok(Confinement::Unsandboxed)
        }
    }
}

fn explain(error: &LaunchError) -> String {
    match error {
        LaunchError::NoSandbox { reason } => {
            format!("the command was not run: no sandbox on this machine ({reason})")
        }
        LaunchError::Profile(reason) => format!("the command was not run: {reason}"),
        LaunchError::Setup { reason } => {
            format!("the command was not run: the sandbox could not be set up ({reason})")
        }
        LaunchError::NoFolder { path } => {
            format!(
                "the command was not run: the task folder {} no longer exists; create it with write",
                path.display()
            )
        }
        LaunchError::Program { program, source } => {
            format!("the command was not run: starting {}: {source}", program.display())
        }
        LaunchError::InputTooLong { length } => format!(
            "the command was not run: its input of {length} bytes is too \
            long"
        ),
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
            "[timed out after {} ms; raise timeout_ms (at most {}) or do less at once]",
            timeout.as_millis(),
            MAX_TIMEOUT.as_millis()
        ),
        Status::Cancelled => write!(text, "[cancelled after {seconds:.1} s]"),
        Status::DiskFull => write!(
            text,
            "[ended after {seconds:.1} s because the disk was nearly full; remove what is not needed and write less]"
        ),
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
            "[timed out after 9000 ms; raise timeout_ms (at most 600000) or do less at once]",
        );
    }
}
