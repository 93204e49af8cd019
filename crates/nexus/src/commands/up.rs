//! `nexus up`: from an empty folder to a conversation in one command.

use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use clap::Args;
use nexus_base::file::{FileError, create_folder, read_text};
use nexus_protocol::status::Health;
use nexus_workspace::Layout;
use rustix::process::Pid;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::terminal::{Conversation, Link};

/// Longest wait for a daemon that was just started.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Pause between looks whether it is ready.
const PAUSE: Duration = Duration::from_millis(5);
/// Pause between looks whether it still lives.
const LOOK_AFTER: Duration = Duration::from_millis(200);
/// How often within a minute a daemon that died is started again.
const MAX_DEATHS: usize = 3;
/// Most of what a daemon that did not start had to say.
const MAX_LAST_WORDS_LEN: u64 = 64 * 1024;

/// Arguments of `nexus up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Creates the workspace if it is missing, attaches to its daemon or starts one, and opens a conversation. A daemon that `up`
started is stopped gracefully when the conversation ends, unless --keep is given; one that was already running
keeps running. From a pipe, every line is one message: the next one is sent, and the program ends, when the work on the
previous one is done, at the latest five minutes after the end of input.

Examples:
  nexus up
  nexus up --workspace ~/work --keep
  printf 'Hello\\nCall me Ada\\n' | nexus up --workspace /tmp/try")]
pub(crate) struct Arguments {
    /// Port for a daemon that has to be started
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Keep a daemon that this command started running afterwards
    #[arg(long)]
    keep: bool,
    /// Folder of the project to work in
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Print one JSON object per event
    #[arg(long)]
    json: bool,
}

/// Runs `nexus up`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.layout()?;
    let project = arguments.project.as_deref().map(super::chat::project).transpose()?;
    let running = nexus_base::lock::holder(&layout.lock());
    if running.is_none() {
        let report = super::init::make(&layout)?;
        if !report.created.is_empty() {
            output::remark(&format!("created a workspace at {}", layout.root().display()));
        }
    }
    let runtime = super::client_runtime()?;
    let mut started = match running {
        Some(_) => None,
        None => Some(Started::begin(&layout, arguments.port)?),
    };
    let outcome = runtime.block_on(async {
        let report = ready(context, started.as_mut()).await?;
        let how = if started.is_some() { "started" } else { "attached to" };
        output::remark(&format!(
            "{how} process {} on port {} · model {}",
            report.pid, report.port, report.model
        ));
        for warning in &report.warnings {
            output::remark(&format!("warning: {warning}"));
        }
        let conversation = Conversation { session: None, project, model: None };
        tokio::select! {
            // A message that could not be answered is told where its answer would stand; bringing the
            // workspace up and talking to it has worked all the same.
            outcome = super::chat::talk(context, Link::new(context, conversation), arguments.json) => outcome.map(drop),
            failure = keep_alive(started.as_mut()) => Err(failure),
        }
    });
    // A thread may still wait for a key or a line; it ends with the process.
    runtime.shutdown_background();
    match started {
        Some(started) if arguments.keep => {
            let pid = started.child.id();
            output::remark(&format!(
                "process {pid} keeps running; nexus stop{} stops the daemon",
                context.flag_text()
            ));
            outcome
        }
        Some(started) => outcome.and(started.end()),
        None => outcome,
    }
}

/// What the person is told when the conversation begins.
struct Ready {
    pid: u32,
    port: u16,
    model: String,
    warnings: Vec<String>,
}

/// Waits until the daemon takes messages.
async fn ready(context: &Context, mut started: Option<&mut Started>) -> Result<Ready, Failure> {
    let give_up = Instant::now() + READY_WITHIN;
    loop {
        let failure = match context.client() {
            Ok(client) => match client.health().await {
                Ok(report) if matches!(report.status, Health::Healthy | Health::Degraded) => {
                    let port = client.port();
                    return Ok(Ready {
                        pid: report.pid,
                        port,
                        model: report.model,
                        warnings: report.warnings,
                    });
                }
                Ok(report) => Failure::new(format!("the daemon is {:?}", report.status).to_lowercase())
                    .hint("nexus logs shows why"),
                Err(error) => Failure::from(error),
            },
            Err(failure) => failure,
        };
        if let Some(started) = &mut started {
            started.still_alive()?;
        }
        if Instant::now() > give_up {
            return Err(failure);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Starts a daemon of ours again when it died, and returns when that does not help. One that was
/// stopped in order stays so: somebody wanted it.
async fn keep_alive(started: Option<&mut Started>) -> Failure {
    let Some(started) = started else { return std::future::pending().await };
    let mut deaths: Vec<Instant> = Vec::new();
    loop {
        tokio::time::sleep(LOOK_AFTER).await;
        match started.child.try_wait() {
            Ok(None) => continue,
            Ok(Some(status)) if status.success() => return std::future::pending().await,
            Ok(Some(_)) | Err(_) => {}
        }
        deaths.retain(|death| death.elapsed() < Duration::from_secs(60));
        deaths.push(Instant::now());
        if deaths.len() > MAX_DEATHS {
            return started.last_words();
        }
        match Started::begin(&started.layout, started.port) {
            Ok(again) => *started = again,
            Err(failure) => return failure,
        }
    }
}

/// A daemon that this command started.
struct Started {
    child: Child,
    layout: Layout,
    port: Option<u16>,
    words: PathBuf,
}

impl Started {
    fn begin(layout: &Layout, port: Option<u16>) -> Result<Self, Failure> {
        let failed = |error: FileError| Failure::caused(&error);
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("finding this program's own file: {error}")))?;
        create_folder(&layout.logs(), 0o700).map_err(failed)?;
        // The daemon keeps its own log. This takes what it says when it cannot even begin that.
        let words = layout.logs().join("start.log");
        nexus_base::file::replace(&words, b"", 0o600, nexus_base::file::Durability::Crash).map_err(failed)?;
        let file = nexus_base::file::open_append(&words, 0o600).map_err(failed)?;
        let mut arguments = vec![
            "start".into(),
            "--unwatched".into(),
            "--workspace".into(),
            layout.root().as_os_str().to_owned(),
        ];
        if let Some(port) = port {
            arguments.extend(["--port".into(), port.to_string().into()]);
        }
        let child = nexus_process::start_detached(&program, &arguments, layout.root(), &file)
            .map_err(|error| Failure::new(format!("starting {}: {error}", program.display())))?;
        Ok(Self { child, layout: layout.clone(), port, words })
    }

    /// Says why the daemon ended, if it has.
    fn still_alive(&mut self) -> Outcome {
        if matches!(self.child.try_wait(), Ok(None)) {
            return Ok(());
        }
        Err(self.last_words())
    }

    /// Returns what the daemon said before it ended.
    fn last_words(&self) -> Failure {
        let words = read_text(&self.words, MAX_LAST_WORDS_LEN).unwrap_or_default();
        let last = |prefix: &str| words.lines().rev().find_map(|line| line.strip_prefix(prefix));
        let message = last("error: ").map_or_else(
            || format!("the daemon ended at once; see {}", self.layout.log_file().display()),
            str::to_owned,
        );
        Failure::new(message).maybe_hint(last("hint: "))
    }

    fn end(mut self) -> Outcome {
        // Once its exit status was taken, its number may be somebody else's.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return Ok(());
        }
        super::stop::end(&self.layout, Pid::from_child(&self.child))?;
        // It has let go of the workspace; what is left is taking its exit status.
        let _ = self.child.wait();
        Ok(())
    }
}
