//! Taking back what a run changed: every file as it was before the run, or nothing at all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::file::Durability;
use nexus_base::id::{RequestId, ToolCallId, new_ulid};
use nexus_base::jail::{Jail, JailError};
use nexus_workspace::Layout;
use serde::Serialize;

use super::snapshot::image_now;
use super::{Author, Changes, Entry, Image, MAX_FILE_LEN, Record, keep};

/// The longest record read.
const MAX_RECORD_LEN: u64 = 8 * 1024 * 1024;
/// The most lines of a difference shown.
const SHOWN_LINES: usize = 40;

/// Whether files that changed since are overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// They stop everything.
    No,
    /// They are overwritten; what they held can be brought back by undoing the undo.
    Yes,
}

/// One run that changed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub request: String,
    /// When it began to change something.
    pub at: Timestamp,
    /// Files it changed.
    pub files: usize,
    /// Tools that changed them.
    pub tools: Vec<String>,
    /// It was taken back.
    pub undone: bool,
    /// Changes that are not known.
    pub uncovered: Vec<String>,
}

/// A file that is not as the run left it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// The file.
    pub path: PathBuf,
    /// What going back would change, line by line.
    pub diff: String,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// The request that was taken back.
    pub request: String,
    /// Under which this can be taken back in turn.
    pub undo: String,
    /// Files that are as they were before.
    pub restored: Vec<PathBuf>,
    /// Files the run had made.
    pub removed: Vec<PathBuf>,
    /// Files that were as before already.
    pub unchanged: Vec<PathBuf>,
    /// Files whose earlier content was never kept.
    pub not_kept: Vec<PathBuf>,
    /// Changes that are not known.
    pub uncovered: Vec<String>,
}

/// Why nothing was taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// No run changed anything.
    #[error("no recorded run has changed files")]
    NothingKnown,
    /// That one did not.
    #[error("no recorded changes of a run {0}")]
    UnknownRun(String),
    /// It was taken back before.
    #[error("{0} has already been undone")]
    AlreadyUndone(String),
    /// Somebody changed the files since.
    #[error("{} changed after the run; nothing was undone", count(.0.len()))]
    Changed(Vec<Conflict>),
    /// The records or the files cannot be used.
    #[error(transparent)]
    Jail(#[from] JailError),
    /// A record is damaged.
    #[error("the record {path} cannot be read: {reason}")]
    Damaged {
        /// The record.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

fn count(files: usize) -> String {
    if files == 1 { "1 file".to_owned() } else { format!("{files} files") }
}

/// Where a file stands and what the run made of it.
struct Story {
    root: PathBuf,
    inside: PathBuf,
    before: Image,
    after: Image,
}

/// By the whole path: one file may be reached through several folders.
type Stories = BTreeMap<PathBuf, Story>;

/// One file to be written back.
struct Work {
    jail: Jail,
    inside: PathBuf,
    path: PathBuf,
    before: Image,
}

/// Returns the runs that changed files, newest first.
///
/// # Errors
/// The records cannot be read.
pub fn list_runs(layout: &Layout) -> Result<Vec<Run>, UndoError> {
    let changes = Changes::at(layout)?;
    let mut runs = Vec::new();
    for (name, _) in changes.jail.names(".")? {
        let name = name.to_string_lossy().into_owned();
        let records = changes.records(&name)?;
        let Some((_, first)) = records.first() else { continue };
        let mut tools: Vec<String> = records.iter().map(|(_, record)| record.tool.clone()).collect();
        tools.sort();
        tools.dedup();
        runs.push(Run {
            request: name,
            at: first.at,
            files: stories(&records).len(),
            tools,
            undone: records.iter().all(|(_, record)| record.undone_at.is_some()),
            uncovered: uncovered(&records),
        });
    }
    runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.at));
    Ok(runs)
}

/// Takes back what a run changed; without a name the newest one that was not taken back yet.
///
/// # Errors
/// See [`UndoError`]; then no file was touched, unless one could not be written.
pub fn undo(layout: &Layout, request: Option<&str>, force: Force) -> Result<Restored, UndoError> {
    let changes = Changes::at(layout)?;
    let name = changes.find_run(layout, request)?;
    let records = changes.records(&name)?;
    if records.is_empty() {
        return Err(UndoError::UnknownRun(name));
    }
    if records.iter().all(|(_, record)| record.undone_at.is_some()) {
        return Err(UndoError::AlreadyUndone(name));
    }
    let run = changes.jail.sub(&name)?;
    let stories = stories(&records);
    let mut restored = Restored { request: name, uncovered: uncovered(&records), ..Restored::default() };
    let (mut work, mut conflicts) = (Vec::new(), Vec::new());
    for (path, Story { root, inside, before, after }) in stories {
        let jail = Jail::open(&root)?;
        let now = image_now(&jail, &inside);
        match before {
            Image::NotKept | Image::Unknown => restored.not_kept.push(path),
            before if before == now => restored.unchanged.push(path),
            before => {
                if now != after && force == Force::No {
                    let mut diff = difference(&read(&jail, &inside), &content_of(&run, &before)?);
                    if let (Some(now), Some(before)) = (now.mode(), before.mode())
                        && now != before
                    {
                        diff.push_str(&format!("\nmode {now:o} becomes {before:o}"));
                    }
                    conflicts.push(Conflict { path: path.clone(), diff });
                }
                work.push(Work { jail, inside, path, before });
            }
        }
    }
    if !conflicts.is_empty() {
        return Err(UndoError::Changed(conflicts));
    }
    restored.undo = changes.carry_out(&run, work, &mut restored)?;
    for (file, mut record) in records {
        record.undone_at = Some(Timestamp::now());
        record.write(&run, &file, Durability::PowerLoss)?;
    }
    Ok(restored)
}

