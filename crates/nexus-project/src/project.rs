//! A project: the folder that holds `.nexus/`, where its files lie, and how it begins. What is in the
//! files is for the modules about them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nexus_base::file::{self, Created, Durability};
use nexus_base::id::to_hex;
use sha2::{Digest as _, Sha256};

use crate::document::{self, FILE_MODE};
use crate::harness::HarnessId;
use crate::history::{Index, Tidy};
use crate::lock::WriteLock;
use crate::{ProjectError, branch, ignored};

/// Folder of the layer, below the project's root.
const FOLDER: &str = ".nexus";
/// What git must not take.
const GITIGNORE: &str = "state/\n";
const FOLDER_MODE: u32 = 0o755;

/// A folder with, or ready for, a `.nexus/` in it.
#[derive(Debug)]
pub struct Project {
    root: PathBuf,
    pub(crate) index: Mutex<Option<Index>>,
    pub(crate) tidy: Tidy,
}

/// What starting a session found and made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Folders and files that were made, relative to the root.
    pub created: Vec<PathBuf>,
    /// What an earlier session left open.
    pub leftovers: Leftovers,
    /// What `.nexus/.gitignore` keeps from git or gives to it and should not, each with what to do.
    pub ignored_wrongly: Vec<String>,
}

/// Open work that nobody closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leftovers {
    pub plan: bool,
    pub tasks: bool,
}

impl Project {
    /// Takes `root` as the project's folder; nothing is made.
    ///
    /// # Errors
    /// The folder does not exist or cannot be reached.
    pub fn open(root: &Path) -> Result<Self, ProjectError> {
        let root = fs::canonicalize(root).map_err(|error| ProjectError::file("opening", root, error))?;
        if !root.is_dir() {
            return Err(ProjectError::NotAFolder { path: root });
        }
        Ok(Self { root, index: Mutex::new(None), tidy: Tidy::default() })
    }

    /// Returns the nearest folder at or above `start` that holds `.nexus/`.
    pub fn find(start: &Path) -> Option<PathBuf> {
        let start = fs::canonicalize(start).ok()?;
        start.ancestors().find(|folder| is_layer(&folder.join(FOLDER))).map(Path::to_owned)
    }

    /// Returns the label of the conversation about the project a path lies in, where nobody named another one.
    pub fn conversation(path: &Path) -> String {
        let root =
            Self::find(path).or_else(|| fs::canonicalize(path).ok()).unwrap_or_else(|| path.to_owned());
        let name: String = root
            .file_name()
            .map(|name| name.to_string_lossy().to_lowercase())
            .unwrap_or_default()
            .chars()
            .map(|character| if character.is_ascii_alphanumeric() { character } else { '-' })
            .take(40)
            .collect();
        // Folders of one name are told apart by where they lie.
        let hash = to_hex(&Sha256::digest(root.as_os_str().as_encoded_bytes()));
        format!("project:{name}-{}", hash.get(..8).unwrap_or(&hash))
    }

    /// Returns the project's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the git branch the project is on, `HEAD` when detached, `unknown` outside git.
    pub fn branch(&self) -> String {
        branch::current(&self.root)
    }

    /// Returns whether `.nexus/` is there.
    pub fn exists(&self) -> bool {
        self.folder().is_dir()
    }

    /// Makes what a session of `harness` needs, in the order the contract gives.
    ///
    /// # Errors
    /// A link or file stands in the way, or the folder is not writable.
    pub fn start(&self, harness: &HarnessId) -> Result<Started, ProjectError> {
        self.check()?;
        let mut created = self.make_folders()?;
        let tracker = self.namespace(harness).join("agent-tracker.json");
        if make_folder(&self.namespace(harness))? == Created::New {
            created.push(self.namespace(harness));
        }
        if file::create_once(&tracker, b"[]\n", FILE_MODE, Durability::Crash)? == Created::New {
            created.push(tracker);
        }
        let ignored = document::read_bytes(&self.folder().join(".gitignore"))?.unwrap_or_default();
        let relative = |path: PathBuf| path.strip_prefix(&self.root).map(Path::to_owned).unwrap_or(path);
        Ok(Started {
            created: created.into_iter().map(relative).collect(),
            leftovers: self.leftovers(),
            ignored_wrongly: ignored::faults(&String::from_utf8_lossy(&ignored)),
        })
    }

