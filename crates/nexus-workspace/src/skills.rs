//! Skills a workspace holds: `skills/{name}/SKILL.md` and whatever lies beside it.
//!
//! Nothing of a skill is ever run here. What it says of itself is read, what it brings is listed,
//! hashed and looked at, and whether its owner accepted exactly that is recorded outside the workspace.
//! The skills agents are told about: only those accepted as they are.
//!
//! Asked at every turn, so contents are hashed again only when a file's size, time or rights changed.

mod consent;
mod head;
mod inspect;
mod manifest;
mod standing;
mod suspicion;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nexus_base::file::{self, FileError};
use sha2::{Digest, Sha256};

use self::inspect::listed;
use crate::Layout;
use crate::folder::{lies_inside, subfolders};
use crate::trust::TrustFolder;

pub use consent::{Consent, accept, consent};
pub use head::{Requirements, SkillHead, SkillKind};
pub use inspect::{FileKind, Inspection, SkillFile, inspect};
pub use manifest::{
    Capability, Entry, Manifest, Surroundings, UsageError, capabilities, manifest, note_use, write_manifest,
};
pub use standing::{CredentialState, Standing};
pub use suspicion::Suspicion;

/// Largest SKILL.md that is read.
const MAX_TEXT_SIZE: u64 = 512 * 1024;

/// Lists the names of the workspace's skills, sorted.
///
/// # Errors
/// The folder exists but cannot be listed.
pub fn names(layout: &Layout) -> Result<Vec<String>, FileError> {
    let folder = layout.skills();
    let mut names = subfolders(&folder, layout.root())?;
    names.retain(|name| {
        lies_inside(&folder.join(name).join("SKILL.md"), layout.root()).is_some_and(|file| file.is_file())
    });
    Ok(names)
}

/// Reads a skill's SKILL.md; `None` when there is no such skill.
///
/// # Errors
/// The file exists but cannot be read or is too large.
pub fn read(layout: &Layout, name: &str) -> Result<Option<String>, FileError> {
    // Only names that the listing shows: what is asked for becomes part of a path.
    if !names(layout)?.iter().any(|known| known == name) {
        return Ok(None);
    }
    file::read_text(&layout.skills().join(name).join("SKILL.md"), MAX_TEXT_SIZE).map(Some)
}

/// Tells which skills may be offered.
#[derive(Debug)]
pub struct OfferedSkills {
    layout: Layout,
    trust: TrustFolder,
    known: Mutex<HashMap<String, (Vec<u8>, Inspection)>>,
}

impl OfferedSkills {
    /// Watches the skills of a workspace.
    pub fn new(layout: Layout, trust: TrustFolder) -> Self {
        Self { layout, trust, known: Mutex::default() }
    }

    /// Lists the names of skills that were accepted as they are, sorted. One that cannot be looked at is
    /// not offered.
    ///
    /// # Errors
    /// The folder of skills exists but cannot be listed.
    pub fn names(&self) -> Result<Vec<String>, FileError> {
        let mut names = names(&self.layout)?;
        names.retain(|name| self.is_accepted(name));
        Ok(names)
    }

    fn is_accepted(&self, name: &str) -> bool {
        let folder = self.layout.skills().join(name);
        let Ok(print) = outline(&folder) else { return false };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known.get(name).filter(|(before, _)| *before == print).map(|(_, found)| found.clone());
        let inspection = match same {
            Some(found) => found,
            None => {
                let Ok(found) = inspect(&folder) else { return false };
                known.insert(name.to_owned(), (print, found.clone()));
                found
            }
        };
        consent(&self.trust, &self.layout, name, &inspection).is_given()
    }
}

/// Returns what changes whenever a file of the skill does. The time of the last change of status is part
/// of it, which no program can set back.
fn outline(folder: &Path) -> Result<Vec<u8>, FileError> {
    let mut hash = Sha256::new();
    for path in listed(folder)? {
        let full = folder.join(&path);
        let found =
            std::fs::symlink_metadata(&full).map_err(|error| FileError::new("looking at", &full, error))?;
        hash.update(path.as_bytes());
        hash.update([0]);
        for number in [found.len(), found.ino(), u64::from(found.mode())] {
            hash.update(number.to_le_bytes());
        }
        for number in [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()] {
            hash.update(number.to_le_bytes());
        }
    }
    Ok(hash.finalize().to_vec())
}
