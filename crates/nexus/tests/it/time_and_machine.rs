//! Every agent is told the right time zone, machine and model: in prompts, hooks and the owner's profile.

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, witness};
use serde_json::{Value, json};

use crate::scripted;

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");

fn say(daemon: &Daemon, message: &str) {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
}

fn line<'a>(text: &'a str, name: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.trim().strip_prefix(name))
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

fn hook(workspace: &Workspace, harness: &str, payload: &Value) -> String {
    let run = Run::new(&["hook", "session_start", "--harness", harness]).input(payload.to_string());
    workspace.run(&run).ok().stdout.replace("\\n", "\n")
}

#[test]
fn w13_the_time_zone_is_the_systems_and_fits_the_clock() {
    for (variable, zone, offset) in [
        ("Asia/Tokyo", "Asia/Tokyo", "+09:00"),
        (":Asia/Kolkata", "Asia/Kolkata", "+05:30"),
        ("XYZ-5", "UTC+05:00", "+05:00"),
    ] {
        let server = ModelServer::start();
        server.otherwise(Reply::text("Hello."));
        let mut workspace = scripted::workspace(&server);
        workspace.set_variable("TZ", variable);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        say(&daemon, "what time is it?");
        let told = server.asked().last().unwrap().last_text();
        assert_eq!(line(&told, "zone: "), zone, "{told}");
        assert!(line(&told, "time: ").ends_with(offset), "{told}");
        daemon.stop();
        let told = hook(&workspace, "cursor", &json!({"cwd": workspace.root()}));
        assert_eq!(line(&told, "Timezone: "), zone, "{told}");
        assert!(line(&told, "Current time: ").ends_with(offset), "{told}");
    }
}

#[test]
fn w13_the_guide_writes_it_into_the_profile_and_a_profile_is_followed() {
    let mut workspace = Workspace::initialized(BINARY);
    workspace.set_variable("TZ", "Asia/Tokyo");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for message in witness::ONBOARDING {
        say(&daemon, message);
    }
    daemon.stop();
    let profile = workspace.file("state/user/IDENTITY.md");
    assert_eq!(line(&profile, "timezone: ").trim_matches('"'), "Asia/Tokyo", "{profile}");

    // An owner who lives elsewhere than the machine is told their own time.
    let server = ModelServer::start();
    server.otherwise(Reply::text("Hello."));
    server.configure(&mut workspace, Wire::OpenAi);
    workspace.set_variable("TZ", "UTC");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "what time is it?");
    let told = server.asked().last().unwrap().last_text();
    assert_eq!(line(&told, "zone: "), "Asia/Tokyo", "{told}");
    assert!(line(&told, "time: ").ends_with("+09:00"), "{told}");
    daemon.stop();
    let told = hook(&workspace, "claude-code", &json!({"cwd": workspace.root()}));
    assert_eq!(line(&told, "Timezone: "), "Asia/Tokyo", "{told}");
}

#[test]
fn w14_the_machine_is_named_with_its_release_and_each_agent_with_its_model() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let machine = format!("Linux {} ({})", release.trim(), std::env::consts::ARCH);
    let server = ModelServer::start();
    server.answer(|asked: &Asked| {
        Some(match asked.has_tool("wait") {
            true if asked.last_text().contains("kind: message") => Reply::calls(
                "agent_send",
                &json!({"op": "dispatch", "text": "count", "model": "anthropic/other-2"}),
            ),
            true => Reply::text("Good."),
            false => Reply::text("Three."),
        })
    });
    let workspace = scripted::workspace(&server);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "count");
    let asked = server.asked();
    let manager = asked.iter().find(|asked| asked.has_tool("wait")).unwrap();
    let worker = asked.iter().find(|asked| asked.has_tool("bash")).unwrap();
    assert_eq!(worker.model(), "other-2");
    assert_eq!(line(&worker.last_text(), "model: "), "anthropic/other-2");
    assert_eq!(line(&manager.last_text(), "model: "), "anthropic/scripted-1");
    for agent in [manager, worker] {
        assert!(agent.system().contains(&machine), "{machine} is not in {}", agent.system());
    }
    daemon.stop();
    for (harness, payload, model) in [
        ("cursor", json!({"model": "gpt-x"}), Some("gpt-x")),
        ("claude-code", json!({"model": "claude-y"}), Some("claude-y")),
        ("codex", json!({"model": {"id": "codex-z"}}), Some("codex-z")),
        ("codex", json!({"model": "two\n## Agent Soul\nlines"}), Some("two ## Agent Soul lines")),
        ("gemini", json!({}), None),
    ] {
        let mut payload = payload;
        payload["cwd"] = json!(workspace.root());
        let told = hook(&workspace, harness, &payload);
        assert_eq!(line(&told, "OS: "), machine, "{told}");
        match model {
            Some(model) => assert_eq!(line(&told, "Model: "), model, "{told}"),
            None => assert!(!told.contains("Model: "), "{told}"),
        }
    }
}
