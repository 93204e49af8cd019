//! Programs that are meant to go on after the call that started them, such as a development server.
//!
//! They belong to the conversation whose worker started them and run in its sandbox, without a socket to the daemon.
//! They end when they are stopped, after a day, or with the daemon: the supervisor of each ends it when the daemon
//! is gone, however that went.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nexus_process::{Launch, LiveOutput, MAX_DEADLINE};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Programs of one conversation that may run at once.
const MAX_RUNNING: usize = 4;
/// Programs of all conversations together.
const MAX_RUNNING_IN_ALL: usize = 16;
/// Ended programs of a conversation that are remembered.
const MAX_ENDED: usize = 8;
/// Bytes kept of each output stream, half from the beginning and half from the end.
pub(super) const MAX_OUTPUT: usize = 128 * 1024;
/// Characters of a command in a list.
const SHOWN_COMMAND: usize = 120;
/// Characters of the end of the output that a look shows.
const SHOWN_OUTPUT: usize = 16 * 1024;

/// The programs of all conversations.
#[derive(Debug, Default)]
pub struct BackgroundPrograms(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    count: u64,
    programs: BTreeMap<u64, Program>,
}

#[derive(Debug)]
struct Program {
    owner: String,
    command: String,
    begun: Instant,
    output: LiveOutput,
    cancel: CancellationToken,
    /// How it ended, once it has.
    ended: watch::Receiver<Option<String>>,
    /// What must stay as long as it runs, such as its temporary folder.
    _kept: Arc<tempfile::TempDir>,
}

impl Program {
    fn is_running(&self) -> bool {
        self.ended.borrow().is_none()
    }

    fn state(&self) -> String {
        match &*self.ended.borrow() {
            None => format!("running for {} s", self.begun.elapsed().as_secs()),
            Some(how) => how.clone(),
        }
    }
}

impl BackgroundPrograms {
    /// Starts a program for `owner` and returns its number; the error is for the model.
    pub(super) fn start(
        &self,
        owner: &str,
        command: &str,
        launch: Launch,
        kept: Arc<tempfile::TempDir>,
    ) -> Result<u64, String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.forget_ended(owner);
        let running = |own: bool| {
            state.programs.values().filter(|one| one.is_running() && (!own || one.owner == owner)).count()
        };
        if running(true) >= MAX_RUNNING || running(false) >= MAX_RUNNING_IN_ALL {
            return Err(format!(
                "not started: {} programs run in the background already; stop one with {{\"program\": NUMBER, \
                 \"stop\": true}}",
                running(true)
            ));
        }
        let cancel = CancellationToken::new();
        let launch = launch.output_limit(MAX_OUTPUT).deadline(MAX_DEADLINE).cancel(cancel.clone());
        let output = launch.live_output();
        let (tell, ended) = watch::channel(None);
        nexus_base::task::spawn("background-program", async move {
            let how = match launch.run().await {
                Ok(outcome) => outcome.status.to_string(),
                Err(error) => format!("did not start: {}", nexus_base::error::chain(&error)),
            };
            tell.send_replace(Some(how));
        });
        state.count += 1;
        let number = state.count;
        let program = Program {
            owner: owner.to_owned(),
            command: command.to_owned(),
            begun: Instant::now(),
            output,
            cancel,
            ended,
            _kept: kept,
        };
        state.programs.insert(number, program);
        Ok(number)
    }

    /// Returns one line for each program of `owner`.
    pub(super) fn list(&self, owner: &str) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (number, program) in state.programs.iter().filter(|(_, program)| program.owner == owner) {
            let command = nexus_base::text::shorten(&program.command, SHOWN_COMMAND).replace('\n', " ");
            let _ = writeln!(text, "program {number}: {}: {command}", program.state());
        }
        if text.is_empty() { "no programs in the background".to_owned() } else { text }
    }

    /// Returns how a program of `owner` stands and the end of what it said.
    pub(super) fn look(&self, owner: &str, number: u64) -> Result<String, String> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let program = state.find(owner, number)?;
        let [stdout, stderr] = program.output.so_far();
        let mut text = format!("program {number}: {}\n", program.state());
        for (name, captured) in [("stdout", stdout), ("stderr", stderr)] {
            if !captured.is_empty() {
                let _ = writeln!(text, "[{name}]\n{}", end_of(&captured.text()));
            }
        }
        Ok(text)
    }

    /// Ends a program of `owner` and returns how it stands then.
    pub(super) async fn stop(&self, owner: &str, number: u64) -> Result<String, String> {
        let mut ended = {
            let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let program = state.find(owner, number)?;
            program.cancel.cancel();
            program.ended.clone()
        };
        // Its launch is bounded by its grace; the sender cannot be gone without having told.
        let _ = ended.wait_for(Option::is_some).await;
        self.look(owner, number)
    }

    /// Returns once a program has said something, has ended, or `patience` is over.
    pub(super) async fn first_words(&self, number: u64, patience: std::time::Duration) {
        let (output, mut ended) = {
            let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(program) = state.programs.get(&number) else { return };
            (program.output.clone(), program.ended.clone())
        };
        let said = async {
            while output.so_far().iter().all(nexus_process::Captured::is_empty) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        tokio::select! {
            () = said => {}
            _ = ended.wait_for(Option::is_some) => {}
            () = tokio::time::sleep(patience) => {}
        }
    }
}

/// How often a program that just started is asked whether it said something.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(20);

impl State {
    fn find(&self, owner: &str, number: u64) -> Result<&Program, String> {
        self.programs
            .get(&number)
            .filter(|program| program.owner == owner)
            .ok_or_else(|| format!("there is no program {number} in the background here"))
    }

    /// Keeps the last few ended programs of a conversation.
    fn forget_ended(&mut self, owner: &str) {
        let ended: Vec<u64> = self
            .programs
            .iter()
            .filter(|(_, program)| program.owner == owner && !program.is_running())
            .map(|(number, _)| *number)
            .collect();
        for number in ended.iter().rev().skip(MAX_ENDED) {
            self.programs.remove(number);
        }
    }
}

fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(SHOWN_OUTPUT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
