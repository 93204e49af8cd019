//! `list`: what is in a folder.

use std::fmt::Write as _;

use nexus_base::jail::EntryKind;

use super::access::{FileAccess, Rights};
use super::arguments::Arguments;
use super::read::explain;

pub(super) const NAME: &str = "list";

/// The most names one call returns.
const ENTRY_LIMIT: usize = 500;

pub(super) fn call(access: &FileAccess, arguments: &Arguments) -> Result<String, String> {
    let task_folder = access.show(access.task_folder());
    let text = arguments.optional_text("path")?.unwrap_or(&task_folder);
    let allowed = match access.resolve(text, Rights::Read) {
        Ok(allowed) => allowed,
        Err(refusal) => {
            // A closed folder above open ones still shows the way to them.
            let names = access.open_below(text).ok_or(refusal)?;
            return Ok(format!("{}\n[only what you have access to is shown]", names.join("\n")));
        }
    };
    let entries = allowed.jail.list(&allowed.inside).map_err(|error| explain(&allowed.shown, &error))?;
    if entries.is_empty() {
        return Ok(format!("[{} is empty]", allowed.shown));
    }
    let mut output = String::new();
    for entry in entries.iter().take(ENTRY_LIMIT) {
        let name = entry.name.to_string_lossy();
        let _ = match entry.kind {
            EntryKind::Folder => writeln!(output, "{name}/"),
            EntryKind::File => writeln!(output, "{name}\t{} bytes", entry.len),
            EntryKind::Symlink => writeln!(output, "{name}\tlink, not followed"),
            EntryKind::Other => writeln!(output, "{name}\tspecial"),
        };
    }
    if entries.len() > ENTRY_LIMIT {
        let _ = write!(output, "[{} more entries; narrow it down with glob]", entries.len() - ENTRY_LIMIT);
    }
    Ok(output)
}
