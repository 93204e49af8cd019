//! Binding and unbinding as a plan: every file is read and its new text worked out before the first
//! one is written, so that whatever cannot be done leaves the folder as it was.

use std::path::{Path, PathBuf};

use nexus_base::file::{self, Durability, FileError};
use similar::TextDiff;

use crate::edit::{self, Draft, Insertion, Unreadable};
use crate::ground::Ground;
use crate::record::{FileRecord, Record, RecordFolder, create_folders, hash};
use crate::wanted::{Content, Wanted, wanted};
use crate::{BindingError, Harness};

/// Largest file that is changed.
const LIMIT: u64 = 8 * 1024 * 1024;
/// What a file is called that had to make room.
const ASIDE: &str = "before-nexus";

/// What would be done, and then is.
#[derive(Debug)]
pub struct Plan {
    harness: Harness,
    root: PathBuf,
    changes: Vec<Change>,
    record: Record,
    before: Record,
}

/// One file.
#[derive(Debug)]
struct Change {
    file: PathBuf,
    /// What a link leads to, else the file.
    target: PathBuf,
    before: Option<String>,
    after: Option<String>,
    moves_aside: bool,
    brings_back: bool,
}

impl Plan {
    /// Works out how to bind a folder to a harness.
    ///
    /// # Errors
    /// See [`BindingError`]; nothing is changed.
    pub fn bind(
        harness: Harness,
        ground: &Ground,
        records: &RecordFolder,
        force: bool,
    ) -> Result<Self, BindingError> {
        let root = ground.root().to_owned();
        let mut record = records.load(&root)?;
        let before = record.clone();
        let mut changes = Vec::new();
        for wanted in wanted(harness, ground)? {
            let (target, current) = read(&root, &wanted.file)?;
            let past = record.files.get(&wanted.file);
            let (draft, created, moves_aside) = match &wanted.content {
                Content::Whole { text, marker } => {
                    let ours = current.as_deref().map(edit::is_untouched);
                    let moves_aside = match ours {
                        None | Some(Some(true)) => false,
                        Some(_) if force => true,
                        Some(found) => {
                            return Err(BindingError::Taken { file: wanted.file, changed: found.is_some() });
                        }
                    };
                    let draft = Draft { text: edit::render_owned(text, *marker), insertions: Vec::new() };
                    (draft, true, moves_aside || past.is_some_and(|past| past.moved_aside))
                }
                Content::Json(_) | Content::Table { .. } | Content::Block(_) => {
                    let (draft, created) = insert(&wanted, current.as_deref(), past)?;
                    (draft, created, false)
                }
            };
            let mut users = past.map(|past| past.users.clone()).unwrap_or_default();
            users.insert(harness.as_str().to_owned());
            let unchanged = current.as_deref() == Some(draft.text.as_str());
            if let (true, Some(past)) = (unchanged, record.files.get_mut(&wanted.file)) {
                past.users = users;
            } else {
                let after = hash(&draft.text);
                let entry = FileRecord {
                    created,
                    moved_aside: moves_aside,
                    after,
                    insertions: draft.insertions,
                    users,
                };
                record.files.insert(wanted.file.clone(), entry);
            }
            if !unchanged {
                let moves_aside = moves_aside && !past_moved(&before, &wanted.file);
                let (before, after) = (current, Some(draft.text));
                changes.push(Change {
                    file: wanted.file,
                    target,
                    before,
                    after,
                    moves_aside,
                    brings_back: false,
                });
            }
        }
        Ok(Self { harness, root, changes, record, before })
    }

