//! Puts permissions back that a command may have changed.
//!
//! The sandbox guards what is in files, not their permission bits: Landlock has no rule for `chmod`. A command
//! could open the token's file to others or lock the daemon out, so the few that matter are set right after
//! each command.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use nexus_base::file;
use nexus_workspace::Layout;

/// Permission bits a path must have: at least the first, at most the second.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    path: PathBuf,
    least: u32,
    most: u32,
}

/// Paths whose permissions a command must not change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Modes(Vec<Wanted>);

impl Modes {
    /// Names what `init` made private, from the outside in, so that each can be reached once the last is right.
    pub(super) fn of(layout: &Layout) -> Self {
        let wanted = |path: &Path, least: u32, most: u32| Wanted { path: path.to_owned(), least, most };
        Self(vec![
            wanted(layout.root(), 0o700, 0o777),
            wanted(layout.state(), 0o700, 0o700),
            wanted(&layout.data(), 0o700, 0o700),
            wanted(&layout.credentials(), 0o700, 0o700),
            wanted(layout.config(), 0o600, 0o600),
        ])
    }

    /// Sets right what is wrong and returns those paths.
    pub(super) fn restore(&self) -> Vec<&Path> {
        self.0.iter().filter(|wanted| wanted.restore()).map(|wanted| wanted.path.as_path()).collect()
    }
}

impl Wanted {
    fn restore(&self) -> bool {
        let Ok(found) = std::fs::symlink_metadata(&self.path) else { return false };
        let mode = found.permissions().mode() & 0o777;
        let right = (mode | self.least) & self.most;
        if found.is_symlink() || mode == right {
            return false;
        }
        let result = file::set_mode(&self.path, right);
        tracing::warn!(path = %self.path.display(), ?result, "a command changed permissions");
        result.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        for path in [layout.data(), layout.credentials()] {
            nexus_base::file::create_folder(&path, 0o700).unwrap();
        }
        let config = layout.config();
        nexus_base::file::replace(config, b"{}", 0o600, nexus_base::file::Durability::Crash).unwrap();
        let modes = Modes::of(&layout);
        assert_eq!(modes.restore(), Vec::<&Path>::new());
        file::set_mode(config, 0o644).unwrap();
        file::set_mode(layout.state(), 0o000).unwrap();
        assert_eq!(modes.restore(), [layout.state(), config]);
        assert_eq!(modes.restore(), Vec::<&Path>::new());
    }
}
