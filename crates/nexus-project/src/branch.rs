//! The current git branch, read from the repository's own files: starting git would cost more than
//! every tool call together.

use std::fs;
use std::path::{Path, PathBuf};

/// What a detached head is called.
const DETACHED: &str = "HEAD";
/// What a folder outside any repository has instead of a branch.
const NO_REPOSITORY: &str = "unknown";
/// Longest `.git` or `HEAD` file that is looked at, in bytes.
const MAX_LEN: u64 = 4096;

/// Returns the branch the project is on; never empty.
pub(crate) fn current(root: &Path) -> String {
    let Some(folder) = root.ancestors().find_map(git_folder) else { return NO_REPOSITORY.to_owned() };
    let Some(head) = short_text(&folder.join("HEAD")) else { return NO_REPOSITORY.to_owned() };
    match head.trim().strip_prefix("ref:") {
        Some(reference) => {
            let reference = reference.trim();
            let name = reference.strip_prefix("refs/heads/").unwrap_or(reference);
            if name.is_empty() { DETACHED.to_owned() } else { name.to_owned() }
        }
        None => DETACHED.to_owned(),
    }
}

fn git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    let kind = fs::metadata(&git).ok()?;
    if kind.is_dir() {
        return Some(git);
    }
    // A worktree or submodule has a file that says where its repository lies.
    let text = short_text(&git)?;
    let target = text.trim().strip_prefix("gitdir:")?.trim();
    Some(folder.join(target))
}

fn short_text(path: &Path) -> Option<String> {
    nexus_base::file::read_text(path, MAX_LEN).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "plants files for the test")]
    fn plant(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn branches_detached_heads_worktrees_and_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("repo");
        fs::create_dir_all(root.join("deep/er")).unwrap();
        plant(&root.join(".git/HEAD"), "ref: refs/heads/feature/x\n");
        assert_eq!(current(&root.join("deep/er")), "feature/x");
        plant(&root.join(".git/HEAD"), "0123456789abcdef\n");
        assert_eq!(current(&root), "HEAD");
        let worktree = folder.path().join("tree");
        plant(&worktree.join(".git"), "gitdir: ../repo/.git/worktrees/tree\n");
        plant(&root.join(".git/worktrees/tree/HEAD"), "ref: refs/heads/side\n");
        assert_eq!(current(&worktree), "side");
        plant(&worktree.join(".git"), "gitdir: nowhere\n");
        assert_eq!(current(&worktree), "unknown");
    }
}