    /// Works out how to take a binding back.
    ///
    /// # Errors
    /// See [`BindingError`]; nothing is changed.
    pub fn remove(
        harness: Harness,
        ground: &Ground,
        records: &RecordFolder,
        force: bool,
    ) -> Result<Self, BindingError> {
        let root = ground.root().to_owned();
        let mut record = records.load(&root)?;
        let before = record.clone();
        let mut changes = Vec::new();
        for wanted in wanted(harness, ground)? {
            let past = record.files.get(&wanted.file).cloned();
            let mut users = past.as_ref().map(|past| past.users.clone()).unwrap_or_default();
            users.remove(harness.as_str());
            let shared =
                !users.is_empty() || past.is_none() && shared_with_others(harness, ground, &wanted.file);
            if shared {
                if let Some(past) = record.files.get_mut(&wanted.file) {
                    past.users = users;
                }
                continue;
            }
            record.files.remove(&wanted.file);
            let (target, current) = read(&root, &wanted.file)?;
            let Some(current) = current else { continue };
            let after = match &wanted.content {
                Content::Whole { .. } => match edit::is_untouched(&current) {
                    Some(true) => None,
                    Some(false) if force => None,
                    Some(false) => return Err(BindingError::Taken { file: wanted.file, changed: true }),
                    // Somebody else's: it was never ours to take away.
                    None => continue,
                },
                Content::Json(_) | Content::Table { .. } | Content::Block(_) => {
                    let base = base(&wanted, &current, past.as_ref())?;
                    let created = past.as_ref().is_some_and(|past| past.created);
                    let left: String = base.chars().filter(|character| !character.is_whitespace()).collect();
                    let nothing_left =
                        matches!(left.trim_start_matches('\u{feff}'), "" | "{}" | r#"{"version":1}"#);
                    if nothing_left && (created || past.is_none()) { None } else { Some(base) }
                }
            };
            let brings_back = past.is_some_and(|past| past.moved_aside);
            if after.as_deref() != Some(current.as_str()) {
                changes.push(Change {
                    file: wanted.file,
                    target,
                    before: Some(current),
                    after,
                    moves_aside: false,
                    brings_back,
                });
            }
        }
        Ok(Self { harness, root, changes, record, before })
    }

    /// Tells whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the files that would change.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.changes.iter().map(|change| change.file.as_path())
    }

    /// Returns the whole change as a diff.
    pub fn diff(&self) -> String {
        let mut all = String::new();
        for change in &self.changes {
            let (before, after) =
                (change.before.as_deref().unwrap_or_default(), change.after.as_deref().unwrap_or_default());
            let name = change.file.display().to_string();
            let old = if change.before.is_some() { format!("a/{name}") } else { "/dev/null".to_owned() };
            let new = if change.after.is_some() { format!("b/{name}") } else { "/dev/null".to_owned() };
            all.push_str(&TextDiff::from_lines(before, after).unified_diff().header(&old, &new).to_string());
        }
        all
    }

    /// Does it.
    ///
    /// # Errors
    /// A file cannot be written; those before it are, and binding again goes on from there.
    pub fn apply(mut self, records: &RecordFolder) -> Result<Vec<PathBuf>, BindingError> {
        let mut touched = Vec::new();
        for change in &self.changes {
            if let Some(folder) = change.target.parent() {
                for made in create_folders(folder, 0o755)? {
                    if let Ok(relative) = made.strip_prefix(&self.root)
                        && !self.record.folders.iter().any(|known| known == relative)
                    {
                        self.record.folders.push(relative.to_owned());
                    }
                }
            }
            if change.moves_aside {
                file::rename(&change.target, &aside(&change.target))?;
            }
            match &change.after {
                Some(text) => {
                    let mode = mode_of(&change.target).unwrap_or(0o644);
                    file::replace(&change.target, text.as_bytes(), mode, Durability::Crash)?;
                }
                None => drop(file::remove(&change.target)?),
            }
            if change.brings_back && aside(&change.target).exists() {
                file::rename(&aside(&change.target), &change.target)?;
            }
            touched.push(change.file.clone());
        }
        self.drop_folders();
        if self.record != self.before {
            records.save(&self.root, &self.record)?;
        }
        if !self.record.files.values().any(|file| file.users.contains(self.harness.as_str())) {
            records.forget_run(&self.root, self.harness);
        }
        Ok(touched)
    }

    /// Removes folders that binding made and that are empty now, innermost first.
    fn drop_folders(&mut self) {
        let mut kept = Vec::new();
        let mut folders = std::mem::take(&mut self.record.folders);
        folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
        for folder in folders {
            // One that still holds something, or is gone already, is no longer ours to remove.
            if std::fs::remove_dir(self.root.join(&folder)).is_err() && self.root.join(&folder).exists() {
                kept.push(folder);
            }
        }
        kept.sort();
        self.record.folders = kept;
    }
}

/// Works out a shared file's new text, and whether the file is ours alone.
fn insert(
    wanted: &Wanted,
    current: Option<&str>,
    past: Option<&FileRecord>,
) -> Result<(Draft, bool), BindingError> {
    let created = past.map_or(current.is_none(), |past| past.created);
    let base = match current {
        // Already there, every entry as it should be: positions of other people's hooks matter to
        // some harnesses, so nothing moves.
        Some(current) if complete(&wanted.content, current) => {
            let insertions = past.map(|past| past.insertions.clone()).unwrap_or_default();
            return Ok((Draft { text: current.to_owned(), insertions }, created));
        }
        Some(current) => base(wanted, current, past)?,
        None => String::new(),
    };
    let draft = put(&wanted.content, &base).map_err(|error| unreadable(&wanted.file, error))?;
    Ok((draft, created))
}

