//! A witness of a conversation in which the daemon dies: it knows what was acknowledged, and says
//! afterwards what was lost, doubled or is stuck. It talks through the public doors only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_base::id::{MessageId, RequestId, SessionLabel};
use nexus_client::{Client, ClientError};
use nexus_protocol::chat::{ChatLine, ChatSend, QueueMode, Speaker};
use nexus_protocol::trace::RequestView;

/// The trace is written behind the reply and never waited for; it has this long to follow.
const TRACE_FOLLOWS_WITHIN: Duration = Duration::from_secs(10);
/// Time between two looks at the trace.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// What a new owner says to the offline guide until it knows enough.
pub const ONBOARDING: [&str; 3] = ["Hello", "I am Ada", "Call yourself Pixel, be brief and friendly"];

/// Goes through the first conversation, each message at rest before the next.
///
/// # Errors
/// The daemon does not answer.
///
/// # Panics
/// A message got no reply within a minute.
pub async fn onboard(client: &Client) -> Result<(), ClientError> {
    for line in ONBOARDING {
        let send = ChatSend {
            message: line.to_owned(),
            session: None,
            idempotency_key: None,
            project: None,
            queue_mode: Some(QueueMode::Followup),
            model: None,
        };
        let accepted = client.send(send).await?;
        let waited = client.wait(&accepted.request_id, Duration::from_secs(60)).await?;
        assert!(waited.quiescent && !waited.replies.is_empty(), "no reply to {line:?}: {waited:?}");
    }
    Ok(())
}

/// What a message asks for, as the offline guide understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// An answer with no tool in it.
    Plain,
    /// A worker that appends one line to the witness's file.
    Command,
    /// A worker that writes one file below `home/notes`.
    Note,
    /// The line of [`ONBOARDING`] with this number.
    Onboarding(usize),
}

/// One message and what is known about it.
#[derive(Debug, Clone)]
pub struct Said {
    /// Idempotency key; also the line that a command appends.
    pub key: String,
    /// What it asks for.
    pub ask: Ask,
    /// Where it was said.
    pub session: Option<SessionLabel>,
    /// The request, once acknowledged.
    pub request: Option<RequestId>,
}

/// What became of everything that was said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged messages with neither reply nor visible failure, or work claimed and not done.
    pub lost: Vec<String>,
    /// Replies or tool runs that happened twice.
    pub doubled: Vec<String>,
    /// Work that never ends.
    pub stuck: Vec<String>,
}

impl Verdict {
    /// Says whether nothing was lost, doubled or stuck.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.doubled.is_empty() && self.stuck.is_empty()
    }

    /// Adds another verdict to this one.
    pub fn extend(&mut self, other: Self) {
        self.lost.extend(other.lost);
        self.doubled.extend(other.doubled);
        self.stuck.extend(other.stuck);
    }
}

/// Remembers what was said.
#[derive(Debug)]
pub struct Witness {
    home: PathBuf,
    said: Vec<Said>,
    judged: usize,
}

impl Witness {
    /// Starts with nothing said; traces of work are looked for in `home/` of this workspace.
    pub fn new(workspace: &Path) -> Self {
        Self { home: workspace.join("home"), said: Vec::new(), judged: 0 }
    }

    /// Returns everything said so far.
    pub fn said(&self) -> &[Said] {
        &self.said
    }

    /// Says one thing. It is remembered whether or not the acknowledgement arrives.
    ///
    /// # Errors
    /// The daemon did not acknowledge; it may have taken the message all the same.
    pub async fn say(
        &mut self,
        client: &Client,
        ask: Ask,
        session: Option<&str>,
    ) -> Result<RequestId, ClientError> {
        let key = format!("w{:05}-{}", self.said.len(), nexus_base::id::new_ulid());
        self.said.push(Said { key, ask, session: session.map(SessionLabel::new), request: None });
        let last = self.said.len() - 1;
        self.send(client, last).await
    }

