//! Roles in the daemon: the package they come from, the model of their tier, who goes on with a task and who begins
//! anew, and who may open a project at all.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nexus_base::file::{Durability, create_folder, replace};
use nexus_project::catalog::{Catalog, body_hash};
use nexus_testkit::http;
use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

/// What the engineer of the package is told, and ours is not.
const SIGN: &str = "Sharpen the tools first.";

fn plant(path: &Path, text: &str) {
    create_folder(path.parent().unwrap(), 0o755).unwrap();
    replace(path, text.as_bytes(), 0o644, Durability::Crash).unwrap();
}

/// Writes a package as upstream lays it out: our own catalog, with other words for the engineer.
fn package(folder: &Path) {
    let own = Catalog::embedded().unwrap();
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let mut agents = read(include_str!("../../../nexus-project/catalog/agents.json"));
    let mut skills = read(include_str!("../../../nexus-project/catalog/skills.json"));
    let mut words = read(include_str!("../../../nexus-project/catalog/vocabulary.json"));
    for (kind, list) in [("agents", &mut agents), ("skills", &mut skills)] {
        for entry in list.as_array_mut().unwrap() {
            let id = entry["id"].as_str().unwrap().to_owned();
            let body = match kind {
                "agents" => own.agent(&id).unwrap().body.clone(),
                _ => own.skill(&id).unwrap().body.clone(),
            };
            let body = if id == "engineer" { format!("{body}\n{SIGN}\n") } else { body };
            plant(&folder.join(kind).join(&id).join("body.md"), &body);
            entry["body_hash"] = json!(body_hash(&body));
        }
    }
    for entry in words["invocations"].as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("params");
    }
    for entry in words["task_exceptions"].as_array_mut().unwrap() {
        entry["applies_when"] = entry["when"].take();
    }
    let pattern = words["memory_policy"]["file_name_pattern"].take();
    words["memory_policy"]["naming"] = json!({ "pattern": pattern });
    let manifest = json!({
        "nexus_core_version": "0.11.0", "nexus_core_commit": "23c72e5", "schema_contract_version": "2.0",
        "agents": agents, "skills": skills, "vocabulary": words,
    });
    plant(&folder.join("manifest.json"), &manifest.to_string());
}

/// A worker writes the file its task names, anew each time, and says so; one that is asked something answers.
fn worker(asked: &Asked) -> Option<Reply> {
    static WRITTEN: AtomicUsize = AtomicUsize::new(0);
    if asked.has_tool("wait") {
        return None;
    }
    if asked.model() == "broken" {
        return Some(Reply::status(503, "not today"));
    }
    let last = asked.last_text();
    if !last.contains("TASK: ") {
        return Some(Reply::text("done"));
    }
    let path = if last.contains("b.txt") { "b.txt" } else { "a.txt" };
    let content = format!("version {}\n", WRITTEN.fetch_add(1, Ordering::Relaxed));
    Some(Reply::calls("write", &json!({ "path": path, "content": content })))
}

