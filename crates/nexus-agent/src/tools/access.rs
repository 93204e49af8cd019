//! Which files a role may use.
//!
//! A list of grants decides, the longest matching one first; everything else is closed. Paths are compared
//! as text, which is sound because the jail below never follows a link and never leaves its root.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nexus_base::jail::{Jail, JailError};

/// Parts of the workspace no task folder may contain or lie in.
const CLOSED: &[&str] =
    &["state/config.json", "state/data", "state/credentials", "state/logs", "state/backups"];

/// First names of paths that mean the workspace itself, not something in the task folder.
const OWN_NAMES: &[&str] = &["state", "skills", "home", "AGENTS.md"];

/// Where a manager keeps its notes.
const SCRATCHPAD: &str = "state/workspace/manager";
/// Who the assistant and its owner are.
const IDENTITY: &[&str] = &["state/agents", "state/user"];

/// The longest path taken from a model.
const LONGEST_PATH: usize = 4096;

/// What may be done with what a grant covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Look.
    Read,
    /// Look and change.
    ReadWrite,
}

/// Why access could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The folder may not be a task folder.
    #[error("{} cannot be a task folder: {reason}", path.display())]
    Forbidden {
        /// The folder.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// A folder could not be opened or made.
    #[error(transparent)]
    Jail(#[from] JailError),
    /// The workspace is not where it should be.
    #[error("opening the workspace {}", path.display())]
    Root {
        /// The workspace.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// The files a role may use.
#[derive(Debug)]
pub struct FileAccess {
    /// The workspace, without links.
    root: PathBuf,
    /// Where relative paths that are not the workspace's own begin.
    base: PathBuf,
    grants: Vec<Grant>,
}

#[derive(Debug)]
struct Grant {
    jail: Arc<Jail>,
    /// The jail's root, without links.
    jail_root: PathBuf,
    /// What is granted: this path and everything below it.
    path: PathBuf,
    rights: Rights,
}

/// A path a grant covers.
#[derive(Debug)]
pub(super) struct Allowed<'a> {
    /// The jail to reach it through.
    pub(super) jail: &'a Jail,
    /// The path inside the jail; `.` for its root.
    pub(super) inside: PathBuf,
    /// The path as people and models write it.
    pub(super) shown: String,
}

impl FileAccess {
    /// Grants what a manager may use: its scratchpad and the identity files to write, `AGENTS.md` to read.
    ///
    /// # Errors
    /// The workspace is missing or the scratchpad cannot be made.
    pub fn manager(root: &Path) -> Result<Self, AccessError> {
        let mut access = Self::empty(root)?;
        let jail = Arc::new(Jail::open(&access.root)?);
        jail.create_dir_all(SCRATCHPAD, 0o700)?;
        access.base = access.root.join(SCRATCHPAD);
        access.add(&jail, SCRATCHPAD, Rights::ReadWrite);
        access.add(&jail, "AGENTS.md", Rights::Read);
        for path in IDENTITY {
            access.add(&jail, path, Rights::ReadWrite);
        }
        Ok(access)
    }

    /// Grants what a worker may use: its task folder to write; `AGENTS.md`, skills and identity to read, the
    /// identity to write too while onboarding.
    ///
    /// `task_folder` is relative to the workspace or absolute; outside the workspace it must exist.
    ///
    /// # Errors
    /// The workspace is missing, or the folder may not be a task folder or cannot be made.
    pub fn worker(root: &Path, task_folder: &Path, onboarding: bool) -> Result<Self, AccessError> {
        let mut access = Self::empty(root)?;
        let jail = Arc::new(Jail::open(&access.root)?);
        let folder = access.root.join(task_folder);
        check_task_folder(&access.root, &folder)?;
        match folder.strip_prefix(&access.root) {
            Ok(inside) => {
                jail.create_dir_all(inside, 0o755)?;
                access.add(&jail, inside, Rights::ReadWrite);
            }
            Err(_) => {
                let own = Arc::new(Jail::open(&folder)?);
                access.grants.push(Grant {
                    jail: own,
                    jail_root: folder.clone(),
                    path: folder.clone(),
                    rights: Rights::ReadWrite,
                });
            }
        }
        access.base = folder;
        for path in ["AGENTS.md", "skills"] {
            access.add(&jail, path, Rights::Read);
        }
        for path in IDENTITY {
            access.add(&jail, path, if onboarding { Rights::ReadWrite } else { Rights::Read });
        }
        Ok(access)
    }

    /// Returns the workspace, without links.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder relative paths begin in.
    pub fn task_folder(&self) -> &Path {
        &self.base
    }

    fn empty(root: &Path) -> Result<Self, AccessError> {
        let root =
            root.canonicalize().map_err(|source| AccessError::Root { path: root.to_owned(), source })?;
        Ok(Self { base: root.clone(), root, grants: Vec::new() })
    }

    fn add(&mut self, jail: &Arc<Jail>, inside: impl AsRef<Path>, rights: Rights) {
        self.grants.push(Grant {
            jail: Arc::clone(jail),
            jail_root: self.root.clone(),
            path: self.root.join(inside),
            rights,
        });
    }

    /// Finds the grant for a path as a model wrote it.
    pub(super) fn resolve(&self, text: &str, needed: Rights) -> Result<Allowed<'_>, String> {
        let path = self.absolute(text)?;
        let Some(grant) = self.covering(&path) else {
            return Err(format!("{text} is not open to you. {self}"));
        };
        if needed == Rights::ReadWrite && grant.rights == Rights::Read {
            return Err(format!("{text} may be read but not changed. {self}"));
        }
        let inside = path.strip_prefix(&grant.jail_root).unwrap_or(&path);
        let inside = if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_owned() };
        Ok(Allowed { jail: &grant.jail, inside, shown: self.show(&path) })
    }

    /// Returns the names directly below a closed folder that lead to something granted.
    pub(super) fn open_below(&self, text: &str) -> Option<Vec<String>> {
        let path = self.absolute(text).ok()?;
        let mut names: Vec<String> = self
            .grants
            .iter()
            .filter_map(|grant| grant.path.strip_prefix(&path).ok()?.iter().next())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names.dedup();
        (!names.is_empty()).then_some(names)
    }

    /// Writes a path the way a model should: relative to the workspace where it lies inside.
    pub(super) fn show(&self, path: &Path) -> String {
        let shown = path.strip_prefix(&self.root).unwrap_or(path).display().to_string();
        if shown.is_empty() { ".".to_owned() } else { shown }
    }

    fn covering(&self, path: &Path) -> Option<&Grant> {
        self.grants
            .iter()
            .filter(|grant| path.starts_with(&grant.path))
            .max_by_key(|grant| grant.path.components().count())
    }

    /// Makes a path absolute and free of `.` and `..`, by its text alone.
    fn absolute(&self, text: &str) -> Result<PathBuf, String> {
        if text.is_empty() {
            return Err(format!("the path is empty. {self}"));
        }
        if text.len() > LONGEST_PATH || text.contains('\0') {
            return Err("the path is too long or holds a NUL character".to_owned());
        }
        if text == "~" || text.starts_with("~/") {
            return Err(format!("{text}: write the path without ~. {self}"));
        }
        let given = Path::new(text);
        let own = given.iter().find(|name| *name != ".").is_none_or(|first| {
            OWN_NAMES.iter().any(|own| first == *own) || self.covering(&self.root.join(given)).is_some()
        });
        // Joining an absolute path gives that path.
        let start = if own { self.root.join(given) } else { self.base.join(given) };
        let mut result = PathBuf::new();
        for component in start.components() {
            match component {
                Component::ParentDir => {
                    // Above the file system's root is the root itself.
                    result.pop();
                }
                Component::CurDir => {}
                Component::Normal(_) | Component::RootDir | Component::Prefix(_) => result.push(component),
            }
        }
        Ok(result)
    }
}

