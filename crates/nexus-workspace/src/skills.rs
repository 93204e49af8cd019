//! Skills a workspace holds: `skills/{name}/SKILL.md`. Only their names; bodies are read on demand.

use nexus_base::file::FileError;

use crate::Layout;
use crate::folder::{lies_inside, subfolders};

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