    /// Returns what is open.
    pub fn leftovers(&self) -> Leftovers {
        Leftovers { plan: self.plan().exists(), tasks: self.tasks().exists() }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder().join("state")
    }

    pub(crate) fn plan(&self) -> PathBuf {
        self.state().join("plan.json")
    }

    pub(crate) fn tasks(&self) -> PathBuf {
        self.state().join("tasks.json")
    }

    pub(crate) fn history(&self) -> PathBuf {
        self.folder().join("history.json")
    }

    pub(crate) fn artifacts(&self) -> PathBuf {
        self.state().join("artifacts")
    }

    pub(crate) fn namespace(&self, harness: &HarnessId) -> PathBuf {
        self.state().join(harness.as_str())
    }

    /// The file our processes queue on.
    pub(crate) fn queue(&self) -> PathBuf {
        self.own().join("project.lock")
    }

    /// What archivings leave for whoever comes after a crash.
    pub(crate) fn journal(&self) -> PathBuf {
        self.own().join("archive-journal.bin")
    }

    /// Where a file goes that was archived, until the next one is.
    pub(crate) fn closed(&self, name: &str) -> PathBuf {
        self.own().join(format!("closed-{name}"))
    }

    /// What is remembered about the history, derived from it.
    pub(crate) fn memory(&self) -> PathBuf {
        self.own().join("history-index.bin")
    }

    fn own(&self) -> PathBuf {
        self.state().join(HarnessId::OURS)
    }

    /// Refuses to go on when a part of the way to the state files is a link or no folder; says whether all of it is there.
    pub(crate) fn check(&self) -> Result<bool, ProjectError> {
        for path in [self.folder(), self.state(), self.own()] {
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(ProjectError::NotAFolder { path }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(ProjectError::file("inspecting", path, error)),
            }
        }
        Ok(true)
    }

    /// Makes the folders and takes the right to change `files`, finishing first what a crash left.
    pub(crate) fn write_lock(&self, files: &[&Path]) -> Result<WriteLock, ProjectError> {
        if !self.check()? {
            self.make_folders()?;
            self.check()?;
        }
        self.tidy.begin();
        let all = [self.plan(), self.tasks(), self.history()];
        let lock = WriteLock::acquire(&self.queue(), files, &all.each_ref().map(PathBuf::as_path))?;
        self.recover(&lock)?;
        Ok(lock)
    }

    fn make_folders(&self) -> Result<Vec<PathBuf>, ProjectError> {
        let mut created = Vec::new();
        for folder in [self.folder(), self.state()] {
            if make_folder(&folder)? == Created::New {
                created.push(folder);
            }
        }
        let ignore = self.folder().join(".gitignore");
        if file::create_once(&ignore, GITIGNORE.as_bytes(), FILE_MODE, Durability::Crash)? == Created::New {
            created.push(ignore);
        }
        if make_folder(&self.own())? == Created::New {
            created.push(self.own());
        }
        Ok(created)
    }
}

/// Says whether a folder is a project's. One with nothing but `run/` is where the kernel keeps its sockets, in
/// people's home folders.
fn is_layer(folder: &Path) -> bool {
    let parts = [".gitignore", "history.json", "state", "memory", "context", "rules"];
    folder.is_dir() && (!folder.join("run").exists() || parts.iter().any(|part| folder.join(part).exists()))
}

fn make_folder(path: &Path) -> Result<Created, ProjectError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(Created::AlreadyThere),
        Ok(_) => Err(ProjectError::NotAFolder { path: path.to_owned() }),
        Err(_) => Ok(file::create_folder(path, FOLDER_MODE)?),
    }
}
