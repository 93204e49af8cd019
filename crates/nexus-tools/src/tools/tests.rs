//! The tools as a model uses them: by name, with JSON, on a real folder and in the real sandbox.

mod boundaries;
mod boxes;
mod commands;
mod files;

use std::path::{Path, PathBuf};

use std::sync::Mutex;

use nexus_base::file::{Durability, replace};
use nexus_base::id::{RequestId, SessionLabel, ToolCallId};
use nexus_process::{Helper, Network};
use nexus_workspace::persona::IdentityRights;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ports::Role;
use crate::ports::{Approval, ApprovalAsk, Approve, TurnFacts};
use crate::scope::RunFacts;

/// Set for the sandbox helper only.
const HELPER_VARIABLE: &str = "AGENT_IS_SANDBOX_HELPER";

/// What workers may write of the identity while nobody has met.
fn identity() -> Vec<PathBuf> {
    ["agents", "user"].map(PathBuf::from).to_vec()
}

/// Not a test: commands start this binary again, with arguments that select only this.
#[test]
fn sandbox_helper() {
    if std::env::var_os(HELPER_VARIABLE).is_some() {
        nexus_process::sandbox_entry();
    }
}

/// An owner who always gives the same answer and remembers what was asked.
struct Owner {
    answer: Approval,
    asked: Mutex<Vec<ApprovalAsk>>,
}

#[async_trait::async_trait]
impl Approve for Owner {
    async fn ask(&self, _turn: &TurnFacts, ask: &ApprovalAsk) -> Approval {
        self.asked.lock().unwrap().push(ask.clone());
        self.answer.clone()
    }
}

/// What a call happens in.
struct Case {
    turn: TurnFacts,
    run: RunFacts,
    owner: Owner,
    look_only: Option<String>,
    cancel: CancellationToken,
}

impl Default for Case {
    fn default() -> Self {
        let refusal = Approval::Refused { reason: "the owner said no".to_owned() };
        let turn = TurnFacts {
            role: Role::Worker,
            session: SessionLabel::new("worker:1"),
            request_id: RequestId::new("worker-request"),
            words: String::new(),
        };
        let run = RunFacts { root_request_id: RequestId::new("root"), taint: Arc::default() };
        Self {
            turn,
            run,
            owner: Owner { answer: refusal, asked: Mutex::default() },
            look_only: None,
            cancel: CancellationToken::new(),
        }
    }
}

impl Case {
    fn tainted(answer: Approval) -> Self {
        let case = Self { owner: Owner { answer, asked: Mutex::default() }, ..Self::default() };
        case.run.taint.add("the page http://example.org/");
        case
    }

    fn asked(&self) -> Vec<ApprovalAsk> {
        self.owner.asked.lock().unwrap().clone()
    }
}

