//! The conversation in README.md is what the program says.

use std::time::Duration;

use nexus_testkit::{Run, Workspace};

use crate::architecture::source::read;

#[test]
fn the_transcript_in_the_readme_is_what_the_program_says() {
    let readme = read("README.md");
    let block = readme.split("compared by a test -->").nth(1).expect("README.md has a transcript");
    let block =
        block.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).expect("a block of text");
    let (command, shown) = block.split_once('\n').expect("a command and what it prints");
    let said = command.split('\'').nth(1).expect("the command pipes quoted text").replace("\\n", "\n");

    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let run = Run::new(&["up", "--port", "0"]).input(said).within(Duration::from_secs(120));
    let finished = workspace.run(&run).ok();
    assert_eq!(spoken(shown), spoken(&finished.stdout), "run `cargo xtask transcript`");
}

/// Leaves out what workers show while they work, which comes when it comes, and the days of dates.
fn spoken(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| !line.starts_with("  · ") && !line.trim().is_empty())
        .map(|line| {
            line.split(' ')
                .map(|word| if is_date(word) { "DATE" } else { word })
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

fn is_date(word: &str) -> bool {
    let word = word.trim_end_matches(':');
    word.len() == 10 && word.split('-').count() == 3 && word.chars().all(|c| c.is_ascii_digit() || c == '-')
}
