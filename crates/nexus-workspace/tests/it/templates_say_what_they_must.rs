//! Sizes and contents of the shipped texts.

use nexus_workspace::templates::{AGENTS_MD, AGENTS_MD_LIMIT, BOOTSTRAP_MD, BOOTSTRAP_MD_LIMIT};

fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "missing: {part}");
    }
}

fn headings(text: &str) -> String {
    text.lines().filter(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n")
}

#[test]
fn agents_md_is_small_and_complete() {
    assert!(AGENTS_MD.len() <= AGENTS_MD_LIMIT, "{} bytes", AGENTS_MD.len());
    insta::assert_snapshot!(headings(AGENTS_MD), @"
    # This is a Nexus workspace
    ## First action
    ## Nexus commands
    ## Who is who
    ## home/
    ## Safety
    ## Do freely, or ask first
    ## Style of tool calls
    ");
    says(
        AGENTS_MD,
        &[
            "nexus status",
            "nexus skills list",
            "nexus skills use",
            "nexus credential list",
            "nexus credential verify",
            "state/agents/NAME/IDENTITY.md",
            "state/agents/NAME/SOUL.md",
            "state/user/IDENTITY.md",
            "`trash`",
            "search the web, look at calendars",
            "leaves this machine",
        ],
    );
    for word in ["group", "channel", "agent_send", "worker", "manager"] {
        assert!(!AGENTS_MD.contains(word), "{word:?} belongs to a role's prompt");
    }
}

#[test]
fn bootstrap_md_tells_the_whole_onboarding() {
    assert!(BOOTSTRAP_MD.len() <= BOOTSTRAP_MD_LIMIT, "{} bytes", BOOTSTRAP_MD.len());
    insta::assert_snapshot!(headings(BOOTSTRAP_MD), @"
    # Onboarding
    ## 1. First reply: greet, start the scans, ask
    ## 2. Get to know each other
    ## 3. Write the identity files
    ## 4. Present the findings
    ## 5. Finish
    ## A further persona
    ## How to answer during onboarding
    ");
    says(
        BOOTSTRAP_MD,
        &[
            "agent_send",
            "op: \"dispatch\"",
            "nexus credential scan --json",
            "nexus credential scan --import",
            "filesystem-scan",
            "in parallel",
            "state/agents/SLUG/IDENTITY.md",
            "state/agents/SLUG/SOUL.md",
            "state/user/IDENTITY.md",
            "Only after a clear yes",
            "Never end a turn in silence",
            "Call `wait` only after you wrote to the owner",
            "Leave BOOTSTRAP.md where it is",
        ],
    );
}
