//! What is approved is what is shown is what runs: no line, blank or letter of a command hides from the person who is
//! asked about it, at the prompt and in `nexus approvals`.

use std::time::Duration;

use nexus_base::text::visible::is_deceptive;
use nexus_testkit::{Run, until};
use serde_json::{Value, json};

use crate::scripted::Scripted;
use crate::terminal::Terminal;

const WITHIN: Duration = Duration::from_secs(30);

/// A comment that a line break ends, blanks that push a command away, a turn of the writing direction.
fn deceiving() -> String {
    format!("echo one # \necho two{}; echo three\necho fo\u{202e}ur\u{200b} # \r\u{1b}[2K", " ".repeat(1_500))
}

/// The message that has a worker ask for this command, in letters that can be typed.
fn message(command: &str, mark: &str) -> String {
    let list = json!([["bash", { "command": command, "network": true }]]).to_string();
    let typed: String = list
        .chars()
        .flat_map(|character| match character {
            ' '..='~' => vec![character],
            _ => format!("\\u{:04x}", u32::from(character)).chars().collect(),
        })
        .collect();
    format!("WORK {typed} {mark}")
}

fn assert_nothing_hides(what: &str, text: &str) {
    let odd: Vec<char> = text.chars().filter(|character| is_deceptive(*character)).collect();
    assert!(odd.is_empty(), "{what} has {odd:?}: {text}");
}

fn waiting(scripted: &Scripted) -> Value {
    until("a question", WITHIN, || {
        scripted.workspace.nexus(&["approvals", "list", "--json"]).json()["approvals"].get(0).cloned()
    })
}

