//! Removal as a commit of exactly the named paths, made with git's plumbing: what else is staged or changed stays
//! as it is. How git is kept from running anything of the repository's is `nexus-process`'s business.

use std::path::{Path, PathBuf};

use nexus_base::failpoint;
use nexus_process::{Git, GitChanges, GitError};

use crate::ProjectError;

/// A repository, from a folder inside it.
#[derive(Debug)]
pub(super) struct Repository {
    git: Git,
    scratch: PathBuf,
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
        let git = Git::open(folder).map_err(|error| match error {
            GitError::NoRepository { .. } => no_commit(),
            other => refused(&other),
        })?;
        let found = Self { git, scratch: scratch.to_owned() };
        match found.git.run(&["rev-parse", "--verify", "--quiet", "HEAD"], GitChanges::Nothing, None) {
            Ok(_) => Ok(found),
            // Quiet is how it says that there is none; otherwise it has a reason.
            Err(GitError::Refused { said, .. }) if !said.starts_with("fatal") => Err(no_commit()),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Says whether a file's content is the one of the last commit, so that a commit brings it back.
    pub(super) fn holds(&self, file: &Path) -> Result<bool, ProjectError> {
        let file = file.to_string_lossy();
        let committed = ["rev-parse", "--verify", "--quiet", &format!("HEAD:./{file}")];
        let Ok(committed) = self.git.run(&committed, GitChanges::Nothing, None) else { return Ok(false) };
        Ok(committed == self.git(&["hash-object", "--no-filters", "--", &file], GitChanges::Nothing, None)?)
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
        let parent = self.git(&["rev-parse", "HEAD"], GitChanges::Nothing, None)?;
        let names: Vec<String> = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let mut removal = vec!["update-index", "--force-remove", "--"];
        removal.extend(names.iter().map(String::as_str));
        self.git(&["read-tree", &parent], GitChanges::Nothing, Some(&index))?;
        self.git(&removal, GitChanges::Nothing, Some(&index))?;
        let tree = self.git(&["write-tree"], GitChanges::Objects, Some(&index))?;
        let commit = ["commit-tree", &tree, "-p", &parent, "-m", &message(&parent)];
        let id = self.git(&commit, GitChanges::Objects, None)?;
        failpoint::hit("project.gc_commit");
        // Refused when somebody committed meanwhile.
        let update = ["update-ref", "-m", "nexus: memory removed", "HEAD", &id, &parent];
        self.git(&update, GitChanges::Repository, None)?;
        failpoint::hit("project.gc_committed");
        self.git(&removal, GitChanges::Repository, None)?;
        Ok(Commit { id, parent })
    }

    fn git(
        &self,
        arguments: &[&str],
        changes: GitChanges,
        index: Option<&Path>,
    ) -> Result<String, ProjectError> {
        self.git.run(arguments, changes, index).map_err(|error| refused(&error))
    }
}

fn no_commit() -> ProjectError {
    ProjectError::Refused(
        "memory files are removed in a commit so that they can be restored; this project is not in a git repository \
         with a commit"
            .to_owned(),
    )
}

fn refused(error: &GitError) -> ProjectError {
    let mut line = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    ProjectError::Refused(line)
}
