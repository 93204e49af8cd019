//! Logins that other tools keep in the keychain are found after a start, in the background; no start waits for them.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};

const SOON: Duration = Duration::from_secs(30);
const ACCOUNT: &str = "state/credentials/anthropic/claude-cli.json";

/// A workspace on a machine whose keychain tool is this script.
fn with_keychain(script: &str) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let programs = workspace.home().join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    for name in ["secret-tool", "security"] {
        let tool = programs.join(name);
        let text = format!("#!/bin/sh\necho \"$*\" >> \"$HOME/keychain.log\"\n{script}\n");
        nexus_base::file::replace(&tool, text.as_bytes(), 0o755, nexus_base::file::Durability::Crash)
            .unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    workspace.set_variable("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    workspace
}

fn asked(workspace: &Workspace) -> String {
    std::fs::read_to_string(workspace.home().join("keychain.log")).unwrap_or_default()
}

#[test]
fn w5_a_login_in_the_keychain_is_found_after_the_start() {
    let secret = format!("sk-ant-{}", "k7".repeat(20));
    let workspace = with_keychain(&format!(
        "case \"$*\" in *'Claude Code-credentials'*) \
         echo '{{\"claudeAiOauth\":{{\"accessToken\":\"{secret}\"}}}}';; *) exit 1;; esac"
    ));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    until("the pointer", SOON, || workspace.path(ACCOUNT).exists().then_some(()));
    let pointer = workspace.file(ACCOUNT);
    assert!(pointer.contains("Claude Code-credentials") && !pointer.contains(&secret), "{pointer}");
    until("codex is asked for, too", SOON, || asked(&workspace).contains("Codex Auth").then_some(()));
    assert!(!workspace.path("state/credentials/openai").exists());
    until("the assistant asks to use it", SOON, || {
        let models = workspace.nexus(&["models", "--json"]).json().to_string();
        models.contains("anthropic").then_some(())
    });
    daemon.stop();
    assert!(!workspace.file("state/logs/nex.log").contains(&secret));
    // Within the time a look stays fresh nobody is asked again for what was found.
    let before = asked(&workspace).matches("Codex Auth").count();
    Daemon::start(&workspace, &DaemonOptions::default()).stop();
    assert_eq!(asked(&workspace).matches("Codex Auth").count(), before);
}

#[test]
fn w5_a_keychain_that_is_locked_hangs_or_is_missing_holds_up_nobody() {
    for script in ["exit 1", "exec sleep 600", "echo not json"] {
        let workspace = with_keychain(script);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        assert_eq!(daemon.get("/health").status, 200, "{script}");
        until("the keychain was asked", SOON, || (!asked(&workspace).is_empty()).then_some(()));
        assert!(!workspace.path(ACCOUNT).exists(), "{script}");
        daemon.stop();
    }
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.set_variable("PATH", "/nowhere");
    Daemon::start(&workspace, &DaemonOptions::default()).stop();
}