    /// Says again whatever was not acknowledged, under the same key.
    ///
    /// # Errors
    /// The daemon still does not acknowledge.
    pub async fn repeat_unacknowledged(&mut self, client: &Client) -> Result<usize, ClientError> {
        let open: Vec<usize> =
            (0..self.said.len()).filter(|index| self.said[*index].request.is_none()).collect();
        for index in &open {
            self.send(client, *index).await?;
        }
        Ok(open.len())
    }

    async fn send(&mut self, client: &Client, index: usize) -> Result<RequestId, ClientError> {
        let said = &self.said[index];
        let message = match said.ask {
            Ask::Plain => "what can you do?".to_owned(),
            Ask::Command => format!("run `echo {} >> witness.txt`", said.key),
            Ask::Note => format!("write a note: {}", said.key),
            Ask::Onboarding(line) => ONBOARDING[line].to_owned(),
        };
        let accepted = client
            .send(ChatSend {
                message,
                session: said.session.clone(),
                idempotency_key: Some(said.key.clone()),
                project: None,
                // One turn for each message, so that replies can be counted.
                queue_mode: Some(QueueMode::Followup),
                model: None,
            })
            .await?;
        self.said[index].request = Some(accepted.request_id.clone());
        Ok(accepted.request_id)
    }

    /// Waits for everything said since the last judgement to come to rest, and judges it.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub async fn judge(&mut self, client: &Client, patience: Duration) -> Result<Verdict, ClientError> {
        let mut verdict = Verdict::default();
        let mut seen: BTreeMap<MessageId, String> = BTreeMap::new();
        for said in &self.said[self.judged..] {
            let Some(request) = &said.request else { continue };
            let waited = client.wait(request, patience).await?;
            if !waited.quiescent {
                verdict.stuck.push(format!("{}: not at rest after {patience:?}", said.key));
                continue;
            }
            let replies: Vec<&ChatLine> =
                waited.replies.iter().filter(|line| line.speaker != Speaker::User).collect();
            self.judge_replies(said, &replies, &mut seen, &mut verdict);
            let view = settled(client, request).await?;
            self.judge_tree(said, &view, &mut verdict);
            judge_report(said, &view, replies.len(), &mut verdict);
        }
        self.judged = self.said.len();
        Ok(verdict)
    }

    /// Looks over the whole workspace once everything is at rest.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub async fn judge_rest(&self, client: &Client) -> Result<Verdict, ClientError> {
        let mut verdict = Verdict::default();
        let started = Instant::now();
        loop {
            verdict.stuck = unfinished(client).await?;
            if verdict.stuck.is_empty() || started.elapsed() > TRACE_FOLLOWS_WITHIN {
                break;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let sessions: BTreeSet<Option<&SessionLabel>> =
            self.said.iter().map(|said| said.session.as_ref()).collect();
        for session in sessions {
            let mut ids = BTreeSet::new();
            for line in client.history(session, Some(500)).await?.lines {
                if !ids.insert(line.message_id.clone()) {
                    verdict.doubled.push(format!("message {} is twice in the history", line.message_id));
                }
            }
        }
        Ok(verdict)
    }

    fn judge_replies(
        &self,
        said: &Said,
        replies: &[&ChatLine],
        seen: &mut BTreeMap<MessageId, String>,
        verdict: &mut Verdict,
    ) {
        if replies.is_empty() {
            verdict.lost.push(format!("{}: no reply", said.key));
        }
        // A worker is announced once and reported once.
        let most = match said.ask {
            Ask::Plain => 1,
            Ask::Command | Ask::Note | Ask::Onboarding(_) => 2,
        };
        let texts: Vec<&str> = replies.iter().map(|line| line.text.as_str()).collect();
        let different: BTreeSet<&str> = texts.iter().copied().collect();
        if replies.len() > most || different.len() < replies.len() {
            verdict.doubled.push(format!("{}: {} replies: {texts:?}", said.key, replies.len()));
        }
        for line in replies {
            if let Some(other) = seen.insert(line.message_id.clone(), said.key.clone()) {
                verdict.doubled.push(format!("reply {} answers {other} and {}", line.message_id, said.key));
            }
        }
    }

    fn judge_tree(&self, said: &Said, view: &RequestView, verdict: &mut Verdict) {
        let mut completed = 0;
        walk(view, &mut |request| {
            if request.status == "processing" {
                verdict.stuck.push(format!("{}: request {} is processing", said.key, request.request_id));
            }
            let does = |tool: &str| Some(tool) == said.ask.tool();
            completed += request
                .tool_calls
                .iter()
                .filter(|call| does(&call.tool) && call.status == "completed")
                .count();
        });
        let Some(tool) = said.ask.tool() else { return };
        match self.times_done(said) {
            // A call whose outcome is unknown, or a failure that was said, explains that nothing is there.
            0 if completed > 0 => {
                verdict.lost.push(format!("{}: {tool} is recorded as completed and left nothing", said.key));
            }
            0 | 1 => {}
            several => verdict.doubled.push(format!("{}: {tool} worked {several} times", said.key)),
        }
    }

    /// Counts how often the work of a message was done.
    pub fn times_done(&self, said: &Said) -> usize {
        match said.ask {
            Ask::Plain | Ask::Onboarding(_) => 0,
            Ask::Command => lines_like(&self.home.join("witness.txt"), &said.key),
            Ask::Note => {
                let notes = std::fs::read_dir(self.home.join("notes")).into_iter().flatten().flatten();
                notes.map(|note| lines_like(&note.path(), &said.key)).sum()
            }
        }
    }
}

