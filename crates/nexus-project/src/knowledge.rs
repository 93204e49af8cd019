//! The knowledge index: which notes a project keeps, for agents that may want to read them.

use std::fs;

use crate::Project;

/// Folders of notes, in the order they are shown.
pub(crate) const FOLDERS: [&str; 3] = ["memory", "context", "rules"];
/// Most files of one folder that are named; beyond that only their number is.
const MAX_NAMED: usize = 50;
/// Most entries of a folder that are looked at.
const MAX_SEEN: usize = 10_000;

/// The notes of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Knowledge {
    folders: Vec<(&'static str, Vec<String>)>,
}

impl Knowledge {
    /// Lists the notes as they are now. A folder that cannot be read counts as empty.
    pub fn of(project: &Project) -> Self {
        let list = |folder: &'static str| {
            let entries = fs::read_dir(project.folder().join(folder)).into_iter().flatten().take(MAX_SEEN);
            let mut names: Vec<String> = entries
                .filter_map(Result::ok)
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
                .filter_map(|entry| entry.file_name().into_string().ok())
                .filter(|name| name.ends_with(".md"))
                .collect();
            names.sort();
            (folder, names)
        };
        Self { folders: FOLDERS.map(list).into() }
    }

    /// Returns how many there are in each folder.
    pub fn counts(&self) -> Vec<(&'static str, usize)> {
        self.folders.iter().map(|(folder, names)| (*folder, names.len())).collect()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.folders.iter().all(|(_, names)| names.is_empty())
    }

    /// Renders the index, one path a line; empty without notes.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (folder, names) in &self.folders {
            for name in names.iter().take(MAX_NAMED) {
                text.push_str(&format!("- .nexus/{folder}/{name}\n"));
            }
            if let Some(more) = names.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
                text.push_str(&format!("- .nexus/{folder}/: {more} more\n"));
            }
        }
        if !text.is_empty() {
            text.insert_str(0, "Notes on this project (read those that concern your task):\n");
        }
        text
    }
}
