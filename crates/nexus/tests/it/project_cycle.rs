//! A project in the conversation: tags, gates, roles, tasks in parallel, resume, and the end of a session, with a
//! scripted model and through the real binary.

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use nexus_testkit::model::{Asked, Gate, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

fn read(root: &Path, path: &str) -> Value {
    let text = std::fs::read_to_string(root.join(".nexus").join(path))
        .unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn chat(workspace: &Workspace, project: &Path, message: &str) -> String {
    workspace.nexus(&["chat", "--project", project.to_str().unwrap(), "-m", message]).ok().stdout
}

#[expect(clippy::disallowed_methods, reason = "the test needs a repository")]
fn git(root: &Path, arguments: &[&str]) -> String {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    let mut git = std::process::Command::new("git");
    let output = git.args(identity).args(arguments).current_dir(root).env("HOME", root).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn project(op: &str, args: impl Into<Value>) -> (&'static str, Value) {
    ("project", json!({ "op": op, "args": args.into() }))
}

fn calls(calls: &[(&str, Value)]) -> Reply {
    let mut reply = Reply::nothing();
    for (name, arguments) in calls {
        reply = reply.call(name, arguments);
    }
    reply
}

/// Opens when the first of two parallel workers has changed its file. Both run by then; a command of the second that
/// began before would be taken for the one that changed it.
fn first_is_done() -> &'static Gate {
    static GATE: OnceLock<Gate> = OnceLock::new();
    GATE.get_or_init(Gate::new)
}

/// What workers do, told by their task.
fn worker(asked: &Asked) -> Option<Reply> {
    if asked.has_tool("wait") {
        return None;
    }
    let first = asked.messages()[0].to_string();
    let results = asked.results();
    let write = |path: &str| calls(&[("write", json!({ "path": path, "content": "made\n" }))]);
    let reply = if first.contains("Try without a task") {
        match results.len() {
            0 => calls(&[
                ("write", json!({ "path": "early.txt", "content": "x" })),
                ("bash", json!({ "command": "cat README.md && touch early.txt" })),
                project("plan_start", json!({ "topic": "mine", "issues": [], "research_summary": "" })),
            ]),
            _ => Reply::text(format!(
                "tried: {}",
                results.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" | ")
            )),
        }
    } else if first.contains("TASK: Verify") {
        match results.len() {
            0 => calls(&[("bash", json!({ "command": "cat a.txt b.txt && touch c.txt" }))]),
            _ => Reply::text(format!("verified 3: {}", results[0].1)),
        }
    } else if asked.contains("TASK: Polish A") && asked.last_text().contains("TASK: Polish A") {
        write("a.txt")
    } else if asked.contains("TASK: Polish A") {
        Reply::text("done 1")
    } else if first.contains("TASK: Make A") {
        match results.len() {
            0 => calls(&[
                ("write", json!({ "path": "a.txt", "content": "made\n" })),
                ("agent_send", json!({ "op": "dispatch", "text": "do my work" })),
                project("task_add", json!({ "title": "more", "context": "c" })),
                ("read", json!({ "path": ".nexus/memory/shop-euros-cents.md" })),
            ]),
            _ => {
                first_is_done().open();
                Reply::text(format!("done 1; {} | {}", results[1].1, results[2].1))
            }
        }
    } else if first.contains("TASK: Make B") {
        match results.len() {
            0 => calls(&[("bash", json!({ "command": "printf 'made\\n' > b.txt" }))]).hold(first_is_done()),
            _ => Reply::text("done 2"),
        }
    } else {
        Reply::text("what is my task?")
    };
    Some(reply)
}

/// What a manager does when results come: completes their tasks, then verifies, then closes.
#[derive(Default)]
struct Lead {
    done: Mutex<Vec<u64>>,
}

impl Lead {
    fn answer(&self, asked: &Asked) -> Option<Reply> {
        if !asked.has_tool("wait") {
            return None;
        }
        let last = asked.last_text();
        let mut done = self.done.lock().unwrap();
        if last.contains("kind: worker_result") && last.contains("tried: ") {
            return Some(Reply::text("It could not."));
        }
        if !last.contains("kind: worker_result") && asked.results().is_empty() {
            return None;
        }
        let fresh: Vec<u64> = [(1, "done 1"), (2, "done 2"), (3, "verified 3")]
            .into_iter()
            .filter(|(id, words)| last.contains(words) && !done.contains(id))
            .map(|(id, _)| id)
            .collect();
        if !fresh.is_empty() {
            let updates: Vec<(&str, Value)> = fresh
                .iter()
                .map(|id| project("task_update", json!({ "id": id, "status": "completed" })))
                .collect();
            done.extend(&fresh);
            return Some(calls(&updates));
        }
        // The answers to the updates above.
        if !last.contains("\"status\":\"completed\"") {
            return None;
        }
        match done.len() {
            2 if !done.contains(&3) => Some(calls(&[("agent_send", json!({ "op": "dispatch", "task": 3 }))])),
            3 => Some(calls(&[project("task_close", json!({}))])),
            _ => Some(Reply::text("One is done.")),
        }
    }
}

#[test]
fn a_plan_becomes_tasks_that_roles_carry_out_in_parallel_and_a_closed_cycle() {
    let server = ModelServer::start();
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().canonicalize().unwrap().join("shop");
    std::fs::create_dir_all(root.join(".nexus/memory")).unwrap();
    nexus_base::file::replace(
        &root.join("README.md"),
        b"a shop\n",
        0o644,
        nexus_base::file::Durability::Crash,
    )
    .unwrap();
    server.answer(worker);
    let lead = Lead::default();
    server.answer(move |asked| lead.answer(asked));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());

    // No task covers anything yet: the gate holds for files and commands, and nowhere else.
    server.script([
        calls(&[
            ("write", json!({ "path": "notes.md", "content": "x" })),
            ("agent_send", json!({ "op": "dispatch", "text": "Try without a task" })),
        ]),
        Reply::text("I let somebody try."),
    ]);
    let tried = chat(&workspace, root, "[m] the shop uses euros and cents");
    assert!(tried.contains("It could not."), "{tried}\n{}", daemon.log());
    let first = &server.asked()[0];
    assert!(
        first.has_tool("project") && first.last_text().contains("new file .nexus/memory/"),
        "{}",
        first.last_text()
    );
    assert!(!root.join("early.txt").exists());
    assert_eq!(workspace.file("state/workspace/manager/notes.md"), "x");
    let report = server.asked().iter().map(Asked::last_text).find(|text| text.contains("tried: ")).unwrap();
    assert!(report.contains("No task covers changes in") && report.contains("task_add"), "{report}");
    assert!(report.contains("a shop") && report.contains("[gate]"), "{report}");
    assert!(report.contains("A worker may not call plan_start"), "{report}");

    // A plan, decided by a tag.
    server.script([
        calls(&[project(
            "plan_start",
            json!({ "topic": "Build it", "issues": ["Which files?"], "research_summary": "looked" }),
        )]),
        Reply::text("Which files?"),
    ]);
    chat(&workspace, root, "[plan] Build it");
    let planning =
        server.asked().iter().map(Asked::last_text).find(|text| text.contains("[plan] Build it")).unwrap();
    assert!(
        planning.contains("The person started the skill nx-plan.") && planning.contains("# Planning"),
        "{planning}"
    );
    server.script([Reply::text("Noted.")]);
    chat(&workspace, root, "[d] a.txt and b.txt");
    assert_eq!(read(root, "state/plan.json")["issues"][0]["decision"], "a.txt and b.txt");
    let decided = server.asked().last().unwrap().last_text();
    assert!(decided.contains("decided issue 1") && decided.contains("Active skill: nx-plan"), "{decided}");

    // Carried out: two at once, the third when both are there.
    let task = |title: &str, owner: &str, deps: Value| {
        let acceptance = "it is there";
        project(
            "task_add",
            json!({ "title": title, "context": "c", "owner": owner, "deps": deps, "acceptance": acceptance, "goal": "Build it" }),
        )
    };
    let send = |task: u64| ("agent_send", json!({ "op": "dispatch", "task": task }));
    server.script([
        calls(&[
            task("Make A", "engineer", json!([])),
            task("Make B", "engineer", json!([])),
            task("Verify", "tester", json!([1, 2])),
        ]),
        calls(&[
            send(1),
            send(2),
            send(3),
            ("agent_send", json!({ "op": "dispatch", "agent": "wizard", "text": "x" })),
        ]),
        Reply::text("Two are at work."),
        Reply::text("It waits for the tester."),
        Reply::text("All is done and archived."),
    ]);
    let run = chat(&workspace, root, "[run]");
    assert!(run.contains("All is done and archived."), "{run}\n{}", daemon.log());
    let asked = server.asked();
    let sent =
        asked.iter().map(Asked::last_text).find(|text| text.contains("there is no role \"wizard\"")).unwrap();
    assert_eq!(sent.matches("spawned_session_label").count(), 2, "{sent}");
    assert!(sent.contains("task 3 waits for task 1, 2"), "{sent}");
    let cycle = &read(root, "history.json")["cycles"][0];
    assert_eq!(cycle["plan"]["topic"], "Build it");
    assert!(cycle["tasks"].as_array().unwrap().iter().all(|task| task["status"] == "completed"), "{cycle}");
    assert!(!root.join(".nexus/state/tasks.json").exists() && !root.join("c.txt").exists());

    // Roles: their words, their tools, their limits.
    let engineer =
        asked.iter().find(|asked| !asked.has_tool("wait") && asked.contains("TASK: Make A")).unwrap();
    assert!(engineer.system().contains("You carry out one task in code"), "{}", engineer.system());
    assert!(
        engineer.last_text().contains("ACCEPTANCE:\n") || engineer.contains("ACCEPTANCE:"),
        "{}",
        engineer.last_text()
    );
    assert!(engineer.contains(".nexus/memory/shop-euros-cents.md"), "{}", engineer.last_text());
    let tester =
        asked.iter().find(|asked| asked.contains("TASK: Verify") && !asked.has_tool("wait")).unwrap();
    assert!(!tester.has_tool("write") && !tester.has_tool("edit") && tester.has_tool("bash"));
    let verified = asked.iter().map(Asked::last_text).find(|text| text.contains("verified 3: ")).unwrap();
    assert!(verified.contains("made") && verified.contains("[gate]"), "{verified}");
    let reported = asked.iter().map(Asked::last_text).find(|text| text.contains("done 1; ")).unwrap();
    assert!(
        reported.contains("a worker with a role cannot dispatch")
            && reported.contains("The role engineer may not call task_add"),
        "{reported}"
    );
    // Lead is reminded of what is promised and open.
    assert!(
        asked.iter().any(|asked| asked.last_text().contains("verify the acceptance of task 1: it is there"))
    );

    // Everything was written down.
    let tracker = read(root, "state/nexus/agent-tracker.json");
    let names: Vec<&str> =
        tracker.as_array().unwrap().iter().map(|entry| entry["agent_name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| **name == "engineer").count(), 2, "{tracker}");
    assert!(names.contains(&"tester") && names.contains(&"worker"), "{tracker}");
    let touched: Vec<&Value> =
        tracker.as_array().unwrap().iter().map(|entry| &entry["files_touched"]).collect();
    assert!(touched.contains(&&json!(["a.txt"])) && touched.contains(&&json!(["b.txt"])), "{tracker}");
    let log = std::fs::read_to_string(root.join(".nexus/state/tool-log.jsonl")).unwrap();
    assert!(log.contains("\"status\":\"blocked\"") && log.contains("\"tool\":\"bash\""), "{log}");

    workspace.nexus(&["config", "set", "project.tool_log", "harness"]).ok();
    workspace.nexus(&["config", "reload"]).ok();
    assert!(!root.join(".nexus/state/nexus/tool-log.jsonl").exists());

    // The next task about the same file goes to the one who made it; what it knew, it still knows.
    server.script([
        calls(&[task("Polish A", "engineer", json!([])), project("task_list", json!({}))]),
        calls(&[("agent_send", json!({ "op": "dispatch", "task": 1, "text": "It is a.txt again." }))]),
        Reply::text("It goes on."),
        Reply::text("Polished."),
    ]);
    let again = chat(&workspace, root, "Polish a.txt");
    assert!(again.contains("Polished."), "{again}\n{}", daemon.log());
    let asked = server.asked();
    assert!(asked.iter().any(|asked| asked.last_text().contains("\"resumed\":true")));
    let resumed = asked.iter().find(|asked| asked.last_text().contains("TASK: Polish A")).unwrap();
    assert!(
        resumed.last_text().contains("read the target files again") && resumed.contains("TASK: Make"),
        "{}",
        resumed.last_text()
    );
    let tracker = read(root, "state/nexus/agent-tracker.json");
    let counts: Vec<u64> =
        tracker.as_array().unwrap().iter().map(|entry| entry["resume_count"].as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 1, "{tracker}");
    let own = std::fs::read_to_string(root.join(".nexus/state/nexus/tool-log.jsonl")).unwrap();
    assert!(own.contains("\"tool\":\""), "written where the setting says now: {own}");
    let reads = std::fs::read_to_string(root.join(".nexus/state/nexus/memory-access.jsonl")).unwrap();
    assert!(reads.contains("shop-euros-cents.md") && reads.contains("\"access_count\":1"), "{reads}");

    // The skills without a part in the cycle: a tag or a command brings the whole instructions of each.
    let own = nexus_project::catalog::Catalog::embedded().unwrap();
    for (typed, skill) in [("/nx-init", "nx-init"), ("/nx-setup", "nx-setup"), ("[sync]", "nx-sync")] {
        server.script([Reply::text("Begun.")]);
        assert!(chat(&workspace, root, typed).contains("Begun."), "{typed}");
        let told = server.asked().last().unwrap().last_text();
        let heading = own.skill(skill).unwrap().body.lines().next().unwrap();
        assert!(told.contains(&format!("The person started the skill {skill}.")), "{typed}: {told}");
        assert!(heading.starts_with("# ") && told.contains(heading), "{typed}: {told}");
    }

    daemon.stop();
    assert!(!root.join(".nexus/state/nexus/agent-tracker.json").exists());
    assert!(!root.join(".nexus/state/nexus/session.json").exists());
    assert!(root.join(".nexus/history.json").exists());
}

#[test]
fn the_guide_carries_out_a_cycle_in_its_simple_form_and_says_where_projects_are() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let folder = tempfile::tempdir().unwrap();
    let root = &folder.path().canonicalize().unwrap();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let planned = chat(&workspace, root, "[plan] Make a page");
    assert!(planned.contains("The plan “Make a page” is open."), "{planned}\n{}", daemon.log());
    let early = chat(&workspace, root, "[run]");
    assert!(early.contains("Issue 1 is still open"), "{early}");
    let decided = chat(&workspace, root, "[d] run `printf hi > page.txt`");
    assert!(decided.contains("Decided issue 1"), "{decided}");
    let run = chat(&workspace, root, "[run]");
    assert!(run.contains("archived as cycle 1"), "{run}\n{}", daemon.log());
    assert_eq!(std::fs::read_to_string(root.join("page.txt")).unwrap(), "hi");
    let cycle = &read(root, "history.json")["cycles"][0];
    assert_eq!(
        (&cycle["tasks"][0]["status"], &cycle["tasks"][0]["owner"]),
        (&json!("completed"), &json!("engineer"))
    );

    // What the guide advises leads on: a decision without a command, then one that fails, then one that works.
    chat(&workspace, root, "[plan] Build a shed");
    chat(&workspace, root, "[d] use wood");
    let wordy = chat(&workspace, root, "[run]");
    assert!(wordy.contains("issue 1 contains no command") && wordy.contains("[d] #1 run `"), "{wordy}");
    assert!(!root.join(".nexus/state/tasks.json").exists(), "no task that nobody can do");
    chat(&workspace, root, "[d] #1 run `cat wood`");
    let failed = chat(&workspace, root, "[run]");
    assert!(failed.contains("Task 1 failed") && failed.contains("[run] tries it again"), "{failed}");
    assert_eq!(read(root, "state/tasks.json")["tasks"][0]["status"], "pending");
    let again = chat(&workspace, root, "[run]");
    assert!(again.contains("Task 1 failed"), "{again}");
    chat(&workspace, root, "[d] #1 run `printf shed > shed.txt`");
    let built = chat(&workspace, root, "[run]");
    assert!(built.contains("archived as cycle 2"), "{built}\n{}", daemon.log());
    assert_eq!(std::fs::read_to_string(root.join("shed.txt")).unwrap(), "shed");
    let tasks = &read(root, "history.json")["cycles"][1]["tasks"];
    assert_eq!(
        (&tasks[0]["status"], &tasks[1]["status"]),
        (&json!("pending"), &json!("completed")),
        "as it was"
    );

    // Closing from outside ends the session; the next turn begins another.
    chat(&workspace, root, "[plan] Nothing more");
    workspace.nexus(&["project", "--project", root.to_str().unwrap(), "close"]).ok();
    assert!(!root.join(".nexus/state/nexus/session.json").exists());
    chat(&workspace, root, "[rule:git] no force pushes");
    assert!(root.join(".nexus/state/nexus/session.json").exists());
    assert!(std::fs::read_to_string(root.join(".nexus/rules/git.md")).unwrap().contains("no force pushes"));

    // The other skills begin as well; the guide says that it knows no more than two of them.
    for skill in ["/nx-init", "/nx-setup", "[sync]"] {
        let told = chat(&workspace, root, skill);
        assert!(told.contains("the only skills I know are [plan] and [run]"), "{skill}: {told}");
    }

    // Memory goes by hand, as a commit that names the way back.
    git(root, &["init", "-q", "-b", "main"]);
    chat(&workspace, root, "[m] old servers live in the cellar");
    let name = "old-servers-live-cellar.md";
    let refused = chat(&workspace, root, &format!("[m:gc] {name}"));
    assert!(refused.contains("ot done"), "{refused}");
    git(root, &["add", "-A"]);
    git(root, &["commit", "-q", "-m", "first"]);
    let standing = workspace.nexus(&["project", "--project", root.to_str().unwrap(), "gc", "--json"]).json();
    assert_eq!(standing["memory"][0]["name"], name, "{standing}");
    let shown = chat(&workspace, root, "[m:gc]");
    assert!(shown.contains(&format!("- {name}: never read as far as is known")), "{shown}");
    let removed = chat(&workspace, root, &format!("[m:gc] {name}"));
    assert!(removed.contains("to restore them: git checkout"), "{removed}");
    assert!(!root.join(".nexus/memory").join(name).exists());
    assert_eq!(
        git(root, &["show", "--name-status", "--format=", "HEAD"]),
        format!("D\t.nexus/memory/{name}")
    );
    let unused = ["--unused-days", "1", "--unused-cycles", "1"];
    let half = [&["project", "--project", root.to_str().unwrap(), "gc"][..], &unused].concat();
    assert_eq!(workspace.nexus(&half).code(), Some(2), "three limits or none");

    // Without a project.
    let say = |message: &str| workspace.nexus(&["chat", "-m", message]).ok().stdout;
    for tag in ["[plan] x", "[run]", "/nx-init", "[rule] y"] {
        let told = say(tag);
        assert!(told.contains("nexus chat --project PATH"), "{tag}: {told}");
    }
    assert!(say("[m] the vault opens on Fridays").contains("emembered: the vault opens on Fridays"));
    let known = workspace.nexus(&["memory", "recall", "when does the vault open"]).ok().stdout;
    assert!(known.contains("vault opens on Fridays"), "{known}");
    assert!(!workspace.home().join(".nexus").exists());

    // A conversation keeps what it began with, and some folders are no projects.
    let named = |session: Option<&str>, project: &Path| {
        let mut arguments = vec!["chat", "--project", project.to_str().unwrap(), "-m", "hi"];
        arguments.extend(session.into_iter().flat_map(|session| ["--session", session]));
        workspace.nexus(&arguments)
    };
    workspace.nexus(&["chat", "--session", "chat:talk", "-m", "hi"]).ok();
    let refused = named(Some("chat:talk"), root);
    assert!(refused.code() != Some(0) && refused.stderr.contains("has no project"), "{refused:?}");
    for wrong in [workspace.root().to_owned(), root.join("missing"), root.join("page.txt"), "/".into()] {
        let refused = named(None, &wrong);
        assert!(refused.code() != Some(0), "{wrong:?}: {refused:?}");
    }
    daemon.stop();
}

/// Advises twice: the second time in the session of the first.
fn advice(asked: &Asked) -> Option<Reply> {
    let last = asked.last_text();
    let send = |text: &str| {
        calls(&[("agent_send", json!({ "op": "dispatch", "agent": "architect", "text": text }))])
    };
    if !asked.has_tool("wait") {
        let which = if last.contains("second question") { "second answer" } else { "first answer" };
        return Some(Reply::text(which));
    }
    Some(match () {
        () if last.contains("second answer") => Reply::text("Both are answered."),
        () if last.contains("first answer") => send("second question"),
        () if last.contains("spawned_session_label") => Reply::text("Asked."),
        () => send("first question"),
    })
}

#[test]
fn a_worker_that_goes_on_is_sent_off_once_whatever_dies() {
    for place in ["s5.redispatch.before_commit", "s5.redispatch.committed"] {
        let server = ModelServer::start();
        server.answer(advice);
        let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        server.configure(&mut workspace, Wire::OpenAi);
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        let sent = json!({ "message": "Ask twice", "project": root, "idempotencyKey": "once" });
        let accepted = daemon.post("/api/chat", &sent).json();
        let request = accepted["requestId"].as_str().unwrap().to_owned();
        daemon.wait_for_end(std::time::Duration::from_secs(30));
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
        assert_eq!(waited["quiescent"], true, "{place}: {waited}\n{}", daemon.log());
        let said = waited["replies"].to_string();
        assert_eq!(said.matches("Both are answered.").count(), 1, "{place}: {said}");
        let asked = server.asked();
        let second = asked
            .iter()
            .filter(|asked| !asked.has_tool("wait") && asked.last_text().contains("second question"));
        assert_eq!(second.count(), 1, "{place}");
        assert!(
            asked
                .iter()
                .any(|asked| asked.contains("first answer") && asked.last_text().contains("second question"))
        );
        daemon.stop();
    }
}