#[test]
fn s7_the_prompt_shows_every_line_blank_and_hidden_letter() {
    let scripted = Scripted::start(|_| {});
    let mut terminal = Terminal::run(&scripted.workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    terminal.press(&format!("{}\r", message(&deceiving(), "typed")));
    terminal.wait_for("Allow this? [y/N]", 1);
    let seen = terminal.seen();
    for row in [
        "4 lines, 1",
        " 1│ run in ",
        " 2│ echo one #⟨␠×1⟩",
        " 3│ echo two⟨␠×1500⟩; echo three",
        " 4│ echo fo\\u{202E}ur\\u{200B} # \\u{D}\\u{1B}[2K",
    ] {
        assert!(seen.contains(row), "{row:?} is not in {seen}");
    }
    assert!(!seen.contains("\u{1b}[2K") || !seen.contains("# \r\u{1b}[2K"), "{seen}");
    assert_nothing_hides("the screen", &seen);
    terminal.press("y\r");
    terminal.wait_for_prompt_after("It is done.");
    assert_nothing_hides("the screen", &terminal.seen());
    // What was shown is what ran.
    let results = scripted.results("typed");
    assert!(results[0].starts_with("one\ntwo\nthree\nfo\u{202e}ur\u{200b}\n"), "{results:?}");
}

#[test]
fn s7_a_long_command_is_read_to_its_end_before_a_yes_counts() {
    let scripted = Scripted::start(|_| {});
    let mut terminal = Terminal::run(&scripted.workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    let command: String = (1..=60).map(|number| format!("echo line-{number}\n")).collect();
    terminal.press(&format!("{}\r", message(&command, "paged")));
    terminal.wait_for("page 1 of 2", 1);
    assert!(!terminal.seen().contains("│ echo line-60") && !terminal.seen().contains("[y/N]"));
    // A yes to the first page is none to the rest of it.
    terminal.press("y\r");
    terminal.wait_for("Allow this? [y/N]", 1);
    assert!(!terminal.seen().contains("allowed this once"));
    for number in 1..=60 {
        assert!(
            terminal.seen().contains(&format!("│ echo line-{number}\r\n")),
            "line {number}: {}",
            terminal.seen()
        );
    }
    terminal.press("y\r");
    terminal.wait_for("allowed this once", 1);
    terminal.wait_for_prompt_after("It is done.");
    assert!(scripted.results("paged")[0].ends_with("line-60\n"));
}

#[test]
fn s7_list_show_approve_and_json_hide_nothing() {
    let scripted = Scripted::start(|_| {});
    let run = |arguments: &[&str]| scripted.workspace.nexus(arguments).ok();
    let command = deceiving();
    let begun = scripted.begin_work(&json!([["bash", { "command": command, "network": true }]]));
    let asked = waiting(&scripted);
    let id = asked["id"].as_str().unwrap();
    // As it is, and as it may be shown.
    assert!(asked["summary"].as_str().unwrap().ends_with(&format!(":\n{command}")), "{asked}");
    let rows: Vec<&str> = asked["shown"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let shown =
        ["echo one #⟨␠×1⟩", "echo two⟨␠×1500⟩; echo three", "echo fo\\u{202E}ur\\u{200B} # \\u{D}\\u{1B}[2K"];
    assert_eq!(rows[1..], shown);
    let whole = run(&["approvals", "show", id]).stdout;
    for (number, row) in (2..).zip(shown) {
        assert!(whole.contains(&format!(" {number}│ {row}\n")), "{row}: {whole}");
    }
    let listed = run(&["approvals", "list"]).stdout;
    assert!(listed.contains("\\u{A}echo two⟨␠×1500⟩; echo three\\u{A}echo fo\\u{202E}ur"), "{listed}");
    let approved = scripted.workspace.run(&Run::new(&["approvals", "approve", id])).ok();
    assert_eq!(approved.stdout, format!("{id} approved\n"));
    assert!(approved.stderr.contains(" 4│ echo fo\\u{202E}ur"), "shown with the yes: {}", approved.stderr);
    for (what, text) in [("show", &whole), ("list", &listed), ("approve", &approved.stderr)] {
        assert_nothing_hides(what, text);
        assert!(!text.contains(['\u{1b}', '\r']), "{what}: {text:?}");
    }
    let done = scripted.finish(&begun);
    assert!(done.results[0].starts_with("one\ntwo\nthree\n"), "{:?}", done.results);
}

#[test]
fn s7_a_list_that_is_too_short_for_it_says_so_and_where_the_rest_is() {
    let scripted = Scripted::start(|_| {});
    let command = format!("echo {}; echo the-end", "x".repeat(3_000));
    let begun = scripted.begin_work(&json!([["bash", { "command": command, "network": true }]]));
    let asked = waiting(&scripted);
    let id = asked["id"].as_str().unwrap();
    let listed = scripted.workspace.nexus(&["approvals", "list"]).ok().stdout;
    let more = format!("in all): nexus approvals show {id}");
    assert!(listed.contains(&more) && listed.contains(" more characters (2 lines"), "{listed}");
    let whole = scripted.workspace.nexus(&["approvals", "show", id]).ok().stdout;
    let joined: String =
        whole.lines().filter_map(|line| line.split_once("┊ ")).map(|(_, text)| text).collect();
    assert!(joined.ends_with("x; echo the-end"), "never cut before the end: {whole}");
    scripted.workspace.nexus(&["approvals", "deny", id]).ok();
    let done = scripted.finish(&begun);
    assert!(done.results[0].contains("the owner refused"), "{:?}", done.results);
}

#[test]
fn s7_a_host_that_looks_like_a_key_is_not_hidden_in_silence() {
    let scripted = Scripted::start(|_| {});
    // Spelled so that it becomes one only in the model's call.
    let call =
        r#"WORK [["bash",{"command":"echo sk\u002dcollector-of-things.example.org","network":true}]] hidden"#;
    let accepted = scripted.daemon.post("/api/chat", &json!({ "message": call })).json();
    let begun = (accepted["requestId"].as_str().unwrap().to_owned(), "hidden".to_owned());
    let asked = waiting(&scripted);
    assert!(asked["summary"].as_str().unwrap().contains("[redacted]"), "{asked}");
    let why = asked["reason"].as_str().unwrap();
    assert!(why.contains("shown as [redacted] and runs unchanged"), "{why}");
    scripted.workspace.nexus(&["approvals", "deny", asked["id"].as_str().unwrap()]).ok();
    scripted.finish(&begun);
}
