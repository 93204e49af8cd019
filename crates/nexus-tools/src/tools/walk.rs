//! Walking a tree through the jail, for `glob` and `grep`.

use std::path::{Path, PathBuf};

use nexus_base::jail::{EntryKind, Jail};
use tokio_util::sync::CancellationToken;

/// The most names looked at in one call.
const VISIT_LIMIT: usize = 100_000;
/// Folders that hold what tools generate; they are passed over unless the path names them.
const GENERATED: &[&str] = &[".git", "node_modules", "target", "__pycache__", ".venv", ".mypy_cache", ".tox"];

/// What a walk could not show.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Omitted {
    /// The tree is larger than a walk goes.
    pub(super) too_large: bool,
    /// The caller cancelled.
    pub(super) cancelled: bool,
    /// Names of generated folders passed over.
    pub(super) generated: Vec<&'static str>,
}

impl Omitted {
    /// Returns lines for the end of an answer.
    pub(super) fn notes(&self) -> String {
        let mut notes = String::new();
        if self.too_large {
            notes.push_str(&format!("[stopped after {VISIT_LIMIT} entries; give a narrower path]\n"));
        }
        if self.cancelled {
            notes.push_str("[cancelled before the end]\n");
        }
        if !self.generated.is_empty() {
            notes.push_str(&format!("[passed over: {}]\n", self.generated.join(", ")));
        }
        notes
    }
}

/// Whether a walk goes on after a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    On,
    Stop,
}

/// Visits every regular file below `start`, in the order of their names, with its path inside the jail and
/// its path relative to `start`.
pub(super) fn walk(
    jail: &Jail,
    start: &Path,
    cancel: &CancellationToken,
    mut visit: impl FnMut(&Path, &Path) -> Go,
) -> Omitted {
    let mut omitted = Omitted::default();
    let mut visited = 0;
    let mut folders: Vec<PathBuf> = vec![PathBuf::new()];
    while let Some(relative) = folders.pop() {
        let folder = join(start, &relative);
        // A folder that vanished or is closed to us is one with nothing in it.
        let Ok(mut names) = jail.names(&folder) else { continue };
        names.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let mut below = Vec::new();
        for (name, kind) in names {
            if cancel.is_cancelled() {
                omitted.cancelled = true;
                return omitted;
            }
            visited += 1;
            if visited > VISIT_LIMIT {
                omitted.too_large = true;
                return omitted;
            }
            let path = relative.join(&name);
            match kind {
                EntryKind::Folder => {
                    if let Some(generated) = GENERATED.iter().find(|generated| name == **generated) {
                        if !omitted.generated.contains(generated) {
                            omitted.generated.push(generated);
                        }
                    } else {
                        below.push(path);
                    }
                }
                EntryKind::File => {
                    if visit(&join(start, &path), &path) == Go::Stop {
                        return omitted;
                    }
                }
                EntryKind::Symlink | EntryKind::Other => {}
            }
        }
        folders.extend(below.into_iter().rev());
    }
    omitted
}

fn join(start: &Path, below: &Path) -> PathBuf {
    match (start == Path::new("."), below.as_os_str().is_empty()) {
        (_, true) => start.to_owned(),
        (true, false) => below.to_owned(),
        (false, false) => start.join(below),
    }
}
