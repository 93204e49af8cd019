//! From bus events to what a person should see: which events belong to this conversation, what was
//! streamed already, which reply was said before. Pure state; printing is for others.

use std::collections::{HashMap, HashSet};

use nexus_base::id::{CompactionId, MessageId, RequestId, SessionLabel, TurnId};
use nexus_protocol::bus::{BusBody, BusEvent, TurnState};
use nexus_protocol::chat::{ChatLine, Speaker};
use nexus_protocol::control::CompactionView;

use crate::output::{shorten, single_line};

/// Longest worker or tool line.
const MAX_NOTICE_LEN: usize = 100;
/// Message ids remembered so that nothing is said twice.
const REMEMBERED: usize = 10_000;
/// Most text of one turn kept to compare with its final reply.
const MAX_STREAM_LEN: usize = 1024 * 1024;

/// Said when a conversation begins anew.
const RESET_LINE: &str =
    "the conversation starts afresh; what was said stays in the history (nexus sessions compactions)";

/// Manager tools that show in other lines already.
const QUIET_TOOLS: &[&str] = &["agent_send", "wait", "get_agent_status"];

/// Something to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Show {
    /// A turn of the conversation itself began; the name is empty before the assistant has one.
    TurnBegan { speaker: String },
    /// The next piece of what the assistant is saying.
    Piece(String),
    /// What was streamed so far is void; the turn begins again.
    StartOver,
    /// A whole reply. `streamed` means that its text went out in pieces already.
    Reply { text: String, streamed: bool, state: TurnState },
    /// A line about workers and tools.
    Notice(String),
    /// Somebody needs the owner's consent.
    Question { id: String, summary: String },
    /// A question is no longer open; how it ended.
    Settled { id: String, status: String },
    /// A turn of the conversation itself ended.
    TurnEnded(TurnState),
    /// Nothing of this request is queued, running or undelivered any more.
    Quiet(RequestId),
    /// The daemon says goodbye.
    Stopping,
    /// Events were missed; the history has what they said.
    Gap,
}

/// Follows one conversation on the bus.
#[derive(Debug)]
pub(crate) struct Feed {
    session: Option<SessionLabel>,
    only: Option<RequestId>,
    workers: HashMap<SessionLabel, usize>,
    stream: Option<Stream>,
    said: HashSet<MessageId>,
    /// The compaction whose answer was shown; its event says nothing new.
    told: Option<CompactionId>,
    /// Tokens in and out of the turns since the last one of the conversation itself ended, by turn.
    used: HashMap<TurnId, (u64, u64)>,
}

#[derive(Debug)]
struct Stream {
    turn: TurnId,
    attempt: u32,
    text: String,
}

impl Feed {
    /// Follows everything said in a session; `None` until the daemon has named it.
    pub(crate) fn of_session(session: Option<SessionLabel>) -> Self {
        Self {
            session,
            only: None,
            workers: HashMap::new(),
            stream: None,
            said: HashSet::new(),
            told: None,
            used: HashMap::new(),
        }
    }

    /// Learns the session's label.
    pub(crate) fn name_session(&mut self, session: SessionLabel) {
        self.session = Some(session);
    }

    /// Narrows the feed to one request and everything it leads to.
    pub(crate) fn follow_only(&mut self, request: RequestId) {
        self.only = Some(request);
    }

    /// Notes that a compaction was shown when it was asked for; returns the line for it.
    pub(crate) fn shortened(&mut self, compaction: &CompactionView) -> String {
        self.told = Some(compaction.id.clone());
        if compaction.summary.is_none() && compaction.shortened_results == 0 {
            return RESET_LINE.to_owned();
        }
        let line = compacted_line(compaction.turns);
        format!("{line}; about {} → {} tokens", compaction.tokens_before, compaction.tokens_after)
    }

    fn unless_told(&self, id: &CompactionId, line: String) -> Vec<Show> {
        if self.told.as_ref() == Some(id) { Vec::new() } else { vec![Show::Notice(line)] }
    }

