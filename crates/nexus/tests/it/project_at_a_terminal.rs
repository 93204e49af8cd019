//! `nexus project` at a terminal of 80 columns: wide letters, circles and long chains stay within it, and a path that
//! is no text stops nothing.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nexus_project::{Project, Tool, call};
use serde_json::{Value, json};

use crate::terminal;

const COLUMNS: u16 = 80;

#[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
fn command(root: &Path, arguments: &[&OsStr]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
    command
        .arg("project")
        .args(arguments)
        .current_dir(root)
        .env_clear()
        .env("HOME", root)
        .env("TERM", "xterm");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("TZ", "UTC");
    command
}

/// Returns what the command shows at a terminal, its lines none wider than the terminal is.
fn shown(root: &Path, arguments: &[&str]) -> String {
    let (mut near, far) = terminal::open(COLUMNS);
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let mut child = command(root, &arguments).stdout(far).stderr(Stdio::null()).spawn().unwrap();
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    // The terminal fails when nobody holds its other end any more.
    while let Ok(count @ 1..) = near.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
    }
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(seen).unwrap().replace("\r\n", "\n");
    for line in text.lines().filter(|line| !line.starts_with("project ")) {
        let columns = unicode_width::UnicodeWidthStr::width(line);
        assert!(columns <= usize::from(COLUMNS), "{columns} columns: {line}\n{text}");
    }
    text
}

fn ask(root: &Path, tool: Tool, parameters: &Value) {
    call(&Project::open(root).unwrap(), tool, parameters.as_object().unwrap()).unwrap();
}

fn add(root: &Path, title: &str, deps: &[u64]) {
    ask(root, Tool::TaskAdd, &json!({ "title": title, "context": "c", "deps": deps, "owner": "engineer" }));
}

