//! Where a repository lies: found as git finds it, so that the sandbox can be opened for these folders and no other.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Longest of the small files looked at, in bytes.
const MAX_LENGTH: u64 = 64 * 1024;
/// Most object stores looked at.
const MAX_STORES: usize = 32;

/// The folders of a repository, all without links.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Folders {
    /// The folder that holds `.git`.
    pub(super) top: PathBuf,
    /// `.git` itself, where it is a file or link that leads elsewhere.
    pub(super) link: Option<PathBuf>,
    /// What belongs to this work tree: its HEAD and index.
    pub(super) git: PathBuf,
    /// What all work trees share: objects, branches, settings.
    pub(super) common: PathBuf,
    /// Object stores it borrows from.
    borrowed: Vec<PathBuf>,
}

impl Folders {
    /// Looks from `folder` upwards.
    pub(super) fn find(folder: &Path) -> Option<Self> {
        let (top, entry) = folder.ancestors().find_map(|top| {
            let entry = top.join(".git");
            let kind = entry.symlink_metadata().ok()?;
            // Git goes on past a folder that holds no repository.
            (!kind.is_dir() || entry.join("HEAD").symlink_metadata().is_ok()).then_some((top, entry))
        })?;
        let link = (!entry.symlink_metadata().ok()?.is_dir()).then(|| entry.clone());
        let named = match short_text(&entry) {
            Some(text) => top.join(text.trim().strip_prefix("gitdir:")?.trim()),
            None => entry,
        };
        let git = named.canonicalize().ok()?;
        let mut found = Self { top: top.to_owned(), link, common: git.clone(), git, borrowed: Vec::new() };
        if let Some(common) = found.shared_by_worktrees() {
            found.common = common;
        }
        found.borrowed = borrowed(&found.common.join("objects"));
        Some(found)
    }

    /// Says whether this is a further work tree that its repository knows.
    pub(super) fn is_worktree(&self) -> bool {
        self.git != self.common
    }

    /// Returns what git has to read.
    pub(super) fn readable(&self) -> impl Iterator<Item = PathBuf> {
        let own = [self.git.clone(), self.common.clone()];
        own.into_iter().chain(self.link.clone()).chain(self.borrowed.clone())
    }

    /// Returns the repository's common folder where this one is its `worktrees/NAME` and leads back to our `.git`.
    /// Only who can write to that repository can have made it so.
    fn shared_by_worktrees(&self) -> Option<PathBuf> {
        let link = self.link.as_ref()?;
        let line = |name: &str| short_text(&self.git.join(name)).map(|text| self.git.join(text.trim()));
        let common = line("commondir")?.canonicalize().ok()?;
        let back = line("gitdir")?;
        let leads_back = back.file_name() == link.file_name()
            && back.parent().and_then(|folder| folder.canonicalize().ok()).as_deref() == link.parent();
        (leads_back && self.git.parent() == Some(common.join("worktrees").as_path())).then_some(common)
    }
}

/// Returns the object stores that `objects` borrows from, and those that they borrow from.
fn borrowed(objects: &Path) -> Vec<PathBuf> {
    let mut found = vec![objects.to_owned()];
    let mut next = 0;
    while let Some(store) = found.get(next).cloned() {
        next += 1;
        let Some(text) = short_text(&store.join("info/alternates")) else { continue };
        for named in text.lines().filter_map(|line| store.join(line).canonicalize().ok()) {
            // Reading is all that is granted, and only of what is called as an object store is.
            if named.ends_with("objects") && !found.contains(&named) && found.len() < MAX_STORES {
                found.push(named);
            }
        }
    }
    found.split_off(1)
}

/// Reads a small regular file; `None` for anything else.
fn short_text(path: &Path) -> Option<String> {
    // Opening a pipe would else wait for somebody to write.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_LENGTH).read_to_string(&mut text).ok()?;
    Some(text)
}
