//! Which persona is in use where the settings name none: the one that `state/agents/ACTIVE` names. It is
//! written down with the first persona, so that a second one takes nothing from it until the owner says so.

use nexus_base::file::{self, Durability, FileError};

use super::active_folder;
use crate::Layout;
use crate::config::Settings;

/// Longest file that is looked at.
const MAX_LEN: u64 = 4 * 1024;
/// Mode of the file.
const MODE: u32 = 0o600;

/// Returns the name in the file; none where there is none to be read.
pub(super) fn recorded(layout: &Layout) -> Option<String> {
    let text = file::read_text(&layout.active_persona(), MAX_LEN).ok()?;
    let name = text.lines().next()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Writes down which persona is in use, unless that was done before or there is none yet.
///
/// # Errors
/// The personas cannot be listed, or the file cannot be written.
pub fn record_active(layout: &Layout, settings: &Settings) -> Result<(), FileError> {
    let path = layout.active_persona();
    if std::fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    let Some(folder) = active_folder(layout, settings.agent.id.as_deref())? else { return Ok(()) };
    file::create_once(&path, format!("{folder}\n").as_bytes(), MODE, Durability::Crash).map(|_| ())
}
