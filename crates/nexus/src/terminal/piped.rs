//! Conversing without a terminal: each line of stdin is one message, or one message comes from the
//! command line. The next one goes out, or the program ends, only at quiescence.

use std::io::{BufRead, Read};
use std::time::Duration;

use nexus_base::id::RequestId;
use nexus_protocol::bus::{BusBody, TurnState};
use nexus_protocol::chat::{ChatWaited, MAX_MESSAGE_LEN};
use serde::Serialize;
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::failure::{Failure, Outcome};
use crate::output::{self, harmless};
use crate::untrusted;

use super::feed::{Feed, Show};
use super::link::{Link, Signal};

/// Longest wait for the last message's work once stdin has ended.
const AFTER_END: Duration = Duration::from_secs(5 * 60);
/// How long a message may wait for a daemon that is being restarted.
const SEND_PATIENCE: Duration = Duration::from_secs(15);
/// How long an event of a finished request may trail behind the one before it, or behind the answer
/// that the request is finished. Both come over loopback from one process.
const TRAIL: Duration = Duration::from_millis(15);
/// Longest wait for such events altogether: other conversations may be busy on the same bus.
const MAX_TRAIL: Duration = Duration::from_millis(60);

/// How a conversation is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Who said what, and what workers did.
    Transcript,
    /// The replies alone.
    Bare,
    /// One JSON object per line.
    Json,
}

/// What stdin gives: a line, or why there is none.
type Line = Result<String, Failure>;

/// Whether everything that was said got an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It did, as far as is known: the last one may still be at work.
    All,
    /// A turn failed or was stopped.
    NotAll,
}

/// Says each non-empty line of stdin and writes the conversation to stdout.
pub(crate) async fn pipe(link: Link, style: Style) -> Result<Answered, Failure> {
    let mut exchange = Exchange::open(link, style).await?;
    let mut lines = read_stdin();
    let mut answered = Answered::All;
    while let Some(line) = exchange.next_line(&mut lines).await? {
        exchange.begin(line?).await?;
        exchange.follow(Some(&mut lines)).await?;
        if exchange.failed {
            answered = Answered::NotAll;
        }
    }
    Ok(answered)
}

/// Says one message and writes the answer to stdout.
pub(crate) async fn send_one(link: Link, message: String, style: Style) -> Outcome {
    let mut exchange = Exchange::open(link, style).await?;
    exchange.begin(message).await?;
    exchange.follow(None).await?;
    if exchange.failed { Err(Failure::unread()) } else { Ok(()) }
}

struct Exchange {
    link: Link,
    style: Style,
    signals: mpsc::Receiver<Signal>,
    leave: Leave,
    feed: Feed,
    current: Option<Current>,
    /// A line that was read while the one before was being answered.
    ahead: Option<Line>,
    failed: bool,
    /// Whether the bus has told how a turn of the current request ended.
    judged: bool,
    /// Whether the daemon is away.
    gone: bool,
    /// What the assistant is called.
    speaker: String,
}

struct Current {
    request: RequestId,
    waited: oneshot::Receiver<Result<ChatWaited, Failure>>,
    quiet: bool,
}

impl Exchange {
    async fn open(link: Link, style: Style) -> Result<Self, Failure> {
        let leave = Leave::listen()?;
        let signals = link.events().await?;
        let feed = Feed::of_session(None);
        let speaker = output::single_line(&link.assistant_name());
        Ok(Self {
            link,
            style,
            signals,
            leave,
            feed,
            current: None,
            ahead: None,
            failed: false,
            judged: false,
            gone: false,
            speaker,
        })
    }

    async fn next_line(&mut self, lines: &mut mpsc::Receiver<Line>) -> Result<Option<Line>, Failure> {
        if let Some(line) = self.ahead.take() {
            return Ok(Some(line));
        }
        tokio::select! {
            line = lines.recv() => Ok(line),
            () = self.leave.asked() => Err(Failure::interrupted()),
        }
    }

    async fn begin(&mut self, message: String) -> Outcome {
        if self.style == Style::Transcript {
            output::line(&format!("you> {}", harmless(&message)))?;
        }
        let accepted = tokio::select! {
            accepted = self.link.send(message, SEND_PATIENCE) => accepted?,
            () = self.leave.asked() => return Err(Failure::interrupted()),
        };
        if self.style == Style::Json {
            output::json_line(&Tagged { kind: "chat.accepted", body: &accepted })?;
        }
        self.feed.name_session(accepted.session);
        self.feed.follow_only(accepted.request_id.clone());
        (self.failed, self.judged) = (false, false);
        let waited = self.link.wait(&accepted.request_id);
        self.current = Some(Current { request: accepted.request_id, waited, quiet: false });
        Ok(())
    }