    /// Takes one event and returns what to show for it, in order.
    pub(crate) fn take(&mut self, event: &BusEvent) -> Vec<Show> {
        match &event.body {
            BusBody::Stopping => return vec![Show::Stopping],
            BusBody::Gap { .. } => return vec![Show::Gap],
            BusBody::Quiescent { request_id } => return vec![Show::Quiet(request_id.clone())],
            _ => {}
        }
        if !self.concerns(event) {
            return Vec::new();
        }
        match &event.body {
            BusBody::TurnStarted { session, turn_id, attempt, speaker, .. } if self.is_ours(session) => {
                let again = self.begin(turn_id, *attempt);
                let began = Show::TurnBegan { speaker: speaker.clone() };
                if again { vec![Show::StartOver] } else { vec![began] }
            }
            BusBody::Delta { session, turn_id, attempt, text, .. } if self.is_ours(session) => {
                self.piece(turn_id, *attempt, text)
            }
            BusBody::Reply { session, turn_id, message_id, state, text, .. } if self.is_ours(session) => {
                self.reply(message_id, Some(turn_id), text, *state).into_iter().collect()
            }
            BusBody::TurnEnded { session, state, .. } if self.is_ours(session) => {
                let used = self.used_line().map(Show::Notice);
                [Some(Show::TurnEnded(*state)), used].into_iter().flatten().collect()
            }
            BusBody::ToolStarted { session, tool, summary, .. } => {
                self.tool_line(session, tool, summary).map(Show::Notice).into_iter().collect()
            }
            BusBody::WorkerDispatched { parent, session, task, .. } if self.knows(parent) => {
                let number = self.workers.len() + 1;
                let number = *self.workers.entry(session.clone()).or_insert(number);
                vec![Show::Notice(notice(&format!("worker {number}"), task))]
            }
            BusBody::WorkerEnded { session, status, .. } => match self.workers.get(session) {
                Some(number) => vec![Show::Notice(notice(&format!("worker {number}"), status))],
                None => Vec::new(),
            },
            BusBody::PermissionRequested { permission_request_id, summary, .. } => {
                vec![Show::Question { id: permission_request_id.clone(), summary: summary.clone() }]
            }
            BusBody::PermissionResolved { permission_request_id, status } => {
                vec![Show::Settled { id: permission_request_id.clone(), status: status.clone() }]
            }
            BusBody::Compacted { session, compaction_id, turns, .. } if self.is_ours(session) => {
                self.unless_told(compaction_id, compacted_line(*turns))
            }
            BusBody::Reset { session, compaction_id, .. } if self.is_ours(session) => {
                self.unless_told(compaction_id, RESET_LINE.to_owned())
            }
            BusBody::ToolEnded { session, tool, is_error: true, .. } => {
                self.tool_line(session, tool, "did not work").map(Show::Notice).into_iter().collect()
            }
            BusBody::Used { session, turn_id, input_tokens, output_tokens, .. } => {
                self.count(session, turn_id, *input_tokens, *output_tokens);
                Vec::new()
            }
            BusBody::TurnStarted { .. }
            | BusBody::Compacted { .. }
            | BusBody::Reset { .. }
            | BusBody::Delta { .. }
            | BusBody::Reply { .. }
            | BusBody::TurnEnded { .. }
            | BusBody::WorkerDispatched { .. }
            | BusBody::ToolEnded { .. }
            | BusBody::Stage { .. }
            | BusBody::RequestEnded { .. }
            | BusBody::Quiescent { .. }
            | BusBody::Started { .. }
            | BusBody::Stopping
            | BusBody::HookFired { .. }
            | BusBody::HookFailed { .. }
            | BusBody::ConfigReloaded
            | BusBody::Gap { .. } => Vec::new(),
        }
    }

    /// Returns whether an event belongs to what this feed follows.
    pub(crate) fn concerns(&self, event: &BusEvent) -> bool {
        self.only.is_none() || event.root_request_id == self.only
    }

    /// Takes lines that `chat.wait` or the history reports and returns the replies not shown yet.
    pub(crate) fn catch_up(&mut self, lines: &[ChatLine]) -> Vec<Show> {
        lines
            .iter()
            .filter_map(|line| match line.speaker {
                Speaker::User => None,
                Speaker::Assistant => {
                    self.reply(&line.message_id, Some(&line.turn_id), &line.text, TurnState::Final)
                }
                Speaker::System => self.reply(&line.message_id, None, &line.text, TurnState::Error),
            })
            .collect()
    }

