//! `nexus init` without the databases: folders, templates, configuration, id and trust record.
//!
//! Every step makes what is missing and leaves alone what is there, so a run after a crash finishes
//! the work and a run on a finished workspace changes nothing. The order matters for trust: the
//! record outside is written before the id inside, because only an untouched folder is trusted
//! without asking, and a crash in between must not turn our own half-made workspace into a stranger.

use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nexus_base::failpoint;
use nexus_base::file::{self, Created, Durability, FileError};
use nexus_base::id::random_hex;
use serde::Serialize;
use serde_json::json;

use crate::trust::{self, Trust, TrustError, TrustFolder, WorkspaceId};
use crate::{Layout, templates};

/// Mode of folders that anybody on the machine may look into.
const OPEN_FOLDER: u32 = 0o755;
/// Mode of folders under `state/`.
const PRIVATE_FOLDER: u32 = 0o700;
/// Mode of files that hold nothing private.
const OPEN_FILE: u32 = 0o644;
/// Mode of files under `state/`.
const PRIVATE_FILE: u32 = 0o600;
/// Random bytes in the owner's token.
const TOKEN_BYTES: usize = 24;
/// Port a fresh workspace listens on.
pub const DEFAULT_PORT: u16 = 18_789;

/// What `init` found and made, for `--json` and the summary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitReport {
    /// Workspace root as given.
    pub workspace: PathBuf,
    /// Paths made by this run, relative to the root where they lie under it.
    pub created: Vec<String>,
    /// Paths that stood there already.
    pub already_present: Vec<String>,
    /// Whether the workspace counts as the owner's.
    pub trust: Trust,
    /// Where the trust record lies, when there is one.
    pub trust_folder: PathBuf,
}

impl InitReport {
    /// Notes one more path, for steps made elsewhere such as databases.
    pub fn note(&mut self, layout: &Layout, path: &Path, created: Created) {
        let shown = shown(layout, path);
        match created {
            Created::New => self.created.push(shown),
            Created::AlreadyThere => self.already_present.push(shown),
        }
    }
}

/// Why a workspace could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// Something that is not a folder stands where a folder belongs.
    #[error("{path} is a file, not a folder")]
    NotAFolder {
        /// What stands in the way.
        path: PathBuf,
    },
    /// Something that is not a file stands where a file belongs.
    #[error("{path} is not a regular file")]
    NotAFile {
        /// What stands in the way.
        path: PathBuf,
    },
    /// The place cannot be written to by this user.
    #[error("{path} is not writable")]
    NotWritable {
        /// The folder or file that was refused.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The disk or the quota is full.
    #[error("no space left to write {path}")]
    NoSpace {
        /// What was being written.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Anything else the file system said.
    #[error(transparent)]
    File(FileError),
    /// The trust record could not be written.
    #[error("recording trust")]
    Trust(#[source] TrustError),
    /// The system gave no random bytes for the token.
    #[error("getting random bytes")]
    Random(#[source] std::io::Error),
}

impl InitError {
    /// Returns advice for the person.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotAFolder { .. } => "give another --workspace, or move the file away",
            Self::NotAFile { .. } => "move it away and run `nexus init` again",
            Self::NotWritable { .. } => "choose a folder you own, or fix its permissions",
            Self::NoSpace { .. } => {
                "free some space and run `nexus init` again; it continues where it stopped"
            }
            Self::File(_) => "fix the cause and run `nexus init` again; it continues where it stopped",
            Self::Trust(error) => error.hint(),
            Self::Random(_) => "check that the system's random source works",
        }
    }
}

impl From<FileError> for InitError {
    fn from(error: FileError) -> Self {
        let FileError { path, source, .. } = error;
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::NotWritable { path, source },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::NoSpace { path, source },
            _ => Self::File(FileError { action: error.action, path, source }),
        }
    }
}

