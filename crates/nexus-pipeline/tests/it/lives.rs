//! Random lives: messages, interrupts, aborts, cancellations, stops, kills and losses of power in any
//! order, against a simple expectation: nothing is lost, doubled or stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nexus_base::id::{RequestId, SessionLabel, new_ulid};
use nexus_llm::{
    Content, Conversation, Model, ModelError, ModelEvent, ModelName, ModelReply, ReplySink, StopReason, Usage,
};
use nexus_pipeline::sessions::{Broker, BrokerLimits, Ended, Observer, Passage, Quiescence};
use nexus_protocol::bus::BusBody;
use nexus_store::agents::{Item, ItemMode, NewItem, NewSession, Overflow, SessionRecord};
use nexus_store::{Store, StoreError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{life, limits, message, workspace};

/// Lives that a run of the tests goes through; many more were tried by hand.
const SEEDS: u64 = 10;
const STEPS: usize = 24;
const SESSIONS: [&str; 2] = ["dm:owner", "chat:garden"];
const PATIENCE: Duration = Duration::from_secs(20);

/// A small generator, so that a seed is all it takes to see a failure again.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Answers by what it is told. A person's `plain N` is answered, `work N` sends a worker that edits
/// the file of that number, `deep N` one that sends another, `bad N` one that fails with a worker out;
/// `nudge N` interrupts the newest worker with words, `stop N` cancels it in the same breath.
#[derive(Debug)]
struct Player {
    dice: Mutex<Dice>,
}

fn number(text: &str, word: &str) -> Option<String> {
    let after = text.split(word).nth(1)?;
    Some(after.chars().take_while(char::is_ascii_digit).collect())
}

/// A tool and its arguments.
type Call = (&'static str, Value);

fn send(task: &str) -> Call {
    ("agent_send", json!({"op": "dispatch", "text": task}))
}

fn edit(number: &str) -> Call {
    ("edit", json!({"path": format!("home/{number}.txt"), "old": "end", "new": "+end"}))
}

/// What is said and called next, or why nothing is.
fn next_step(newest: &str, worker: Option<&str>) -> Result<(String, Vec<Call>), String> {
    let said = |text: &str| Ok((text.to_owned(), Vec::new()));
    if newest.contains("kind: task") {
        if let Some(number) = number(newest, "deep ") {
            return Ok((String::new(), vec![send(&format!("work {number}"))]));
        }
        if let Some(number) = number(newest, "bad ") {
            return Ok((String::new(), vec![send(&format!("work {number}")), ("fail", json!({}))]));
        }
        let number = number(newest, "work ").unwrap_or_default();
        return Ok((String::new(), vec![edit(&number)]));
    }
    if newest.contains("there is no tool \"fail\"") {
        return Err("told to fail".to_owned());
    }
    if newest.contains("kind: message") {
        let mut others = Vec::new();
        if let Some(worker) = worker.filter(|_| newest.contains("nudge ") || newest.contains("stop ")) {
            let words =
                json!({"op": "message", "target": worker, "text": "hurry", "deliveryMode": "interrupt"});
            others.push(("agent_send", words));
            if newest.contains("stop ") {
                others.push(("agent_send", json!({"op": "cancel", "target": worker})));
            }
        }
        let calls = ["work ", "deep ", "bad "]
            .iter()
            .flat_map(|word| newest.split(word).skip(1).map(move |rest| (word, rest)))
            .map(|(word, rest)| {
                let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
                send(&format!("{word}{number}"))
            })
            .chain(others)
            .collect::<Vec<_>>();
        let answers: Vec<String> = newest
            .split("plain ")
            .skip(1)
            .map(|rest| format!("[{}]", rest.chars().take_while(char::is_ascii_digit).collect::<String>()))
            .collect();
        let text = if answers.is_empty() && !calls.is_empty() { String::new() } else { answers.join(" ") };
        return Ok((text, calls));
    }
    if newest.contains("kind: worker_result") {
        return said("There is news.");
    }
    // Results of calls: a worker reports, a manager that has sent workers off says nothing more.
    said(if newest.contains("dispatch_id") { "" } else { "done" })
}

#[async_trait]
impl Model for Player {
    fn name(&self) -> ModelName {
        ModelName { provider: "test".into(), model: "player".into() }
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        check_conversation(conversation);
        let pause = self.dice.lock().unwrap().roll(6);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(pause)) => {}
            () = cancel.cancelled() => return Err(ModelError::Cancelled),
        }
        // Only what follows the last thing the model itself said.
        let newest: Vec<String> = conversation
            .messages
            .last()
            .into_iter()
            .flat_map(|message| &message.content)
            .map(|part| match part {
                Content::Text { text } | Content::ToolResult { text, .. } => text.clone(),
                Content::Thinking { .. } | Content::ToolUse { .. } => String::new(),
            })
            .collect();
        let all = format!("{:?}", conversation.messages);
        let label = all.rsplit_once("worker:").and_then(|(_, rest)| rest.get(..26));
        let worker = label.map(|label| format!("worker:{label}"));
        let (text, calls) = next_step(&newest.join("\n"), worker.as_deref())
            .map_err(|reason| ModelError::Rejected { provider: "test".into(), reason })?;
        sink(ModelEvent::TextDelta(text.clone()));
        let mut content = vec![Content::Text { text }];
        content.extend(calls.into_iter().map(|(name, input)| Content::ToolUse {
            id: new_ulid(),
            name: name.to_owned(),
            input,
        }));
        Ok(ModelReply { content, stop: StopReason::EndTurn, usage: Usage::default(), model: None })
    }
}

