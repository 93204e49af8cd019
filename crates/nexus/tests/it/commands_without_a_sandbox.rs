//! A machine without Landlock: commands ask each time, and where a project's gate leaves it to the sandbox that
//! nothing is changed, they are refused. The daemon runs behind a filter that hides the system call.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_testkit::model::{Asked, ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions, until};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::json;

use crate::scripted::{self, Scripted};

/// `landlock_create_ruleset`, on every architecture.
const CREATE_RULESET: i64 = 444;
/// What a kernel without a system call says.
const NO_SUCH_CALL: u32 = 38;

/// Does something on a thread that, with whatever it starts, finds no Landlock in the kernel.
pub(crate) fn without_landlock<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    without_call(CREATE_RULESET, work)
}

/// Does something on a thread that, with whatever it starts, cannot make this system call.
pub(crate) fn without_call<T: Send>(call: i64, work: impl FnOnce() -> T + Send) -> T {
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(NO_SUCH_CALL),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    let filtered = move || {
        seccompiler::apply_filter(&program).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(filtered).join().unwrap())
}

#[test]
fn commands_ask_each_time() {
    let scripted = without_landlock(|| {
        Scripted::start(|workspace| {
            workspace.edit_config(|config| config["tools"]["approval_timeout_ms"] = json!(20_000));
        })
    });
    let workspace = &scripted.workspace;
    let doctor = without_landlock(|| workspace.nexus(&["doctor"])).stdout;
    assert!(doctor.contains("every command of an agent needs your consent"), "{doctor}");

    // Somebody watches, as a terminal would: the question waits for them.
    let watching = scripted.daemon.client();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _watch = runtime.block_on(async { watching.events(None, None).await.unwrap() });
    let call = json!([["bash", { "command": "echo ran >> made" }]]);
    for answer in ["approve", "deny"] {
        let begun = scripted.begin_work(&call);
        let asked = until("a question to the owner", Duration::from_secs(30), || {
            workspace.nexus(&["approvals", "list", "--json"]).json()["approvals"].get(0).cloned()
        });
        let summary = asked["summary"].as_str().unwrap();
        assert!(summary.contains("WITHOUT a sandbox") && summary.contains("echo ran >> made"), "{asked}");
        workspace.nexus(&["approvals", answer, asked["id"].as_str().unwrap()]).ok();
        scripted.finish(&begun);
        assert_eq!(workspace.file("home/made"), "ran\n", "after the answer {answer}");
    }
}

#[test]
fn a_gate_that_leaves_it_to_the_sandbox_refuses_them() {
    let server = ModelServer::start();
    server.answer(|asked| {
        let results = asked.results();
        Some(match (asked.has_tool("wait"), results.last()) {
            (true, None) if !asked.last_text().contains("kind: worker_result") => {
                Reply::calls("agent_send", &json!({ "op": "dispatch", "text": "Make it." }))
            }
            (true, _) => Reply::text("So it is."),
            (false, None) => Reply::calls("bash", &json!({ "command": "touch made" })),
            (false, Some((_, text))) => Reply::text(format!("told: {text}")),
        })
    });
    let workspace = scripted::workspace(&server);
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let project = root.to_str().unwrap();
    workspace.nexus(&["project", "--project", project, "init"]).ok();
    let _daemon = without_landlock(|| Daemon::start(&workspace, &DaemonOptions::default()));
    workspace.nexus(&["chat", "--project", project, "-m", "Make it"]).ok();
    let asked = server.asked();
    let told = asked.iter().map(Asked::last_text).find(|text| text.contains("told: ")).unwrap();
    assert!(
        told.contains("not run: No task covers")
            && told.contains("cannot keep commands from changing files")
            && told.contains("no Landlock"),
        "{told}"
    );
    assert!(!root.join("made").exists());
    assert_eq!(workspace.nexus(&["approvals", "list", "--json"]).json()["approvals"], json!([]));
}
