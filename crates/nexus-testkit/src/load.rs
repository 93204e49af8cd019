//! Many sockets at once, while the configuration is read again, the owner's token replaced, and a backup
//! taken, restored and started: every acknowledged message is answered once, and the copy says nothing
//! by itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nexus_base::id::SessionLabel;
use nexus_client::{Client, ClientError, Socket};
use nexus_protocol::chat::{ChatAccepted, ChatHistory, ChatSend, ChatWaited, Speaker};
use nexus_protocol::control::{Approvals, ApprovalsOf, WaitFor};
use nexus_protocol::methods::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{Daemon, DaemonOptions, Workspace, witness};

/// How long a whole load may take.
const PATIENCE: Duration = Duration::from_secs(900);

/// What a load found; everything that must hold was asserted on the way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Messages that were acknowledged and answered.
    pub messages: usize,
    /// From the first message to the last answer.
    pub took: Duration,
    /// Time from sending to everything being answered: the middle one and the one only 5 % exceed.
    pub p50: Duration,
    /// See `p50`.
    pub p95: Duration,
    /// Most memory the daemon had, in kilobytes.
    pub peak_kilobytes: u64,
    /// Messages in the restored copy that wait for consent.
    pub held_in_copy: usize,
    /// Pieces of work that the restored copy ended.
    pub ended_in_copy: usize,
    /// Sockets that had to connect again.
    pub reconnects: usize,
}

#[derive(Debug)]
struct Shared {
    port: u16,
    token: Mutex<String>,
    acknowledged: AtomicUsize,
    reconnects: AtomicUsize,
    deadline: tokio::time::Instant,
}

/// Runs a load of so many sockets with so many messages each against a daemon of its own.
///
/// # Panics
/// Something was lost, doubled or out of order.
pub fn run(binary: &Path, clients: usize, messages: usize) -> Report {
    crate::allow_many_files();
    let workspace = Workspace::initialized(binary);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        // Messages after the first conversation are plain turns; that is what is loaded here.
        witness::onboard(&daemon.client()).await.unwrap();
    });
    let (peak, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let watching = watch_memory(daemon.pid(), Arc::clone(&peak), Arc::clone(&is_over));
    let shared = Arc::new(Shared {
        port: daemon.port(),
        token: Mutex::new(daemon.token().to_owned()),
        acknowledged: AtomicUsize::new(0),
        reconnects: AtomicUsize::new(0),
        deadline: tokio::time::Instant::now() + PATIENCE,
    });
    let started = Instant::now();
    let (accepted, copy) = runtime.block_on(async {
        let tasks: Vec<_> =
            (0..clients).map(|number| tokio::spawn(client(Arc::clone(&shared), number, messages))).collect();
        let copy = disturb(&workspace, &daemon, &shared, clients * messages).await;
        let mut accepted = Vec::new();
        for task in tasks {
            accepted.extend(task.await.unwrap());
        }
        (accepted, copy)
    });
    let took = started.elapsed();
    is_over.store(true, Ordering::Release);
    watching.join().unwrap();
    let all: BTreeSet<&String> = accepted.iter().map(|(request, _)| request).collect();
    assert_eq!(all.len(), clients * messages, "every message is its own request");
    let owner = Client::new(daemon.port(), workspace.token().into());
    runtime.block_on(async {
        for number in 0..clients {
            let history = history(&owner, number).await.expect("each client has a session");
            assert_eq!(said(&history), expected(number, messages), "client {number}");
            assert!(history.lines.len() >= 2 * messages, "{} lines", history.lines.len());
        }
    });
    let (held_in_copy, ended_in_copy) = judge_copy(&runtime, &copy, clients, messages);
    let mut times: Vec<Duration> = accepted.iter().map(|(_, time)| *time).collect();
    times.sort();
    Report {
        messages: all.len(),
        took,
        p50: times[times.len() / 2],
        p95: times[times.len() * 95 / 100],
        peak_kilobytes: peak.load(Ordering::Acquire),
        held_in_copy,
        ended_in_copy,
        reconnects: shared.reconnects.load(Ordering::Acquire),
    }
}

/// A restored copy of the workspace and what its restore said.
struct Copy {
    workspace: Workspace,
    report: Value,
}

