//! A further persona is made beside the first, which stays in use until the owner says otherwise.

use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

use crate::scripted::Scripted;
use crate::terminal::Terminal;

const ATLAS: &str = "---\nname: Atlas\n---\nAtlas carries things.\n";

fn write(path: &str, content: &str) -> Value {
    json!(["write", {"path": path, "content": content}])
}

fn active(workspace: &Workspace) -> String {
    let status = workspace.nexus(&["status", "--json"]).json();
    status["identity"]["agentName"].as_str().unwrap_or_default().to_owned()
}

fn onboarded(workspace: &Workspace) -> bool {
    workspace.nexus(&["status", "--json"]).json()["onboarded"] == true
}

#[test]
fn w3_a_further_persona_takes_nothing_from_the_first() {
    let scripted = Scripted::start(|_| {});
    let first = scripted.workspace.file("state/agents/ada/IDENTITY.md");
    // The manager has the template to read, and a worker writes the files.
    let read = scripted.manage(&json!([["read", {"path": "state/agents/BOOTSTRAP.md"}]]));
    assert!(read.results[0].contains("## A further persona"), "{read:?}");
    let made = scripted.work(&json!([
        write("state/agents/atlas/IDENTITY.md", ATLAS),
        write("state/agents/ada/IDENTITY.md", "---\nname: Nobody\n---\nx\n"),
        write("state/agents/ACTIVE", "atlas\n"),
        write("state/user/IDENTITY.md", "---\nname: Nobody\n---\nx\n"),
    ]));
    assert!(made.results[0].starts_with("made"), "{made:?}");
    for refused in &made.results[1..] {
        assert!(refused.contains("may be read but not changed"), "{made:?}");
    }
    assert_eq!(active(&scripted.workspace), "Ada");
    // Another worker finishes what the first began; then it is finished for workers.
    let soul = || json!([write("state/agents/atlas/SOUL.md", "Strong and quiet.\n")]);
    assert!(scripted.work(&soul()).results[0].starts_with("made"));
    let again = scripted.work(&soul());
    assert!(again.results[0].contains("may be read but not changed"), "{again:?}");
    // The manager writing one changes nothing either.
    scripted.manage(&json!([write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNew.\n")]));
    assert_eq!(active(&scripted.workspace), "Ada");
    assert!(onboarded(&scripted.workspace));
    assert_eq!(scripted.workspace.file("state/agents/ada/IDENTITY.md"), first);
    scripted.daemon.stop();
    let daemon = Daemon::start(&scripted.workspace, &DaemonOptions::default());
    assert_eq!(active(&scripted.workspace), "Ada", "after a restart");
    daemon.stop();
}

#[test]
fn w3_changing_the_persona_in_use_is_asked() {
    for agrees in [false, true] {
        let scripted = Scripted::start(|workspace| {
            workspace.write("state/agents/ada/SOUL.md", "Kind.\n");
        });
        scripted.work(&json!([write("state/agents/atlas/IDENTITY.md", ATLAS)]));
        let mut terminal = Terminal::run(&scripted.workspace, &["chat"]);
        terminal.wait_for("> ", 1);
        terminal.press(&format!("SELF {} typed\r", json!([write("state/agents/ACTIVE", "atlas")])));
        terminal.wait_for("Allow this? [y/N]", 1);
        assert_eq!(active(&scripted.workspace), "Ada", "asked and not answered");
        let seen = terminal.seen();
        assert!(seen.contains("write state/agents/ACTIVE") && seen.contains("atlas"), "{seen}");
        terminal.press(if agrees { "y\r" } else { "n\r" });
        terminal.wait_for_prompt_after("All 1 calls are made.");
        let done = scripted.results("typed");
        assert_eq!(active(&scripted.workspace), if agrees { "Atlas" } else { "Ada" }, "{done:?}");
        let told = scripted.manage(&json!([["read", {"path": "state/agents/ACTIVE"}]]));
        let system = scripted.server.asked().last().unwrap().system();
        let name = if agrees { "You are Atlas" } else { "You are Ada" };
        assert!(system.starts_with(name), "{told:?} {system}");
        scripted.daemon.stop();
    }
}
