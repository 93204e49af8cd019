//! Secrets at a real terminal: typed unseen, shown when asked for, and the terminal is as it was.

use nexus_testkit::{Workspace, until};

use crate::terminal::{Terminal, WITHIN};

#[test]
fn a_secret_is_typed_unseen_and_shown_on_the_terminal_alone() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut typing = Terminal::run(&workspace, &["credential", "add", "github", "--account", "me"]);
    until("the prompt, with nothing echoed", WITHIN, || {
        (!typing.seen().is_empty() && !typing.echoes()).then_some(())
    });
    typing.press("typed-in-the-dark\n");
    let (code, screen) = typing.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("typed-in-the-dark"), "{screen}");

    // At a terminal it is shown without --raw; into a pipe it is not.
    let (code, screen) = Terminal::run(&workspace, &["credential", "get", "github/me"]).finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("typed-in-the-dark"), "{screen}");
    assert_eq!(workspace.nexus(&["credential", "get", "github/me"]).code(), Some(2));
    assert_eq!(
        workspace.nexus(&["credential", "get", "github/me", "--raw"]).ok().stdout,
        "typed-in-the-dark\n"
    );
}

#[test]
fn an_interrupted_prompt_leaves_the_terminal_as_it_was() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut typing = Terminal::run(&workspace, &["credential", "add", "github"]);
    until("the prompt", WITHIN, || (!typing.seen().is_empty() && !typing.echoes()).then_some(()));
    // End of input instead of a secret.
    typing.press("\u{4}");
    let (code, screen) = typing.finish();
    assert_ne!(code, Some(0), "{screen}");
    assert!(!workspace.path("state/credentials/github").exists(), "nothing was stored");
}
