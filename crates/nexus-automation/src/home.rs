//! An automation's folder: what it has learnt, what it and its peers leave for each other.

use std::path::{Path, PathBuf};

use nexus_base::failpoint;
use nexus_base::file::{self, Durability, FileError};
use nexus_store::runtime::Automation;
use nexus_workspace::Layout;
use serde_json::{Value, json};

/// Largest file of a folder that is read into a prompt or handed to a program.
pub const MAX_FILE_SIZE: u64 = 32 * 1024;
/// Patterns and errors are part of a prompt only while they are together no longer than this.
const SHORT: usize = 8 * 1024;

/// What an automation is; written by people, never by itself.
pub const ROLE: &str = "ROLE.md";
/// What it does well.
pub const SKILLS: &str = "SKILLS.md";
/// What it keeps meeting.
pub const PATTERNS: &str = "PATTERNS.md";
/// What went wrong.
pub const ERRORS: &str = "ERRORS.md";
/// The files it may change when it thinks about its work.
pub const LEARNED: [&str; 3] = [SKILLS, PATTERNS, ERRORS];

/// The folder of one automation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The automation's name.
    pub name: String,
    pub folder: PathBuf,
    /// Names and folders of the automations it exchanges notes with.
    pub peers: Vec<(String, PathBuf)>,
}

impl Home {
    /// Returns an automation's folder, if it has one.
    pub fn of(automation: &Automation, layout: &Layout) -> Option<Self> {
        let definition = &automation.definition;
        definition.workspace_dir.as_ref()?;
        // By name, never by what the row says: a path in a row could lead anywhere.
        let folder = |name: &str| is_name(name).then(|| layout.automation_workspaces().join(name));
        let peers = definition.peer_workspaces.as_ref().and_then(Value::as_array);
        let peers = peers.into_iter().flatten().filter_map(Value::as_str);
        Some(Self {
            folder: folder(&definition.name)?,
            peers: peers.filter_map(|peer| Some((peer.to_owned(), folder(peer)?))).collect(),
            name: definition.name.clone(),
        })
    }

    /// Returns one of its files; nothing when it is missing, too long or unreadable.
    pub fn read(&self, file: &str) -> Option<String> {
        read(&self.folder, file)
    }

    /// Returns the notes that peers left for it, newest knowledge of whoever reads least.
    pub fn notes(&self) -> Option<String> {
        let own = self.notes_file()?;
        let places = std::iter::once(&self.folder).chain(self.peers.iter().map(|(_, folder)| folder));
        let notes: Vec<String> = places.filter_map(|folder| read(folder, &own)).collect();
        (!notes.is_empty()).then(|| notes.join("\n"))
    }

    /// Returns the name of the file in which peers leave it notes: `NOTES_FOR_READER.md`.
    pub fn notes_file(&self) -> Option<String> {
        let word = self.name.rsplit('-').next().filter(|word| !word.is_empty())?;
        Some(format!("NOTES_FOR_{}.md", word.to_uppercase()))
    }

    /// Returns the files of its own folder in which it leaves notes, each with the peer that reads them.
    pub fn notes_for_peers(&self) -> Vec<(String, String)> {
        let peers = self.peers.iter().filter_map(|(name, folder)| {
            let peer = Self { name: name.clone(), folder: folder.clone(), peers: Vec::new() };
            Some((name.clone(), peer.notes_file()?))
        });
        peers.collect()
    }

    /// Returns what stands at the end of its prompts: role and skills, patterns and errors while they are
    /// short, and what its peers left for it.
    pub fn prompt(&self) -> String {
        let mut text = String::new();
        let mut add = |heading: &str, content: Option<String>| {
            if let Some(content) = content.filter(|content| !content.trim().is_empty()) {
                text.push_str(&format!("## {heading}\n{}\n\n", content.trim()));
            }
        };
        add("Your role", self.read(ROLE));
        add("Your skills", self.read(SKILLS));
        let (patterns, errors) = (self.read(PATTERNS), self.read(ERRORS));
        let length = patterns.as_deref().map_or(0, str::len) + errors.as_deref().map_or(0, str::len);
        if length <= SHORT {
            add("Your patterns", patterns);
            add("Your errors", errors);
        }
        add("Notes from your peers", self.notes());
        text
    }

