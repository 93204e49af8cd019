//! `nexus backup` and `nexus restore`: a folder that holds a whole workspace, and a workspace made
//! from it again.
//!
//! The databases are of one moment. Secrets stay out: the owner's token becomes a placeholder, pointers
//! are pointers, sealed files need a key that is not in there. A restored workspace gets a token of its
//! own and says nothing again that the original may have said.

mod restore;
mod tree;

use std::path::{Path, PathBuf};

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability, FileError};
use nexus_base::redact::PLACEHOLDER;
use nexus_store::{DatabaseName, Store, StoreError};
use nexus_workspace::Layout;
use nexus_workspace::config::{ConfigError, Document, MAX_DOCUMENT_SIZE};
use nexus_workspace::trust::TrustError;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use restore::{RestoreReport, RestoreRequest, restore};
use tree::{Tree, collect, copy_file};

/// File that makes a folder a backup.
const MANIFEST: &str = "nexus-backup.json";
/// Largest manifest that is read.
const MAX_MANIFEST_SIZE: u64 = 256 * 1024 * 1024;
/// Format of the manifest.
const MANIFEST_VERSION: u32 = 1;
/// The one secret that a configuration document holds.
const TOKEN_KEY: &str = "runtime.auth.token";

/// Whether the person's own folder goes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeFolder {
    /// It does.
    Included,
    /// It does not.
    LeftOut,
}

