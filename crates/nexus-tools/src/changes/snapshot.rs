//! A task folder before and after a command: nobody knows beforehand what a command changes, so a small
//! folder is kept whole, and afterwards only what changed stays kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_base::failpoint;
use nexus_base::file::Durability;
use nexus_base::id::{RequestId, ToolCallId, new_ulid};
use nexus_base::jail::{EntryKind, Jail, JailError};

use super::{Author, Changes, Entry, Image, MAX_FILE_LEN, Record, hash_of, store};

/// The most files and bytes of a folder that is kept before a command.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Folders that hold what programs make and can make again.
const GENERATED: &[&str] = &[".git", "node_modules", "target", "__pycache__", ".venv", ".mypy_cache", ".tox"];

/// What a folder held before a command.
#[derive(Debug)]
pub(crate) struct Snapshot {
    changes: Changes,
    author: Author,
    folder: PathBuf,
    /// Name of the record.
    name: String,
    files: BTreeMap<PathBuf, Image>,
    /// Content that was stored for this one only.
    stored: Vec<String>,
    uncovered: Option<String>,
}

impl Changes {
    /// Keeps a task folder as it is, on disk when this returns; a folder that is too large is only noted.
    pub(crate) fn before_command(&self, author: Author, folder: &Path) -> Result<Snapshot, JailError> {
        let run = self.run_folder(&author.run)?;
        let mut snapshot = Snapshot {
            changes: self.clone(),
            author,
            folder: folder.to_owned(),
            name: new_ulid(),
            files: BTreeMap::new(),
            stored: Vec::new(),
            uncovered: None,
        };
        let jail = Jail::open(folder)?;
        match files_of(&jail) {
            Ok(found) => {
                for (inside, mode) in found {
                    snapshot.keep(&run, &jail, inside, mode)?;
                }
            }
            Err(reason) => snapshot.uncovered = Some(reason),
        }
        let entries =
            snapshot.files.iter().map(|(inside, before)| snapshot.entry(inside, before, Image::Unknown));
        let mut record = self.record(&snapshot.author, "bash", entries.collect());
        record.uncovered = snapshot.uncovered.clone();
        record.write(&run, &snapshot.name, Durability::Crash)?;
        failpoint::hit("undo.folder_kept");
        Ok(snapshot)
    }
}

impl Changes {
    /// Returns the files of a folder that differ from what was kept before a command that a death cut off; none
    /// when nobody can know.
    pub(crate) fn since_command(
        &self,
        run: &RequestId,
        call: &ToolCallId,
        folder: &Path,
    ) -> Option<Vec<PathBuf>> {
        let records = self.jail.sub(run.as_str()).ok()?;
        let names = records.list(".").ok()?.into_iter().map(|entry| PathBuf::from(&entry.name));
        let record = names
            .filter(|name| name.extension().is_some_and(|extension| extension == "json"))
            .filter_map(|name| serde_json::from_slice(&records.read(&name, MAX_FILE_LEN).ok()?).ok())
            .find(|record: &Record| record.call == call.as_str())?;
        let jail = Jail::open(folder).ok().filter(|_| record.uncovered.is_none())?;
        let before: BTreeMap<&Path, &Image> =
            record.entries.iter().map(|entry| (entry.inside.as_path(), &entry.before)).collect();
        let found = files_of(&jail).ok()?.into_iter();
        let changed = found.filter(|(inside, _)| {
            before.get(inside.as_path()).is_none_or(|before| **before != image_now(&jail, inside))
        });
        Some(changed.map(|(inside, _)| folder.join(inside)).collect())
    }
}

impl Snapshot {
    fn keep(&mut self, run: &Jail, jail: &Jail, inside: PathBuf, mode: u32) -> Result<(), JailError> {
        let image = match jail.read(&inside, MAX_FILE_LEN) {
            Ok(content) => {
                let hash = hash_of(&content);
                if run.metadata(Path::new("files").join(&hash)).is_err() {
                    store(run, &hash, &content, Durability::Crash)?;
                    self.stored.push(hash.clone());
                }
                Image::Content { hash, mode: mode & 0o777 }
            }
            // It went away or grew while we looked.
            Err(JailError::NotFound { .. }) => return Ok(()),
            Err(_) => Image::NotKept,
        };
        self.files.insert(inside, image);
        Ok(())
    }

