//! Removal as a commit of exactly the named paths, made with git's plumbing: no hook, filter or signing
//! program of the repository runs, and what else is staged or changed stays as it is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::failpoint;
use nexus_process::{Confinement, Environment, Launch};

use crate::ProjectError;

const DEADLINE: Duration = Duration::from_secs(30);
/// Nothing of the repository's own may run.
const QUIET: [&str; 4] = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"];
/// Who commits where git knows nobody.
const NOBODY: [&str; 4] = ["-c", "user.name=Nexus", "-c", "user.email=nexus@localhost"];

/// A repository, from a folder inside it.
#[derive(Debug)]
pub(super) struct Repository {
    program: PathBuf,
    folder: PathBuf,
    scratch: PathBuf,
    environment: Environment,
    identity: &'static [&'static str],
}

/// What a removal left.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) id: String,
    pub(super) parent: String,
}

impl Repository {
    /// Finds the repository a folder is in; what is made on the way lies in `scratch`.
    pub(super) fn open(folder: &Path, scratch: &Path) -> Result<Self, ProjectError> {
        let environment = Environment::clean();
        let environment = environment.clone().inherit("HOME").unwrap_or(environment);
        let program = environment.find_program("git").ok_or_else(|| {
            ProjectError::Refused("memory is removed as a commit, and there is no git here".to_owned())
        })?;
        let mut found = Self {
            program,
            folder: folder.to_owned(),
            scratch: scratch.to_owned(),
            environment,
            identity: &[],
        };
        found.git(&["rev-parse", "--verify", "--quiet", "HEAD"], None).map_err(|_| {
            ProjectError::Refused(
                "memory is removed as a commit, so that it can be had again; this project is in no git repository with a commit"
                    .to_owned(),
            )
        })?;
        if found.git(&["config", "user.email"], None).is_err() {
            found.identity = &NOBODY;
        }
        Ok(found)
    }

    /// Says whether a file's content is the one of the last commit, so that a commit brings it back.
    pub(super) fn holds(&self, file: &Path) -> Result<bool, ProjectError> {
        let file = file.to_string_lossy();
        let Ok(committed) = self.git(&["rev-parse", "--verify", "--quiet", &format!("HEAD:./{file}")], None)
        else {
            return Ok(false);
        };
        let now = self.git(&["hash-object", "--no-filters", "--", &file], None)?;
        Ok(committed == now)
    }

    /// Commits the removal of files, then takes them out of the index. The files themselves are still there.
    pub(super) fn commit_removal(
        &self,
        files: &[PathBuf],
        message: impl Fn(&str) -> String,
    ) -> Result<Commit, ProjectError> {
        let scratch = tempfile::tempdir_in(&self.scratch)
            .map_err(|error| ProjectError::file("making a folder in", &self.scratch, error))?;
        let index = scratch.path().join("index");
        let parent = self.git(&["rev-parse", "HEAD"], None)?;
        let names: Vec<String> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let mut removal = vec!["update-index", "--force-remove", "--"];
        removal.extend(names.iter().map(String::as_str));
        self.git(&["read-tree", &parent], Some(&index))?;
        self.git(&removal, Some(&index))?;
        let tree = self.git(&["write-tree"], Some(&index))?;
        let id = self.git(&["commit-tree", &tree, "-p", &parent, "-m", &message(&parent)], None)?;
        failpoint::hit("project.gc_commit");
        // Refused when somebody committed meanwhile.
        self.git(&["update-ref", "-m", "nexus: memory removed", "HEAD", &id, &parent], None)?;
        failpoint::hit("project.gc_committed");
        self.git(&removal, None)?;
        Ok(Commit { id, parent })
    }

    /// Runs git and returns what it said. Waits, so it belongs on a thread that may.
    fn git(&self, arguments: &[&str], index: Option<&Path>) -> Result<String, ProjectError> {
        let failed =
            |what: String| ProjectError::Refused(format!("git {}: {what}", arguments.first().unwrap_or(&"")));
        let mut environment = self.environment.clone();
        if let Some(index) = index {
            environment =
                environment.set("GIT_INDEX_FILE", index).map_err(|error| failed(error.to_string()))?;
        }
        let launch = Launch::new(&self.program, &self.folder, Confinement::Unsandboxed)
            .arguments(QUIET)
            .arguments(self.identity)
            .arguments(arguments)
            .environment(environment)
            .deadline(DEADLINE);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let outcome = runtime.block_on(launch.run()).map_err(|error| failed(error.to_string()))?;
        if outcome.succeeded() {
            return Ok(outcome.stdout.text().trim().to_owned());
        }
        Err(failed(outcome.stderr.text().trim().to_owned()))
    }
}
