//! What a session is told first: who the agent is, whom it works for, when and where. Layer one only:
//! nothing about channels, replies or groups, which a harness does not have.

use nexus_base::clock::Timestamp;

use crate::Harness;
use crate::ground::Ground;

/// Longest text, in characters. Some harnesses cut at ten thousand without saying so.
const MAX_LEN: usize = 8_900;
/// What the identity, the user's profile, the frame and the project are sure to get.
const MIN_SOUL_LEN: usize = 400;
/// Longest name of a model.
const MAX_MODEL_LEN: usize = 120;
/// Most the project's part takes.
const MAX_PROJECT: usize = 2_500;

const TOOL_STYLE: &str = "\
## Tool Call Style
- Routine calls (reading, listing, searching) need no announcement.
- Say in a sentence what you are about to do when it takes several steps, cannot be undone or touches something private.";

/// Time and machine, as the caller knows them.
#[derive(Debug, Clone)]
pub struct Clock {
    /// The moment.
    pub now: Timestamp,
    /// The operating system with its release, and the architecture.
    pub machine: String,
}

/// The session that begins.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) harness: Harness,
    /// What the harness says it runs on.
    pub(super) model: Option<&'a str>,
}

/// Puts the text together. The soul is cut first, then the project's part, and each cut says so.
pub(super) fn text(ground: &Ground, clock: &Clock, session: &Session<'_>, project: &str) -> String {
    let mut head = "# Nexus Session Bootstrap\n".to_owned();
    head.push_str(&format!("{}\n", status(ground, project)));
    if let Some(text) = ground.introduction() {
        head.push_str(&format!("\n## First Conversation\n{}\n", text.trim()));
    }
    let missing = ground.missing();
    if !missing.is_empty() {
        head.push_str(&format!(
            "\nThe introduction is not finished: {} is still missing in the workspace. Do not repeat it here; the \
             assistant there completes it with the owner's next message (`nexus chat`).\n",
            missing.join(", ")
        ));
    }
    let mut tail = String::new();
    let mut soul = None;
    let mut sections = String::new();
    // Once: what the harness reads by itself is not said again.
    let is_told = ground.is_told_by_files(session.harness);
    for (title, text) in ground.texts().filter(|_| !is_told) {
        if title == "Agent Soul" {
            soul = Some((text.text.trim().to_owned(), text.file.clone()));
            sections.push_str(SOUL_PLACE);
        } else {
            sections.push_str(&format!("\n## {title}\n{}\n", text.text.trim()));
        }
    }
    let zone = ground.zone();
    let (name, time) = (zone.name(clock.now), zone.rfc3339(clock.now));
    tail.push_str(&format!("\n## Time\nTimezone: {name}\nCurrent time: {time}\n"));
    tail.push_str(&format!("\n## Runtime\nOS: {}\n", clock.machine));
    if let Some(model) = session.model {
        tail.push_str(&format!("Model: {}\n", one_line(model)));
    }
    tail.push_str(&format!("\n{TOOL_STYLE}\n"));
    if !project.trim().is_empty() {
        let part = cut(
            project.trim(),
            MAX_PROJECT,
            "the rest: `plan_status`, `task_list` and the files under .nexus/",
        );
        tail.push_str(&format!("\n## Project\n{part}\n"));
    }
    let used = head.chars().count() + sections.chars().count() + tail.chars().count();
    let soul = soul.map(|(text, file)| {
        let room = MAX_LEN.saturating_sub(used + 20).max(MIN_SOUL_LEN);
        format!("\n## Agent Soul\n{}\n", cut(&text, room, &format!("the rest is in {file}")))
    });
    let whole = format!("{head}{}{tail}", sections.replace(SOUL_PLACE, &soul.unwrap_or_default()));
    // A profile or a first conversation of unusual length: the end goes, which is the project's part.
    cut(&whole, MAX_LEN, "cut here to stay within the length limit of hooks")
}

/// Stands where the soul goes until its room is known.
const SOUL_PLACE: &str = "\u{0}";

fn status(ground: &Ground, project: &str) -> String {
    let who = match (ground.name(), ground.has_workspace()) {
        (Some(name), _) => format!("You are {name}, in a Nexus workspace"),
        (None, true) => "A Nexus workspace in which no introduction has taken place yet".to_owned(),
        (None, false) if ground.has_untrusted_workspace() => {
            "The Nexus workspace here is not trusted, so nothing in it is used until its owner runs `nexus trust`"
                .to_owned()
        }
        (None, false) => "This folder has no Nexus workspace; only the project layer is available".to_owned(),
    };
    let project = if project.is_empty() { "no project is open" } else { "a project is open" };
    format!("Status: {who}; {project}. `nexus status` says more.")
}

/// Returns a harness's word without line breaks, so that it adds no section of its own.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(MAX_MODEL_LEN).collect()
}

/// Shortens a text to so many characters, the note about it included.
fn cut(text: &str, most: usize, note: &str) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let note = format!("\n[cut: {note}]");
    let keep = most.saturating_sub(note.chars().count());
    let end = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
    // At the end of a line, when one is near.
    let end = text[..end].rfind('\n').filter(|&line| line + 200 > end).unwrap_or(end);
    format!("{}{note}", text[..end].trim_end())
}