/// What a backup holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    version: u32,
    nexus: String,
    created_at: Timestamp,
    workspace_id: Option<String>,
    files: Vec<StoredFile>,
    links: Vec<StoredLink>,
    folders: Vec<StoredFolder>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredFile {
    path: String,
    bytes: u64,
    sha256: String,
    mode: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredLink {
    path: String,
    target: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredFolder {
    path: String,
    mode: u32,
}

/// What was backed up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupReport {
    /// The backup's folder.
    pub path: PathBuf,
    /// Files, databases included.
    pub files: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// What could not be taken along, one line each.
    pub skipped: Vec<String>,
}

/// Why a backup was not made or not restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// Something is there already.
    #[error("{} already exists", path.display())]
    TargetExists {
        /// The place.
        path: PathBuf,
    },
    /// A backup inside the workspace would hold itself.
    #[error("{} is inside the workspace", path.display())]
    Inside {
        /// The place.
        path: PathBuf,
    },
    /// The folder is no backup, or one of a later version.
    #[error("{} is not a backup this nexus can read: {reason}", path.display())]
    NotABackup {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A file is not what was stored.
    #[error("{file} in the backup is damaged: {reason}")]
    Damaged { file: String, reason: String },
    /// More than a workspace should hold.
    #[error("{} contains more than {limit} entries", path.display())]
    TooMuch {
        /// The folder.
        path: PathBuf,
        /// How many are allowed.
        limit: usize,
    },
    /// A database.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The trust record.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The system gave no random bytes.
    #[error("getting random bytes")]
    Random(#[source] std::io::Error),
    #[error(transparent)]
    File(#[from] FileError),
}

impl BackupError {
    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::TargetExists { .. } => {
                Some("choose another location, or move the existing one away".to_owned())
            }
            Self::Inside { .. } => Some("choose a location outside the workspace".to_owned()),
            Self::NotABackup { .. } | Self::Damaged { .. } => Some("use another backup".to_owned()),
            Self::TooMuch { .. } => Some("--without-home leaves out home/".to_owned()),
            Self::Store(error) => error.hint(),
            Self::Config(error) => Some(error.hint()),
            Self::Trust(error) => Some(error.hint().to_owned()),
            Self::Random(_) => None,
            Self::File(_) => Some("check the folder's owner, permissions and free space".to_owned()),
        }
    }
}

/// Copies a workspace into the new folder `target`. Works beside a running daemon.
///
/// # Errors
/// See [`BackupError`]; no half-made backup is left under the name asked for.
pub fn backup(layout: &Layout, target: &Path, home: HomeFolder) -> Result<BackupReport, BackupError> {
    let target = std::path::absolute(target).map_err(|error| FileError::new("looking at", target, error))?;
    if std::fs::symlink_metadata(&target).is_ok() {
        return Err(BackupError::TargetExists { path: target });
    }
    let parent = target.parent().unwrap_or(Path::new("/")).to_owned();
    file::create_folder(&parent, 0o700)?;
    let place = parent.canonicalize().map_err(|error| FileError::new("looking at", &parent, error))?;
    let root = layout.root().canonicalize().unwrap_or_else(|_| layout.root().to_owned());
    if place.starts_with(&root) {
        return Err(BackupError::Inside { path: target });
    }
    let staged = staged_name(&target);
    let made = fill(layout, &staged, home).and_then(|mut report| {
        file::rename(&staged, &target)?;
        report.path = target.clone();
        Ok(report)
    });
    if made.is_err() {
        // What is left would be taken for a backup by nobody, but it takes space.
        let _ = std::fs::remove_dir_all(&staged);
    }
    made
}

fn fill(layout: &Layout, staged: &Path, home: HomeFolder) -> Result<BackupReport, BackupError> {
    file::create_folder(staged, 0o700)?;
    let mut manifest = Manifest {
        version: MANIFEST_VERSION,
        nexus: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Timestamp::now(),
        workspace_id: nexus_workspace::trust::read_id(layout)?.map(|id| id.as_str().to_owned()),
        files: Vec::new(),
        links: Vec::new(),
        folders: Vec::new(),
    };
    let data = staged.join("state/data");
    file::create_folder(&data, 0o700)?;
    Store::backup_to(&layout.data(), &data)?;
    for name in DatabaseName::ALL {
        let path = format!("state/data/{name}.db");
        manifest.files.push(tree::stored(&staged.join(&path), path, 0o600)?);
    }

    let mut skipped = Vec::new();
    let mut found = Tree::default();
    let config = layout.config().to_owned();
    let taken = ["state", "home", MANIFEST].map(|name| layout.root().join(name));
    for path in taken.iter().filter(|path| *path != layout.state() && *path != layout.home()) {
        if std::fs::symlink_metadata(path).is_ok() {
            skipped.push(format!("{}: a backup uses this name itself", path.display()));
        }
    }
    // Whatever a person put beside the known folders is part of the workspace, too.
    collect(layout.root(), "", &mut found, &|path| {
        path == config
            || path == layout.state()
            || path == layout.home()
            || taken.iter().any(|name| name == path)
            || is_temporary(path)
    })?;
    collect(layout.state(), "state", &mut found, &|path| path == config || is_left_out(layout, path))?;
    if home == HomeFolder::Included {
        collect(layout.home(), "home", &mut found, &|_| false)?;
    }
    skipped.append(&mut found.skipped);
    for (path, mode) in &found.folders {
        file::create_folder(&staged.join(path), 0o700)?;
        manifest.folders.push(StoredFolder { path: path.clone(), mode: *mode });
    }
    for (from, to) in found.files {
        match copy_file(&from, &staged.join(&to), to) {
            Ok(stored) => manifest.files.push(stored),
            // Files come and go while agents work; one that is gone is no reason to have no backup.
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
                skipped.push(format!("{}: removed in the meantime", from.display()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    for (link, _) in found.links.iter().filter(|(path, _)| !path.contains('/')) {
        skipped.push(format!("{link}: stored as a link; its target is not included"));
    }
    manifest.links = found.links.into_iter().map(|(path, target)| StoredLink { path, target }).collect();
    manifest.files.push(masked_config(layout, staged)?);

    let bytes = manifest.files.iter().map(|file| file.bytes).sum();
    let report = BackupReport { path: staged.to_owned(), files: manifest.files.len(), bytes, skipped };
    let path = staged.join(MANIFEST);
    let mut text = serde_json::to_vec_pretty(&manifest)
        .map_err(|error| FileError::new("rendering", &path, error.into()))?;
    text.push(b'\n');
    file::replace(&path, &text, 0o600, Durability::Crash)?;
    rustix::fs::sync();
    Ok(report)
}

/// Writes the configuration with a placeholder where the token stands.
fn masked_config(layout: &Layout, staged: &Path) -> Result<StoredFile, BackupError> {
    let text = file::read_text(layout.config(), MAX_DOCUMENT_SIZE)?;
    let mut document = Document::parse(&text, layout.config())?;
    if document.get(TOKEN_KEY).is_some() {
        document.set(TOKEN_KEY, json!(PLACEHOLDER))?;
    }
    // Whatever else looks like a key was put there by hand; the copy is no place for it either.
    let text = nexus_base::redact::Redactor::new().redact(&document.render());
    let path = staged.join("state/config.json");
    file::replace(&path, text.as_bytes(), 0o600, Durability::Crash)?;
    Ok(tree::stored(&path, "state/config.json".to_owned(), 0o600)?)
}

/// Tells what of `state/` belongs to a running process or can be made again.
fn is_left_out(layout: &Layout, path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    path == layout.data()
        || path == layout.lock()
        || path == layout.config_lock()
        || path == layout.logs()
        // The way back leads to files of this workspace, not of its copy.
        || path == layout.state().join("undo")
        || path == layout.state().join("undo.lock")
        || name == "tool-processes.json"
        || name == ".lock"
        || is_temporary(path)
}

/// Tells whether a file is one that is being written right now.
fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".nexus-tmp-"))
}

fn staged_name(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".part-{}", std::process::id()));
    target.with_file_name(name)
}
