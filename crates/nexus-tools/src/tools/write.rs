//! `write`: a whole text file, replaced in one step.

use std::path::Path;

use nexus_base::failpoint;
use nexus_base::file::Durability;

use super::Trail;
use super::access::{Allowed, FileAccess, Rights};
use super::arguments::Arguments;
use super::read::explain;

pub(super) const NAME: &str = "write";

/// The most bytes one call writes.
const CONTENT_LIMIT: usize = 1024 * 1024;

pub(super) fn call(access: &FileAccess, arguments: &Arguments, trail: &Trail) -> Result<String, String> {
    let text = arguments.text("path")?;
    let content = arguments.text("content")?;
    if content.len() > CONTENT_LIMIT {
        return Err(format!(
            "the content has {} bytes, more than the allowed {CONTENT_LIMIT}; write it in parts to several files",
            content.len()
        ));
    }
    let allowed = access.resolve(text, Rights::ReadWrite)?;
    if text.ends_with('/') {
        return Err(format!("{text} names a folder; add a file name"));
    }
    let existed = allowed.jail.metadata(&allowed.inside).is_ok();
    store(&allowed, content, NAME, trail)?;
    let lines = content.lines().count();
    let how = if existed { "replaced" } else { "made" };
    Ok(format!("{how} {} ({} bytes, {lines} lines)", allowed.shown, content.len()))
}

/// Replaces a file and makes the folders above it; the file as it was is kept first.
pub(super) fn store(allowed: &Allowed<'_>, content: &str, tool: &str, trail: &Trail) -> Result<(), String> {
    let failed = |error| explain(&allowed.shown, &error);
    // What lies in `state/` is the owner's alone; a task folder is ordinary work.
    let private = allowed.inside.starts_with("state");
    let (folder_mode, mut file_mode) = if private { (0o700, 0o600) } else { (0o755, 0o644) };
    if let Ok(found) = allowed.jail.metadata(&allowed.inside)
        && !private
    {
        // A script stays executable.
        file_mode = found.mode & 0o777;
    }
    if let Some(folder) = allowed.inside.parent().filter(|folder| *folder != Path::new("")) {
        allowed.jail.create_dir_all(folder, folder_mode).map_err(failed)?;
    }
    if let Some(changes) = &trail.changes {
        changes
            .before_write(&trail.author, tool, (allowed.jail, &allowed.inside), content.as_bytes(), file_mode)
            .map_err(|error| format!("not written: the current file could not be saved for undo: {error}"))?;
    }
    allowed
        .jail
        .write_atomic(&allowed.inside, content.as_bytes(), file_mode, Durability::Crash)
        .map_err(failed)?;
    failpoint::hit("tool.written");
    Ok(())
}