    /// Follows the current request to its end. Reading on meanwhile tells whether more can come;
    /// once nothing can, the wait has a limit.
    async fn follow(&mut self, mut lines: Option<&mut mpsc::Receiver<Line>>) -> Outcome {
        let Some(mut current) = self.current.take() else { return Ok(()) };
        let mut deadline = lines.is_none().then(|| Instant::now() + AFTER_END);
        loop {
            tokio::select! {
                waited = &mut current.waited => {
                    let waited = waited.map_err(|_| Failure::new("waiting for an answer was interrupted"))??;
                    self.trail(&mut current).await?;
                    return self.conclude(&waited);
                }
                signal = self.signals.recv() => {
                    current.quiet |= is_quiet(signal.as_ref(), &current.request);
                    self.happened(signal)?;
                }
                line = next_of(&mut lines), if self.ahead.is_none() => match line {
                    Some(line) => self.ahead = Some(line),
                    None => {
                        lines = None;
                        deadline = Some(Instant::now() + AFTER_END);
                    }
                },
                () = until(deadline) => return out_of_time(self.gone, &current.request),
                () = self.leave.asked() => {
                    // Stopping the turn is a courtesy on the way out; leaving is what was asked for.
                    let _ = self.link.abort(false).await;
                    return Err(Failure::interrupted());
                }
            }
        }
    }

    /// Takes the last events of a request that is known to be over.
    async fn trail(&mut self, current: &mut Current) -> Outcome {
        let give_up = Instant::now() + MAX_TRAIL;
        // The answer has every reply; what else may be missing is worth a wait only to those who see it, and
        // how the turn ended to everybody.
        while (self.style != Style::Bare || !self.judged)
            && !current.quiet
            && let Ok(Some(signal)) =
                tokio::time::timeout_at(give_up.min(Instant::now() + TRAIL), self.signals.recv()).await
        {
            current.quiet = is_quiet(Some(&signal), &current.request);
            self.happened(Some(signal))?;
        }
        Ok(())
    }

    fn happened(&mut self, signal: Option<Signal>) -> Outcome {
        let event = match signal {
            Some(Signal::Event(event)) => event,
            Some(Signal::Lost) => {
                self.gone = true;
                output::remark("the daemon has stopped; waiting for it to come back");
                return Ok(());
            }
            Some(Signal::Back) => {
                self.gone = false;
                output::remark("the daemon is back");
                return Ok(());
            }
            None => return Ok(()),
        };
        if self.style == Style::Json && self.feed.concerns(&event) {
            output::json_line(&event)?;
        }
        // Replies have to be marked as said in every style.
        for show in self.feed.take(&event) {
            self.judge(&show);
            self.judged |= matches!(show, Show::TurnEnded(_));
            if self.style != Style::Json {
                self.write(&show)?;
            }
        }
        Ok(())
    }

    fn conclude(&mut self, waited: &ChatWaited) -> Outcome {
        let missed = self.feed.catch_up(&waited.replies);
        for show in &missed {
            // What the bus told is more exact than what a line of the history looks like.
            let is_error = matches!(show, Show::Reply { state: TurnState::Error, .. });
            if is_error || !self.judged {
                self.judge(show);
            }
        }
        if self.style == Style::Json {
            return output::json_line(&Tagged { kind: "chat.waited", body: waited });
        }
        for show in missed {
            self.write(&show)?;
        }
        Ok(())
    }

    fn judge(&mut self, show: &Show) {
        if let Show::Reply { state, .. } | Show::TurnEnded(state) = show {
            self.failed = matches!(state, TurnState::Error | TurnState::Aborted);
        }
    }

