//! Whose workspace is it? A record outside the workspace says so; nothing inside it can.
//!
//! A record names the workspace's random id, its real path and the identity of its root folder, so a
//! copy, a clone or a folder put in the same place is a stranger until its owner says otherwise.
//! What an untrusted workspace may not do is decided by those who do it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Created, Durability, FileError};
use nexus_base::id::{random_hex, to_hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Layout;

/// Random bytes in a workspace id.
const ID_BYTES: usize = 16;
/// Largest record or id file that is read.
const RECORD_LIMIT: u64 = 16 * 1024;

/// The folder that holds trust records: `{state home}/nexus/trust`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustFolder(PathBuf);

impl TrustFolder {
    /// Takes the folder as it is.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Places the folder from the value of `XDG_STATE_HOME` and the home folder.
    pub fn locate(xdg_state_home: Option<&Path>, home: Option<&Path>) -> Option<Self> {
        // The XDG rules say that a relative value counts as unset.
        let base = match xdg_state_home.filter(|path| path.is_absolute()) {
            Some(path) => path.to_owned(),
            None => home?.join(".local/state"),
        };
        Some(Self(base.join("nexus/trust")))
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// The random id that a workspace carries in `state/workspace-id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    /// Makes a fresh id.
    ///
    /// # Errors
    /// The operating system's random source failed.
    pub fn generate() -> std::io::Result<Self> {
        random_hex(ID_BYTES).map(Self)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    // The file comes with the workspace, perhaps from a stranger, and becomes part of a file name.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == ID_BYTES * 2 && is_hex).then(|| Self(text.to_owned()))
    }
}

/// What is known of the workspace's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// A record names this very folder.
    Trusted,
    /// No record of this workspace exists here.
    NoRecord,
    /// A record exists, for another folder or an earlier one in this place: this is a copy.
    OtherFolder,
    /// The workspace carries no id.
    NoId,
}

impl Trust {
    /// Tells whether the workspace is its owner's.
    pub const fn is_trusted(self) -> bool {
        matches!(self, Self::Trusted)
    }
}

/// Why trust could not be recorded or looked up.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The workspace has no valid id, so nothing can be tied to it.
    #[error("{path} contains no workspace id")]
    NoId {
        /// The id file.
        path: PathBuf,
    },
    /// Records would lie inside the workspace they vouch for.
    #[error("trust records would be inside the workspace, at {path}")]
    InsideWorkspace {
        /// The folder of records.
        path: PathBuf,
    },
    /// A file or folder could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl TrustError {
    /// Returns advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoId { .. } => "run `nexus init` on the workspace first",
            Self::InsideWorkspace { .. } => "set XDG_STATE_HOME to a folder outside the workspace",
            Self::File(_) => "check the folder's owner, permissions and free space",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    version: u32,
    workspace_id: WorkspaceId,
    #[serde(flatten)]
    folder: FolderIdentity,
    recorded_at: Timestamp,
}

/// What tells one folder from another that takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FolderIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
    #[serde(default)]
    born_ns: Option<u64>,
}

impl FolderIdentity {
    fn of(root: &Path) -> Result<Self, FileError> {
        let failed = |error| FileError::new("looking at", root, error);
        let path = root.canonicalize().map_err(failed)?;
        let metadata = std::fs::metadata(&path).map_err(failed)?;
        let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self {
            path,
            device: metadata.dev(),
            inode: metadata.ino(),
            born_ns: born.and_then(|age| u64::try_from(age.as_nanos()).ok()),
        })
    }

    fn is_same_folder(&self, other: &Self) -> bool {
        let place = self.path == other.path && self.inode == other.inode;
        // Device numbers of some file systems change from boot to boot, which would make strangers
        // of everybody's workspace. The time of birth does not, and a new folder cannot forge it.
        place
            && match (self.born_ns, other.born_ns) {
                (Some(mine), Some(theirs)) => mine == theirs,
                _ => self.device == other.device,
            }
    }
}

