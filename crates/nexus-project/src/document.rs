//! One JSON document in one file: bounded reading that names the place of damage, and writing as
//! others do it (two spaces, a final newline), whole or not at all.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use nexus_base::failpoint;
use nexus_base::file::{self, Durability, Prepared};
use serde_json::{Map, Value};

use crate::ProjectError;

/// Largest state file that is read whole, in bytes.
pub(crate) const MAX_SIZE: u64 = 64 * 1024 * 1024;
/// Largest state file that is written, in bytes. A quarter of what is read: plan and tasks become one cycle, whose lines
/// stand further to the right, and closing it is what helps against a file that is full.
const MAX_WRITTEN_SIZE: usize = 16 * 1024 * 1024;
/// State files belong to the project, not to one person.
pub(crate) const FILE_MODE: u32 = 0o644;

/// Opens a regular file without following a link; `None` when nothing is there.
pub(crate) fn open(path: &Path) -> Result<Option<File>, ProjectError> {
    Ok(open_sized(path)?.map(|(file, _)| file))
}

/// The same, with the file's size.
fn open_sized(path: &Path) -> Result<Option<(File, u64)>, ProjectError> {
    let file = match file::open_read(path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata().map_err(|error| ProjectError::file("inspecting", path, error))?;
    Ok(Some((file, about.len())))
}

/// Reads a file's bytes; `None` when nothing is there.
pub(crate) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, ProjectError> {
    let Some((file, size)) = open_sized(path)? else { return Ok(None) };
    // Known beforehand, so that a small file takes one read and not seven.
    let mut bytes = Vec::with_capacity(usize::try_from(size.min(MAX_SIZE)).unwrap_or(0) + 1);
    file.take(MAX_SIZE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ProjectError::file("reading", path, error))?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(ProjectError::TooLarge { path: path.to_owned(), limit: MAX_SIZE, would_be: false });
    }
    Ok(Some(bytes))
}

/// Reads a file that holds one JSON object; `None` when nothing is there.
pub(crate) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>, ProjectError> {
    read_bytes(path)?.map(|bytes| object(path, &bytes)).transpose()
}

/// Takes the object out of bytes that were read from `path`.
pub(crate) fn object(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>, ProjectError> {
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(damaged(path, 1, 1, "expected an object")),
        Err(error) => Err(damaged_by(path, &error)),
    }
}

/// Makes the error for a document whose text or shape is wrong.
pub(crate) fn damaged(path: &Path, line: usize, column: usize, what: &str) -> ProjectError {
    ProjectError::Damaged {
        path: path.to_owned(),
        line: line.max(1),
        column: column.max(1),
        what: what.to_owned(),
    }
}

/// Makes the error for text that is no JSON.
pub(crate) fn damaged_by(path: &Path, error: &serde_json::Error) -> ProjectError {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    damaged(path, error.line(), error.column(), what)
}

/// Renders a document as it lies on disk.
pub(crate) fn render(value: &Value) -> String {
    // A `Value` always renders: its keys are text and it holds no foreign serializer.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Replaces the document at `path`.
pub(crate) fn write(path: &Path, value: &Value, durability: Durability) -> Result<(), ProjectError> {
    write_text(path, &fitting(path, value)?, durability)
}

/// Renders a document, unless it is larger than any that is written.
fn fitting(path: &Path, value: &Value) -> Result<String, ProjectError> {
    let text = render(value);
    if text.len() > MAX_WRITTEN_SIZE {
        let limit = MAX_WRITTEN_SIZE as u64;
        return Err(ProjectError::TooLarge { path: path.to_owned(), limit, would_be: true });
    }
    Ok(text)
}

/// Writes a document beside `path`, to be put there later.
pub(crate) fn prepare(path: &Path, value: &Value) -> Result<Prepared, ProjectError> {
    let text = fitting(path, value)?;
    failpoint::hit("project.write");
    Ok(file::prepare(path, text.as_bytes(), FILE_MODE, Durability::Crash)?)
}

/// Puts a prepared document in its place.
pub(crate) fn put(prepared: Prepared) -> Result<(), ProjectError> {
    prepared.put()?;
    failpoint::hit("project.written");
    Ok(())
}

/// Replaces the text at `path`.
pub(crate) fn write_text(path: &Path, text: &str, durability: Durability) -> Result<(), ProjectError> {
    failpoint::hit("project.write");
    file::replace(path, text.as_bytes(), FILE_MODE, durability)?;
    failpoint::hit("project.written");
    Ok(())
}

/// Takes the file at `path` away to `aside`, in the place of what was taken there before, and says whether one was
/// there. Removing a file may wait until what was written to it last is on disk; moving it does not.
pub(crate) fn retire(path: &Path, aside: &Path) -> Result<bool, ProjectError> {
    failpoint::hit("project.remove");
    match file::rename(path, aside) {
        Ok(()) => {
            failpoint::hit("project.removed");
            Ok(true)
        }
        Err(error) if error.is_not_found() => Ok(false),
        // Something stands in the way there; it is not worth keeping the file for.
        Err(_) => remove(path),
    }
}

/// Removes the file at `path` and says whether one was there.
pub(crate) fn remove(path: &Path) -> Result<bool, ProjectError> {
    failpoint::hit("project.remove");
    let was_there = file::remove(path)?;
    if was_there {
        failpoint::hit("project.removed");
    }
    Ok(was_there)
}
