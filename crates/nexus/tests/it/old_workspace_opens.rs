//! A workspace that an older build left behind in the middle of everything is opened, resumed and finished by this
//! one. How it was made and what it holds: `tests/fixtures/workspace-0.1.0-6a53301/README.md`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint::CLOCK_VARIABLE;
use nexus_base::file::{Durability, replace};
use nexus_testkit::model::{ModelServer, Wire};
use nexus_testkit::scenario::{
    ASKED_FOR, ASKING, BEHIND, HALF, PROJECT, QUEUED, RUNNING, TAKEN, TOKEN, UNFINISHED, Unfinished,
};
use nexus_testkit::script::{self, results_of};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(20);
/// Questions about commands still stand then.
const SOON: Duration = Duration::from_secs(2);
/// Folders with nothing in them, which git does not keep.
const EMPTY: [&str; 3] = ["skills", "state/artifacts", "state/logs"];
const MUCH_LATER: Duration = Duration::from_secs(400 * 24 * 3600);

/// Returns the folder of the fixture.
pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/workspace-0.1.0-6a53301")
}

/// Copies a folder with the rights a workspace has, which git does not keep.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o700)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if source.is_dir() {
            copy(&source, &target);
            continue;
        }
        let is_program = fs::metadata(&source).unwrap().permissions().mode() & 0o100 != 0;
        fs::copy(&source, &target).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(if is_program { 0o700 } else { 0o600 }))
            .unwrap();
    }
}

/// Puts the old workspace into a new place, where its owner trusts it and its model is another one.
fn moved_in() -> (Workspace, ModelServer) {
    let server = script::server();
    let mut workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    copy(&fixture().join("workspace"), workspace.root());
    for folder in EMPTY {
        fs::create_dir_all(workspace.path(folder)).unwrap();
        fs::set_permissions(workspace.path(folder), fs::Permissions::from_mode(0o700)).unwrap();
    }
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.nexus(&["trust"]).ok();
    (workspace, server)
}

/// Sets the clock to so long after the death.
fn long_after(workspace: &mut Workspace, passed: Duration) {
    let made_at: i64 = fs::read_to_string(fixture().join("made-at")).unwrap().trim().parse().unwrap();
    let shift = made_at + i64::try_from(passed.as_millis()).unwrap() - Timestamp::now().0;
    let file = workspace.home().join("clock-shift");
    replace(&file, shift.to_string().as_bytes(), 0o600, Durability::Crash).unwrap();
    workspace.set_variable(CLOCK_VARIABLE, file.to_string_lossy());
}

/// Says a message again as its sender would who got no answer; returns its request and replies at rest.
fn rest(daemon: &Daemon, said: &Unfinished) -> (String, Vec<String>) {
    let accepted = daemon.post("/api/chat", &said.body()).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned();
    (request.clone(), replies(daemon, &request))
}

