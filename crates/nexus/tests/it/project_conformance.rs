//! `nexus project conformance --server`: only a server that was asked and refuses can pass a test that wants a refusal.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Answers as an MCP server, with one tool that is none of ours.
const FOREIGN: &str = r#"while read -r line; do
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"weather"}]}}' ;;
    *'"tools/call"'*) echo '{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"unknown tool"}}' ;;
  esac
done"#;

#[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
fn conformance(root: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
    command.args(["project", "conformance"]).args(arguments).current_dir(root).env_clear().env("HOME", root);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap()
}

fn plant(root: &Path, name: &str, content: &Value) {
    let path = root.join(name);
    nexus_base::file::create_folder(path.parent().unwrap(), 0o755).unwrap();
    let durability = nexus_base::file::Durability::Crash;
    nexus_base::file::replace(&path, content.to_string().as_bytes(), 0o644, durability).unwrap();
}

fn wants_refusals() -> Value {
    let update = json!({ "tool": "task_update", "params": { "id": 7, "status": "completed" } });
    let add = json!({ "tool": "task_add", "params": { "title": "t", "context": "c" } });
    json!([
        {
            "test_id": "refused", "description": "there are no tasks to change", "action": update,
            "postcondition": { "error": true },
        },
        {
            "test_id": "refused_at_last", "description": "the last of two steps fails as it should",
            "steps": [{ "action": add }, { "action": update }],
            "postcondition": { "error_contains": "not found" },
        },
        {
            "test_id": "refused-too-early", "description": "a step before the last may not fail",
            "steps": [{ "action": update }, { "action": update }],
            "postcondition": { "error_contains": "not found" },
        },
    ])
}

#[test]
fn a_server_that_is_dead_silent_or_another_passes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    plant(folder.path(), "f/refusals.json", &wants_refusals());
    plant(folder.path(), "foreign.sh", &Value::Null);
    let script = folder.path().join("foreign.sh");
    let durability = nexus_base::file::Durability::Crash;
    nexus_base::file::replace(&script, FOREIGN.as_bytes(), 0o644, durability).unwrap();
    let run = |server: &str, more: &[&str]| {
        let output = conformance(
            folder.path(),
            &[&["f", "--json", "--server", server, "--patience", "1"], more].concat(),
        );
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let ours = format!("'{}' mcp", env!("CARGO_BIN_EXE_nexus"));
    let passed = |report: &Value| -> Vec<bool> {
        let all = report["fixtures"].as_array().unwrap().iter();
        all.map(|fixture| fixture["passed"].as_bool().unwrap()).collect()
    };
    // Ours refuses for good reasons, and the library answers alike.
    let report = run(&ours, &[]);
    assert_eq!(passed(&report), [true, true, false], "{report}");
    assert!(report["fixtures"][2]["problems"][0].as_str().unwrap().starts_with("step 1 "), "{report}");
    let output = conformance(folder.path(), &["f", "--json"]);
    let library: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(passed(&library), [true, true, false], "{library}");

    let foreign = format!("sh '{}'", script.display());
    let missing = ["--map", r#"{ "task_update": "no_such_tool" }"#];
    let begun = Instant::now();
    for (server, more, why) in [
        ("/bin/false", [].as_slice(), "the server does not"),
        ("/no/such/server", &[], "cannot be started"),
        ("sh -c 'cat > /dev/null'", &[], "does not answer initialize within 1 s"),
        (&foreign, &[], "the server does not list the tool task_"),
        (&ours, &missing, "the server does not list the tool no_such_tool"),
    ] {
        let report = run(server, more);
        assert_eq!(passed(&report), [false; 3], "{server}: {report}");
        for fixture in report["fixtures"].as_array().unwrap() {
            assert!(fixture["problems"][0].as_str().unwrap().contains(why), "{server}: {report}");
        }
    }
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "the silent one is waited for once, not for every test"
    );
}

#[test]
fn a_fixture_of_another_form_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let with = |name: &str, value: Value| {
        let mut fixture = json!({
            "test_id": "good_1-a", "description": "ten or more", "action": { "tool": "plan_status" },
        });
        fixture[name] = value;
        fixture
    };
    plant(folder.path(), "good.json", &with("description", json!("ten or more")));
    assert_eq!(conformance(folder.path(), &["good.json"]).status.code(), Some(0));
    for (wrong, why) in [
        (with("test_id", json!("Bad-Id!")), "Bad-Id! is not a test_id"),
        (with("test_id", json!("1st")), "is not a test_id"),
        (with("test_id", json!("")), "is not a test_id"),
        (with("description", json!("short")), "a description of at least ten characters"),
        (with("steps", json!([{}])), "one of action, event and steps"),
        (json!({ "test_id": "a", "description": "no step at all", "steps": [] }), "has no step"),
        (json!({ "test_id": "a", "description": "an idle step", "steps": [{}] }), "one of action and event"),
    ] {
        plant(folder.path(), "wrong.json", &wrong);
        let output = conformance(folder.path(), &["wrong.json"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("wrong.json is not a fixture: ") && said.contains(why), "{wrong}: {said}");
        assert!(output.stdout.is_empty());
    }
}
