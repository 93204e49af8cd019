//! Which files a role may use.
//!
//! A list of grants decides, the longest matching one first; everything else is closed. Paths are compared
//! as text, which is sound because the jail below never follows a link and never leaves its root.

mod automation;

use std::ffi::OsStr;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nexus_base::jail::{Jail, JailError};
use nexus_workspace::Layout;
use nexus_workspace::persona::IdentityRights;

/// First names, besides `state` and `home`, of paths that mean the workspace and not the task folder.
const OWN_NAMES: &[&str] = &["skills", "AGENTS.md", "BOOT.md"];

/// The longest path taken from a model.
const MAX_PATH_LEN: usize = 4096;

/// What may be done with what a grant covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Look.
    Read,
    /// Look, and change what the owner allows, each time.
    Asked,
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
    /// The workspace as its owner names it.
    named: PathBuf,
    /// The folders called `state` and `home` in paths; they may lie outside the workspace.
    state: PathBuf,
    home: PathBuf,
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
    /// Grants what a manager may use in the workspace at `root`; see [`FileAccess::manager_at`].
    ///
    /// # Errors
    /// The workspace is missing.
    pub fn manager(root: &Path) -> Result<Self, AccessError> {
        Self::manager_at(&Layout::new(root))
    }

    /// Grants what a worker may use in the workspace at `root`; see [`FileAccess::worker_at`].
    ///
    /// # Errors
    /// The workspace is missing, or the folder may not be a task folder or cannot be made.
    pub fn worker(root: &Path, task_folder: &Path, identity: &IdentityRights) -> Result<Self, AccessError> {
        Self::worker_at(&Layout::new(root), task_folder, identity)
    }

    /// Grants what a manager may use: its scratchpad and the identity files to write, `AGENTS.md` to read.
    /// The scratchpad is made with its first file.
    ///
    /// # Errors
    /// The workspace is missing.
    pub fn manager_at(layout: &Layout) -> Result<Self, AccessError> {
        let mut access = Self::empty(layout)?;
        let (root, state) = access.jails()?;
        access.base = access.state.join("workspace/manager");
        access.add(&state, access.base.clone(), Rights::ReadWrite);
        access.add(&root, access.root.join("AGENTS.md"), Rights::Read);
        access.add(&state, access.state.join("agents"), Rights::ReadWrite);
        access.add(&state, access.state.join("agents/BOOTSTRAP.md"), Rights::Read);
        access.add(&state, access.state.join("agents/ACTIVE"), Rights::Asked);
        access.add(&state, access.state.join("user"), Rights::ReadWrite);
        Ok(access)
    }

    /// Grants what a worker may use: its task folder to write; `AGENTS.md`, skills and identity to read, and of the
    /// identity to write what `identity` says.
    ///
    /// `task_folder` is relative to the workspace or absolute; outside the workspace it must exist.
    ///
    /// # Errors
    /// The workspace is missing, or the folder may not be a task folder or cannot be made.
    pub fn worker_at(
        layout: &Layout,
        task_folder: &Path,
        identity: &IdentityRights,
    ) -> Result<Self, AccessError> {
        let mut access = Self::empty(layout)?;
        let (root, state) = access.jails()?;
        let folder = access.task_folder_at(layout, task_folder)?;
        match folder.strip_prefix(&access.root) {
            Ok(inside) => {
                root.create_dir_all(inside, 0o755)?;
                access.add(&root, folder.clone(), Rights::ReadWrite);
            }
            Err(_) => {
                let own = Arc::new(Jail::open(&folder)?);
                access.add(&own, folder.clone(), Rights::ReadWrite);
            }
        }
        access.base = folder;
        access.add(&root, access.root.join("AGENTS.md"), Rights::Read);
        access.add(&root, access.root.join("skills"), Rights::Read);
        for name in ["agents", "user"].map(PathBuf::from) {
            if !identity.writable.contains(&name) {
                access.add(&state, access.state.join(name), Rights::Read);
            }
        }
        for path in &identity.writable {
            access.add(&state, access.state.join(path), Rights::ReadWrite);
        }
        for path in &identity.kept {
            access.add(&state, access.state.join(path), Rights::Read);
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

    fn empty(layout: &Layout) -> Result<Self, AccessError> {
        let real = |path: &Path| {
            path.canonicalize().map_err(|source| AccessError::Root { path: path.to_owned(), source })
        };
        let root = real(layout.root())?;
        let state = real(layout.state())?;
        // The home need not exist yet; a task folder is made when it lies inside the workspace.
        let home = layout.home().canonicalize().unwrap_or_else(|_| rebase(layout, &root, layout.home()));
        let named = layout.root().to_owned();
        Ok(Self { base: root.clone(), root, named, state, home, grants: Vec::new() })
    }

    /// Opens the jails of workspace and state, which are one unless the state lies elsewhere.
    fn jails(&self) -> Result<(Arc<Jail>, Arc<Jail>), AccessError> {
        let root = Arc::new(Jail::open(&self.root)?);
        let state = if self.state.starts_with(&self.root) {
            Arc::clone(&root)
        } else {
            Arc::new(Jail::open(&self.state)?)
        };
        Ok((root, state))
    }

    fn add(&mut self, jail: &Arc<Jail>, path: PathBuf, rights: Rights) {
        // Jails are opened on paths without links, so their roots compare with other such paths.
        self.grants.push(Grant { jail: Arc::clone(jail), jail_root: jail.root().to_owned(), path, rights });
    }

    /// Finds the real place of a task folder and refuses those that would uncover something.
    fn task_folder_at(&self, layout: &Layout, given: &Path) -> Result<PathBuf, AccessError> {
        let forbidden = |reason| AccessError::Forbidden { path: given.to_owned(), reason };
        if given.components().any(|part| part == Component::ParentDir) {
            return Err(forbidden("it contains .."));
        }
        let mut folder = rebase(layout, &self.root, given);
        if !folder.starts_with(&self.root) {
            folder = folder.canonicalize().map_err(|_| forbidden("outside the workspace it must exist"))?;
        }
        let config = layout.config().canonicalize().unwrap_or_else(|_| layout.config().to_owned());
        if [&self.root, &self.state, &config].iter().any(|closed| closed.starts_with(&folder)) {
            return Err(forbidden("it contains the workspace or its state"));
        }
        if folder.starts_with(&self.state) && !folder.starts_with(self.state.join("workspace")) {
            return Err(forbidden("it contains settings, credentials or databases"));
        }
        if std::env::home_dir().is_some_and(|home| home.starts_with(&folder)) {
            return Err(forbidden("it contains your home folder"));
        }
        Ok(folder)
    }

    /// Finds the grant for a path as a model wrote it.
    pub(super) fn resolve(&self, text: &str, needed: Rights) -> Result<Allowed<'_>, String> {
        let path = self.absolute(text)?;
        let Some(grant) = self.covering(&path) else {
            return Err(format!("you have no access to {text}. {self}"));
        };
        if needed == Rights::ReadWrite && grant.rights == Rights::Read {
            return Err(format!("{text} may be read but not changed. {self}"));
        }
        let inside = path.strip_prefix(&grant.jail_root).unwrap_or(&path);
        let inside = if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside.to_owned() };
        Ok(Allowed { jail: &grant.jail, inside, shown: self.show(&path) })
    }

    /// Tells whether a place is changed only after the owner's yes.
    pub(super) fn is_asked(&self, place: &Path) -> bool {
        self.covering(place).is_some_and(|grant| grant.rights == Rights::Asked)
    }

    /// Returns where a path as a model wrote it leads, granted or not.
    pub(super) fn place(&self, text: &str) -> Result<PathBuf, String> {
        self.absolute(text)
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
        let named = |name: &str, folder: &Path| Some(Path::new(name).join(path.strip_prefix(folder).ok()?));
        let shown = path
            .strip_prefix(&self.root)
            .map(Path::to_owned)
            .ok()
            .or_else(|| named("state", &self.state))
            .or_else(|| named("home", &self.home))
            .unwrap_or_else(|| path.to_owned());
        let shown = shown.display().to_string();
        let shown = shown.trim_end_matches('/');
        if shown.is_empty() { ".".to_owned() } else { shown.to_owned() }
    }

    fn covering(&self, path: &Path) -> Option<&Grant> {
        self.grants
            .iter()
            .filter(|grant| path.starts_with(&grant.path))
            .max_by_key(|grant| grant.path.components().count())
    }

    /// Puts a path where its first name says: the workspace, its state or home, or the task folder.
    fn start_of(&self, given: &Path) -> PathBuf {
        let mut names = given.iter().skip_while(|name| *name == ".");
        let first = names.next();
        let rest: PathBuf = names.collect();
        match first.and_then(OsStr::to_str) {
            None => self.root.join(given),
            Some("state") => self.state.join(rest),
            Some("home") => self.home.join(rest),
            Some(first) if OWN_NAMES.contains(&first) => self.root.join(given),
            // An absolute path stands for itself; any other is about the work at hand.
            Some(_) => match given.strip_prefix(&self.named) {
                Ok(inside) => self.root.join(inside),
                Err(_) => self.base.join(given),
            },
        }
    }

    /// Makes a path absolute and free of `.` and `..`, by its text alone.
    fn absolute(&self, text: &str) -> Result<PathBuf, String> {
        if text.is_empty() {
            return Err(format!("the path is empty. {self}"));
        }
        if text.len() > MAX_PATH_LEN || text.contains('\0') {
            return Err("the path is too long or contains a NUL character".to_owned());
        }
        if text == "~" || text.starts_with("~/") {
            return Err(format!("{text}: write the path without ~. {self}"));
        }
        let start = self.start_of(Path::new(text));
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

/// Replaces the workspace's path as given by its path without links; relative paths begin there.
fn rebase(layout: &Layout, root: &Path, path: &Path) -> PathBuf {
    // Joining an absolute path gives that path.
    root.join(path.strip_prefix(layout.root()).unwrap_or(path))
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
        let asked = list(Rights::Asked);
        if !asked.is_empty() {
            write!(formatter, " After the owner's yes: {asked}.")?;
        }
        if !readable.is_empty() {
            write!(formatter, " You may read: {readable}.")?;
        }
        Ok(())
    }
}