    /// Marks lines as shown without showing them: what was said before this conversation began.
    pub(crate) fn skip(&mut self, lines: &[ChatLine]) {
        for line in lines {
            self.remember(&line.message_id);
        }
    }

    fn count(&mut self, session: &SessionLabel, turn: &TurnId, input: u64, output: u64) {
        if self.knows(session) && self.used.len() < REMEMBERED {
            self.used.insert(turn.clone(), (input, output));
        }
    }

    /// Returns what was used since the last such line, workers included; none when nothing was.
    fn used_line(&mut self) -> Option<String> {
        let (input, output) =
            self.used.drain().fold((0, 0), |(input, output), (_, used)| (input + used.0, output + used.1));
        (input + output > 0).then(|| format!("{input} tokens in, {output} out"))
    }

    fn is_ours(&self, session: &SessionLabel) -> bool {
        self.session.as_ref() == Some(session)
    }

    fn knows(&self, session: &SessionLabel) -> bool {
        self.is_ours(session) || self.workers.contains_key(session)
    }

    /// Returns true when this turn had been streaming before and begins again.
    fn begin(&mut self, turn: &TurnId, attempt: u32) -> bool {
        let again = self.stream.as_ref().is_some_and(|stream| {
            stream.turn == *turn && attempt > stream.attempt && !stream.text.is_empty()
        });
        let same =
            self.stream.as_ref().is_some_and(|stream| stream.turn == *turn && stream.attempt >= attempt);
        if !same {
            self.stream = Some(Stream { turn: turn.clone(), attempt, text: String::new() });
        }
        again
    }

    fn piece(&mut self, turn: &TurnId, attempt: u32, text: &str) -> Vec<Show> {
        let mut shows = Vec::new();
        match &self.stream {
            Some(stream) if stream.turn == *turn && stream.attempt > attempt => return shows,
            Some(stream) if stream.turn == *turn && stream.attempt == attempt => {}
            _ => {
                if self.begin(turn, attempt) {
                    shows.push(Show::StartOver);
                }
            }
        }
        if let Some(stream) = &mut self.stream
            && stream.text.len() + text.len() <= MAX_STREAM_LEN
        {
            stream.text.push_str(text);
        }
        if !text.is_empty() {
            shows.push(Show::Piece(text.to_owned()));
        }
        shows
    }

    fn reply(
        &mut self,
        message: &MessageId,
        turn: Option<&TurnId>,
        text: &str,
        state: TurnState,
    ) -> Option<Show> {
        if !self.remember(message) {
            return None;
        }
        // A turn may say something before its tool calls and more after them; the reply is the end of
        // what was streamed, or all of it.
        let streamed = self.stream.as_ref().is_some_and(|stream| {
            Some(&stream.turn) == turn
                && !text.trim().is_empty()
                && stream.text.trim_end().ends_with(text.trim())
        });
        Some(Show::Reply { text: text.to_owned(), streamed, state })
    }

    fn remember(&mut self, message: &MessageId) -> bool {
        if self.said.len() >= REMEMBERED {
            // Only a conversation of days gets here. Replies this old do not come back.
            self.said.clear();
        }
        self.said.insert(message.clone())
    }

    fn tool_line(&self, session: &SessionLabel, tool: &str, summary: &str) -> Option<String> {
        let text = if summary.is_empty() { tool.to_owned() } else { format!("{tool} {summary}") };
        match self.workers.get(session) {
            Some(number) => Some(notice(&format!("worker {number}"), &text)),
            None if self.is_ours(session) && !QUIET_TOOLS.contains(&tool) => {
                Some(shorten(&in_one_line(&text), MAX_NOTICE_LEN))
            }
            None => None,
        }
    }
}

fn compacted_line(turns: u64) -> String {
    match turns {
        0 => "long results are shortened from here on".to_owned(),
        1 => "1 earlier turn is summarised from here on (nexus sessions compactions)".to_owned(),
        several => {
            format!("{several} earlier turns are summarised from here on (nexus sessions compactions)")
        }
    }
}

fn notice(who: &str, what: &str) -> String {
    shorten(&format!("{who}: {}", in_one_line(what)), MAX_NOTICE_LEN)
}

/// A line break may end a comment: it is not shown as a blank.
fn in_one_line(text: &str) -> String {
    single_line(&text.trim().replace('\n', " ⏎ "))
}

#[cfg(test)]
mod tests;