/// A throw-away workspace.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        for folder in
            ["home", "state/data", "state/credentials", "state/agents/a", "state/user", "skills/one"]
        {
            std::fs::create_dir_all(place.root().join(folder)).unwrap();
        }
        std::fs::create_dir_all(place.owner().join(".ssh")).unwrap();
        for private in ["state", "state/data", "state/credentials"] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(place.root().join(private), mode).unwrap();
        }
        place.put("state/config.json", "SECRET token");
        place.put("state/data/agents.db", "SECRET rows");
        place.put("state/credentials/x.json", "SECRET pointer");
        place.put("state/user/USER.md", "the owner");
        place.put("state/agents/a/SOUL.md", "the soul");
        place.put("AGENTS.md", "the rules");
        place.put("skills/one/SKILL.md", "a skill");
        replace(&place.owner().join(".ssh/id"), b"SECRET key", 0o600, Durability::Crash).unwrap();
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("workspace")
    }

    fn owner(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("owner")
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        replace(&path, text.as_bytes(), 0o600, Durability::Crash).unwrap();
    }

    fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn shell(&self, identity: Vec<PathBuf>, network: Network) -> Shell {
        let setup = ShellSetup {
            root: self.root(),
            task_folder: self.root().join("home"),
            owner_home: self.owner(),
            private_home: self.folder.path().join("private"),
            identity,
            network,
        };
        let helper = Helper {
            program: std::env::current_exe().unwrap(),
            arguments: [
                "tools::tests::sandbox_helper",
                "--exact",
                "--nocapture",
                "--quiet",
                "--test-threads=2",
            ]
            .map(Into::into)
            .to_vec(),
        };
        Shell::new(&setup).unwrap().helper(helper).variable(HELPER_VARIABLE, "1").unwrap()
    }

    fn worker(&self) -> FileTools {
        let access = FileAccess::worker(&self.root(), Path::new("home"), &IdentityRights::default()).unwrap();
        FileTools::worker(access, Some(self.shell(Vec::new(), Network::Off)))
    }

    fn onboarding(&self) -> FileTools {
        let rights = IdentityRights { writable: identity(), kept: Vec::new() };
        let access = FileAccess::worker(&self.root(), Path::new("home"), &rights).unwrap();
        FileTools::worker(access, Some(self.shell(identity(), Network::Off)))
    }

    fn manager(&self) -> FileTools {
        FileTools::manager(FileAccess::manager(&self.root()).unwrap())
    }

    async fn call(&self, tools: &FileTools, name: &str, arguments: Value) -> ToolOutput {
        self.call_until(tools, name, arguments, &CancellationToken::new()).await
    }

    async fn call_until(
        &self,
        tools: &FileTools,
        name: &str,
        arguments: Value,
        cancel: &CancellationToken,
    ) -> ToolOutput {
        let case = Case { cancel: cancel.clone(), ..Case::default() };
        self.call_in(tools, name, arguments, &case).await.output
    }

    async fn call_in(&self, tools: &FileTools, name: &str, arguments: Value, case: &Case) -> Done {
        let call = ToolCallId::generate();
        let scope = Scope {
            call: &call,
            turn: &case.turn,
            run: &case.run,
            level: case.run.taint.level(),
            approve: &case.owner,
            look_only: case.look_only.clone(),
            cancel: &case.cancel,
        };
        let Done { output, untrusted } = tools.call(name, &arguments, &scope).await;
        // The test runner, being the helper here, greets first.
        let text = output.text.replace("\nrunning 1 test\n", "");
        Done { output: ToolOutput { text, ..output }, untrusted }
    }

    #[track_caller]
    fn worked(output: &ToolOutput) -> &str {
        assert!(!output.is_error, "{}", output.text);
        &output.text
    }

    #[track_caller]
    fn failed(output: &ToolOutput) -> &str {
        assert!(output.is_error, "{}", output.text);
        &output.text
    }
}

#[test]
fn names_and_specs_agree() {
    let place = Place::new();
    let names = |tools: &FileTools| tools.specs().into_iter().map(|spec| spec.name).collect::<Vec<_>>();
    assert_eq!(names(&place.manager()), ["read", "write", "edit"]);
    assert_eq!(names(&place.worker()), ["read", "write", "edit", "list", "glob", "grep", "bash"]);
    for spec in place.worker().specs() {
        assert_eq!(spec.input_schema["type"], "object", "{}", spec.name);
        assert!(place.worker().has(&spec.name));
    }
    assert!(!place.manager().has("bash"));
}

#[test]
fn what_a_manager_is_told_stays_small() {
    let place = Place::new();
    let bytes: usize =
        place.manager().specs().iter().map(|spec| serde_json::to_string(spec).unwrap().len()).sum();
    assert!(bytes < 1100, "{bytes}");
}

#[tokio::test]
async fn bad_arguments_are_told_not_panicked_at() {
    let place = Place::new();
    let tools = place.worker();
    for (name, arguments, expected) in [
        ("read", serde_json::json!([]), "must be a JSON object"),
        ("read", serde_json::json!({}), "\"path\" is missing"),
        ("read", serde_json::json!({"path": 3}), "must be a string"),
        ("read", serde_json::json!({"path": ""}), "empty"),
        ("read", serde_json::json!({"path": "a\0b"}), "NUL"),
        ("read", serde_json::json!({"path": "x".repeat(9000)}), "too long"),
        ("read", serde_json::json!({"path": "AGENTS.md", "offset": -1}), "whole number"),
        ("write", serde_json::json!({"path": "home/x"}), "\"content\" is missing"),
        ("edit", serde_json::json!({"path": "home/x", "old": "", "new": "a"}), "empty"),
        ("glob", serde_json::json!({"pattern": "home/[z"}), "not a usable pattern"),
        ("grep", serde_json::json!({"pattern": "("}), "not a usable regular expression"),
        ("grep", serde_json::json!({"pattern": "a{999}{999}{999}"}), "not a usable regular expression"),
        ("bash", serde_json::json!({"command": "  "}), "empty"),
        ("fly", serde_json::json!({}), "no tool"),
    ] {
        let output = place.call(&tools, name, arguments.clone()).await;
        let text = Place::failed(&output);
        assert!(text.contains(expected), "{name} {arguments}: {text}");
    }
}