/// What every provider insists on: speakers alternate, and every call has its result.
fn check_conversation(conversation: &Conversation) {
    let messages = &conversation.messages;
    assert_eq!(messages.first().map(|message| message.role), Some(nexus_llm::Role::User));
    for pair in messages.windows(2) {
        assert_ne!(pair[0].role, pair[1].role, "two messages of one speaker in a row");
        let calls = |wanted: fn(&Content) -> Option<&String>, message: &nexus_llm::Message| {
            message.content.iter().filter_map(wanted).cloned().collect::<BTreeSet<String>>()
        };
        let asked = calls(
            |part| match part {
                Content::ToolUse { id, .. } => Some(id),
                _ => None,
            },
            &pair[0],
        );
        let given = calls(
            |part| match part {
                Content::ToolResult { tool_use_id, .. } => Some(tool_use_id),
                _ => None,
            },
            &pair[1],
        );
        assert_eq!(asked, given, "calls and results do not match");
    }
    for message in messages {
        assert!(!message.content.is_empty());
        for part in &message.content {
            assert!(!matches!(part, Content::Text { text } if text.trim().is_empty()), "an empty text");
        }
    }
}

/// Stands for `events.db` and `runtime.db`: what they were told outlives every life, at once.
#[derive(Default)]
struct Files {
    closed: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Observer for Files {
    fn publish(&self, _root: &RequestId, _body: BusBody) {}
    fn taken(&self, _item: &Item, _session: &SessionRecord) {}
    fn passed(&self, _passage: &Passage<'_>) {}

    async fn project(&self, ended: &Ended<'_>) -> Result<(), StoreError> {
        self.closed.lock().unwrap().insert(ended.item.new.id.to_string());
        Ok(())
    }
}

/// One story: several lives over the same files.
struct Story {
    root: std::path::PathBuf,
    _folder: tempfile::TempDir,
    files: Arc<Files>,
    dice: Dice,
    acknowledged: Vec<(NewSession, NewItem)>,
    limits: BrokerLimits,
}

struct Life {
    /// Length of the log when this life began; all of it is safe.
    log: u64,
    tokio: tokio::runtime::Runtime,
    store: Store,
    broker: Broker,
}

impl Story {
    fn new(seed: u64) -> Self {
        let (folder, root) = workspace();
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let overflow = match dice.roll(3) {
            0 => Overflow::Summarize,
            1 => Overflow::DropOldest,
            _ => Overflow::RejectNew,
        };
        let limits = BrokerLimits {
            queue_cap: 2 + usize::try_from(dice.roll(4)).unwrap(),
            overflow,
            debounce: Duration::from_millis(dice.roll(20)),
            concurrent_workers: 1 + usize::try_from(dice.roll(3)).unwrap(),
            ..limits()
        };
        Self { root, _folder: folder, files: Arc::default(), dice, acknowledged: Vec::new(), limits }
    }

    /// Begins a life the way a start does: settle, readmit what the inbox still promises, resume.
    fn begin(&mut self) -> Life {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let log = std::fs::metadata(self.root.join("state/data/agents.db-wal")).map_or(0, |log| log.len());
        let player = Arc::new(Player { dice: Mutex::new(Dice(self.dice.roll(u64::MAX) | 1)) });
        let (store, broker) = {
            let _inside = tokio.enter();
            life(&self.root, player, Arc::clone(&self.files) as Arc<dyn Observer>, self.limits)
        };
        tokio.block_on(async {
            broker.settle().await.unwrap();
            for (session, item) in &self.acknowledged {
                let open = !self.files.closed.lock().unwrap().contains(item.id.as_str());
                if open && broker.tell_again(&item.request_id).await.unwrap().is_none() {
                    broker.admit(session.clone(), item.clone()).await.unwrap();
                }
            }
            broker.resume().await.unwrap();
        });
        Life { log, tokio, store, broker }
    }

    fn say(&mut self, life: &Life) {
        let number = self.acknowledged.len();
        let words = ["plain", "plain", "work", "deep", "bad", "nudge", "stop"];
        let word = words[usize::try_from(self.dice.roll(7)).unwrap()];
        let mode = [ItemMode::Interrupt, ItemMode::Followup, ItemMode::Collect]
            [usize::try_from(self.dice.roll(3)).unwrap()];
        let session = SESSIONS[usize::try_from(self.dice.roll(2)).unwrap()];
        std::fs::File::create(self.root.join(format!("home/{number}.txt")))
            .and_then(|mut file| std::io::Write::write_all(&mut file, b"end"))
            .unwrap();
        let (session, item) = message(session, &format!("{word} {number}."), mode);
        self.acknowledged.push((session.clone(), item.clone()));
        // Sometimes the daemon ends between the acknowledgement and the queue.
        if self.dice.roll(8) > 0 {
            life.tokio.block_on(life.broker.admit(session, item)).unwrap();
        }
    }

    fn end(&mut self, life: Life) {
        match self.dice.roll(3) {
            // A stop without patience.
            0 => {
                life.tokio.block_on(life.broker.drain(Duration::ZERO));
                drop(life.broker);
                life.tokio.shutdown_timeout(PATIENCE);
                life.store.close_blocking();
            }
            // A kill: every task ends where it waits.
            1 => {
                drop(life.broker);
                life.tokio.shutdown_timeout(PATIENCE);
                life.store.close_blocking();
            }
            // A loss of power: what was not synced is gone.
            _ => {
                drop(life.broker);
                life.tokio.shutdown_timeout(PATIENCE);
                lose_power(&self.root, &life.store, life.log);
            }
        }
    }

    fn judge(&mut self) {
        let life = self.begin();
        let agents = life.store.agents().clone();
        life.tokio.block_on(async {
            let mut lines = BTreeMap::new();
            for (_, item) in &self.acknowledged {
                let request = &item.request_id;
                let rest = life.broker.wait_quiescent(request, PATIENCE).await.unwrap();
                assert_eq!(rest, Quiescence::Reached, "{:?} is stuck or gone", item.content);
                let replies = agents.replies_of(request).await.unwrap();
                assert!(!replies.is_empty(), "{:?} was acknowledged and never answered", item.content);
                lines.extend(replies.into_iter().map(|line| (line.id.clone(), line)));
            }
            life.broker.drain(PATIENCE).await;
            agents.flush().await.unwrap();
            assert!(agents.unprojected_items(10).await.unwrap().is_empty(), "an end was not told");
            assert!(agents.undelivered(10).await.unwrap().is_empty(), "a line was not said");
            for row in agents.sessions(10_000).await.unwrap() {
                let label = &row.session.label;
                assert!(row.queued == 0 && !row.running, "{label} still has work");
                let open = agents.outstanding_workers(label).await.unwrap();
                assert_eq!(open, 0, "{label} waits for workers that will never report");
                assert!(row.session.cancel_reason.is_none());
            }
            for number in 0..self.acknowledged.len() {
                let said = lines.values().filter(|line| line.text.contains(&format!("[{number}]"))).count();
                assert!(said <= 1, "plain {number} was answered {said} times");
                let text = std::fs::read_to_string(self.root.join(format!("home/{number}.txt"))).unwrap();
                assert!(text.matches('+').count() <= 1, "the file of {number} was edited twice");
            }
        });
        life.store.close_blocking();
    }
}

/// Takes `agents.db` back to its last synced commit, as a loss of power may.
fn lose_power(root: &Path, store: &Store, before: u64) {
    const PAGE: u64 = 4096;
    let data = root.join("state/data");
    let figures =
        store.health().into_iter().find(|health| health.name.to_string() == "agents").unwrap().figures;
    let keep = |name: &str| std::fs::read(data.join(name)).unwrap_or_default();
    let (file, mut log) = (keep("agents.db"), keep("agents.db-wal"));
    assert_eq!(figures.checkpoints, 0, "a checkpoint would make the length of the log meaningless");
    let synced =
        before.max(if figures.synced_frames == 0 { 0 } else { 32 + figures.synced_frames * (PAGE + 24) });
    log.truncate(usize::try_from(synced).unwrap());
    store.close_blocking();
    let put = |name: &str, bytes: &[u8]| {
        std::fs::File::create(data.join(name))
            .and_then(|mut file| std::io::Write::write_all(&mut file, bytes))
            .unwrap();
    };
    put("agents.db", &file);
    put("agents.db-wal", &log);
    let _ = std::fs::remove_file(data.join("agents.db-shm"));
}

fn tell(seed: u64) {
    let mut story = Story::new(seed);
    let mut life = story.begin();
    for _ in 0..STEPS {
        match story.dice.roll(10) {
            0..=4 => story.say(&life),
            5 => {
                let label = SessionLabel::new(SESSIONS[usize::try_from(story.dice.roll(2)).unwrap()]);
                life.broker.abort(&label);
            }
            6 => {
                let label = SessionLabel::new(SESSIONS[usize::try_from(story.dice.roll(2)).unwrap()]);
                life.tokio.block_on(life.broker.cancel_workers(&label, "enough")).unwrap();
            }
            7 => {
                let pause = Duration::from_millis(story.dice.roll(30));
                life.tokio.block_on(async { tokio::time::sleep(pause).await });
            }
            _ => {
                story.end(life);
                life = story.begin();
            }
        }
    }
    story.end(life);
    story.judge();
}

#[test]
fn nothing_is_lost_doubled_or_stuck_whatever_happens() {
    let seeds = match std::env::var("NEXUS_LIVES_SEEDS") {
        Ok(range) => {
            let (first, last) = range.split_once('-').unwrap();
            first.parse().unwrap()..last.parse().unwrap()
        }
        Err(_) => 0..SEEDS,
    };
    for seed in seeds {
        if std::panic::catch_unwind(|| tell(seed)).is_err() {
            panic!("seed {seed}: see above");
        }
    }
}
