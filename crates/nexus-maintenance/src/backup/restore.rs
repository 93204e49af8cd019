//! A workspace from a backup: everything is checked before the first file is written, and the
//! workspace gets its name only when it is whole.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use nexus_base::file::{self, Durability, FileError};
use nexus_base::id::random_hex;
use nexus_store::{DatabaseName, HeldBack, Store};
use nexus_workspace::Layout;
use nexus_workspace::config::{Document, MAX_DOCUMENT_SIZE};
use nexus_workspace::trust::{self, Trust, TrustFolder};
use serde::Serialize;
use serde_json::json;

use super::tree::{copy_file, hash_of};
use super::{BackupError, MANIFEST, MANIFEST_VERSION, MAX_MANIFEST_SIZE, Manifest, TOKEN_KEY, staged_name};

/// Random bytes in the owner's token.
const TOKEN_BYTES: usize = 24;

/// What to restore.
#[derive(Debug, Clone, Copy)]
pub struct RestoreRequest<'a> {
    /// The backup's folder.
    pub backup: &'a Path,
    /// Where the workspace goes; nothing may be there.
    pub layout: &'a Layout,
    /// Where trust records lie.
    pub trust_folder: &'a TrustFolder,
    /// Whether the person vouches for the backup.
    pub trust: bool,
}

/// What was restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreReport {
    pub workspace: PathBuf,
    /// Files, databases included.
    pub files: usize,
    /// Replies that waited to be said; they are in the history and are not said again.
    pub held_replies: usize,
    /// Messages nobody had begun to answer; each waits for the owner's consent.
    pub held_messages: usize,
    /// Pieces of work that had begun; the first start ends them with a visible failure.
    pub ended_work: usize,
    /// Whether the workspace counts as its owner's.
    pub trust: Trust,
}

/// Makes a workspace from a backup.
///
/// # Errors
/// See [`BackupError`]; no half-made workspace is left under the name asked for.
pub fn restore(request: &RestoreRequest<'_>) -> Result<RestoreReport, BackupError> {
    let root = request.layout.root();
    if !is_free(root) {
        return Err(BackupError::TargetExists { path: root.to_owned() });
    }
    let manifest = read_manifest(request.backup)?;
    check(request.backup, &manifest)?;
    if let Some(parent) = root.parent() {
        file::create_folder(parent, 0o755)?;
    }
    let staged = staged_name(root);
    let made = fill(request.backup, &manifest, &staged).and_then(|held| {
        // An empty folder may stand there; a rename replaces it and refuses any other.
        file::rename(&staged, root)?;
        Ok(held)
    });
    let held = match made {
        Ok(held) => held,
        Err(error) => {
            let _ = std::fs::remove_dir_all(&staged);
            return Err(error);
        }
    };
    if request.trust {
        trust::record(request.trust_folder, request.layout)?;
    }
    Ok(RestoreReport {
        workspace: root.to_owned(),
        files: manifest.files.len(),
        held_replies: held.replies,
        held_messages: held.messages,
        ended_work: held.unfinished,
        trust: trust::standing(request.trust_folder, request.layout).unwrap_or(Trust::NoRecord),
    })
}

fn is_free(root: &Path) -> bool {
    match std::fs::read_dir(root) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn read_manifest(backup: &Path) -> Result<Manifest, BackupError> {
    let wrong = |reason: String| BackupError::NotABackup { path: backup.to_owned(), reason };
    let text = file::read_text(&backup.join(MANIFEST), MAX_MANIFEST_SIZE)
        .map_err(|error| wrong(format!("{error}: {}", error.source)))?;
    let manifest: Manifest = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if manifest.version != MANIFEST_VERSION {
        return Err(wrong(format!("it has version {}", manifest.version)));
    }
    Ok(manifest)
}

/// Checks names, hashes and databases of the whole backup.
fn check(backup: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    let damaged =
        |file: &str, reason: &str| BackupError::Damaged { file: file.to_owned(), reason: reason.to_owned() };
    let mut seen = HashSet::new();
    let names = manifest
        .files
        .iter()
        .map(|file| &file.path)
        .chain(manifest.links.iter().map(|link| &link.path))
        .chain(manifest.folders.iter().map(|folder| &folder.path));
    for name in names {
        let plain = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !plain || !seen.insert(name) {
            return Err(damaged(name, "its name is a duplicate or points outside the backup"));
        }
    }
    for stored in &manifest.files {
        let path = backup.join(&stored.path);
        let is_file = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
        if !is_file {
            return Err(damaged(&stored.path, "it is missing"));
        }
        let (bytes, sha256) = hash_of(&path)?;
        if bytes != stored.bytes || sha256 != stored.sha256 {
            return Err(damaged(&stored.path, "its content does not match its hash"));
        }
    }
    for wanted in ["state/config.json", "state/data/events.db", "state/data/agents.db"] {
        if !manifest.files.iter().any(|file| file.path == wanted) {
            return Err(damaged(wanted, "it is missing"));
        }
    }
    for name in DatabaseName::ALL {
        if let Some(fault) = Store::faults(&backup.join("state/data"), name)?.first() {
            return Err(damaged(&format!("state/data/{name}.db"), fault));
        }
    }
    Ok(())
}

fn fill(backup: &Path, manifest: &Manifest, staged: &Path) -> Result<HeldBack, BackupError> {
    let make = |path: &str| file::create_folder(&staged.join(path), 0o700);
    file::create_folder(staged, 0o755)?;
    for folder in &manifest.folders {
        make(&folder.path)?;
    }
    for stored in &manifest.files {
        let to = staged.join(&stored.path);
        let copied = copy_file(&backup.join(&stored.path), &to, stored.path.clone())?;
        if copied.sha256 != stored.sha256 {
            let reason = "it changed while it was being read".to_owned();
            return Err(BackupError::Damaged { file: stored.path.clone(), reason });
        }
        file::set_mode(&to, stored.mode & 0o777)?;
    }
    for name in ["skills", "home", "state/agents", "state/user", "state/credentials", "state/workspace"] {
        // One that was a link becomes a link again, below.
        if !manifest.links.iter().any(|link| link.path == name) {
            make(name)?;
        }
    }
    let layout = Layout::new(staged);
    renew_token(&layout)?;
    // The copies may be of an older schema; bringing them up to date is part of restoring.
    Store::create(&layout.data())?;
    let held = Store::hold_back(&layout.data())?;
    // Links come last, so that no file is ever written through one.
    for link in &manifest.links {
        let path = staged.join(&link.path);
        if let Some(parent) = path.parent() {
            file::create_folder(parent, 0o700)?;
        }
        std::os::unix::fs::symlink(&link.target, &path)
            .map_err(|error| FileError::new("linking", &path, error))?;
    }
    for folder in manifest.folders.iter().rev() {
        let under_state = folder.path == "state" || folder.path.starts_with("state/");
        file::set_mode(&staged.join(&folder.path), if under_state { 0o700 } else { folder.mode & 0o777 })?;
    }
    rustix::fs::sync();
    Ok(held)
}

/// Gives the workspace a token of its own; the backup holds none.
fn renew_token(layout: &Layout) -> Result<(), BackupError> {
    let text = file::read_text(layout.config(), MAX_DOCUMENT_SIZE)?;
    let mut document = Document::parse(&text, layout.config())?;
    document.set(TOKEN_KEY, json!(random_hex(TOKEN_BYTES).map_err(BackupError::Random)?))?;
    file::replace(layout.config(), document.render().as_bytes(), 0o600, Durability::PowerLoss)?;
    Ok(())
}
