//! The command tree as people and scripts see it.

use nexus_testkit::{Finished, Workspace};

fn nexus(arguments: &[&str]) -> Finished {
    Workspace::new(env!("CARGO_BIN_EXE_nexus")).nexus(arguments)
}

/// Names in the `Commands:` part of a help text.
fn commands_in(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_tree_has_these_names() {
    let mut tree = Vec::new();
    for name in commands_in(&nexus(&["--help"]).ok().stdout) {
        let below = commands_in(&nexus(&[&name, "--help"]).ok().stdout);
        tree.push(if below.is_empty() { name } else { format!("{name} {}", below.join("|")) });
    }
    insta::assert_snapshot!(tree.join("\n"), @r"
    up
    init
    start
    stop
    status
    chat
    trace
    undo
    sessions compactions|compact|reset|undo
    identity
    approvals list|show|approve|deny
    tokens list|create|revoke|rotate
    config get|set|list|schema|reload|rotate-token
    models list|allow|refuse
    credential list|get|add|sync|scan|verify|flag|order|remove
    skills list|use|info|scan|verify
    automation list|info|enable|disable|register|remove|test|invocations
    memory recall|add|changes|entities|forget|stats|eval
    project init|status|plan|tasks|history|close|gc|conformance|catalog
    mcp
    bindings claude-code|codex|cursor|opencode|gemini|qwen|list|check|remove
    hook
    logs
    doctor
    backup
    restore
    usage
    trust
    kernel serve|status|ping|torture|ws
    ws create|list|destroy
    completions
    ");
}

#[test]
fn every_command_shows_an_example() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let mut silent = Vec::new();
    for name in commands_in(&workspace.nexus(&["--help"]).ok().stdout) {
        let help = workspace.nexus(&[&name, "--help"]).ok().stdout;
        for below in commands_in(&help) {
            if !workspace.nexus(&[&name, &below, "--help"]).ok().stdout.contains("Example") {
                silent.push(format!("{name} {below}"));
            }
        }
        if !help.contains("Example") {
            silent.push(name);
        }
    }
    assert!(silent.is_empty(), "no example in the help of: {}", silent.join(", "));
}

#[test]
fn exit_codes_are_documented() {
    assert!(nexus(&["--help"]).ok().stdout.contains("Exit codes:"));
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(nexus(&["--version"]).ok().stdout, format!("nexus {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_wrong_command_line_is_two_lines_and_exit_two() {
    for arguments in
        [&["frobnicate"][..], &["chat", "--nonsense"], &["config", "set"], &["start", "--port", "x"]]
    {
        let finished = nexus(arguments);
        assert_eq!(finished.code(), Some(2), "{arguments:?}");
        assert_eq!(finished.stdout, "", "{arguments:?}");
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].starts_with("error: ") && lines[1].starts_with("hint: "),
            "{arguments:?}: {lines:?}"
        );
    }
}

#[test]
fn no_command_at_all_shows_help_and_exit_two() {
    let finished = nexus(&[]);
    assert_eq!(finished.code(), Some(2));
    assert!(finished.stderr.contains("Commands:"));
}

#[test]
fn completions_exist_for_the_usual_shells() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(nexus(&["completions", shell]).ok().stdout.contains("nexus"), "{shell}");
    }
    assert_eq!(nexus(&["completions", "abacus"]).code(), Some(2));
}
