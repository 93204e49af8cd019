//! Bad input and faults around a turn: each has a clear, recorded end, and the next message is served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nexus_testkit::model::{Gate, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, http, until};
use serde_json::{Value, json};

fn workspace(server: &ModelServer, wire: Wire) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, wire);
    workspace.write("state/agents/pixel/IDENTITY.md", "---\nname: Pixel\n---\nPixel helps.\n");
    workspace.write("state/agents/pixel/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    workspace
}

fn send(daemon: &Daemon, body: &Value) -> String {
    let accepted = daemon.post("/api/chat", body).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

fn reply(daemon: &Daemon, request: &str) -> String {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().cloned().unwrap_or_default();
    replies.last().and_then(|line| line["text"].as_str()).unwrap_or_default().to_owned()
}

fn say(daemon: &Daemon, message: &str) -> String {
    reply(daemon, &send(daemon, &json!({ "message": message, "queueMode": "followup" })))
}

#[test]
fn wrong_messages_and_wrong_calls_are_told_and_nothing_stops() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        let workspace = workspace(&server, wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        // Messages that are none.
        for (message, status, hint) in [
            (json!({"message": "  "}), 400, "empty"),
            (json!({"message": "hi", "session": "no such form"}), 400, "session label"),
            (json!({"message": "hi", "session": "worker:01"}), 403, "run by the daemon"),
            (json!({"message": "x".repeat(300_000)}), 400, "the limit is"),
        ] {
            let answer = daemon.post("/api/chat", &message);
            assert_eq!(answer.status, status, "{message:.80}");
            assert!(answer.json().to_string().contains(hint), "{hint}: {}", answer.json());
        }
        let two_megabytes = json!({ "message": "x".repeat(2_000_000) });
        assert_eq!(daemon.post("/api/chat", &two_megabytes).status, 413);
        let unknown = daemon.get("/api/chat/history?session=chat:never-heard-of");
        assert_eq!(unknown.status, 404, "{}", unknown.json());
        assert!(server.asked().is_empty(), "none of them reached a model");

        // Arguments that do not parse, a tool that does not exist, arguments that are no object.
        server.script([
            Reply::default().raw_call("read", "{\"path\": \"AGENTS"),
            Reply::calls("teleport", &json!({"to": "Mars"})),
            Reply::calls("read", &json!(["AGENTS.md"])),
            Reply::text("I could not do that."),
        ]);
        assert_eq!(say(&daemon, "please read"), "I could not do that.");
        let asked = server.asked();
        let told: Vec<String> =
            asked.iter().flat_map(|asked| asked.results()).map(|(_, text)| text).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("JSON"), "{told:?}");
        assert!(told[1].contains("there is no tool \"teleport\""), "{told:?}");
        assert!(told[2].contains("JSON object"), "{told:?}");

        // A model that says nothing, and one that goes round in circles.
        server.script([Reply::nothing()]);
        assert!(say(&daemon, "say nothing").contains("without a reply"));
        let again = Reply::calls("read", &json!({"path": "AGENTS.md"}));
        server.script(vec![again; 5]);
        assert!(say(&daemon, "go round").contains("5 times with the same arguments"));
        server.script([Reply::text("Still here.")]);
        assert_eq!(say(&daemon, "are you there?"), "Still here.");
        daemon.stop();
    }
}

/// Opens the stream of events.
pub(crate) fn watch(workspace: &Workspace, daemon: &Daemon) -> TcpStream {
    let mut watching = TcpStream::connect(("127.0.0.1", daemon.port())).unwrap();
    let wanted = http::request("GET", daemon.port(), "/api/events/stream", Some(&workspace.token()), "");
    watching.write_all(&wanted).unwrap();
    watching
}

/// Reads until a piece of a reply was shown.
pub(crate) fn wait_for_token(watching: &mut TcpStream) {
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains("agent.streaming.token") {
        let count = watching.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
}

#[test]
fn an_abort_closes_the_providers_socket_at_once_and_a_client_that_leaves_stops_nothing() {
    let server = ModelServer::start();
    let workspace = workspace(&server, Wire::Anthropic);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let gate = Gate::new();

    // Aborted in the middle of a stream: within 100 ms the provider sees the end of it.
    server.script([Reply::text("a long story").pieces(4).hold_after(4, &gate)]);
    let body = json!({"message": "tell me a story", "session": "chat:story"});
    let mut watching = watch(&workspace, &daemon);
    let request = send(&daemon, &body);
    gate.wait_reached();
    // Sent is not yet read: only what the daemon has shown can be kept.
    wait_for_token(&mut watching);
    let started = Instant::now();
    let aborted = daemon.post("/api/chat/abort", &json!({"session": "chat:story"}));
    assert_eq!(aborted.status, 200);
    server.wait_for_hangup(0);
    let took = started.elapsed();
    assert!(took < Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 100 }), "{took:?}");
    // What had been said is kept.
    assert!(reply(&daemon, &request).starts_with("a lo"), "{}", daemon.log());
    let trace = until("the trace to end", Duration::from_secs(10), || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        (trace["status"] != "processing").then_some(trace)
    });
    assert_eq!(trace["status"], "interrupted", "{trace}");

    // A client that reads the stream and goes in the middle of it: the turn ends by itself.
    let gate = Gate::new();
    server.script([Reply::text("first and second").pieces(2).hold_after(3, &gate)]);
    let mut watching = watch(&workspace, &daemon);
    let request = send(&daemon, &json!({"message": "go on", "session": "chat:story"}));
    gate.wait_reached();
    wait_for_token(&mut watching);
    drop(watching);
    gate.open();
    assert_eq!(reply(&daemon, &request), "first and second");
    server.script([Reply::text("Here.")]);
    assert_eq!(say(&daemon, "and now?"), "Here.");
    daemon.stop();
}