    /// Looks what the command changed and keeps only that. Returns the files that changed, none when nobody
    /// can know.
    pub(crate) fn after_command(self) -> Result<Option<Vec<PathBuf>>, JailError> {
        let run = self.changes.run_folder(&self.author.run)?;
        let mut complete = self.uncovered.is_none();
        let entries = match (&self.uncovered, Jail::open(&self.folder)) {
            (None, Ok(jail)) => match files_of(&jail) {
                Ok(found) => self.changed(&jail, found),
                // What it made is too much to look through; what was there before is still known.
                Err(_) => {
                    complete = false;
                    self.files.iter().map(|(inside, before)| self.entry_now(&jail, inside, before)).collect()
                }
            },
            (_, _) => Vec::new(),
        };
        let entries: Vec<Entry> = entries.into_iter().filter(|entry| entry.before != entry.after).collect();
        if entries.is_empty() && self.uncovered.is_none() {
            // Nothing to take back: as if it had never been looked at.
            let _ = run.remove_file(format!("{}.json", self.name));
        } else {
            let mut record = self.changes.record(&self.author, "bash", entries.clone());
            record.uncovered = self.uncovered.clone();
            record.write(&run, &self.name, Durability::Crash)?;
        }
        failpoint::hit("undo.folder_compared");
        let needed = |hash: &str| {
            entries
                .iter()
                .any(|entry| matches!(&entry.before, Image::Content { hash: kept, .. } if kept == hash))
        };
        for hash in self.stored.iter().filter(|hash| !needed(hash)) {
            let _ = run.remove_file(Path::new("files").join(hash));
        }
        let changed = entries.iter().filter(|entry| entry.after != Image::Absent);
        Ok(complete.then(|| changed.map(|entry| entry.root.join(&entry.inside)).collect()))
    }

    fn changed(&self, jail: &Jail, found: Vec<(PathBuf, u32)>) -> Vec<Entry> {
        let mut entries: Vec<Entry> =
            self.files.iter().map(|(inside, before)| self.entry_now(jail, inside, before)).collect();
        for (inside, _) in found {
            if !self.files.contains_key(&inside) {
                entries.push(self.entry_now(jail, &inside, &Image::Absent));
            }
        }
        entries
    }

    fn entry_now(&self, jail: &Jail, inside: &Path, before: &Image) -> Entry {
        self.entry(inside, before, image_now(jail, inside))
    }

    fn entry(&self, inside: &Path, before: &Image, after: Image) -> Entry {
        Entry { root: self.folder.clone(), inside: inside.to_owned(), before: before.clone(), after }
    }
}

/// Returns what a file is now.
pub(super) fn image_now(jail: &Jail, inside: &Path) -> Image {
    match (jail.metadata(inside), jail.read(inside, MAX_FILE_LEN)) {
        (Ok(found), Ok(content)) => Image::Content { hash: hash_of(&content), mode: found.mode & 0o777 },
        (Err(error), _) if error.is_not_found() => Image::Absent,
        (Err(JailError::NotAFolder { .. }), _) => Image::Absent,
        (_, _) => Image::NotKept,
    }
}

/// Returns the files of a folder with their permissions, or why it is too much.
fn files_of(jail: &Jail) -> Result<Vec<(PathBuf, u32)>, String> {
    let (mut files, mut bytes) = (Vec::new(), 0);
    let mut folders = vec![PathBuf::from(".")];
    while let Some(folder) = folders.pop() {
        let entries = match jail.list(&folder) {
            Ok(entries) => entries,
            Err(error) if error.is_not_found() => continue,
            Err(error) => return Err(format!("the folder could not be searched: {error}")),
        };
        for entry in entries {
            let path =
                if folder == Path::new(".") { PathBuf::from(&entry.name) } else { folder.join(&entry.name) };
            match entry.kind {
                EntryKind::Folder if GENERATED.iter().any(|name| entry.name == *name) => {}
                EntryKind::Folder => folders.push(path),
                EntryKind::File => {
                    bytes += entry.len;
                    let mode = jail.metadata(&path).map_or(0o644, |found| found.mode);
                    files.push((path, mode));
                }
                EntryKind::Symlink | EntryKind::Other => {}
            }
            if files.len() + folders.len() > MAX_FILES || bytes > MAX_BYTES {
                return Err(format!(
                    "the task folder has more than {MAX_FILES} files or {} MB, so changes made by commands in it are \
                     not recorded",
                    MAX_BYTES / (1024 * 1024)
                ));
            }
        }
    }
    Ok(files)
}
