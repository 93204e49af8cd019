//! The shell of a worker: what its commands may touch and which environment they see.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_base::file::{self, Durability, FileError};
use nexus_memory::Provenance;
use nexus_process::{
    Environment, EnvironmentError, GroupRecord, Helper, Network, SandboxProfile, SandboxSupport, Toolchains,
};
use nexus_workspace::Layout;

use super::background::BackgroundPrograms;
use super::modes::Modes;

/// Opens the program's end of a socket on which the daemon serves one call with its worker's rights. What
/// the call wants to remember is kept as whose words it is told here.
pub type OpenToolSocket = Arc<dyn Fn(Provenance) -> io::Result<UnixStream> + Send + Sync>;

/// The longest settings file of git looked into for the owner's name.
const GIT_SETTINGS_LIMIT: u64 = 256 * 1024;
/// What our program is called inside commands.
const PROGRAM: &str = "nexus";

/// What happens where no sandbox can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unconfined {
    /// The owner is asked each time, for exactly that command.
    Ask,
    /// The owner has allowed it for this shell.
    AllowedByOwner,
}

/// Where a worker works and where its things lie.
#[derive(Debug, Clone)]
pub struct ShellSetup {
    /// The workspace.
    pub root: PathBuf,
    /// The task folder, absolute.
    pub task_folder: PathBuf,
    /// The owner's real home, which stays closed but for toolchains.
    pub owner_home: PathBuf,
    /// Folder that becomes the home and cache of commands; made if missing. Neither in the task folder nor
    /// above anything closed.
    pub private_home: PathBuf,
    /// What of the identity may be written, below the state folder.
    pub identity: Vec<PathBuf>,
    /// Whether commands may use the network unasked. Never while a run is tainted.
    pub network: Network,
}

/// What one command may do beyond its folder, and what of its folder it may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) network: Network,
    /// The task folder can be looked at and not changed.
    pub(super) look_only: bool,
    /// The identity files can be changed where the shell's task is to do so.
    pub(super) identity: bool,
}

/// Why a shell could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// A folder could not be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// A variable is not acceptable.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A path could not be followed.
    #[error("finding {}", path.display())]
    Path {
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// How commands run.
pub struct Shell {
    /// What every command gets, without task folder and identity.
    base: SandboxProfile,
    /// Identity folders, and what of them the task is to write.
    identity: Vec<PathBuf>,
    writable_identity: Vec<PathBuf>,
    /// Whether the owner's policy opens the network unasked.
    pub(super) network: Network,
    pub(super) environment: Environment,
    pub(super) folder: PathBuf,
    pub(super) support: SandboxSupport,
    pub(super) helper: Option<Helper>,
    pub(super) record: Option<Arc<dyn GroupRecord>>,
    pub(super) tool_socket: Option<OpenToolSocket>,
    pub(super) unconfined: Unconfined,
    pub(super) modes: Modes,
    /// Programs that go on after their call, and the conversation they belong to.
    background: Option<(Arc<BackgroundPrograms>, String)>,
    /// Removed with the shell and the last program that uses it.
    temp: Arc<tempfile::TempDir>,
}

impl fmt::Debug for Shell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Shell")
            .field("folder", &self.folder)
            .field("network", &self.network)
            .field("unconfined", &self.unconfined)
            .finish_non_exhaustive()
    }
}

impl Shell {
    /// Sets a shell up for the workspace at `setup.root`; see [`Shell::at`].
    pub fn new(setup: &ShellSetup) -> Result<Self, ShellError> {
        Self::at(&Layout::new(&setup.root), setup)
    }