/// Records that the workspace at `layout` belongs to this user. Repeating it changes nothing.
pub fn record(folder: &TrustFolder, layout: &Layout) -> Result<Created, TrustError> {
    let id = read_id(layout)?.ok_or_else(|| TrustError::NoId { path: layout.workspace_id() })?;
    record_id(folder, layout, &id)
}

/// Tells whether the workspace at `layout` is this user's own.
///
/// # Errors
/// The workspace's folder or the record cannot be read; callers then treat it as untrusted.
pub fn standing(folder: &TrustFolder, layout: &Layout) -> Result<Trust, TrustError> {
    let Some(id) = read_id(layout)? else { return Ok(Trust::NoId) };
    let here = FolderIdentity::of(layout.root())?;
    refuse_inside(folder, &here.path)?;
    if let Some(record) = read_record(&record_path(folder, &id, &here.path))?
        && record.workspace_id == id
    {
        let same = record.folder.is_same_folder(&here);
        return Ok(if same { Trust::Trusted } else { Trust::OtherFolder });
    }
    let prefix = format!("{}-", id.as_str());
    let elsewhere = std::fs::read_dir(folder.path())
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    Ok(if elsewhere { Trust::OtherFolder } else { Trust::NoRecord })
}

/// Tells whether the workspace at `layout` is this user's own; any doubt means no.
pub fn is_trusted(folder: &TrustFolder, layout: &Layout) -> bool {
    standing(folder, layout).is_ok_and(Trust::is_trusted)
}

/// Takes trust in the workspace at `layout` back. Returns whether there was any.
pub fn revoke(folder: &TrustFolder, layout: &Layout) -> Result<bool, TrustError> {
    let Some(id) = read_id(layout)? else { return Ok(false) };
    let here = FolderIdentity::of(layout.root())?;
    let path = record_path(folder, &id, &here.path);
    match std::fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::new("removing", path, error).into()),
    }
}

/// Records trust in a workspace whose id is not on disk yet; see `init` for why that order.
pub(crate) fn record_id(
    folder: &TrustFolder,
    layout: &Layout,
    id: &WorkspaceId,
) -> Result<Created, TrustError> {
    let here = FolderIdentity::of(layout.root())?;
    refuse_inside(folder, &here.path)?;
    let path = record_path(folder, id, &here.path);
    if let Some(record) = read_record(&path)?
        && record.workspace_id == *id
        && record.folder.is_same_folder(&here)
    {
        return Ok(Created::AlreadyThere);
    }
    file::create_folder(folder.path(), 0o700)?;
    let record = Record { version: 1, workspace_id: id.clone(), folder: here, recorded_at: Timestamp::now() };
    let mut text = serde_json::to_vec_pretty(&record)
        .map_err(|error| FileError::new("rendering", &path, error.into()))?;
    text.push(b'\n');
    file::replace(&path, &text, 0o600, Durability::PowerLoss)?;
    Ok(Created::New)
}

/// Reads the workspace's id; none when the file is missing or holds something else.
///
/// # Errors
/// The file is there but cannot be read.
pub fn read_id(layout: &Layout) -> Result<Option<WorkspaceId>, FileError> {
    match file::read_text(&layout.workspace_id(), RECORD_LIMIT) {
        Ok(text) => Ok(WorkspaceId::parse(&text)),
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn refuse_inside(folder: &TrustFolder, root: &Path) -> Result<(), TrustError> {
    // The folder may not exist yet, so its nearest existing ancestor is resolved.
    let resolved = folder.path().ancestors().find_map(|path| path.canonicalize().ok());
    if folder.path().starts_with(root) || resolved.is_some_and(|path| path.starts_with(root)) {
        return Err(TrustError::InsideWorkspace { path: folder.path().to_owned() });
    }
    Ok(())
}

fn record_path(folder: &TrustFolder, id: &WorkspaceId, root: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    // The path is part of the name so that trusting a copy does not forget the original.
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    folder.path().join(format!("{}-{}.json", id.as_str(), to_hex(&digest[..8])))
}

fn read_record(path: &Path) -> Result<Option<Record>, FileError> {
    match file::read_text(path, RECORD_LIMIT) {
        // A record that cannot be read vouches for nothing; recording anew replaces it.
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