/// Holds the write lock of `agents.db` from another process's point of view until it is let go.
struct Lock {
    release: std::sync::mpsc::Sender<()>,
    holder: Option<std::thread::JoinHandle<()>>,
}

impl Lock {
    fn take(data: &std::path::Path) -> Self {
        use nexus_base::id::{BootId, QueueItemId, RequestId, SessionLabel};
        use nexus_store::agents::{
            ItemFacts, ItemKind, ItemMode, NewItem, NewSession, Overflow, PermissionSnapshot, SessionSettings,
        };
        let store = nexus_store::Store::open(data, nexus_store::OpenMode::ReadWrite).unwrap();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (tell, entered) = std::sync::mpsc::channel::<()>();
        let holder = std::thread::spawn(move || {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (label, request) = (SessionLabel::new("chat:held"), RequestId::new("held"));
            let session = NewSession {
                label: label.clone(),
                persona: String::new(),
                role: nexus_base::conversation::Role::Manager,
                origin: "nexus",
                settings: SessionSettings::default(),
            };
            let item = NewItem {
                id: QueueItemId::new("held"),
                session: label.clone(),
                request_id: request.clone(),
                parent_request_id: None,
                root_request_id: request,
                source_event_id: None,
                kind: ItemKind::Message,
                mode: ItemMode::Followup,
                facts: ItemFacts::new::<String>([]),
                content: "held".into(),
                permissions: PermissionSnapshot::new(serde_json::json!({})),
            };
            let wait = std::sync::Mutex::new(wait);
            tokio.block_on(async {
                store.agents().admit(session, item, 20, Overflow::Summarize).await.unwrap();
                // The block of an item is rendered inside the transaction that takes it.
                let render = move |_: &nexus_store::agents::Item| {
                    tell.send(()).unwrap();
                    let _ = wait.lock().unwrap().recv();
                    String::new()
                };
                store.agents().claim(&label, &BootId::new("somebody-else"), render).await.unwrap();
                store.close().await;
            });
        });
        entered.recv_timeout(Duration::from_secs(10)).unwrap();
        Self { release, holder: Some(holder) }
    }

    fn let_go(mut self) {
        self.release.send(()).unwrap();
        self.holder.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_locked_database_only_delays_what_was_acknowledged() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("Here."));
    let workspace = workspace(&server, Wire::OpenAi);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(say(&daemon, "are you there?"), "Here.");
    let lock = Lock::take(&workspace.path("state/data"));
    // It is on disk and acknowledged, although its conversation cannot be written to.
    let request = send(&daemon, &json!({"message": "and now?", "queueMode": "followup"}));
    let trace = daemon.get(&format!("/api/requests/{request}")).json();
    assert_eq!(trace["status"], "processing", "{trace}");
    assert_eq!(daemon.get("/health").status, 200);
    assert_eq!(server.asked().len(), 1);
    lock.let_go();
    assert_eq!(reply(&daemon, &request), "Here.");
    daemon.stop();
}

/// A file system of its own on a folder; gone with this value.
struct SmallDisk<'a> {
    folder: &'a std::path::Path,
}

impl<'a> SmallDisk<'a> {
    /// None where nobody may mount anything.
    #[expect(clippy::disallowed_methods, reason = "a test starts what the program under test may not")]
    fn mount(folder: &'a std::path::Path, size: &str) -> Option<Self> {
        let options = format!("size={size},mode=0700");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self { folder })
    }

    /// Fills what is left and returns the file that takes it.
    fn fill(&self) -> std::path::PathBuf {
        let path = self.folder.join("filler");
        let mut file = std::fs::File::create(&path).unwrap();
        let block = vec![0_u8; 64 * 1024];
        while file.write_all(&block).is_ok() {}
        let _ = file.write_all(&block[..4096]);
        path
    }
}

impl Drop for SmallDisk<'_> {
    #[expect(clippy::disallowed_methods, reason = "a test starts what the program under test may not")]
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.folder).output();
    }
}

#[test]
fn a_full_disk_refuses_what_it_cannot_keep_and_serves_again_once_there_is_room() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("Here."));
    let workspace = workspace(&server, Wire::OpenAi);
    let (data, kept) = (workspace.path("state/data"), workspace.home().join("kept"));
    std::fs::rename(&data, &kept).unwrap();
    std::fs::create_dir(&data).unwrap();
    let Some(disk) = SmallDisk::mount(&data, "32m") else {
        eprintln!("skipped: nobody here may mount a small disk");
        return;
    };
    for entry in std::fs::read_dir(&kept).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, data.join(path.file_name().unwrap())).unwrap();
    }
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(say(&daemon, "are you there?"), "Here.");
    let filler = disk.fill();
    // Logs have some room of their own left at first; then nothing more is taken, and it is said why.
    let words = "x".repeat(20_000);
    let refused = until("a refusal", Duration::from_secs(30), || {
        let answer = daemon.post("/api/chat", &json!({ "message": words, "session": "chat:other" }));
        (answer.status != 200 && answer.status != 202).then_some(answer)
    });
    assert!(refused.status >= 500, "{}", refused.status);
    assert!(refused.json().to_string().contains("no space left"), "{}", refused.json());
    std::fs::remove_file(filler).unwrap();
    assert_eq!(say(&daemon, "and now?"), "Here.");
    daemon.stop();
    drop(disk);
}