/// Reads the configuration again, replaces the token, backs up and restores, all while clients talk.
async fn disturb(workspace: &Workspace, daemon: &Daemon, shared: &Arc<Shared>, total: usize) -> Copy {
    while shared.acknowledged.load(Ordering::Acquire) < total / 10 {
        assert!(tokio::time::Instant::now() < shared.deadline, "nothing is acknowledged\n{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    daemon.signal(Signal::HUP);
    let mut held = shared.token.lock().await;
    let old = Client::new(shared.port, held.clone().into());
    let _: Value = old.call(Method::ConfigRotateToken, &json!({})).await.unwrap();
    *held = workspace.token();
    drop(held);
    assert!(old.requests(None).await.is_err(), "the old token is void at once, under load too");
    daemon.signal(Signal::HUP);
    let before = shared.acknowledged.load(Ordering::Acquire);
    assert!(before < total, "the load was over before the backup; make it larger");
    let copy = tokio::task::block_in_place(|| {
        let backup = workspace.home().join("backup");
        workspace.nexus(&["backup", backup.to_str().unwrap()]).ok();
        let copy = Workspace::new(workspace.binary());
        let report = copy.nexus(&["restore", backup.to_str().unwrap(), "--trust", "--json"]).json();
        Copy { workspace: copy, report }
    });
    daemon.signal(Signal::HUP);
    copy
}

/// One client: its messages in its own session, each with a key, connecting again with whatever token
/// holds now when it loses its socket. Returns the requests that were acknowledged and answered.
async fn client(shared: Arc<Shared>, number: usize, messages: usize) -> Vec<(String, Duration)> {
    let mut accepted = Vec::new();
    let mut socket = None;
    for message in 0..messages {
        let send = ChatSend {
            message: words(number, message),
            session: Some(label(number)),
            idempotency_key: Some(format!("load-{number}-{message}")),
            project: None,
            queue_mode: None,
            model: None,
        };
        let started = Instant::now();
        loop {
            assert!(tokio::time::Instant::now() < shared.deadline, "client {number} is not answered");
            let open = match socket.as_mut() {
                Some(open) => open,
                None => {
                    let secret = shared.token.lock().await.clone().into();
                    match Socket::connect(shared.port, &secret, "load", None).await {
                        Ok(open) => socket.insert(open),
                        // A token that was just replaced; the next one is being written down.
                        Err(_) => {
                            shared.reconnects.fetch_add(1, Ordering::AcqRel);
                            tokio::time::sleep(Duration::from_millis(20)).await;
                            continue;
                        }
                    }
                }
            };
            match say(open, &send, &shared).await {
                Ok(answer) => {
                    accepted.push((answer.request_id.to_string(), started.elapsed()));
                    break;
                }
                Err(ClientError::Disconnected { .. }) => socket = None,
                Err(error) => panic!("client {number}: {error}"),
            }
        }
    }
    accepted
}

async fn say(open: &mut Socket, send: &ChatSend, shared: &Shared) -> Result<ChatAccepted, ClientError> {
    let answer: ChatAccepted = open.call(Method::ChatSend, send).await?;
    shared.acknowledged.fetch_add(1, Ordering::AcqRel);
    let wait = WaitFor { request: answer.request_id.to_string(), timeout_ms: Some(60_000) };
    loop {
        let waited: ChatWaited = open.call(Method::ChatWait, &wait).await?;
        if waited.quiescent {
            assert!(!waited.replies.is_empty(), "no answer to {send:?}");
            return Ok(answer);
        }
        assert!(tokio::time::Instant::now() < shared.deadline, "{send:?} is not answered");
    }
}

/// Starts the copy: what it knows is a beginning of every conversation, each message in it answered,
/// ended with a note, or waiting for consent; and a message of its own is answered.
fn judge_copy(
    runtime: &tokio::runtime::Runtime,
    copy: &Copy,
    clients: usize,
    messages: usize,
) -> (usize, usize) {
    let count = |name: &str| usize::try_from(copy.report[name].as_u64().unwrap_or(u64::MAX)).unwrap();
    let (held, ended) = (count("heldMessages"), count("endedWork"));
    let daemon = Daemon::start(&copy.workspace, &DaemonOptions::default());
    let client = daemon.client();
    runtime.block_on(async {
        let of = ApprovalsOf { all: false, limit: Some(1_000) };
        let open: Approvals = client.call(Method::ApprovalsList, &of).await.unwrap();
        assert_eq!(open.approvals.len(), held, "each held message has its question: {}", copy.report);
        for number in 0..clients {
            // One whose first message is held, or came after the backup, has no session yet.
            let Some(history) = history(&client, number).await else { continue };
            let said = said(&history);
            assert_eq!(said, expected(number, messages)[..said.len()], "client {number} in the copy");
            for line in history.lines.iter().filter(|line| line.speaker == Speaker::User) {
                let answered = history
                    .lines
                    .iter()
                    .any(|other| other.request_id == line.request_id && other.speaker != Speaker::User);
                assert!(answered, "{line:?} has neither answer nor note in the copy: {history:?}");
            }
        }
    });
    let mine = copy.workspace.nexus(&["chat", "-m", "Hello yourself"]).ok();
    assert!(!mine.stdout.trim().is_empty(), "the copy does not talk");
    daemon.stop();
    (held, ended)
}

async fn history(client: &Client, number: usize) -> Option<ChatHistory> {
    match client.history(Some(&label(number)), Some(1_000)).await {
        Ok(history) => Some(history),
        Err(error) => {
            assert!(error.to_string().contains("session"), "{error}");
            None
        }
    }
}

fn said(history: &ChatHistory) -> Vec<String> {
    let lines = history.lines.iter().filter(|line| line.speaker == Speaker::User);
    lines.map(|line| line.text.clone()).collect()
}

fn expected(number: usize, messages: usize) -> Vec<String> {
    (0..messages).map(|message| words(number, message)).collect()
}

fn words(number: usize, message: usize) -> String {
    format!("hello {message} from {number}")
}

fn label(number: usize) -> SessionLabel {
    SessionLabel::new(format!("load:client-{number}"))
}

fn watch_memory(pid: u32, peak: Arc<AtomicU64>, is_over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        while !is_over.load(Ordering::Acquire) {
            if let Some(resident) = resident_kilobytes(pid) {
                peak.fetch_max(resident, Ordering::AcqRel);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    })
}

fn resident_kilobytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