fn replies(daemon: &Daemon, request: &str) -> Vec<String> {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let lines = waited["replies"].as_array().unwrap().iter();
    lines.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

/// Sends a worker off in a conversation and returns what its calls gave.
fn work(daemon: &Daemon, server: &ModelServer, session: &str, mark: &str, calls: &Value) -> Vec<String> {
    let body = json!({"message": format!("WORK {calls} {mark}"), "session": session});
    let accepted = daemon.post("/api/chat", &body).json();
    replies(daemon, accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")));
    results_of(server, mark)
}

fn json_of(workspace: &Workspace, words: &[&str]) -> Value {
    workspace.nexus(&[words, &["--json"]].concat()).json()
}

#[track_caller]
fn holds(text: &Value, parts: &[&str]) {
    let text = text.to_string();
    for part in parts {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

/// Nothing runs, waits or is stuck.
#[track_caller]
fn is_at_rest(workspace: &Workspace) {
    until("everything to be at rest", WITHIN, || {
        let sessions = json_of(workspace, &["sessions", "-n", "100"]);
        let at_rest = |session: &Value| session["running"] == false && session["queued"] == 0;
        sessions["sessions"].as_array().unwrap().iter().all(at_rest).then_some(())
    });
}

#[test]
fn what_an_older_build_left_half_done_is_resumed_and_finished() {
    let (mut workspace, server) = moved_in();
    long_after(&mut workspace, SOON);
    assert_eq!(workspace.token(), TOKEN);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());

    // Questions stand as they were put, and are answered.
    let open = json_of(&workspace, &["approvals", "list"]);
    let open = open["approvals"].as_array().unwrap();
    assert_eq!(open.len(), 2, "{open:?}");
    let exec = open.iter().find(|question| question["kind"] == "exec").unwrap();
    assert!(
        exec["summary"].as_str().unwrap().ends_with(&format!("with network access: {ASKED_FOR}")),
        "{exec}"
    );
    workspace.nexus(&["approvals", "deny", exec["id"].as_str().unwrap(), "--reason", "not today"]).ok();
    let access = open.iter().find(|question| question["kind"] == "access").unwrap();
    assert_eq!(access["summary"], "read the calendar");
    workspace.nexus(&["approvals", "approve", access["id"].as_str().unwrap()]).ok();
    assert_eq!(json_of(&workspace, &["approvals", "list"])["approvals"], json!([]));

    // Turns go on from the ledger: what was done is not done again, what was begun is told as unknown.
    let (request, said) = rest(&daemon, &HALF);
    assert_eq!(said, ["All 3 calls are made."]);
    let told = results_of(&server, HALF.key);
    assert!(told.len() == 3 && told[0].contains("Lisbon"), "{told:?}");
    // With the permissions that were written down for it.
    assert!(told[1].contains("The spare key is with Grace"), "{told:?}");
    let trace = json_of(&workspace, &["trace", &request]);
    let calls = trace["toolCalls"].as_array().unwrap_or_else(|| panic!("{trace}"));
    let tools: Vec<&str> = calls.iter().filter_map(|call| call["tool"].as_str()).collect();
    assert_eq!(tools, ["recall", "recall", "remember"], "{trace}");
    assert_eq!(rest(&daemon, &BEHIND).1, ["All 1 calls are made."]);

    let two = ["Somebody is at it.", "It is done."];
    assert_eq!(rest(&daemon, &RUNNING).1, two);
    let told = results_of(&server, RUNNING.key);
    assert!(told[0].starts_with("made home/begun.md"), "{told:?}");
    assert!(told[1].contains("interrupted, outcome unknown"), "{told:?}");
    assert_eq!(workspace.file("home/ran.txt"), "once\n");
    assert_eq!(rest(&daemon, &ASKING).1, two);
    let told = results_of(&server, ASKING.key);
    assert!(told[1].contains("interrupted, outcome unknown"), "{told:?}");
    assert!(!workspace.path("home/consent.txt").exists(), "a command ran without consent");
    assert_eq!(rest(&daemon, &QUEUED).1, two);
    assert_eq!(workspace.file("home/queued.txt"), "queued\n");
    assert_eq!(rest(&daemon, &TAKEN).1, ["All 1 calls are made."]);

    is_tainted_as_before(&daemon, &server);
    is_known_as_before(&workspace);
    is_planned_as_before(&workspace);
    goes_on_in_the_project(&workspace, &daemon, &server);
    is_arranged_as_before(&workspace);
    is_told_as_before(&workspace, &daemon);
    let examined = json_of(&workspace, &["doctor"]);
    let found = examined["checks"].as_array().unwrap_or_else(|| panic!("{examined}"));
    let broken: Vec<&Value> = found.iter().filter(|check| check["condition"] == "broken").collect();
    assert!(broken.is_empty(), "{broken:?}");

    // A second start finds nothing to do.
    is_at_rest(&workspace);
    daemon.stop();
    let asked = server.asked().len();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for said in &UNFINISHED {
        rest(&daemon, said);
    }
    is_at_rest(&workspace);
    assert_eq!(server.asked().len(), asked);
    daemon.stop();
}

/// The conversation that read a page has no network, one that did not has, and the file is still marked.
fn is_tainted_as_before(daemon: &Daemon, server: &ModelServer) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect =
        json!(["bash", {"command": format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")}]);
    let clean = work(daemon, server, "chat:clean", "mark-clean", &json!([connect]));
    assert!(clean[0].contains("connected"), "{clean:?}");
    let tainted = work(daemon, server, "chat:tainted", "mark-again", &json!([connect]));
    assert!(tainted[0].contains("[sandbox] The network is off"), "{tainted:?}");
    let reading = json!([["read", {"path": "report.md"}], connect]);
    let marked = work(daemon, server, "chat:reading", "mark-reading", &reading);
    assert!(marked[1].contains("[sandbox] The network is off"), "{marked:?}");
}

fn is_known_as_before(workspace: &Workspace) {
    holds(
        &json_of(workspace, &["memory", "recall", "Where does Grace live?"]),
        &["sister Grace lives in Lisbon"],
    );
    holds(&json_of(workspace, &["memory", "recall", "spare key"]), &["The spare key is with Grace"]);
    holds(&json_of(workspace, &["memory", "entities"]), &["Grace", "Tim", "Ada"]);
    holds(&json_of(workspace, &["identity"]), &["Tim", "Ada"]);
    let listed = json_of(workspace, &["credential", "list"]);
    holds(&listed, &["github", "work", "GITHUB_TOKEN", "openai", "/run/keys.json", "env:ANTHROPIC_API_KEY"]);
}

fn is_planned_as_before(workspace: &Workspace) {
    let folder = workspace.path(PROJECT);
    let project = |words: &[&str]| {
        json_of(workspace, &[&["project", "--project", folder.to_str().unwrap()], words].concat())
    };
    holds(&project(&["plan"]), &["Sell bread", "Rye", "To whom?"]);
    holds(&project(&["tasks"]), &["Bake", "Deliver", "completed", "pending"]);
    holds(&project(&["history"]), &["Open the shop", "In May"]);
    holds(&project(&["status"]), &["Sell bread"]);
}

/// A conversation is bound to its project's place, which is gone here: it says so. Another one goes on in the new place.
fn goes_on_in_the_project(workspace: &Workspace, daemon: &Daemon, server: &ModelServer) {
    let list = json!([["project", {"op": "task_list", "args": {}}]]);
    let say = |mark: &str, session: &str, project: Option<&Path>| {
        let message = format!("SELF {list} {mark}");
        let body = json!({"message": message, "session": session, "project": project});
        let accepted = daemon.post("/api/chat", &body).json();
        replies(daemon, accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")))
    };
    assert_eq!(say("mark-gone", "chat:shop", None).len(), 1);
    let moved = say("mark-moved", "chat:shop-again", Some(&workspace.path(PROJECT)));
    assert_eq!(moved, ["All 1 calls are made."]);
    holds(&json!(results_of(server, "mark-moved")), &["Bake", "Deliver"]);
}

fn is_arranged_as_before(workspace: &Workspace) {
    let automations = json_of(workspace, &["automation", "list"]);
    let automations = automations["automations"].as_array().unwrap();
    let named = |name: &str| automations.iter().find(|automation| automation["name"] == name).unwrap();
    assert_eq!(named("memory-reader")["status"], "disabled", "{automations:?}");
    assert_eq!(named("greet")["status"], "active", "{automations:?}");
    holds(&json_of(workspace, &["tokens", "list"]), &["panel", "control.*.*"]);
    holds(&json_of(workspace, &["sessions", "compactions", "chat:long"]), &["asked", "anthropic/scripted-1"]);
    let sessions = json_of(workspace, &["sessions", "-n", "100"]);
    holds(&sessions, &["dm:entity-owner", "chat:long", "chat:shop", "chat:half", "worker:"]);
    holds(&json_of(workspace, &["usage"]), &["scripted-1"]);
    holds(&json_of(workspace, &["config", "get", "acl.policies"]), &["no-robots"]);
}

/// What was said before is still read, and what came of it told.
fn is_told_as_before(workspace: &Workspace, daemon: &Daemon) {
    let history = daemon.get("/api/chat/history?limit=1000").json();
    holds(&history, &["My sister Grace lives in Lisbon.", "Hello."]);
    let requests = daemon.get("/api/requests?limit=500").json();
    let requests = requests["requests"].as_array().unwrap_or_else(|| panic!("{requests}"));
    let is_tainted =
        |request: &&Value| request["session"] == "chat:tainted" && request["eventType"] == "message";
    let oldest = requests.iter().rfind(is_tainted).unwrap_or_else(|| panic!("{requests:?}"));
    let first = oldest["requestId"].as_str().unwrap();
    let trace = json_of(workspace, &["trace", first]);
    assert_eq!(trace["status"], "completed", "{trace}");
    holds(&trace["children"], &["web_fetch", "write", "/bees"]);
}

/// Questions have run out by then, and everything else is finished all the same.
#[test]
fn it_is_finished_as_well_when_it_is_opened_much_later() {
    let (mut workspace, server) = moved_in();
    long_after(&mut workspace, MUCH_LATER);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(json_of(&workspace, &["approvals", "list"])["approvals"], json!([]));
    for unfinished in &UNFINISHED {
        let (_, said) = rest(&daemon, unfinished);
        let is_last_word = |text: &String| text == "It is done." || text.ends_with(" calls are made.");
        assert!(said.last().is_some_and(is_last_word), "{}: {said:?}", unfinished.key);
    }
    assert!(results_of(&server, RUNNING.key)[1].contains("outcome unknown"));
    is_at_rest(&workspace);
    daemon.stop();
}