#[test]
fn wide_letters_circles_and_many_dependencies_stay_in_eighty_columns() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let topic = "納屋を緑色に塗り替えて屋根も直す計画を立てる".repeat(3);
    let plan = json!({ "topic": topic, "issues": [topic.as_str(), "Who?"], "research_summary": topic });
    ask(root, Tool::PlanStart, &plan);
    ask(root, Tool::PlanDecide, &json!({ "issue_id": 1, "decision": topic }));
    add(root, "Round", &[3]);
    add(root, "About", &[1]);
    add(root, "Again", &[2]);
    for _ in 0..30 {
        add(root, "Dig", &[]);
    }
    add(root, &topic, &(4..=33).collect::<Vec<_>>());
    add(root, &topic, &[99]);
    let graph = shown(root, &["tasks", "--graph"]);
    let lines: Vec<&str> = graph.lines().filter(|line| !line.ends_with("Dig  @engineer")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    └─ [ ] 34 納屋を緑色に塗…  @engineer  (also after 5, 6, 7, 8, 9, 10 and 23 more)
    [ ] 35 納屋を緑色に塗り替えて屋根…  @engineer  (after 99, which does not exist)
    [ ] 1 Round  @engineer  (after 3)
    └─ [ ] 2 About  @engineer
       └─ [ ] 3 Again  @engineer

    Some tasks wait for each other in a cycle.
    [x] done  [~] in progress  [>] ready  [ ] waiting
    ");
    let status = shown(root, &["status"]);
    insta::assert_snapshot!(status.split_once("branch ").unwrap().1, @r"
      unknown
    plan     納屋を緑色に塗り替えて屋根も直す計画を立てる納屋…: 1 of 2 decided
             open         2 Who?
    tasks    0 of 35 completed, 0 in progress, 30 ready
             ready        4 Dig @engineer
                          5 Dig @engineer
                          6 Dig @engineer
                          7 Dig @engineer
                          … and 26 more
    history  0 finished cycles
    ");
    insta::assert_snapshot!(shown(root, &["plan"]), @r"
    plan 1: 納屋を緑色に塗り替えて屋根も直す計画を立てる納屋を緑色に塗り替えて屋根も
          直す計画を立てる納屋を緑色に塗り替えて屋根も直す計画を立てる (1 of 2
          decided)

    納屋を緑色に塗り替えて屋根も直す計画を立てる納屋を緑色に塗り替えて屋根も直す計画
    を立てる納屋を緑色に塗り替えて屋根も直す計画を立てる

    [x] 1 納屋を緑色に塗り替えて屋根も直す計画を立てる納屋を緑色に塗り替えて屋根も直
          す計画を立てる納屋を緑色に塗り替えて屋根も直す計画を立てる
          納屋を緑色に塗り替えて屋根も直す計画を立てる納屋を緑色に塗り替えて屋根も直
          す計画を立てる納屋を緑色に塗り替えて屋根も直す計画を立てる
    [ ] 2 Who?
    ");
    shown(root, &["tasks"]);
    shown(root, &["close"]);
    let found = shown(root, &["history", "納屋"]);
    assert!(found.lines().next().unwrap().ends_with("… (35 tasks)"), "{found}");
    shown(root, &["history"]);
}

#[test]
fn a_long_chain_goes_on_at_the_margin_and_says_after_what() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    add(root, "First", &[]);
    for before in 1..40 {
        add(root, "Next", &[before]);
    }
    let graph = shown(root, &["tasks", "--graph"]);
    let roots: Vec<&str> = graph.lines().filter(|line| line.starts_with('[')).collect();
    insta::assert_snapshot!(roots.join("\n"), @r"
    [>] 1 First  @engineer
    [ ] 15 Next  @engineer  (after 14)
    [ ] 29 Next  @engineer  (after 28)
    [x] done  [~] in progress  [>] ready  [ ] waiting
    ");
    assert_eq!(graph.matches("] ").count(), 40 + 4, "every task once, and the legend: {graph}");
}

#[test]
fn conformance_takes_one_line_for_each_test() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder
        .path()
        .join("a/folder-whose-path-is-longer/than-any-terminal-this-runs-at-is-wide/and-then/tools");
    std::fs::create_dir_all(&deep).unwrap();
    for (file, test) in [("one.json", "plan-is-not-there"), ("two.json", "plan-is-not-there-either")] {
        let fixture = json!({
            "test_id": test, "description": "there is no plan yet", "action": { "tool": "plan_status" },
            "postcondition": { "return_value": { "$.active": false } },
        });
        let text = fixture.to_string();
        let durability = nexus_base::file::Durability::Crash;
        nexus_base::file::replace(&deep.join(file), text.as_bytes(), 0o644, durability).unwrap();
    }
    insta::assert_snapshot!(shown(folder.path(), &["conformance", deep.to_str().unwrap()]), @r"
    RESULT  TEST                      FILE
    pass    plan-is-not-there         one.json
    pass    plan-is-not-there-either  two.json
    2 of 2 passed
    ");
    let other = folder.path().join("a/short.json");
    let fixture = json!({
        "test_id": "a_name_that_is_as_long_as_the_longest_of_our_own_or_longer", "description": "there is no plan yet",
        "action": { "tool": "plan_status" },
    });
    let durability = nexus_base::file::Durability::Crash;
    nexus_base::file::replace(&other, fixture.to_string().as_bytes(), 0o644, durability).unwrap();
    let both = shown(folder.path(), &["conformance", folder.path().to_str().unwrap()]);
    assert_eq!(both.lines().count(), 5, "{both}");
    let own = shown(folder.path(), &["conformance"]);
    let passed = own.lines().filter(|line| line.starts_with("pass ")).count();
    assert_eq!(own.lines().count(), passed + 2, "a heading, the tests, and how many: {own}");
}

#[test]
fn a_path_that_is_no_text_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(OsStr::from_bytes(b"sh\xffop"));
    std::fs::create_dir(&root).unwrap();
    let json = |arguments: &[&OsStr]| {
        let output = command(&root, arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    for view in ["init", "status"] {
        let said = json(&[OsStr::new(view), OsStr::new("--json")]);
        assert!(said["project"].as_str().unwrap().ends_with("sh\u{fffd}op"), "{said}");
    }
    for view in ["plan", "tasks", "history", "gc", "close"] {
        json(&[OsStr::new(view), OsStr::new("--json")]);
    }
    let fixture = json!({ "test_id": "plan", "description": "there is no plan yet", "action": { "tool": "plan_status" } });
    let (file, text) = (root.join("one.json"), fixture.to_string());
    nexus_base::file::replace(&file, text.as_bytes(), 0o644, nexus_base::file::Durability::Crash).unwrap();
    let said = json(&[OsStr::new("conformance"), OsStr::new("--json"), file.as_os_str()]);
    assert_eq!(said["passed"], 1, "{said}");
    assert!(said["fixtures"][0]["file"].as_str().unwrap().ends_with("op/one.json"), "{said}");
}