    /// Sets a shell up: folders, profile and environment. The layout says where state and settings lie.
    pub fn at(layout: &Layout, setup: &ShellSetup) -> Result<Self, ShellError> {
        file::create_folder(&setup.private_home, 0o700)?;
        let real = |path: &Path| {
            path.canonicalize().map_err(|source| ShellError::Path { path: path.to_owned(), source })
        };
        let root = real(&setup.root)?;
        let state = real(layout.state())?;
        let config = layout.config().canonicalize().unwrap_or_else(|_| layout.config().to_owned());
        let private_home = real(&setup.private_home)?;
        let owner_home = setup.owner_home.canonicalize().unwrap_or_else(|_| setup.owner_home.clone());
        let temp = tempfile::Builder::new()
            .prefix("nexus-tool-")
            .tempdir()
            .map_err(|source| ShellError::Path { path: std::env::temp_dir(), source })?;
        let temp_path = real(temp.path())?;
        introduce_to_git(&private_home, &owner_home)?;

        // Not canonicalised inside the workspace: a task folder that became a link must stop the launch, not
        // move the grant.
        let folder = match setup.task_folder.strip_prefix(&setup.root) {
            Ok(inside) => root.join(inside),
            Err(_) if setup.task_folder.starts_with(&root) => setup.task_folder.clone(),
            Err(_) => real(&setup.task_folder)?,
        };
        let toolchains = Toolchains::below(&owner_home);
        let mut base = SandboxProfile::system()
            .protect(&root)
            .protect(&state)
            .protect(&config)
            .protect(&owner_home)
            .toolchains(&toolchains)
            .read(root.join("AGENTS.md"))
            .read(root.join("skills"))
            .write(&private_home)
            .write(&temp_path);

        let mut environment = Environment::clean().redirected(&private_home, &temp_path);
        for programs in toolchains.programs() {
            environment = environment.path_front(programs);
        }
        for (name, path) in toolchains.variables() {
            environment = environment.set(name, path)?;
        }
        environment = environment.set("NEXUS_ROOT", &root)?;
        // `nexus …` inside a command talks to the daemon through the call's socket.
        if let Ok(own) = std::env::current_exe() {
            if let Some(beside) = folder_of_program(&own, &temp_path) {
                environment = environment.path_back(beside);
            }
            base = base.execute(own);
        }
        Ok(Self {
            base,
            identity: ["agents", "user"].map(|name| state.join(name)).to_vec(),
            // One that is not there yet is made by the file tools, which can be told to. So is everything in the
            // folder of all personas: a rule for it would open BOOTSTRAP.md, too.
            writable_identity: setup
                .identity
                .iter()
                .map(|path| state.join(path))
                .filter(|path| path.is_dir() && *path != state.join("agents"))
                .collect(),
            network: setup.network,
            environment,
            folder,
            support: nexus_process::support().clone(),
            helper: None,
            record: None,
            tool_socket: None,
            unconfined: Unconfined::Ask,
            modes: Modes::of(layout),
            background: None,
            temp: Arc::new(temp),
        })
    }

    /// Returns what a command may touch under these terms.
    pub(super) fn profile(&self, terms: Terms) -> SandboxProfile {
        let mut profile = self.base.clone().network(terms.network);
        profile = match terms.look_only {
            true => profile.execute(&self.folder),
            false => profile.write(&self.folder),
        };
        for path in &self.identity {
            profile = profile.read(path);
        }
        if terms.identity {
            for path in &self.writable_identity {
                profile = profile.write(path);
            }
        }
        profile
    }

    /// Behaves as on a machine where this is all that can be enforced.
    #[cfg(test)]
    pub(super) fn on_a_machine_with(mut self, support: SandboxSupport) -> Self {
        self.support = support;
        self
    }

    /// Writes running commands down, for the next daemon to end left-over ones.
    #[must_use]
    pub fn record(mut self, record: Arc<dyn GroupRecord>) -> Self {
        self.record = Some(record);
        self
    }

    /// Lets commands leave programs running, as programs of the conversation `owner`.
    #[must_use]
    pub fn background_programs(mut self, programs: Arc<BackgroundPrograms>, owner: String) -> Self {
        self.background = Some((programs, owner));
        self
    }

    pub(super) fn background(&self) -> Result<(&BackgroundPrograms, &str), String> {
        let (programs, owner) =
            self.background.as_ref().ok_or("programs cannot be left running in the background here")?;
        Ok((programs, owner))
    }