impl Changes {
    fn find_run(&self, layout: &Layout, request: Option<&str>) -> Result<String, UndoError> {
        let Some(wanted) = request else {
            let newest = list_runs(layout)?.into_iter().find(|run| !run.undone && run.files > 0);
            return newest.map(|run| run.request).ok_or(UndoError::NothingKnown);
        };
        let names = self.jail.names(".")?;
        let unknown = || UndoError::UnknownRun(wanted.to_owned());
        if names.iter().any(|(name, _)| name == wanted) {
            return Ok(wanted.to_owned());
        }
        // A worker's own request belongs to the run of whoever sent it.
        for (name, _) in names {
            let name = name.to_string_lossy().into_owned();
            if self.records(&name)?.iter().any(|(_, record)| record.request == wanted) {
                return Ok(name);
            }
        }
        Err(unknown())
    }

    /// Reads a run's records with their names, oldest first.
    fn records(&self, run: &str) -> Result<Vec<(String, Record)>, UndoError> {
        let mut records = Vec::new();
        let mut names = self.jail.names(run)?;
        names.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        for (name, _) in names {
            let name = name.to_string_lossy().into_owned();
            let Some(id) = name.strip_suffix(".json") else { continue };
            let path = Path::new(run).join(&name);
            let text = self.jail.read(&path, MAX_RECORD_LEN)?;
            let record: Record = serde_json::from_slice(&text).map_err(|error| UndoError::Damaged {
                path: self.jail.root().join(&path),
                reason: error.to_string(),
            })?;
            // What a copied workspace brings along is about files of another one.
            if record.workspace == self.workspace {
                records.push((id.to_owned(), record));
            }
        }
        Ok(records)
    }

    /// Writes the files back and returns the name under which that can be taken back in turn.
    fn carry_out(&self, run: &Jail, work: Vec<Work>, restored: &mut Restored) -> Result<String, UndoError> {
        if work.is_empty() {
            return Ok(String::new());
        }
        let own = RequestId::new(format!("undo-{}", new_ulid()));
        let author = Author {
            run: own.clone(),
            request: own.clone(),
            session: String::new(),
            call: ToolCallId::new(new_ulid()),
        };
        let folder = self.run_folder(&own)?;
        let mut entries = Vec::new();
        for Work { jail, inside, before, .. } in &work {
            let entry = Entry {
                root: jail.root().to_owned(),
                inside: inside.clone(),
                before: keep(&folder, jail, inside, Durability::PowerLoss)?,
                after: before.clone(),
            };
            entries.push(entry);
        }
        self.record(&author, "undo", entries).write(&folder, &new_ulid(), Durability::PowerLoss)?;
        failpoint::hit("undo.before_restore");
        for Work { jail, inside, path, before } in work {
            match before {
                Image::Absent => {
                    jail.remove_file(&inside)?;
                    restored.removed.push(path);
                }
                Image::Content { mode, .. } => {
                    if let Some(parent) = inside.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                        jail.create_dir_all(parent, 0o755)?;
                    }
                    let content = content_of(run, &before)?;
                    jail.write_atomic_with_mode(&inside, &content, mode, Durability::PowerLoss)?;
                    restored.restored.push(path);
                }
                Image::NotKept | Image::Unknown => restored.not_kept.push(path),
            }
            failpoint::hit("undo.restored");
        }
        Ok(own.to_string())
    }
}

/// Follows each file from before its first change to after its last.
fn stories(records: &[(String, Record)]) -> Stories {
    let mut stories = Stories::new();
    for (_, record) in records.iter().filter(|(_, record)| record.undone_at.is_none()) {
        for entry in &record.entries {
            let Entry { root, inside, before, after } = entry.clone();
            let story = stories.entry(root.join(&inside));
            let again = after.clone();
            story.and_modify(|story| story.after = again).or_insert(Story { root, inside, before, after });
        }
    }
    stories
}

fn uncovered(records: &[(String, Record)]) -> Vec<String> {
    let mut reasons: Vec<String> =
        records.iter().filter_map(|(_, record)| record.uncovered.clone()).collect();
    reasons.sort();
    reasons.dedup();
    reasons
}

fn content_of(run: &Jail, image: &Image) -> Result<Vec<u8>, JailError> {
    match image {
        Image::Content { hash, .. } => run.read(Path::new("files").join(hash), MAX_FILE_LEN),
        Image::Absent | Image::NotKept | Image::Unknown => Ok(Vec::new()),
    }
}

fn read(jail: &Jail, inside: &Path) -> Vec<u8> {
    jail.read(inside, MAX_FILE_LEN).unwrap_or_default()
}

/// Shows what differs, without what is the same at both ends.
fn difference(now: &[u8], before: &[u8]) -> String {
    let (Ok(now), Ok(before)) = (std::str::from_utf8(now), std::str::from_utf8(before)) else {
        return "[not text]".to_owned();
    };
    let (now, before): (Vec<&str>, Vec<&str>) = (now.lines().collect(), before.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = now.iter().zip(&before).take_while(same).count();
    let rest = now.len().min(before.len()) - head;
    let tail = now.iter().rev().zip(before.iter().rev()).take(rest).take_while(same).count();
    let (gone, back) = (&now[head..now.len() - tail], &before[head..before.len() - tail]);
    let lines = gone.iter().map(|line| format!("-{line}")).chain(back.iter().map(|line| format!("+{line}")));
    let mut shown: Vec<String> = vec![format!("@@ from line {} @@", head + 1)];
    shown.extend(lines.take(SHOWN_LINES));
    let more = (gone.len() + back.len()).saturating_sub(SHOWN_LINES);
    if more > 0 {
        shown.push(format!("[{more} more lines]"));
    }
    shown.join("\n")
}