struct Shop {
    workspace: Workspace,
    server: ModelServer,
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Shop {
    fn open() -> Self {
        let server = ModelServer::start();
        let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        server.configure(&mut workspace, Wire::Anthropic);
        server.answer(worker);
        package(&workspace.root().join("roles"));
        workspace.edit_config(|config| {
            config["project"]["catalog"] = json!("roles");
            config["models"] = json!({ "retries": 0, "tiers": { "high": "anthropic/strong", "standard": "anthropic/ordinary" } });
        });
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        Self { workspace, server, daemon, folder: tempfile::tempdir().unwrap() }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// Has Lead make calls, one reply after the other, and waits for everything. Returns what the model was asked.
    fn lead(&self, message: &str, replies: &[(&str, Value)]) -> Vec<Asked> {
        let before = self.server.asked().len();
        let calls = replies.iter().map(|(name, arguments)| Reply::calls(name, arguments));
        self.server.script(calls.chain([Reply::text("Sent."), Reply::text("It came back.")]));
        let root = self.root();
        let said =
            self.workspace.nexus(&["chat", "--project", root.to_str().unwrap(), "-m", message]).ok().stdout;
        assert!(said.contains("It came back."), "{said}\n{}", self.daemon.log());
        self.server.asked().split_off(before)
    }

    /// Adds a task and sends its owner; returns whether somebody went on with it.
    fn task(&self, task: &Value) -> bool {
        let tasks = std::fs::read_to_string(self.root().join(".nexus/state/tasks.json")).unwrap_or_default();
        let next = tasks.matches("\"title\"").count() + 1;
        let asked = self.lead(
            "next",
            &[
                ("project", json!({ "op": "task_add", "args": task })),
                ("agent_send", json!({ "op": "dispatch", "task": next })),
            ],
        );
        let sent = asked.iter().map(Asked::last_text).find(|text| text.contains("spawned_session_label"));
        sent.unwrap().contains("\"resumed\":true")
    }

    /// Has the daemon read its configuration again, and waits for that.
    fn reload(&self) {
        let times = || self.daemon.log().matches("configuration reloaded\"").count();
        let before = times();
        self.workspace.nexus(&["config", "reload"]).ok();
        until("the configuration is read", Duration::from_secs(20), || (times() > before).then_some(()));
    }

    /// Sends a role and returns the model its worker was asked with.
    fn model_of(&self, dispatch: Value) -> String {
        let asked = self.lead("ask", &[("agent_send", dispatch)]);
        let worker = asked.iter().rfind(|asked| !asked.has_tool("wait")).unwrap();
        worker.model().to_owned()
    }
}

#[test]
fn a_package_and_tiers_make_the_roles_and_bounded_ones_go_on_only_where_nobody_else_was() {
    let shop = Shop::open();
    plant(&shop.root().join(".nexus/memory/shop-hours.md"), "Open at nine.\n");
    let owned =
        |title: &str, owner: &str| json!({ "title": title, "context": "It is a.txt.", "owner": owner });

    // Roles come from the package and run on the model of their tier.
    assert!(!shop.task(&owned("Make it", "engineer")), "no earlier instance exists");
    let asked = shop.server.asked();
    assert!(
        asked[0].contains("<project_session>") && asked[0].contains("shop-hours.md"),
        "Lead is told what is there"
    );
    let engineer = asked.iter().find(|asked| !asked.has_tool("wait")).unwrap();
    assert!(engineer.system().contains(SIGN), "{}", engineer.system());
    assert_eq!(engineer.model(), "ordinary");
    let usual = asked.iter().find(|asked| asked.has_tool("wait")).unwrap().model().to_owned();

    // Bounded: the same file goes on, but not after somebody else changed it, whatever the task says.
    assert!(shop.task(&owned("Polish it", "engineer")));
    assert!(!shop.task(&owned("Reword it", "writer")));
    assert!(!shop.task(&owned("Polish it again", "engineer")), "a writer changed a.txt meanwhile");
    assert!(shop.task(&owned("And again", "engineer")), "the new engineer was the last one there");
    assert!(!shop.task(&owned("Reword it again", "writer")), "the engineer was there meanwhile");
    let mut insisting = owned("Polish it at last", "engineer");
    insisting["owner_reuse_policy"] = json!("resume");
    assert!(!shop.task(&insisting), "an edit in between is stronger than the policy");
    let elsewhere = json!({ "title": "Make the other", "context": "It is b.txt.", "owner": "engineer" });
    assert!(!shop.task(&elsewhere), "another file is another engineer");
    let resumed = shop
        .server
        .asked()
        .iter()
        .map(Asked::last_text)
        .find(|text| text.contains("TASK: Polish it\n"))
        .unwrap();
    assert!(resumed.contains("read the target files again"), "{resumed}");

    // The tier's model, unless the dispatch names one; and the usual one where the tier's cannot be had.
    let architect = |more: Value| {
        let mut dispatch = json!({ "op": "dispatch", "agent": "architect", "text": "How?" });
        dispatch.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        dispatch
    };
    assert_eq!(shop.model_of(architect(json!({}))), "strong");
    assert_eq!(shop.model_of(architect(json!({ "model": "anthropic/chosen" }))), "chosen");
    assert_eq!(shop.model_of(json!({ "op": "dispatch", "text": "Just look" })), usual);
    for (model, why) in [("nowhere/at-all", "no such provider"), ("anthropic/broken", "it does not answer")] {
        shop.workspace.nexus(&["config", "set", "models.tiers.high", model]).ok();
        shop.reload();
        let fresh = json!({ "op": "dispatch", "agent": "designer", "text": "How?" });
        assert_eq!(shop.model_of(fresh), usual, "{why}");
    }

    // A package that is not sound changes nothing and is told about.
    plant(&shop.workspace.root().join("roles/agents/tester/body.md"), "Trust everything.\n");
    shop.reload();
    let health = shop.daemon.get("/health").body;
    assert!(health.contains("project.catalog: tester: "), "{health}");
    let asked =
        shop.lead("ask", &[("agent_send", json!({ "op": "dispatch", "agent": "tester", "text": "Check" }))]);
    let tester = asked.iter().find(|asked| !asked.has_tool("wait")).unwrap();
    assert!(!tester.system().contains("Trust everything."), "{}", tester.system());

    // Only the owner opens projects: a token that may chat may not choose the folder.
    let made = shop.workspace.nexus(&["tokens", "create", "--scope", "control.chat.*", "--json"]).json();
    let token = made["token"].as_str().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let body = json!({ "message": "hi", "project": elsewhere.path() }).to_string();
    let request = format!(
        "POST /api/chat HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        shop.daemon.port(),
        body.len(),
    );
    let refused = http::exchange(shop.daemon.port(), request.as_bytes()).unwrap();
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(refused.body.contains("only the owner may open projects"), "{}", refused.body);
    assert!(!elsewhere.path().join(".nexus").exists());
    let mcp = format!("/mcp?project={}", elsewhere.path().display());
    let request = format!(
        "POST {mcp} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}",
        shop.daemon.port(),
    );
    assert_eq!(http::exchange(shop.daemon.port(), request.as_bytes()).unwrap().status, 403);
    shop.daemon.stop();
}