    /// Returns what a program is told about its folder and its peers.
    pub fn to_json(&self) -> Value {
        json!({
            "dir": self.folder,
            "role": self.read(ROLE),
            "skills": self.read(SKILLS),
            "patterns": self.read(PATTERNS),
            "errors": self.read(ERRORS),
            "notes": self.notes(),
        })
    }

    /// Keeps one copy of each file that may be learnt into, beside it.
    ///
    /// # Errors
    /// A copy could not be written.
    pub fn back_up(&self) -> Result<(), FileError> {
        for name in LEARNED {
            if let Some(text) = self.read(name) {
                let copy = self.folder.join(format!(".{name}.before"));
                file::replace(&copy, text.as_bytes(), 0o600, Durability::Crash)?;
            }
        }
        failpoint::hit("automation.backed_up");
        Ok(())
    }

    /// Puts a file back from its copy when it grew beyond what is read; returns the names of those.
    ///
    /// # Errors
    /// A file could not be written.
    pub fn restore_oversized(&self) -> Result<Vec<&'static str>, FileError> {
        let mut restored = Vec::new();
        for name in LEARNED {
            let path = self.folder.join(name);
            let grown = std::fs::symlink_metadata(&path).is_ok_and(|file| file.len() > MAX_FILE_SIZE);
            let copy = read(&self.folder, &format!(".{name}.before"));
            if let Some(text) = copy.filter(|_| grown) {
                file::replace(&path, text.as_bytes(), 0o600, Durability::Crash)?;
                restored.push(name);
            }
        }
        Ok(restored)
    }
}

/// Tells whether a text may name an automation, and so be the last part of a path.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(plain) && text.as_bytes()[0].is_ascii_lowercase()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    file::read_text(&folder.join(name), MAX_FILE_SIZE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> Home {
        let peer = folder.join("peer");
        std::fs::create_dir_all(&peer).unwrap();
        Home {
            name: "memory-reader".to_owned(),
            folder: folder.to_owned(),
            peers: vec![("memory-writer".to_owned(), peer)],
        }
    }

    #[test]
    fn notes_are_found_in_both_folders() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        assert_eq!(home.notes(), None);
        std::fs::create_dir_all(folder.path().join("peer")).unwrap();
        for (place, text) in [("", "one"), ("peer/", "two")] {
            let path = folder.path().join(format!("{place}NOTES_FOR_READER.md"));
            file::replace(&path, text.as_bytes(), 0o600, Durability::Crash).unwrap();
        }
        assert_eq!(home.notes().as_deref(), Some("one\ntwo"));
        assert_eq!(home.notes_for_peers(), [("memory-writer".to_owned(), "NOTES_FOR_WRITER.md".to_owned())]);
    }

    #[test]
    fn what_grew_too_long_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let skills = folder.path().join(SKILLS);
        file::replace(&skills, b"- search names\n", 0o600, Durability::Crash).unwrap();
        home.back_up().unwrap();
        let long = "x".repeat(40_000);
        file::replace(&folder.path().join(SKILLS), long.as_bytes(), 0o600, Durability::Crash).unwrap();
        assert_eq!(home.restore_oversized().unwrap(), [SKILLS]);
        assert_eq!(home.read(SKILLS).unwrap(), "- search names\n");
    }

    #[test]
    fn names_are_plain() {
        assert!(is_name("mood-music_2"));
        for wrong in ["", "..", "a/b", "A", "-a", "2a", "a.b", &"a".repeat(65)] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
