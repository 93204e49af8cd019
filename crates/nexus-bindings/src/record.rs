//! What binding did to a folder: which bytes were inserted where, which files and folders were made.
//! It lies outside the folder and holds no byte of anybody's files, only places and hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nexus_base::file::{self, Durability, FileError};
use nexus_base::id::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::edit::Insertion;

/// Largest record that is read.
const LIMIT: u64 = 4 * 1024 * 1024;

/// Where records are kept.
#[derive(Debug, Clone)]
pub struct RecordFolder(PathBuf);

impl RecordFolder {
    /// Takes the folder as it is.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(crate) fn load(&self, root: &Path) -> Result<Record, FileError> {
        match file::read_text(&self.file(root), LIMIT) {
            // A record that does not parse is as good as none: what is ours is known by its content, too.
            Ok(text) => Ok(serde_json::from_str(&text).unwrap_or_default()),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn save(&self, root: &Path, record: &Record) -> Result<(), FileError> {
        let path = self.file(root);
        if record.files.is_empty() {
            return match std::fs::remove_file(&path) {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(FileError::new("remove", path, error)),
            };
        }
        create_folders(&self.0, 0o700)?;
        let text = serde_json::to_string_pretty(record).unwrap_or_default();
        file::replace(&path, text.as_bytes(), 0o600, Durability::Crash)
    }

    /// Notes that a hook of a harness ran in a folder; `check` calls such a binding active.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn note_run(&self, root: &Path, harness: crate::Harness) -> Result<(), FileError> {
        create_folders(&self.0, 0o700)?;
        file::replace(&self.seen(root, harness), b"ran\n", 0o600, Durability::Crash)
    }

    /// Returns whether a hook ran since the folder was bound.
    pub(crate) fn has_run(&self, root: &Path, harness: crate::Harness) -> bool {
        let changed = |path: &Path| std::fs::metadata(path).and_then(|about| about.modified()).ok();
        match (changed(&self.seen(root, harness)), changed(&self.file(root))) {
            (Some(_), None) => true,
            (Some(seen), Some(bound)) => seen >= bound,
            (None, _) => false,
        }
    }

    /// Returns true the first time it is asked about a session, and only if that could be noted.
    pub(crate) fn remind_once(&self, root: &Path, harness: crate::Harness, session: &str) -> bool {
        let path = self.0.join(format!("{}.{harness}.reminded", key(root)));
        let session = hash(session);
        if file::read_text(&path, 1024).is_ok_and(|noted| noted == session) {
            return false;
        }
        create_folders(&self.0, 0o700).is_ok()
            && file::replace(&path, session.as_bytes(), 0o600, Durability::Crash).is_ok()
    }

    pub(crate) fn forget_run(&self, root: &Path, harness: crate::Harness) {
        // A note that is not there need not go; one that stays only says that a hook ran once.
        let _ = std::fs::remove_file(self.seen(root, harness));
        let _ = std::fs::remove_file(self.0.join(format!("{}.{harness}.reminded", key(root))));
    }

    fn seen(&self, root: &Path, harness: crate::Harness) -> PathBuf {
        self.0.join(format!("{}.{harness}.seen", key(root)))
    }

    fn file(&self, root: &Path) -> PathBuf {
        self.0.join(format!("{}.json", key(root)))
    }
}

fn key(root: &Path) -> String {
    let mut key = to_hex(&Sha256::digest(root.as_os_str().as_encoded_bytes()));
    key.truncate(32);
    key
}

/// Everything done in one folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) files: BTreeMap<PathBuf, FileRecord>,
    /// Folders that were made, relative, parents first.
    #[serde(default)]
    pub(crate) folders: Vec<PathBuf>,
}

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// It was not there before.
    pub(crate) created: bool,
    /// A file of the person's was moved aside for it.
    #[serde(default)]
    pub(crate) moved_aside: bool,
    /// Hash of the file as it was left.
    pub(crate) after: String,
    /// What was inserted, in order.
    pub(crate) insertions: Vec<Insertion>,
    /// The harnesses that need it.
    pub(crate) users: BTreeSet<String>,
}

pub(crate) fn hash(text: &str) -> String {
    to_hex(&Sha256::digest(text.as_bytes()))
}

/// Makes a folder and whatever is missing above it; returns what was made, parents first.
pub(crate) fn create_folders(path: &Path, mode: u32) -> Result<Vec<PathBuf>, FileError> {
    let mut missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    missing.reverse();
    for folder in &missing {
        file::create_folder(folder, mode)?;
    }
    Ok(missing.into_iter().map(Path::to_owned).collect())
}