fn put(content: &Content, text: &str) -> Result<Draft, Unreadable> {
    match content {
        Content::Json(edits) => edit::bind_json(text, edits),
        Content::Table { path, body } => edit::bind_tables(text, path, body),
        Content::Block(block) => Ok(edit::bind_prose(text, block)),
        Content::Whole { text, marker } => {
            Ok(Draft { text: edit::render_owned(text, *marker), insertions: Vec::new() })
        }
    }
}

/// Returns whether a text holds everything wanted and nothing of ours that is not.
pub(crate) fn complete(content: &Content, text: &str) -> bool {
    let holds = put(content, text).is_ok_and(|draft| draft.insertions.is_empty() && draft.text == text);
    match content {
        Content::Json(edits) => holds && edit::count_ours(text) == edit::count_wanted(edits),
        Content::Table { .. } | Content::Block(_) | Content::Whole { .. } => holds,
    }
}

/// Returns a shared file without what is ours: to the byte when nobody touched it since, else by
/// what our entries look like.
fn base(wanted: &Wanted, current: &str, past: Option<&FileRecord>) -> Result<String, BindingError> {
    if let Some(past) = past
        && hash(current) == past.after
        && let Some(exact) = exact(current, &past.insertions)
    {
        return Ok(exact);
    }
    match &wanted.content {
        Content::Json(edits) => {
            if current.trim_start_matches('\u{feff}').trim().is_empty() {
                return Ok(current.to_owned());
            }
            edit::strip_json(current, edits).map_err(|error| unreadable(&wanted.file, error))
        }
        Content::Table { path, body } => {
            edit::strip_tables(current, path, body).map_err(|error| unreadable(&wanted.file, error))
        }
        Content::Block(_) => Ok(edit::strip_prose(current)),
        Content::Whole { .. } => Ok(current.to_owned()),
    }
}

fn exact(current: &str, insertions: &[Insertion]) -> Option<String> {
    edit::take_back(current, insertions)
}

/// Without a record: another harness that is bound here may need the same file.
fn shared_with_others(harness: Harness, ground: &Ground, file: &Path) -> bool {
    Harness::ALL.into_iter().filter(|&other| other != harness).any(|other| {
        let Ok(wanted) = wanted(other, ground) else { return false };
        // A file that only this other one has says whether it is bound.
        let own = wanted.iter().find(|wanted| matches!(wanted.content, Content::Json(_)));
        let is_bound = own.is_some_and(|own| match read(ground.root(), &own.file) {
            Ok((_, Some(text))) => edit::count_ours(&text) > 0,
            Ok((_, None)) | Err(_) => false,
        });
        is_bound && wanted.iter().any(|wanted| wanted.file == file)
    })
}

/// Reads a file and finds what it really is; none when it is not there.
pub(crate) fn read(root: &Path, relative: &Path) -> Result<(PathBuf, Option<String>), BindingError> {
    let path = root.join(relative);
    let target = file::resolve(&path);
    // Links inside the folder are the person's way to lay it out. One that leads out may have come with a
    // repository, and whatever it leads to is not ours to change.
    if !target.starts_with(root) {
        return match target.exists() {
            true => Err(BindingError::LeadsOutside { file: relative.to_owned(), target }),
            false => Err(BindingError::Dangling(relative.to_owned())),
        };
    }
    match std::fs::symlink_metadata(&target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((target, None)),
        Err(error) => return Err(FileError::new("looking at", target, error).into()),
        Ok(about) if about.is_symlink() => return Err(BindingError::Dangling(relative.to_owned())),
        Ok(_) => {}
    }
    match file::read_text(&target, LIMIT) {
        Ok(text) => Ok((target, Some(text))),
        Err(error) if error.source.kind() == std::io::ErrorKind::InvalidData => {
            Err(BindingError::NotText(relative.to_owned()))
        }
        Err(error) => Err(error.into()),
    }
}

fn unreadable(file: &Path, error: Unreadable) -> BindingError {
    let Unreadable { line, column, reason, entry } = error;
    let file = file.to_owned();
    match entry {
        Some(entry) => BindingError::TakenEntry { file, entry, line, column },
        None => BindingError::Unreadable { file, line, column, reason },
    }
}

fn past_moved(record: &Record, file: &Path) -> bool {
    record.files.get(file).is_some_and(|past| past.moved_aside)
}

fn aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ASIDE);
    name.into()
}

fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).ok().map(|about| about.permissions().mode() & 0o7777)
}
