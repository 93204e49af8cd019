//! `nexus project`: a repository's plan, tasks and history as people see them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use nexus_project::{Project, Tool, call};
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
fn command(program: &str, root: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).env_clear().env("HOME", root);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap()
}

fn nexus(root: &Path, arguments: &[&str]) -> Output {
    command(env!("CARGO_BIN_EXE_nexus"), root, &[&["project"], arguments].concat())
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json_of(output: &Output) -> Value {
    serde_json::from_str(&text(output)).unwrap()
}

fn ask(root: &Path, tool: Tool, parameters: &Value) -> Value {
    call(&Project::open(root).unwrap(), tool, parameters.as_object().unwrap()).unwrap()
}

fn working() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let plan =
        json!({ "topic": "Paint the shed", "issues": ["Which colour?", "Who?"], "research_summary": "r" });
    ask(root, Tool::PlanStart, &plan);
    ask(root, Tool::PlanDecide, &json!({ "issue_id": 1, "decision": "Green" }));
    ask(
        root,
        Tool::TaskAdd,
        &json!({ "title": "Buy paint", "context": "c", "goal": "Shed", "owner": "engineer" }),
    );
    ask(root, Tool::TaskAdd, &json!({ "title": "Paint", "context": "c", "deps": [1] }));
    folder
}

/// Says past the capture of output that a test did not run.
fn skipped(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}

#[test]
fn init_makes_the_folder_once() {
    let folder = tempfile::tempdir().unwrap();
    let made = json_of(&nexus(folder.path(), &["init", "--json"]));
    assert_eq!(
        made["created"],
        json!([
            ".nexus",
            ".nexus/state",
            ".nexus/.gitignore",
            ".nexus/state/nexus",
            ".nexus/state/nexus/agent-tracker.json"
        ])
    );
    assert_eq!(std::fs::read_to_string(folder.path().join(".nexus/.gitignore")).unwrap(), "state/\n");
    let again = json_of(&nexus(folder.path(), &["init", "--json"]));
    assert_eq!(again["created"], json!([]));
}