    fn write(&mut self, show: &Show) -> Outcome {
        match (show, self.style) {
            // Named as it was when the turn began: a name given in a turn is used from the next one on.
            (Show::TurnBegan { speaker }, _) if !speaker.trim().is_empty() => {
                self.speaker = output::single_line(speaker);
                Ok(())
            }
            (Show::Reply { text, .. }, Style::Transcript) if !text.trim().is_empty() => {
                output::line(&format!("{}> {}", self.speaker, harmless(text).trim_end()))
            }
            (Show::Reply { text, .. }, Style::Bare) if !text.trim().is_empty() => {
                output::line(harmless(text).trim_end())
            }
            (Show::Notice(text), Style::Transcript) => output::line(&format!("  · {text}")),
            (Show::Question { id, summary }, Style::Transcript) => {
                output::line("  · waiting for your consent")?;
                let columns = output::terminal_width().map(|columns| usize::from(columns).saturating_sub(4));
                for row in untrusted::rows(summary, columns) {
                    output::line(&format!("    {row}"))?;
                }
                output::line(&format!("  · nexus approvals approve {id}"))
            }
            _ => Ok(()),
        }
    }
}

/// The end of the wait: work that goes on is no failure, a daemon that is not there is one.
fn out_of_time(gone: bool, request: &RequestId) -> Outcome {
    let minutes = AFTER_END.as_secs() / 60;
    if gone {
        return Err(Failure::new(format!("no answer within {minutes} minutes, and no daemon is running"))
            .hint(format!(
                "nexus start resumes the message; nexus trace {request} shows what became of it"
            )));
    }
    output::remark(&format!("still working after {minutes} minutes"));
    output::remark(&format!("hint: nexus trace {request} shows how far it has got"));
    Ok(())
}

/// Tells whether nothing more will be said about a request, or nothing more will be heard.
fn is_quiet(signal: Option<&Signal>, request: &RequestId) -> bool {
    match signal {
        Some(Signal::Event(event)) => {
            matches!(&event.body, BusBody::Quiescent { request_id } if request_id == request)
        }
        Some(Signal::Lost | Signal::Back) => false,
        None => true,
    }
}

/// Ctrl-C and a polite end.
struct Leave {
    interrupt: UnixSignal,
    terminate: UnixSignal,
}

impl Leave {
    fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::new(format!("listening for signals: {error}")));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

async fn next_of(lines: &mut Option<&mut mpsc::Receiver<Line>>) -> Option<Line> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

/// A JSON line with its kind in front.
#[derive(Serialize)]
struct Tagged<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    body: &'a T,
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Reads stdin on a thread of its own, since a pipe may stay silent for ever.
fn read_stdin() -> mpsc::Receiver<Line> {
    let (out, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            match read_message(&mut input) {
                Ok(Some(line)) if line.trim().is_empty() => {}
                Ok(Some(line)) => {
                    if out.blocking_send(Ok(line)).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(failure) => {
                    // Nobody receiving means that the conversation is over.
                    let _ = out.blocking_send(Err(failure));
                    return;
                }
            }
        }
    });
    lines
}

fn read_message(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_MESSAGE_LEN as u64 + 1;
    let read = input
        .take(limit)
        .read_until(b'\n', &mut bytes)
        .map_err(|error| Failure::new(format!("reading standard input: {error}")))?;
    if read == 0 {
        return Ok(None);
    }
    while matches!(bytes.last(), Some(b'\n' | b'\r')) {
        bytes.pop();
    }
    if bytes.len() > MAX_MESSAGE_LEN {
        return Err(Failure::new(format!("a line of standard input is longer than {MAX_MESSAGE_LEN} bytes"))
            .hint("put long text in a file under home/ and ask the assistant to read it"));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| Failure::new("standard input is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_goes_on_is_no_failure_and_a_daemon_that_is_gone_is_one() {
        let request = RequestId::generate();
        assert!(out_of_time(false, &request).is_ok());
        let failure = out_of_time(true, &request).unwrap_err();
        assert_eq!(failure.code(), 1);
        assert!(failure.message().contains("no daemon is running"));
    }

    #[test]
    fn lines_are_bounded_and_may_lack_the_last_break() {
        let mut input = &b"one\r\ntwo"[..];
        assert_eq!(read_message(&mut input).unwrap().as_deref(), Some("one"));
        assert_eq!(read_message(&mut input).unwrap().as_deref(), Some("two"));
        assert_eq!(read_message(&mut input).unwrap(), None);
        let long = vec![b'x'; MAX_MESSAGE_LEN + 5];
        assert!(read_message(&mut &long[..]).unwrap_err().message().contains("longer"));
        assert!(read_message(&mut &b"\xff\n"[..]).is_err());
    }
}