    pub(super) fn temp(&self) -> Arc<tempfile::TempDir> {
        Arc::clone(&self.temp)
    }

    /// Gives every command a socket to the daemon.
    #[must_use]
    pub fn tool_socket(mut self, open: OpenToolSocket) -> Self {
        self.tool_socket = Some(open);
        self
    }

    /// Uses another sandbox helper than this very executable.
    #[must_use]
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = Some(helper);
        self
    }

    /// Sets a variable for every command.
    ///
    /// # Errors
    /// The name is refused; see [`Environment::set`].
    pub fn variable(mut self, name: &str, value: &str) -> Result<Self, EnvironmentError> {
        self.environment = self.environment.set(name, value)?;
        Ok(self)
    }

    /// Sets what happens where no sandbox can be had.
    #[must_use]
    pub fn unconfined(mut self, unconfined: Unconfined) -> Self {
        self.unconfined = unconfined;
        self
    }
}

/// Gives the private home a git identity, the owner's where they have one, so that `git commit` works.
fn introduce_to_git(private_home: &Path, owner_home: &Path) -> Result<(), FileError> {
    let owners = file::read_text(&owner_home.join(".gitconfig"), GIT_SETTINGS_LIMIT).unwrap_or_default();
    let name = git_user(&owners, "name").unwrap_or_else(|| "Nexus worker".to_owned());
    let email = git_user(&owners, "email").unwrap_or_else(|| "worker@nexus.invalid".to_owned());
    let settings = format!(
        "[user]\n\tname = \"{name}\"\n\temail = \"{email}\"\n[init]\n\tdefaultBranch = main\n\
         [gc]\n\tautoDetach = false\n[maintenance]\n\tautoDetach = false\n"
    );
    let path = private_home.join(".gitconfig");
    file::create_once(&path, settings.as_bytes(), 0o600, Durability::Crash).map(|_| ())
}

/// Returns a value of the `[user]` section; values that would need quoting count as absent.
fn git_user(settings: &str, key: &str) -> Option<String> {
    let mut in_user = false;
    for line in settings.lines().map(str::trim) {
        if line.starts_with('[') {
            in_user = line.eq_ignore_ascii_case("[user]");
        } else if in_user
            && let Some((name, value)) = line.split_once('=')
            && name.trim().eq_ignore_ascii_case(key)
        {
            let value = value.trim().trim_matches('"');
            let plain = !value.is_empty() && !value.contains(['"', '\\', '\n', '#', ';']);
            return plain.then(|| value.to_owned());
        }
    }
    None
}

/// Returns a folder in which our program is called `nexus`: its own, or one made for it where its file has another
/// name, as downloads do.
fn folder_of_program(own: &Path, temp: &Path) -> Option<PathBuf> {
    if own.file_name()? == PROGRAM {
        return own.parent().map(Path::to_owned);
    }
    let folder = temp.join("bin");
    file::create_folder(&folder, 0o700).ok()?;
    std::os::unix::fs::symlink(own, folder.join(PROGRAM)).ok()?;
    Some(folder)
}

#[cfg(test)]
mod surroundings {
    use std::path::Path;

    use super::{folder_of_program, git_user};

    #[test]
    fn the_program_is_called_nexus_whatever_its_file_is_called() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(
            folder_of_program(Path::new("/opt/nexus"), temp.path()).as_deref(),
            Some(Path::new("/opt"))
        );
        let own = temp.path().join("nexus-linux");
        let folder = folder_of_program(&own, temp.path()).unwrap();
        assert_eq!(std::fs::read_link(folder.join("nexus")).unwrap(), own);
    }

    #[test]
    fn the_owners_name_is_found_in_its_section_only() {
        let settings =
            "[core]\n\tname = no\n[user]\n\tName = Ada Lovelace\n\temail=\"ada@example.org\"\n[alias]\n";
        assert_eq!(git_user(settings, "name").as_deref(), Some("Ada Lovelace"));
        assert_eq!(git_user(settings, "email").as_deref(), Some("ada@example.org"));
        assert_eq!(git_user("[user]\nname = a\"b", "name"), None);
    }
}
