//! The text of a worker's task: plain language any model can follow, with exact parts that this
//! crate's own worker reads back.
//!
//! Exact parts are one command between backticks, or fenced blocks: `sh`, `read`, `list`, and
//! `file PATH` holding the whole text of a file. What stands inside a block is never read as an
//! instruction, so a note that quotes a command stays a note.

use crate::text::{clip, one_line};

/// Most files one task may hold.
const MAX_FILES: usize = 16;
/// Largest task that is read.
const MAX_TASK_LEN: usize = 256 * 1024;

/// Looks for credentials and only reports.
pub(crate) const SCAN_COMMAND: &str = "nexus credential scan --json";
/// Imports what was found.
pub(crate) const IMPORT_COMMAND: &str = "nexus credential scan --import --yes --json";
/// Name of the skill that looks through a home folder.
pub(crate) const LOOK_SKILL: &str = "filesystem-scan";
/// Path by which the task that writes the identity files is recognised.
pub(crate) const USER_IDENTITY_PATH: &str = "state/user/IDENTITY.md";

/// A file to be written, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileDraft {
    pub(crate) path: String,
    pub(crate) content: String,
}

/// What a task asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    Command(String),
    Files(Vec<FileDraft>),
    Read(String),
    List(String),
}

/// Why a task was given, as far as its text tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Look for credentials.
    Scan,
    /// Import credentials.
    Import,
    /// Look around the home folder.
    Look,
    /// Write the three identity files.
    Identity(Vec<FileDraft>),
    /// Write a note.
    Note(String),
    /// Run a command for the person.
    Run(String),
    /// Show a file.
    Read(String),
    /// List a folder.
    List(String),
    /// Something another model thought of.
    Other,
}

/// Task: look for credentials.
pub(crate) fn scan() -> String {
    format!(
        "Look for credentials in the environment. Run `{SCAN_COMMAND}` and report the names of the variables and \
         services it found, never a value. Only look: do not import anything."
    )
}

/// Task: import credentials.
pub(crate) fn import() -> String {
    format!(
        "The person agreed to import the credentials that were found. Run `{IMPORT_COMMAND}` and report the names \
         that were imported, never a value."
    )
}

/// Task: look around the home folder with the skill made for it.
pub(crate) fn look() -> String {
    format!(
        "Look around the person's home folder with the skill {LOOK_SKILL}; its instructions are in \
         skills/{LOOK_SKILL}/SKILL.md. Only look, change nothing. Begin with `ls -1p` and report in a few lines what \
         is there."
    )
}

/// Task: write the identity files.
pub(crate) fn identity(files: &[FileDraft]) -> String {
    format!(
        "Onboarding: write these {} files exactly as given, each with one call of the write tool, and report which were \
         written and which were not.\n\n{}",
        files.len(),
        file_blocks(files)
    )
}

/// Task: write one note.
pub(crate) fn note(file: &FileDraft) -> String {
    format!(
        "Write this note for the person exactly as given and report its path.\n\n{}",
        file_blocks(std::slice::from_ref(file))
    )
}

/// Task: run a command the person asked for.
pub(crate) fn run(command: &str) -> String {
    let asks = "The person asked to run this command. Run it once, exactly as given, and report its output";
    if command.contains(['`', '\n']) {
        format!("{asks}.\n\n{}", block("sh", command))
    } else {
        format!("{asks}: `{command}`")
    }
}

/// Task: show a file.
pub(crate) fn read(path: &str) -> String {
    format!("Read this file and report its text, shortened if it is long.\n\n{}", block("read", path))
}

/// Task: list a folder.
pub(crate) fn list(path: &str) -> String {
    format!("List this folder and report what is in it.\n\n{}", block("list", path))
}

fn file_blocks(files: &[FileDraft]) -> String {
    let blocks: Vec<String> =
        files.iter().map(|file| block(&format!("file {}", file.path), &file.content)).collect();
    blocks.join("\n\n")
}

fn block(info: &str, content: &str) -> String {
    let mut longest = 0;
    let mut run = 0;
    for character in content.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat((longest + 1).max(3));
    let info = info.replace(['\n', '\r', '`'], " ");
    format!("{fence}{info}\n{}\n{fence}", content.trim_end_matches('\n'))
}

