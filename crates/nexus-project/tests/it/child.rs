//! A process of its own that calls tools: this test binary again, told by variables what to do.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nexus_project::{Project, Tool, call};
use serde_json::{Map, Value, json};

const ROOT: &str = "PROJECT_CHILD_ROOT";
const CALLS: &str = "PROJECT_CHILD_CALLS";

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("parameters are an object, not {other}"),
    }
}

pub(crate) fn ask(project: &Project, tool: Tool, parameters: Value) -> Value {
    call(project, tool, &object(parameters)).unwrap_or_else(|error| error.to_value())
}

/// Starts a process that makes `calls`, a list of `[tool, parameters]`, and prints a line for each answer.
#[expect(clippy::disallowed_methods, reason = "the test needs processes of its own")]
pub(crate) fn start(root: &Path, calls: &Value, variables: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child::makes_calls_when_told_to", "--nocapture", "--test-threads=1"])
        .env(ROOT, root)
        .env(CALLS, calls.to_string())
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn makes_calls_when_told_to() {
    let (Ok(root), Ok(calls)) = (std::env::var(ROOT), std::env::var(CALLS)) else { return };
    let project = Project::open(Path::new(&root)).unwrap();
    let calls: Value = serde_json::from_str(&calls).unwrap();
    for one in calls.as_array().unwrap() {
        let tool = Tool::named(one[0].as_str().unwrap()).unwrap();
        println!("answer {}", ask(&project, tool, one[1].clone()));
    }
}

/// Returns the answers a child printed.
pub(crate) fn answers(child: Child) -> Vec<Value> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    // The test harness begins a line of its own before the first answer.
    let lines = text.lines().filter_map(|line| line.split_once("answer ")).map(|(_, answer)| answer);
    lines.map(|answer| serde_json::from_str(answer).unwrap()).collect()
}

pub(crate) fn plan() -> Value {
    json!({ "topic": "T", "issues": ["A", "B"], "research_summary": "r" })
}

pub(crate) fn read(root: &Path, name: &str) -> Option<Value> {
    let text = std::fs::read(root.join(".nexus").join(name)).ok()?;
    Some(serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}")))
}
