//! What workers may change among the identity files. The first conversation's write its persona and the user's
//! profile; later ones can make a further persona and touch no finished one.

use std::path::{Path, PathBuf};

use nexus_base::file::FileError;

use super::onboarding::{Onboarding, is_written, onboarding};
use super::{active_folder, record_active};
use crate::Layout;
use crate::config::Settings;
use crate::folder::subfolders;

/// What may be changed; paths are relative to the state folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityRights {
    /// Folders that may be written.
    pub writable: Vec<PathBuf>,
    /// What lies in them and may be read only.
    pub kept: Vec<PathBuf>,
}

/// Returns what a worker that begins now may change. Which persona is in use is written down before.
///
/// # Errors
/// A folder or a file exists but cannot be read, or the persona in use cannot be written down.
pub fn identity_rights(layout: &Layout, settings: &Settings) -> Result<IdentityRights, FileError> {
    record_active(layout, settings)?;
    let agents = Path::new("agents");
    let user = PathBuf::from("user");
    // The template of all personas, and which of them is in use.
    let mut kept = ["BOOTSTRAP.md", "ACTIVE"].map(|name| agents.join(name)).to_vec();
    Ok(match onboarding(layout)? {
        Onboarding::Needed { .. } => IdentityRights { writable: vec![agents.to_owned(), user], kept },
        Onboarding::Unfinished { folder, .. } => {
            IdentityRights { writable: vec![agents.join(folder), user], kept: Vec::new() }
        }
        Onboarding::Complete => {
            let active = active_folder(layout, settings.agent.id.as_deref())?;
            for name in subfolders(&layout.agents(), layout.state())? {
                let folder = layout.agents().join(&name);
                let is_whole = is_written(layout, &folder.join("IDENTITY.md"))?
                    && is_written(layout, &folder.join("SOUL.md"))?;
                if is_whole || active.as_ref() == Some(&name) {
                    kept.push(agents.join(name));
                }
            }
            IdentityRights { writable: vec![agents.to_owned()], kept }
        }
    })
}