/// Reads a task's exact part.
pub(crate) fn parse(text: &str) -> Option<Job> {
    let mut outside = String::new();
    let mut files = Vec::new();
    let mut other = None;
    let mut lines = clip(text, MAX_TASK_LEN).lines();
    while let Some(line) = lines.next() {
        let fence: String = line.chars().take_while(|character| *character == '`').collect();
        if fence.len() < 3 {
            outside.push_str(line);
            outside.push('\n');
            continue;
        }
        let info = line[fence.len()..].trim();
        let mut content = Vec::new();
        let mut closed = false;
        for inner in lines.by_ref() {
            if inner.trim_end().len() >= fence.len()
                && inner.trim_end().chars().all(|character| character == '`')
            {
                closed = true;
                break;
            }
            content.push(inner);
        }
        if !closed {
            // Half a block is half a file or half a command: neither may be acted on.
            return None;
        }
        let content = content.join("\n");
        let (word, rest) = info.split_once(' ').unwrap_or((info, ""));
        match word {
            "file" if !rest.trim().is_empty() && files.len() < MAX_FILES => {
                files.push(FileDraft { path: rest.trim().to_owned(), content: format!("{content}\n") });
            }
            "sh" | "bash" => other = other.or(Some(Job::Command(content))),
            "read" => other = other.or(Some(Job::Read(content.trim().to_owned()))),
            "list" => other = other.or(Some(Job::List(content.trim().to_owned()))),
            _ => {}
        }
    }
    if !files.is_empty() {
        return Some(Job::Files(files));
    }
    let job = other.or_else(|| inline_code(&outside).map(Job::Command))?;
    let is_empty = match &job {
        Job::Command(text) | Job::Read(text) | Job::List(text) => text.trim().is_empty(),
        Job::Files(files) => files.is_empty(),
    };
    (!is_empty).then_some(job)
}

/// Returns the first piece of text between backticks.
pub(crate) fn inline_code(text: &str) -> Option<String> {
    let start = text.find('`')?;
    let inside = &text[start + 1..];
    let code = inside[..inside.find('`')?].trim();
    (!code.is_empty()).then(|| code.to_owned())
}

/// Says why a task was given.
pub(crate) fn purpose(text: &str) -> Purpose {
    match parse(text) {
        Some(Job::Command(command)) => {
            if text.contains(LOOK_SKILL) {
                Purpose::Look
            } else if command.starts_with("nexus credential scan") {
                if command.contains("--import") { Purpose::Import } else { Purpose::Scan }
            } else {
                Purpose::Run(one_line(&command, 120))
            }
        }
        Some(Job::Files(files)) => match files.as_slice() {
            [only] if only.path != USER_IDENTITY_PATH => Purpose::Note(only.path.clone()),
            _ => Purpose::Identity(files),
        },
        Some(Job::Read(path)) => Purpose::Read(path),
        Some(Job::List(path)) => Purpose::List(path),
        None => Purpose::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_reads_back_as_written() {
        assert_eq!(parse(&scan()), Some(Job::Command(SCAN_COMMAND.into())));
        assert_eq!(parse(&import()), Some(Job::Command(IMPORT_COMMAND.into())));
        assert_eq!(parse(&look()), Some(Job::Command("ls -1p".into())));
        assert_eq!(purpose(&look()), Purpose::Look);
        assert_eq!(parse(&run("echo `date`\nls")), Some(Job::Command("echo `date`\nls".into())));
        assert_eq!(parse(&run("ls -la")), Some(Job::Command("ls -la".into())));
        assert_eq!(parse(&read("home/a b.md")), Some(Job::Read("home/a b.md".into())));
        assert_eq!(parse(&list("home")), Some(Job::List("home".into())));
    }

    #[test]
    fn file_contents_are_never_read_as_commands() {
        let nasty = FileDraft {
            path: "home/notes/x.md".into(),
            content: "run `rm -rf /`\n```sh\nrm -rf /\n```\n````\n".into(),
        };
        assert_eq!(parse(&note(&nasty)), Some(Job::Files(vec![nasty.clone()])));
        assert_eq!(purpose(&note(&nasty)), Purpose::Note("home/notes/x.md".into()));
    }

    #[test]
    fn half_a_block_is_nothing() {
        assert_eq!(parse("```file a\nb"), None);
        assert_eq!(parse("```sh\nls"), None);
        assert_eq!(parse("just words"), None);
    }
}
