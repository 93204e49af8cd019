//! The conversation at a terminal. One loop over what the person does, what the daemon reports and
//! signals; Ctrl-C stops a turn and never the program while one runs.

use std::collections::HashMap;
use std::time::Duration;

use nexus_base::id::RequestId;
use nexus_protocol::chat::ChatWaited;
use nexus_protocol::control::SessionShortened;
use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::commands::trace;
use crate::failure::{Failure, Outcome};
use crate::output;

use super::consent::{Extent, Questions, Typed as Answer};
use super::editor::{Input, Printer, Prompt, Prompter, history_file};
use super::feed::{Feed, Show};
use super::link::{Link, Signal};
use super::screen::Screen;
use super::slash::{self, Slash, Typed};

/// How long a sent message may wait for a daemon that is being restarted.
const SEND_PATIENCE: Duration = Duration::from_secs(15);
/// Workers still out this long after a turn ended: the prompt comes back while they work.
const PROMPT_AFTER: Duration = Duration::from_millis(800);
/// Lines looked through after a gap.
const CATCH_UP: usize = 100;
/// Rows of a terminal that does not say how many it has.
const DEFAULT_ROWS: usize = 24;

/// Talks until the person leaves.
pub(crate) async fn converse(link: Link) -> Outcome {
    let terminal = Terminal::take();
    let signals = link.events().await?;
    let history = link.history(CATCH_UP).await?;
    let mut feed = Feed::of_session(Some(history.session.clone()));
    feed.skip(&history.lines);
    let (prompter, printer) = Prompter::start(history_file())?;
    let screen = Screen::new(printer, output::stdout_takes_colour(), &link.assistant_name());
    let (quiet, quieted) = mpsc::unbounded_channel();
    let mut talk = Talk {
        link,
        screen,
        feed,
        prompter,
        terminal,
        quiet,
        questions: Questions::default(),
        open: HashMap::new(),
        last: None,
        turn_runs: false,
        idle_since: None,
        stops: 0,
        farewells: 0,
    };
    talk.run(signals, quieted).await
}

type Quieted = (RequestId, Result<ChatWaited, Failure>);

struct Talk {
    link: Link,
    screen: Screen<Printer>,
    feed: Feed,
    prompter: Prompter,
    terminal: Terminal,
    quiet: mpsc::UnboundedSender<Quieted>,
    /// What waits for the person's consent.
    questions: Questions,
    /// Requests not known to be quiet yet, with the moment they were sent.
    open: HashMap<RequestId, Instant>,
    last: Option<RequestId>,
    turn_runs: bool,
    idle_since: Option<Instant>,
    /// Ctrl-C presses while the assistant was at work.
    stops: u8,
    /// Ctrl-C presses at an empty prompt.
    farewells: u8,
}

enum Next {
    Prompt,
    /// The next question is put.
    Ask,
    Stay,
    Leave,
}

impl Talk {
    async fn run(
        &mut self,
        mut signals: mpsc::Receiver<Signal>,
        mut quieted: mpsc::UnboundedReceiver<Quieted>,
    ) -> Outcome {
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let mut hang_up = listen(SignalKind::hangup())?;
        let mut prompting = true;
        self.show_prompt();
        loop {
            let prompt_at = self.idle_since.filter(|_| !prompting).map(|since| since + PROMPT_AFTER);
            let next = tokio::select! {
                input = self.prompter.next(), if prompting => {
                    prompting = false;
                    self.screen.set_prompting(false);
                    self.terminal.hush();
                    self.typed(input, &mut interrupt).await
                }
                signal = signals.recv() => {
                    self.happened(signal).await;
                    Next::Ask
                }
                Some((request, waited)) = quieted.recv() => {
                    self.went_quiet(&request, waited);
                    if self.open.is_empty() { Next::Prompt } else { Next::Stay }
                }
                _ = interrupt.recv() => self.stop_turn().await,
                () = sleep_until(prompt_at) => {
                    self.screen.notice("workers are still running; you can keep writing");
                    Next::Prompt
                }
                _ = terminate.recv() => return Err(Failure::interrupted()),
                _ = hang_up.recv() => return Err(Failure::interrupted()),
            };
            match next {
                // A question comes before the next message: a turn waits for it.
                Next::Prompt | Next::Ask | Next::Stay if !prompting && self.ask_next() => prompting = true,
                Next::Prompt if !prompting => {
                    prompting = true;
                    self.show_prompt();
                }
                Next::Prompt | Next::Ask | Next::Stay => {}
                Next::Leave => return Ok(()),
            }
        }
    }

