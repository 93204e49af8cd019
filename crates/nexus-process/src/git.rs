//! The one way to run git on somebody's repository.
//!
//! What a repository says about itself (configuration, attributes, hooks, remotes) can name programs for git to
//! start. So git always runs in the sandbox: it reads the repository and the system, changes only what the
//! command at hand changes, has no network, and neither a shell nor anything else can be executed. Where there is
//! no sandbox, it does not run. Besides, everything known to start a program is switched off.

mod repository;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use repository::Folders;

use crate::environment::Environment;
use crate::launch::{Confinement, Launch, LaunchError, Outcome, Status};
use crate::sandbox::SandboxProfile;

const DEADLINE: Duration = Duration::from_secs(30);

/// Settings that win over those of the repository.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=false",
    "core.gitProxy=none",
    "core.askPass=",
    "core.pager=cat",
    "core.editor=false",
    "core.attributesFile=/dev/null",
    "core.alternateRefsCommand=false",
    // The other half of the index would be written beside the repository's own.
    "core.splitIndex=false",
    "credential.helper=",
    "diff.external=",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.ssh.defaultKeyCommand=false",
    "gpg.x509.program=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "protocol.allow=never",
    // A folder of the project that looks like a repository is none.
    "safe.bareRepository=explicit",
];

/// Settings of a filter, and what makes it one that does nothing. Git filters files even to see whether they changed.
const FILTER_SETTINGS: [(&str, &str); 4] =
    [("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")];

/// Variables git sees beside the smallest environment. The owner's and the system's settings are read once, apart.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_PROTOCOL_FROM_USER", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_ASKPASS", ""),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
];

/// Variables that keep the owner's and the system's settings away from the repository.
const NO_OTHER_SETTINGS: &[(&str, &str)] =
    &[("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_SYSTEM", "/dev/null"), ("GIT_CONFIG_GLOBAL", "/dev/null")];

/// Who commits where git knows nobody.
const NOBODY: [&str; 2] = ["user.name=Nexus", "user.email=nexus@localhost"];
/// The settings asked for: who commits, whose repositories git may use, and which filters there are.
const ASKED: &str = r"^((user|author|committer)\.(name|email)|safe\.directory|filter\..*)$";
const SAFE_DIRECTORY: &str = "safe.directory";
/// Where `safe.directory` counts; a repository does not vouch for itself.
const TRUSTED_SCOPES: [&str; 2] = ["system", "global"];

/// What a git command changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitChanges {
    /// Nothing in the repository.
    Nothing,
    /// New objects.
    Objects,
    /// Branches, the index, anything of the repository but the files in its work tree.
    Repository,
}

/// Why git did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no git among the system's programs.
    #[error("git is not installed on this system; install it (apt install git, dnf install git)")]
    NoGit,
    /// The folder is in no repository.
    #[error("{} is not in a git repository", folder.display())]
    NoRepository { folder: PathBuf },
    /// `.git` leads to a repository that does not know this folder, so git would change somebody else's.
    #[error(
        "{} points to {}, which does not name this folder as its work tree, so it may belong to another project; if \
         it is correct, run `git worktree repair` or `git config core.worktree {}`",
        link.display(), target.display(), worktree.display()
    )]
    Elsewhere {
        /// The `.git` of the folder.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
        /// The folder that holds it.
        worktree: PathBuf,
    },
    /// There is no sandbox, so git did not run.
    #[error(
        "git was not run, because a repository can make it start programs and this machine has no sandbox to confine \
         them ({reason}); run git yourself, or use Linux with Landlock"
    )]
    NoSandbox {
        /// What is missing.
        reason: String,
    },
    /// Git did not start.
    #[error("git {command}")]
    NotStarted {
        /// What it was asked.
        command: String,
        /// Why.
        #[source]
        source: LaunchError,
    },
    /// Git refused.
    #[error("git {command}: {said}")]
    Refused {
        /// What it was asked.
        command: String,
        /// What it said, or how it ended.
        said: String,
    },
}

/// Git on one repository.
#[derive(Debug)]
pub struct Git {
    program: PathBuf,
    folder: PathBuf,
    folders: Folders,
    home: Option<PathBuf>,
    settings: Vec<String>,
}

impl Git {
    /// Finds the repository that `folder` is in. Waits for git, so it belongs on a thread that may.
    pub fn open(folder: &Path) -> Result<Self, GitError> {
        let none = || GitError::NoRepository { folder: folder.to_owned() };
        let folder = folder.canonicalize().map_err(|_| none())?;
        let folders = Folders::find(&folder).ok_or_else(none)?;
        let program = Environment::clean().find_program("git").and_then(|found| found.canonicalize().ok());
        // Whoever can write to the project would decide what runs.
        let program = program.filter(|program| !program.starts_with(&folder)).ok_or(GitError::NoGit)?;
        let home = Environment::clean().inherit("HOME").ok().and_then(|with| with.get("HOME"));
        let home = home.and_then(|home| Path::new(&home).canonicalize().ok());
        let mut git = Self { program, folder, folders, home, settings: Vec::new() };
        git.check_link()?;
        git.settings = git.chosen_settings()?;
        Ok(git)
    }

