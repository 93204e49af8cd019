//! Workspaces on disk: make, list, remove. All of it inside the jail; authority was checked before.
//!
//! A workspace appears and disappears by one rename each, so nobody ever sees half of one. What a
//! crash leaves has a name that no workspace can have and is swept at the next start.

mod turn;

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::file::{Created, Durability};
use nexus_base::jail::{EntryKind, Jail, JailError, Mounts, TEMPORARY_PREFIX};
use serde_json::Value;

use crate::code::{self, Reject};
use crate::frame::Role;
use crate::hooks::{self, Hooks};
use crate::run_dir::RunDir;
use crate::ws_id::{self, WsId};
use turn::Turns;

/// Names of workspaces being made start with this; the dot keeps them from being ids.
const NEW_PREFIX: &str = ".new-";
/// Names of workspaces being removed start with this.
const GONE_PREFIX: &str = ".del-";
/// A manifest is three short lines.
const MAX_MANIFEST_BYTES: u64 = 4096;

/// Why an operation did not work: what the client hears and what the log says.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) reject: Reject,
    pub(crate) detail: String,
}

impl Failure {
    fn new(reject: Reject, detail: impl Into<String>) -> Self {
        Self { reject, detail: detail.into() }
    }
}

impl From<JailError> for Failure {
    fn from(error: JailError) -> Self {
        let reject = match &error {
            JailError::Escape { .. } => code::BAD_WS_ID,
            JailError::Symlink { .. } | JailError::Mount { .. } => code::JAIL_VIOLATION,
            JailError::NotAFile { .. } | JailError::NotAFolder { .. } => code::NOT_A_WORKSPACE,
            JailError::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                code::NO_SPACE
            }
            JailError::NotFound { .. }
            | JailError::AlreadyThere { .. }
            | JailError::TooLarge { .. }
            | JailError::Io { .. } => code::STORAGE_FAILED,
        };
        let mut detail = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            detail.push_str(": ");
            detail.push_str(&source.to_string());
        }
        Self { reject, detail }
    }
}

/// What came of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It was not there.
    Absent,
    Gone,
    /// Its name is gone; something in it could not be deleted and waits for the next start.
    Leftover,
}

/// The workspaces of one run folder.
#[derive(Debug)]
pub(crate) struct Workspaces {
    jail: Jail,
    run_dir: RunDir,
    hooks: Hooks,
    turns: Turns,
    counter: AtomicU64,
    /// Set by the torture suite where no small file system can be mounted.
    disk_full: AtomicBool,
}

impl Workspaces {
    /// Opens the run folder and sweeps what a crash left there. The caller holds the Kernel's lock.
    pub(crate) fn open(run_dir: RunDir, hooks: Hooks) -> Result<Self, JailError> {
        let jail = Jail::open_with(run_dir.path(), Mounts::Refuse)?;
        let (turns, counter, disk_full) = (Turns::default(), AtomicU64::new(0), AtomicBool::new(false));
        let workspaces = Self { jail, run_dir, hooks, turns, counter, disk_full };
        workspaces.sweep()?;
        Ok(workspaces)
    }

    /// Makes a workspace; false if it was there, which is then left as it is. With `init` a Nexus
    /// workspace stands inside afterwards, in an existing one too.
    pub(crate) fn create(&self, id: &WsId, owner: Role, init: bool) -> Result<bool, Failure> {
        let _turn = self.turns.take(id);
        if init && self.hooks.init.is_none() {
            return Err(Failure::new(code::INIT_UNAVAILABLE, "this server cannot initialise workspaces"));
        }
        let created = self.create_folder(id, owner)?;
        if init && let Err(why) = self.init(id) {
            if created {
                // A failed create leaves nothing, whatever init had made by then.
                let gone = self.staging_name(GONE_PREFIX, id);
                self.jail.rename(id.as_str(), &gone)?;
                self.delete(&gone);
            }
            return Err(Failure::new(code::INIT_FAILED, why));
        }
        Ok(created)
    }

    /// Removes a workspace. With `stop`, a daemon in it is stopped first; without, it protects it.
    pub(crate) fn destroy(&self, id: &WsId, stop: bool) -> Result<Removal, Failure> {
        let gone = {
            let _turn = self.turns.take(id);
            match self.set_aside(id, stop)? {
                Some(gone) => gone,
                None => return Ok(Removal::Absent),
            }
        };
        // Nobody can name it any more, so other requests for the same id need not wait for this.
        Ok(self.delete(&gone))
    }