    fn show_prompt(&mut self) {
        self.idle_since = None;
        self.stops = 0;
        self.screen.rename(&self.link.assistant_name());
        self.screen.set_prompting(true);
        self.terminal.restore();
        self.prompter.show(Prompt::Message);
    }

    /// Puts the next question, if there is one; the turn it belongs to goes on waiting meanwhile.
    fn ask_next(&mut self) -> bool {
        let columns = output::terminal_width().map(usize::from);
        let rows = output::terminal_height().map_or(DEFAULT_ROWS, usize::from);
        let Some(page) = self.questions.next(Extent { columns, rows }) else { return false };
        self.screen.block(&page.rows.join("\n"));
        self.screen.set_prompting(true);
        self.terminal.restore();
        self.prompter.show(Prompt::Question(page.prompt));
        true
    }

    /// Carries an answer to the daemon.
    async fn consent(&mut self, id: &str, agrees: bool) {
        match self.link.answer(id, agrees).await {
            Ok(()) => self.screen.notice(if agrees { "allowed this once" } else { "not allowed" }),
            Err(failure) => self.complain(&failure),
        }
    }

    async fn typed(&mut self, input: Input, interrupt: &mut UnixSignal) -> Next {
        match self.questions.take(&input) {
            Answer::Yes(id) => {
                self.consent(&id, true).await;
                return if self.open.is_empty() { Next::Prompt } else { Next::Stay };
            }
            Answer::No(id) => {
                self.consent(&id, false).await;
                return if self.open.is_empty() { Next::Prompt } else { Next::Stay };
            }
            Answer::More => return Next::Ask,
            Answer::TooLate => {
                self.screen.notice("that question is no longer open");
                return if self.open.is_empty() { Next::Prompt } else { Next::Stay };
            }
            Answer::Message => {}
        }
        let message = match input {
            Input::End => return Next::Leave,
            Input::Interrupt => return self.interrupted_at_prompt().await,
            Input::Message(message) => message,
        };
        self.farewells = 0;
        if message.trim().is_empty() {
            return Next::Prompt;
        }
        match slash::read(&message) {
            Typed::Message => self.say(message, interrupt).await,
            Typed::Command(Slash::Quit) => Next::Leave,
            Typed::Command(Slash::Help) => {
                self.screen.block(&slash::help().join("\n"));
                Next::Prompt
            }
            Typed::Command(Slash::Trace) => {
                self.show_trace().await;
                Next::Prompt
            }
            Typed::Command(Slash::Compact) => self.shorten(false, interrupt).await,
            Typed::Command(Slash::Reset) => self.shorten(true, interrupt).await,
            Typed::Command(Slash::Model) => {
                self.screen.notice(&self.link.chosen_model());
                Next::Prompt
            }
            Typed::Model(name) => {
                self.link.choose_model((name != slash::CONFIGURED).then_some(name));
                self.screen.notice(&self.link.chosen_model());
                Next::Prompt
            }
            Typed::Unknown => {
                self.screen.notice("unknown command; /help lists the commands");
                Next::Prompt
            }
        }
    }

    async fn interrupted_at_prompt(&mut self) -> Next {
        if !self.open.is_empty() {
            self.abort(true).await;
            return Next::Prompt;
        }
        self.farewells += 1;
        if self.farewells >= 2 {
            return Next::Leave;
        }
        self.screen.notice("press Ctrl-C again or Ctrl-D to exit");
        Next::Prompt
    }

    async fn say(&mut self, message: String, interrupt: &mut UnixSignal) -> Next {
        let sent = tokio::select! {
            sent = self.link.send(message, SEND_PATIENCE) => sent,
            _ = interrupt.recv() => {
                self.screen.notice("not sent");
                return Next::Prompt;
            }
        };
        match sent {
            Ok(accepted) => {
                self.feed.name_session(accepted.session);
                let request = accepted.request_id;
                let waited = self.link.wait(&request);
                let quiet = self.quiet.clone();
                let waited_for = request.clone();
                nexus_base::task::spawn("wait", async move {
                    if let Ok(result) = waited.await {
                        // The conversation is over when nobody receives.
                        let _ = quiet.send((waited_for, result));
                    }
                });
                self.open.insert(request.clone(), Instant::now());
                self.last = Some(request);
                Next::Stay
            }
            Err(failure) => {
                self.complain(&failure);
                Next::Prompt
            }
        }
    }

