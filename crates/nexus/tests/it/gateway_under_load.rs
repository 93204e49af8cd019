//! Many sockets at once: every accepted message is answered, also while the configuration is read
//! again and the token is replaced under them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nexus_protocol::chat::{ChatAccepted, ChatSend, ChatWaited};
use nexus_protocol::control::WaitFor;
use nexus_protocol::methods::Method;
use nexus_testkit::client::{Client, ClientError, Socket};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::Mutex;

fn running() -> (Workspace, Daemon) {
    nexus_testkit::allow_many_files();
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    (workspace, daemon)
}

fn resident_kilobytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

/// One client: its messages in its own session, each with a key, connecting again with whatever
/// token holds now when it loses its socket. Returns the requests that were acknowledged.
async fn client(port: u16, token: Arc<Mutex<String>>, number: usize, messages: usize) -> Vec<String> {
    let mut accepted = Vec::new();
    let mut socket = None;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(600);
    for message in 0..messages {
        let send = ChatSend {
            message: format!("hello {message} from {number}"),
            session: Some(nexus_base::id::SessionLabel::new(format!("load:client-{number}"))),
            idempotency_key: Some(format!("load-{number}-{message}")),
            project: None,
            queue_mode: None,
        };
        loop {
            if socket.is_none() {
                let secret = token.lock().await.clone().into();
                match Socket::connect(port, &secret, "load", None).await {
                    Ok(open) => socket = Some(open),
                    // A token that was just replaced; the next one is being written down.
                    Err(error) => {
                        assert!(tokio::time::Instant::now() < deadline, "client {number}: {error}");
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                }
            }
            let Some(open) = socket.as_mut() else { continue };
            let outcome: Result<ChatAccepted, ClientError> = async {
                let answer: ChatAccepted = open.call(Method::ChatSend, &send).await?;
                let wait = WaitFor { request: answer.request_id.to_string(), timeout_ms: Some(60_000) };
                loop {
                    let waited: ChatWaited = open.call(Method::ChatWait, &wait).await?;
                    if waited.quiescent {
                        assert!(!waited.replies.is_empty(), "no answer to {send:?}");
                        return Ok(answer);
                    }
                    assert!(tokio::time::Instant::now() < deadline, "{send:?} is not answered");
                }
            }
            .await;
            match outcome {
                Ok(answer) => {
                    accepted.push(answer.request_id.to_string());
                    break;
                }
                Err(ClientError::Disconnected { .. }) => socket = None,
                Err(error) => panic!("client {number}: {error}"),
            }
        }
    }
    accepted
}

#[expect(clippy::print_stdout, reason = "the figure is what somebody who runs it by hand wants")]
fn load(clients: usize, messages: usize, disturb: bool) {
    let (workspace, daemon) = running();
    let (port, pid) = (daemon.port(), daemon.pid());
    let token = Arc::new(Mutex::new(daemon.token().to_owned()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let accepted: Vec<Vec<String>> = runtime.block_on(async {
        // Messages after the first conversation are plain turns; that is what is loaded here.
        nexus_testkit::witness::onboard(&daemon.client()).await.unwrap();
        let tasks: Vec<_> = (0..clients)
            .map(|number| tokio::spawn(client(port, Arc::clone(&token), number, messages)))
            .collect();
        if disturb {
            daemon.signal(Signal::HUP);
            let mut held = token.lock().await;
            let old = Client::new(port, held.clone().into());
            let _: Value = old.call(Method::ConfigRotateToken, &json!({})).await.unwrap();
            *held = workspace.token();
            drop(held);
            assert!(old.requests(None).await.is_err(), "the old token is void at once, under load too");
            daemon.signal(Signal::HUP);
        }
        let mut accepted = Vec::new();
        for task in tasks {
            accepted.push(task.await.unwrap());
        }
        accepted
    });
    let all: BTreeSet<&String> = accepted.iter().flatten().collect();
    assert_eq!(all.len(), clients * messages, "every message is its own request");
    let resident = resident_kilobytes(pid);
    println!("{clients} clients, {messages} messages each: {} MB resident", resident / 1024);
    let owner = Client::new(port, workspace.token().into());
    runtime.block_on(async {
        // Each session has each message once and an answer to each.
        for number in [0, clients - 1] {
            let session = nexus_base::id::SessionLabel::new(format!("load:client-{number}"));
            let history = owner.history(Some(&session), Some(1000)).await.unwrap();
            let said: Vec<&str> = history
                .lines
                .iter()
                .filter(|line| line.speaker == nexus_protocol::chat::Speaker::User)
                .map(|line| line.text.as_str())
                .collect();
            let expected: Vec<String> =
                (0..messages).map(|message| format!("hello {message} from {number}")).collect();
            assert_eq!(said, expected);
            assert!(history.lines.len() >= 2 * messages, "{} lines", history.lines.len());
        }
    });
    assert!(resident < 200 * 1024, "{resident} kB");
}

#[test]
fn twenty_sockets_lose_nothing() {
    load(20, 5, false);
}

#[test]
fn reload_and_rotation_under_load_lose_nothing() {
    load(20, 5, true);
}

#[test]
#[ignore = "two hundred sockets, fifty messages each; takes minutes in a debug build"]
fn two_hundred_sockets_lose_nothing() {
    load(200, 50, true);
}