/// Says what is open, for the end of a refusal.
impl fmt::Display for FileAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |rights: Rights| {
            let paths: Vec<String> = self
                .grants
                .iter()
                .filter(|grant| grant.rights == rights)
                .map(|grant| self.show(&grant.path))
                .collect();
            paths.join(", ")
        };
        let (writable, readable) = (list(Rights::ReadWrite), list(Rights::Read));
        write!(formatter, "You may change: {writable}.")?;
        if !readable.is_empty() {
            write!(formatter, " You may read: {readable}.")?;
        }
        Ok(())
    }
}

fn check_task_folder(root: &Path, folder: &Path) -> Result<(), AccessError> {
    let forbidden = |reason| Err(AccessError::Forbidden { path: folder.to_owned(), reason });
    if folder.components().any(|part| part == Component::ParentDir) {
        return forbidden("it contains ..");
    }
    if root.starts_with(folder) {
        return forbidden("it contains the workspace");
    }
    if CLOSED
        .iter()
        .map(|path| root.join(path))
        .any(|path| path.starts_with(folder) || folder.starts_with(path))
    {
        return forbidden("it holds settings, credentials or databases");
    }
    if folder.starts_with(root) {
        return Ok(());
    }
    match folder.canonicalize() {
        Ok(real) if real == folder => {}
        Ok(_) | Err(_) => return forbidden("outside the workspace it must exist and lead through no link"),
    }
    if std::env::home_dir().is_some_and(|home| home.starts_with(folder)) {
        return forbidden("it contains your home folder");
    }
    Ok(())
}