/// Makes everything of a workspace but its databases. See the module's text for what it promises.
///
/// # Errors
/// See [`InitError`]; what was made before stays and the next run goes on from there.
pub fn prepare_tree(layout: &Layout, trusted: &TrustFolder) -> Result<InitReport, InitError> {
    let mut report = InitReport {
        workspace: layout.root().to_owned(),
        created: Vec::new(),
        already_present: Vec::new(),
        trust: Trust::NoId,
        trust_folder: trusted.path().to_owned(),
    };
    folder(&mut report, layout, layout.root(), OPEN_FOLDER, "init.root")?;
    let untouched = is_untouched(layout)?;
    let id = match trust::read_id(layout)? {
        Some(id) => id,
        None => WorkspaceId::generate().map_err(InitError::Random)?,
    };
    if untouched {
        trust::record_id(trusted, layout, &id).map_err(InitError::Trust)?;
        failpoint::hit("init.trust");
    }

    folder(&mut report, layout, layout.state(), PRIVATE_FOLDER, "init.state")?;
    let id_line = format!("{}\n", id.as_str());
    once(&mut report, layout, &layout.workspace_id(), id_line.as_bytes(), PRIVATE_FILE, "init.workspace-id")?;

    folder(&mut report, layout, &layout.skills(), OPEN_FOLDER, "init.skills")?;
    folder(&mut report, layout, layout.home(), OPEN_FOLDER, "init.home")?;
    folder(&mut report, layout, &layout.data(), PRIVATE_FOLDER, "init.data")?;
    folder(&mut report, layout, &layout.agents(), PRIVATE_FOLDER, "init.agents")?;
    folder(&mut report, layout, &layout.user(), PRIVATE_FOLDER, "init.user")?;
    folder(&mut report, layout, &layout.credentials(), PRIVATE_FOLDER, "init.credentials")?;
    folder(&mut report, layout, &layout.automation_workspaces(), PRIVATE_FOLDER, "init.workspaces")?;

    let agents_md = templates::AGENTS_MD.as_bytes();
    once(&mut report, layout, &layout.agents_md(), agents_md, OPEN_FILE, "init.agents-md")?;
    let bootstrap = templates::BOOTSTRAP_MD.as_bytes();
    once(&mut report, layout, &layout.bootstrap_md(), bootstrap, PRIVATE_FILE, "init.bootstrap-md")?;
    let config = seed_config()?;
    once(&mut report, layout, layout.config(), config.as_bytes(), PRIVATE_FILE, "init.config")?;

    report.trust = trust::standing(trusted, layout).map_err(InitError::Trust)?;
    Ok(report)
}

/// Puts the onboarding text back where it is missing or empty; returns whether it was.
///
/// # Errors
/// Something else stands in its place, or it cannot be written.
pub fn restore_bootstrap(layout: &Layout) -> Result<bool, FileError> {
    let path = layout.bootstrap_md();
    let is_there = std::fs::symlink_metadata(&path).is_ok_and(|found| found.len() > 0);
    if is_there {
        return Ok(false);
    }
    file::create_folder(&layout.agents(), PRIVATE_FOLDER)?;
    file::replace(&path, templates::BOOTSTRAP_MD.as_bytes(), PRIVATE_FILE, Durability::Crash)?;
    Ok(true)
}

/// Tells whether nobody has put anything here that Nexus would act on.
///
/// A folder with notes, code or skills in it may become a workspace and is its owner's at once. One
/// that brings a `state/` or a BOOT.md of its own was a workspace before, perhaps somebody else's.
fn is_untouched(layout: &Layout) -> Result<bool, InitError> {
    let stands = |path: &Path| std::fs::symlink_metadata(path).is_ok();
    let brings_config = layout.config().starts_with(layout.root()) && stands(layout.config());
    if brings_config || stands(&layout.boot_md()) {
        return Ok(false);
    }
    let entries = match std::fs::read_dir(layout.state()) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(InitError::NotAFolder { path: layout.state().to_owned() });
        }
        Err(error) => return Err(FileError::new("listing", layout.state(), error).into()),
    };
    // A run that died early, or the lock a caller took first, may have left these behind.
    let ours = |name: &str| name == "nex.pid" || name.starts_with(".nexus-tmp-");
    Ok(entries.flatten().all(|entry| entry.file_name().to_str().is_some_and(ours)))
}

fn folder(
    report: &mut InitReport,
    layout: &Layout,
    path: &Path,
    mode: u32,
    step: &str,
) -> Result<(), InitError> {
    if let Some(blocked) = path.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir()) {
        return Err(InitError::NotAFolder { path: blocked.to_owned() });
    }
    let created = file::create_folder(path, mode)?;
    if mode == PRIVATE_FOLDER {
        tighten(path)?;
    }
    failpoint::hit(step);
    report.note(layout, path, created);
    Ok(())
}

// A run that died between making a folder and setting its mode, and a checkout, leave it open.
fn tighten(path: &Path) -> Result<(), InitError> {
    let failed = |error| FileError::new("setting permissions of", path, error);
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        file::set_mode(path, PRIVATE_FOLDER)?;
    }
    Ok(())
}

fn once(
    report: &mut InitReport,
    layout: &Layout,
    path: &Path,
    content: &[u8],
    mode: u32,
    step: &str,
) -> Result<(), InitError> {
    if path.is_dir() {
        return Err(InitError::NotAFile { path: path.to_owned() });
    }
    if let Some(parent) = path.parent() {
        file::create_folder(parent, PRIVATE_FOLDER)?;
    }
    let created = file::create_once(path, content, mode, Durability::PowerLoss)?;
    failpoint::hit(step);
    report.note(layout, path, created);
    Ok(())
}

fn seed_config() -> Result<String, InitError> {
    let token = random_hex(TOKEN_BYTES).map_err(InitError::Random)?;
    let document = json!({
        "runtime": {
            "port": DEFAULT_PORT,
            "bind": "loopback",
            "auth": { "mode": "token", "token": token },
        }
    });
    // The alternate form of a JSON value is indented and cannot fail.
    Ok(format!("{document:#}\n"))
}

fn shown(layout: &Layout, path: &Path) -> String {
    match path.strip_prefix(layout.root()) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.display().to_string(),
        Err(_) => path.display().to_string(),
    }
}