impl Ask {
    /// Returns the tool whose work can be seen in the workspace.
    fn tool(self) -> Option<&'static str> {
        match self {
            Self::Plain | Self::Onboarding(_) => None,
            Self::Command => Some("bash"),
            Self::Note => Some("write"),
        }
    }
}

fn lines_like(file: &Path, key: &str) -> usize {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter(|line| line.trim() == key).count()
}

/// A worker that was sent is announced and then reported on, whatever became of it. The announcement
/// alone is no answer.
fn judge_report(said: &Said, view: &RequestView, replies: usize, verdict: &mut Verdict) {
    let (mut sent, mut returned) = (0, 0);
    walk(view, &mut |request| {
        sent += usize::from(request.event_type == "task");
        returned += usize::from(request.event_type == "worker_result");
    });
    if returned < sent {
        verdict.lost.push(format!("{}: {sent} workers sent, {returned} results came back", said.key));
    }
    if said.ask.tool().is_some() && sent > 0 && replies < 2 {
        verdict.lost.push(format!("{}: a worker was sent and never reported on", said.key));
    }
}

/// Returns a request once nothing in its tree is processing, or after the trace had time to follow.
async fn settled(client: &Client, request: &RequestId) -> Result<RequestView, ClientError> {
    let started = Instant::now();
    loop {
        let view = client.request(request).await?;
        let mut is_processing = false;
        walk(&view, &mut |request| is_processing |= request.status == "processing");
        if !is_processing || started.elapsed() > TRACE_FOLLOWS_WITHIN {
            return Ok(view);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

async fn unfinished(client: &Client) -> Result<Vec<String>, ClientError> {
    let mut found = Vec::new();
    for request in client.requests(Some(500)).await? {
        if request.status == "processing" {
            found.push(format!("request {} is still processing", request.request_id));
        }
    }
    for session in client.sessions(Some(500)).await? {
        if session.running || session.queued > 0 {
            found.push(format!("session {} still has work", session.session));
        }
    }
    Ok(found)
}

fn walk(view: &RequestView, visit: &mut impl FnMut(&RequestView)) {
    visit(view);
    for child in &view.children {
        walk(child, visit);
    }
}