#[test]
fn outside_a_project_the_way_in_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = nexus(folder.path(), &["status"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: nexus project init"));
}

#[test]
fn plan_tasks_and_graph_are_readable() {
    let folder = working();
    let inside = folder.path().join("deep/er");
    std::fs::create_dir_all(&inside).unwrap();
    insta::assert_snapshot!(text(&nexus(&inside, &["plan"])), @r"
    plan 1: Paint the shed (1 of 2 decided)

    r

    [x] 1 Which colour?
          Green
    [ ] 2 Who?
    ");
    insta::assert_snapshot!(text(&nexus(&inside, &["tasks"])), @r"
    goal: Shed

    ID  STATUS  OWNER     AFTER  TASK
    1   ready   engineer         Buy paint
    2   waits             1      Paint
    ");
    insta::assert_snapshot!(text(&nexus(&inside, &["tasks", "--graph"])), @r"
    goal: Shed

    [>] 1 Buy paint  @engineer
    └─ [ ] 2 Paint

    [x] done  [~] in progress  [>] ready  [ ] waiting
    ");
    let status = json_of(&nexus(&inside, &["status", "--json"]));
    assert_eq!(status["plan"]["summary"], json!({ "total": 2, "pending": 1, "decided": 1 }));
    let status = text(&nexus(&inside, &["status"]));
    let (_, below) = status.split_once("branch ").unwrap();
    insta::assert_snapshot!(below, @r"
      unknown
    plan     Paint the shed: 1 of 2 decided
             open         2 Who?
    tasks    0 of 2 completed, 0 in progress, 1 ready
             ready        1 Buy paint @engineer
    history  0 finished cycles
    ");
}

#[test]
fn a_damaged_file_is_named_with_its_place_and_a_way_out() {
    let folder = working();
    let path = folder.path().join(".nexus/state/tasks.json");
    let damaged = "{\n  \"goal\": \"Shed\",\n  \"tasks\": [oops]\n}\n";
    nexus_base::file::replace(&path, damaged.as_bytes(), 0o644, nexus_base::file::Durability::Crash).unwrap();
    for arguments in [["tasks"].as_slice(), &["status"], &["close"]] {
        let output = nexus(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("tasks.json is damaged at line 3, column 13"), "{said}");
        assert!(said.contains("hint: repair the file by hand"), "{said}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    assert!(text(&nexus(folder.path(), &["plan"])).contains("Paint the shed"), "the rest can be seen");
}

#[test]
fn memory_that_all_three_limits_agree_on_goes_as_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        text(&command("git", &root, &[&identity[..], arguments].concat()))
    };
    let put = |path: &str, content: &str| {
        let path = root.join(".nexus").join(path);
        nexus_base::file::create_folder(path.parent().unwrap(), 0o755).unwrap();
        nexus_base::file::replace(&path, content.as_bytes(), 0o644, nexus_base::file::Durability::Crash)
            .unwrap();
    };
    git(&["init", "-q", "-b", "main"]);
    let names = ["old-once.md", "old-often.md", "fresh-once.md", "never-read.md"];
    for name in names {
        put(&format!("memory/{name}"), "words\n");
    }
    let read = |name: &str, at: &str, count: u64| {
        let path = root.join(".nexus/memory").join(name);
        json!({ "path": path, "last_accessed_ts": at, "access_count": count, "last_agent": "x" }).to_string()
            + "\n"
    };
    let now = nexus_base::clock::Timestamp::now().to_string();
    let reads = [
        read("old-once.md", "2020-01-01T00:00:00.000Z", 1),
        read("old-often.md", "2020-01-01T00:00:00.000Z", 9),
        read("fresh-once.md", &now, 1),
    ];
    put("state/nexus/memory-access.jsonl", &reads.concat());
    for _ in 0..3 {
        ask(&root, Tool::TaskClose, &json!({}));
    }
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);

    let table = text(&nexus(&root, &["gc"]));
    assert!(table.starts_with("FILE ") && names.iter().all(|name| table.contains(name)), "{table}");
    let limits = |days: &str, cycles: &str, most: &str| {
        ["gc", "--unused-days", days, "--unused-cycles", cycles, "--most-reads", most].map(str::to_owned)
    };
    let gc = |arguments: &[String]| nexus(&root, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    // Two signs are not three.
    for (days, cycles, most) in [("30", "4", "1"), ("4000", "1", "1"), ("30", "1", "0")] {
        assert_eq!(text(&gc(&limits(days, cycles, most))), "nothing meets all three limits\n");
    }
    for half in [
        ["gc", "--unused-days", "1"].as_slice(),
        &["gc", "--most-reads", "1"],
        &["gc", "--unused-cycles", "1"],
    ] {
        assert_eq!(nexus(&root, half).status.code(), Some(2), "{half:?}");
    }
    assert_eq!(git(&["rev-list", "--count", "HEAD"]).trim(), "1");
    let removed = text(&gc(&limits("30", "3", "1")));
    assert!(
        removed.starts_with("removed .nexus/memory/old-once.md\nto restore them: git checkout "),
        "{removed}"
    );
    assert_eq!(git(&["show", "--name-status", "--format=", "HEAD"]), "D\t.nexus/memory/old-once.md\n");
    let body = git(&["show", "-s", "--format=%B", "HEAD"]);
    let recovery = body.lines().find(|line| line.contains("git checkout")).unwrap().trim().to_owned();
    let words: Vec<&str> = recovery.split(' ').skip(1).collect();
    git(&words);
    assert!(names.iter().all(|name| root.join(".nexus/memory").join(name).exists()), "and back again");
}

#[test]
fn a_closed_cycle_is_found_again() {
    let folder = working();
    let closed = nexus(folder.path(), &["close"]);
    assert_eq!(text(&closed), "archived cycle 1: 1 decision, 2 tasks\n");
    let warned = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(warned.contains("warning: 2 tasks are not completed; they are archived as they are"), "{warned}");
    assert!(text(&nexus(folder.path(), &["history", "PAINT"])).contains("Paint the shed"));
    assert_eq!(text(&nexus(folder.path(), &["history", "no such thing"])), "no cycle matches\n");
    assert_eq!(json_of(&nexus(folder.path(), &["history", "--json"]))["total"], 1);
    assert_eq!(text(&nexus(folder.path(), &["plan"])), "no plan is open\n");
}

#[test]
fn closing_what_holds_nothing_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    nexus(root, &["init"]);
    assert_eq!(text(&nexus(root, &["close"])), "nothing is open\n");
    assert_eq!(json_of(&nexus(root, &["close", "--json"])), json!({ "closed": false }));
    assert!(!root.join(".nexus/history.json").exists());
    assert!(root.join(".nexus/state/nexus/agent-tracker.json").exists(), "the session goes on");
    ask(root, Tool::TaskAdd, &json!({ "title": "Paint", "context": "c" }));
    let closed = nexus(root, &["close"]);
    assert_eq!(text(&closed), "archived cycle 1: 0 decisions, 1 task\n");
    assert!(String::from_utf8_lossy(&closed.stderr).contains("1 task is not completed; it is archived"));
    ask(root, Tool::TaskAdd, &json!({ "title": "Paint", "context": "c" }));
    ask(root, Tool::TaskUpdate, &json!({ "id": 1, "status": "completed" }));
    assert!(nexus(root, &["close"]).stderr.is_empty(), "nothing to warn of");
}

#[test]
fn a_folder_that_is_named_may_lie_inside_the_project() {
    let folder = working();
    let inside = folder.path().join("deep/er");
    std::fs::create_dir_all(&inside).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let named = |path: &Path| nexus(elsewhere.path(), &["--project", path.to_str().unwrap(), "plan"]);
    for path in [folder.path(), &inside] {
        assert!(text(&named(path)).starts_with("plan 1: Paint the shed"));
    }
    for (path, said) in
        [(elsewhere.path(), "no .nexus/ at or above "), (&inside.join("gone"), "there is no folder ")]
    {
        let output = named(path);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
    }
}

#[test]
fn fixtures_decide_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let own = json_of(&nexus(folder.path(), &["conformance", "--json"]));
    assert_eq!(own["failed"], 0);
    assert!(own["total"].as_u64().unwrap() >= 30);
    let wrong = json!({
        "test_id": "wrong", "description": "expects what is not so",
        "action": { "tool": "plan_status" }, "postcondition": { "return_value": { "$.active": true } },
    });
    std::fs::create_dir(folder.path().join("f")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "plants a file for the test")]
    std::fs::write(folder.path().join("f/wrong.json"), wrong.to_string()).unwrap();
    let output = nexus(folder.path(), &["conformance", "f"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("FAIL") && shown.contains("$.active") && shown.ends_with("0 of 1 passed\n"),
        "{shown}"
    );
    assert_eq!(nexus(folder.path(), &["conformance", "nowhere"]).status.code(), Some(1));
}

#[test]
fn upstream_fixtures_pass_through_the_binary() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    if !folder.is_dir() {
        skipped("upstream_fixtures_pass_through_the_binary: no ../shared/conformance");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let report = json_of(&nexus(scratch.path(), &["conformance", folder.to_str().unwrap(), "--json"]));
    assert_eq!((report["total"].as_u64(), report["failed"].as_u64()), (Some(58), Some(0)));
}

#[test]
fn a_full_disk_undoes_what_it_cut_off() {
    let folder = working();
    ask(folder.path(), Tool::TaskClose, &json!({}));
    let history = folder.path().join(".nexus/history.json");
    let long = json!({ "topic": "x".repeat(300_000), "issues": [], "research_summary": "" });
    ask(folder.path(), Tool::PlanStart, &long);
    let (plan, before) = (folder.path().join(".nexus/state/plan.json"), std::fs::read(&history).unwrap());
    // No file may grow past 64 kB (the unit is 512 bytes): the append ends in its middle, as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 128; exec \"$0\" project close";
    let output = command("sh", folder.path(), &["-c", script, env!("CARGO_BIN_EXE_nexus")]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("error: "), "{output:?}");
    assert_eq!(std::fs::read(&history).unwrap(), before);
    assert!(plan.exists());
    assert_eq!(text(&nexus(folder.path(), &["close"])), "archived cycle 2: 0 decisions, 0 tasks\n");
}

#[test]
fn a_folder_nobody_may_write_is_named_and_still_readable() {
    let folder = working();
    let root = folder.path();
    std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o755)).unwrap();
    // As somebody else, so that permissions hold for this test as well when root runs it.
    let as_nobody = |arguments: &[&str]| {
        let change = [
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            env!("CARGO_BIN_EXE_nexus"),
            "project",
        ];
        command("setpriv", root, &[&change[..], arguments].concat())
    };
    if !rustix::process::geteuid().is_root() {
        skipped("a_folder_nobody_may_write_is_named_and_still_readable: only root can become somebody else");
        return;
    }
    assert!(text(&as_nobody(&["plan"])).contains("Paint the shed"));
    let before = std::fs::read(root.join(".nexus/state/plan.json")).unwrap();
    let output = as_nobody(&["close"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("denied"), "{output:?}");
    assert_eq!(std::fs::read(root.join(".nexus/state/plan.json")).unwrap(), before);
}