    /// Runs git and returns what it printed. `index` stands in for the repository's own, in a folder that git may
    /// change. Waits, so it belongs on a thread that may.
    pub fn run(
        &self,
        arguments: &[&str],
        changes: GitChanges,
        index: Option<&Path>,
    ) -> Result<String, GitError> {
        let mut environment = environment(NO_OTHER_SETTINGS);
        let mut profile = self.profile();
        match changes {
            GitChanges::Nothing => {}
            GitChanges::Objects => profile = profile.edit(self.folders.common.join("objects")),
            GitChanges::Repository => profile = profile.edit(&self.folders.git).edit(&self.folders.common),
        }
        let scratch = index.and_then(Path::parent).and_then(|folder| folder.canonicalize().ok());
        if let Some((index, scratch)) = index.zip(scratch) {
            environment.fix("GIT_INDEX_FILE", scratch.join(index.file_name().unwrap_or_default()));
            profile = profile.edit(scratch);
        }
        let outcome = self.launch(arguments, environment, profile)?;
        if outcome.succeeded() {
            return Ok(outcome.stdout.text().trim().to_owned());
        }
        Err(refused(arguments, &outcome))
    }

    /// Refuses a `.git` that leads to a repository which does not lead back: a worker could have made it to have
    /// us change a repository that is closed to it.
    fn check_link(&self) -> Result<(), GitError> {
        let Some(link) = self.folders.link.as_ref() else { return Ok(()) };
        if self.folders.is_worktree() {
            return Ok(());
        }
        for name in ["config.worktree", "config"] {
            let file = self.folders.git.join(name);
            let file = file.to_string_lossy();
            let asked = ["config", "--file", &file, "--get", "core.worktree"];
            let said = match self.run(&asked, GitChanges::Nothing, None) {
                Err(GitError::Refused { .. }) => continue,
                said => said?,
            };
            if self.folders.git.join(said).canonicalize().is_ok_and(|named| named == self.folders.top) {
                return Ok(());
            }
        }
        Err(GitError::Elsewhere {
            link: link.clone(),
            target: self.folders.git.clone(),
            worktree: self.folders.top.clone(),
        })
    }

    /// Asks once who commits, which repositories of others the owner trusts and which filters are to be switched off.
    /// Only this run sees the owner's settings, and with them their home, since they include files from anywhere
    /// there; it can change nothing.
    fn chosen_settings(&self) -> Result<Vec<String>, GitError> {
        let profile = self.home.iter().fold(self.profile(), SandboxProfile::read);
        let arguments = ["config", "--null", "--show-scope", "--get-regexp", ASKED];
        let outcome = self.launch(&arguments, environment(&[]), profile)?;
        // 1 is how it says that there are none.
        if !matches!(outcome.status, Status::Exited(0 | 1)) {
            return Err(refused(&arguments, &outcome));
        }
        let mut settings: Vec<String> = NOBODY.map(str::to_owned).to_vec();
        let text = outcome.stdout.text();
        let mut words = text.split('\0');
        while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
            let (key, value) = setting.split_once('\n').unwrap_or((setting, ""));
            if let Some((filter, _)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) {
                let off = FILTER_SETTINGS.map(|(name, value)| format!("filter.{filter}.{name}={value}"));
                if !settings.contains(&off[0]) {
                    settings.extend(off);
                }
            } else if key == SAFE_DIRECTORY {
                if TRUSTED_SCOPES.contains(&scope) {
                    settings.push(format!("{key}={value}"));
                }
            } else if !value.is_empty() {
                // An empty name would make git guess one.
                settings.push(format!("{key}={value}"));
            }
        }
        Ok(settings)
    }

    fn profile(&self) -> SandboxProfile {
        let profile = SandboxProfile::only(&self.program).read(&self.folder);
        self.folders.readable().fold(profile, SandboxProfile::read)
    }

    fn launch(
        &self,
        arguments: &[&str],
        mut environment: Environment,
        profile: SandboxProfile,
    ) -> Result<Outcome, GitError> {
        let command = || arguments.first().copied().unwrap_or_default().to_owned();
        if let Some(home) = &self.home {
            // Settings may name paths below it; that it can be read is another matter.
            environment.fix("HOME", home);
        }
        if let Some(above) = self.folders.top.parent() {
            // The repository we found, or none.
            environment.fix("GIT_CEILING_DIRECTORIES", above);
        }
        let settings = self.settings.iter().map(String::as_str).chain(SETTINGS.iter().copied());
        let launch = Launch::new(&self.program, &self.folder, Confinement::Sandbox(profile))
            .arguments(["--no-pager", "--no-optional-locks"])
            .arguments(settings.flat_map(|setting| ["-c", setting]))
            .arguments(arguments.iter().map(OsString::from))
            .environment(environment)
            .deadline(DEADLINE);
        let not_started = |source| match source {
            LaunchError::NoSandbox { reason } => GitError::NoSandbox { reason },
            source => GitError::NotStarted { command: command(), source },
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| not_started(LaunchError::Setup { reason: error.to_string() }))?;
        runtime.block_on(launch.run()).map_err(not_started)
    }
}

fn environment(more: &[(&str, &str)]) -> Environment {
    let mut environment = Environment::clean();
    for (name, value) in VARIABLES.iter().chain(more) {
        environment.fix(name, *value);
    }
    environment
}

fn refused(arguments: &[&str], outcome: &Outcome) -> GitError {
    let said = outcome.stderr.text().trim().to_owned();
    let said = if said.is_empty() { outcome.status.to_string() } else { said };
    GitError::Refused { command: arguments.first().copied().unwrap_or_default().to_owned(), said }
}