    /// Removes a workspace if it is there and makes it anew, with nothing in between for others.
    pub(crate) fn reset(&self, id: &WsId, owner: Role, stop: bool) -> Result<(), Failure> {
        let gone = {
            let _turn = self.turns.take(id);
            let gone = self.set_aside(id, stop)?;
            if let Err(failure) = self.create_folder(id, owner) {
                if let Some(gone) = &gone {
                    // What was there comes back rather than nothing at all.
                    self.jail.rename(gone, id.as_str())?;
                }
                return Err(failure);
            }
            gone
        };
        if let Some(gone) = gone {
            self.delete(&gone);
        }
        Ok(())
    }

    /// Names the workspaces after `after`, sorted by bytes.
    pub(crate) fn list(&self, after: Option<&str>) -> Result<Vec<String>, Failure> {
        let after = after.unwrap_or_default().as_bytes();
        let mut names: Vec<String> = self
            .jail
            .names(".")?
            .into_iter()
            .filter(|(name, kind)| *kind == EntryKind::Folder && name.as_encoded_bytes() > after)
            .filter_map(|(name, _)| name.into_string().ok())
            .filter(|name| ws_id::is_legal(name.as_bytes()) && !ws_id::RESERVED.contains(&name.as_str()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Tells whether a workspace is there and since when.
    pub(crate) fn show(&self, id: &WsId) -> Result<(bool, Option<String>), Failure> {
        match self.jail.metadata(id.as_str()) {
            Ok(found) if found.kind == EntryKind::Folder => Ok((true, self.created_at(id))),
            Ok(_) | Err(JailError::NotFound { .. }) => Ok((false, None)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what the manifest says about when the workspace was made.
    pub(crate) fn created_at(&self, id: &WsId) -> Option<String> {
        let bytes = self.jail.read(format!("{id}/manifest.json"), MAX_MANIFEST_BYTES).ok()?;
        match serde_json::from_slice::<Value>(&bytes).ok()?.get("created_at")? {
            Value::String(text) if text.len() <= 64 => Some(text.clone()),
            _ => None,
        }
    }

    /// Returns where a workspace lies, for logs and hooks.
    pub(crate) fn path(&self, id: &WsId) -> PathBuf {
        self.run_dir.workspace(id)
    }

    /// Makes every write fail as on a full disk, or stops doing so.
    pub(crate) fn pretend_disk_full(&self, full: bool) {
        self.disk_full.store(full, Ordering::SeqCst);
    }

    fn create_folder(&self, id: &WsId, owner: Role) -> Result<bool, Failure> {
        match self.jail.metadata(id.as_str()) {
            Err(JailError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
            Ok(found) => {
                return match found.kind {
                    EntryKind::Folder => self.complete(id, owner).map(|()| false),
                    EntryKind::Symlink => Err(JailError::Symlink { path: self.path(id) }.into()),
                    EntryKind::File | EntryKind::Other => Err(Failure::new(
                        code::NOT_A_WORKSPACE,
                        "the name is taken by something that is not a \
                            workspace",
                    )),
                };
            }
        }
        let staged = self.staging_name(NEW_PREFIX, id);
        let made = self.stage(&staged, id, owner).and_then(|()| {
            failpoint::hit("kernel.create.staged");
            self.jail.rename(&staged, id.as_str()).map_err(Failure::from)
        });
        if let Err(failure) = made {
            // Nothing of a failed create may stay; the next start sweeps what resists now.
            let _ = self.jail.remove_dir_all(&staged);
            return Err(failure);
        }
        failpoint::hit("kernel.create.renamed");
        Ok(true)
    }

    fn stage(&self, staged: &str, id: &WsId, owner: Role) -> Result<(), Failure> {
        self.jail.create_dir_all(staged, 0o700)?;
        let folder = self.jail.sub(staged)?;
        if self.disk_full.load(Ordering::Relaxed) {
            return Err(Failure::new(code::NO_SPACE, "writing manifest.json: simulated full disk"));
        }
        folder.create_new("manifest.json", manifest(id, owner).as_bytes(), 0o600)?;
        folder.create_dir_all("logs", 0o700)?;
        Ok(())
    }

    /// Gives a folder that lacks a manifest one; whatever manifest is there stays.
    fn complete(&self, id: &WsId, owner: Role) -> Result<(), Failure> {
        let path = format!("{id}/manifest.json");
        match self.jail.metadata(&path) {
            Ok(_) => Ok(()),
            Err(JailError::NotFound { .. }) => {
                let content = manifest(id, owner);
                match self.jail.create_once(&path, content.as_bytes(), 0o600, Durability::Crash)? {
                    Created::New | Created::AlreadyThere => Ok(()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    fn init(&self, id: &WsId) -> Result<(), String> {
        let Some(init) = &self.hooks.init else { return Ok(()) };
        let path = self.path(id);
        hooks::run(|| init(&path)).flatten()
    }

    /// Takes a workspace's name away; returns the name it has now, or nothing if it was not there.
    fn set_aside(&self, id: &WsId, stop: bool) -> Result<Option<String>, Failure> {
        match self.jail.metadata(id.as_str()) {
            Err(JailError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(found) => match found.kind {
                EntryKind::Folder => {}
                EntryKind::Symlink => return Err(JailError::Symlink { path: self.path(id) }.into()),
                EntryKind::File | EntryKind::Other => {
                    return Err(Failure::new(
                        code::NOT_A_WORKSPACE,
                        "the name is taken by something that is not a \
                        workspace",
                    ));
                }
            },
        }
        // Looked for first: a mount found half way through would leave half a workspace.
        self.jail.refuse_mounts_below(id.as_str())?;
        self.free(id, stop)?;
        let gone = self.staging_name(GONE_PREFIX, id);
        self.jail.rename(id.as_str(), &gone)?;
        if self.is_in_use(&self.run_dir.path().join(&gone)) {
            // A daemon started between the question and the rename. It gets its folder back.
            self.jail.rename(&gone, id.as_str())?;
            return Err(Failure::new(code::WORKSPACE_IN_USE, "a daemon has started in it"));
        }
        failpoint::hit("kernel.destroy.renamed");
        Ok(Some(gone))
    }

    fn free(&self, id: &WsId, stop: bool) -> Result<(), Failure> {
        let path = self.path(id);
        if !self.is_in_use(&path) {
            return Ok(());
        }
        let Some(stopper) = self.hooks.stop.as_ref().filter(|_| stop) else {
            return Err(Failure::new(code::WORKSPACE_IN_USE, "a daemon is running in it"));
        };
        hooks::run(|| stopper(&path)).flatten().map_err(|why| Failure::new(code::STOP_FAILED, why))?;
        if self.is_in_use(&path) {
            return Err(Failure::new(code::STOP_FAILED, "the daemon is still running"));
        }
        Ok(())
    }

    fn is_in_use(&self, path: &std::path::Path) -> bool {
        let Some(in_use) = &self.hooks.in_use else { return false };
        // A hook that cannot answer protects the workspace.
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| in_use(path))).unwrap_or(true)
    }

    fn delete(&self, gone: &str) -> Removal {
        let removal = match self.jail.remove_dir_all(gone) {
            Ok(()) | Err(JailError::NotFound { .. }) => Removal::Gone,
            Err(_) => Removal::Leftover,
        };
        failpoint::hit("kernel.destroy.deleted");
        removal
    }

    fn sweep(&self) -> Result<(), JailError> {
        for (name, kind) in self.jail.names(".")? {
            let is_ours = [NEW_PREFIX, GONE_PREFIX, TEMPORARY_PREFIX]
                .iter()
                .any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()));
            if is_ours {
                // What cannot be removed today, a mount for instance, is tried again next time.
                let _ = self.remove_leftover(&name, kind);
            }
        }
        Ok(())
    }

    fn remove_leftover(&self, name: &OsStr, kind: EntryKind) -> Result<(), JailError> {
        match kind {
            EntryKind::Folder => self.jail.remove_dir_all(name),
            EntryKind::File | EntryKind::Symlink | EntryKind::Other => self.jail.remove_file(name),
        }
    }

    /// Returns a name that is no workspace id and that nothing else has: the lock admits one process
    /// at a time, and what earlier ones left was swept or carries their number.
    fn staging_name(&self, prefix: &str, id: &WsId) -> String {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        let moment = Timestamp::now().as_millis();
        format!("{prefix}{id}-{}-{moment:x}-{number}", std::process::id())
    }
}

/// Renders the three keys of a manifest; the same input gives the same bytes but for the time.
fn manifest(id: &WsId, owner: Role) -> String {
    // The clock renders milliseconds; manifests have whole seconds.
    let now = Timestamp::now().to_string();
    let seconds = now.split('.').next().unwrap_or(&now);
    format!(
        "{{\n  \"ws_id\": \"{id}\",\n  \"created_at\": \"{seconds}Z\",\n  \"owner_role\": \"{owner}\"\n}}\n"
    )
}
