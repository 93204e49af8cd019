//! The skills agents are told about: only those accepted as they are.
//!
//! Asked at every turn, so contents are hashed again only when a file's size, time or rights changed.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use nexus_base::file::FileError;
use sha2::{Digest, Sha256};

use super::consent::consent;
use super::inspect::{Inspection, inspect, listed};
use crate::Layout;
use crate::trust::TrustFolder;

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
        let mut names = super::names(&self.layout)?;
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