    /// Makes the conversation shorter; Ctrl-C stops that as it stops a turn.
    async fn shorten(&mut self, anew: bool, interrupt: &mut UnixSignal) -> Next {
        let link = self.link.clone();
        let shortening = link.shorten(anew);
        tokio::pin!(shortening);
        let answer = loop {
            tokio::select! {
                answer = &mut shortening => break answer,
                _ = interrupt.recv() => self.abort(false).await,
            }
        };
        match answer {
            Ok(SessionShortened { compaction: Some(compaction), .. }) => {
                let line = self.feed.shortened(&compaction);
                self.screen.notice(&line);
            }
            Ok(SessionShortened { reason, .. }) => {
                self.screen.notice(reason.as_deref().unwrap_or("nothing to do"));
            }
            Err(failure) => self.complain(&failure),
        }
        Next::Prompt
    }

    async fn happened(&mut self, signal: Option<Signal>) {
        match signal {
            Some(Signal::Event(event)) => {
                for show in self.feed.take(&event) {
                    self.note(&show);
                    self.screen.show(&show);
                    if let Some(line) = self.questions.hear(&show, self.screen.is_prompting()) {
                        self.screen.notice(&line);
                    }
                    if show == Show::Gap {
                        self.catch_up().await;
                    }
                }
            }
            Some(Signal::Lost) => self.screen.notice("the daemon has stopped; waiting for it to come back"),
            Some(Signal::Back) => {
                self.screen.notice("the daemon is back");
                self.catch_up().await;
            }
            // The pump ends only with this loop.
            None => std::future::pending().await,
        }
    }

    fn note(&mut self, show: &Show) {
        match show {
            Show::TurnBegan { .. } | Show::StartOver | Show::Piece(_) => {
                self.turn_runs = true;
                self.idle_since = None;
            }
            Show::TurnEnded(_) => {
                self.turn_runs = false;
                self.idle_since = Some(Instant::now());
            }
            Show::Reply { .. }
            | Show::Notice(_)
            | Show::Question { .. }
            | Show::Settled { .. }
            | Show::Quiet(_)
            | Show::Stopping
            | Show::Gap => {}
        }
    }

    fn went_quiet(&mut self, request: &RequestId, waited: Result<ChatWaited, Failure>) {
        self.open.remove(request);
        match waited {
            Ok(waited) => {
                for show in self.feed.catch_up(&waited.replies) {
                    self.screen.show(&show);
                }
            }
            Err(failure) => self.complain(&failure),
        }
        if self.open.is_empty() {
            self.turn_runs = false;
            self.idle_since = None;
        }
    }

    async fn catch_up(&mut self) {
        // Without an answer the next event or reply shows what is missing.
        if let Ok(history) = self.link.history(CATCH_UP).await {
            for show in self.feed.catch_up(&history.lines) {
                self.screen.show(&show);
            }
        }
    }

    async fn stop_turn(&mut self) -> Next {
        // Pressed in the instant before the prompt came: there is nothing to stop.
        if self.open.is_empty() {
            return Next::Stay;
        }
        let workers = !self.turn_runs;
        self.abort(workers).await;
        // The turn's own end brings the prompt back; asking again does so at once.
        self.stops += 1;
        if self.stops >= 2 { Next::Prompt } else { Next::Stay }
    }

    async fn abort(&mut self, workers: bool) {
        self.screen.notice("stopping");
        if let Err(failure) = self.link.abort(workers).await {
            self.complain(&failure);
        }
    }

    async fn show_trace(&mut self) {
        let Some(request) = self.last.clone() else {
            self.screen.notice("nothing has been said yet");
            return;
        };
        match self.link.request(&request).await {
            Ok(view) => self.screen.block(&trace::render(&view)),
            Err(failure) => self.complain(&failure),
        }
    }

    fn complain(&mut self, failure: &Failure) {
        let hint = failure.advice().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        self.screen.block(&format!("error: {}{hint}", failure.message()));
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn listen(kind: SignalKind) -> Result<UnixSignal, Failure> {
    signal(kind).map_err(|error| Failure::new(format!("listening for signals: {error}")))
}

/// The terminal's settings from before, put back at the end however the conversation ends: the
/// editor's thread may be cut off in the middle of reading.
struct Terminal(Option<Termios>);

impl Terminal {
    fn take() -> Self {
        Self(termios::tcgetattr(std::io::stdin()).ok())
    }

    /// Stops the echo of keys while the assistant speaks. What is typed waits for the next prompt.
    fn hush(&self) {
        if let Some(mut settings) = self.0.clone() {
            settings.local_modes.remove(LocalModes::ECHO);
            Self::apply(&settings);
        }
    }

    fn restore(&self) {
        if let Some(settings) = &self.0 {
            Self::apply(settings);
        }
    }

    fn apply(settings: &Termios) {
        // A terminal that has gone needs no settings.
        let _ = termios::tcsetattr(std::io::stdin(), OptionalActions::Drain, settings);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.restore();
    }
}
