//! Skills a workspace holds: `skills/{name}/SKILL.md` and whatever lies beside it.
//!
//! Nothing of a skill is ever run here. What it says of itself is read, what it brings is listed,
//! hashed and looked at, and whether its owner accepted exactly that is recorded outside the workspace.

mod consent;
mod head;
mod inspect;
mod manifest;
mod offered;
mod standing;
mod suspicion;

use nexus_base::file::{self, FileError};

use crate::Layout;
use crate::folder::{lies_inside, subfolders};

pub use consent::{Consent, accept, consent};
pub use head::{Requirements, SkillHead, SkillKind};
pub use inspect::{FileKind, Inspection, SkillFile, inspect};
pub use manifest::{
    Capability, Entry, Manifest, Surroundings, UsageError, manifest, note_use, write_manifest,
};
pub use offered::OfferedSkills;
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
