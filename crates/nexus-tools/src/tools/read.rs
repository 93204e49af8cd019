//! `read`: a part of a text file, with line numbers.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};

use nexus_base::jail::JailError;

use super::access::{FileAccess, Rights};
use super::arguments::{Arguments, cut};
use super::artifacts::{self, Artifacts};

pub(super) const NAME: &str = "read";

/// The most bytes of text one call returns.
const OUTPUT_LIMIT: usize = 30 * 1024;
/// The most lines one call returns when none are asked for.
const DEFAULT_LINES: u64 = 2000;
/// The most bytes shown of one line.
const LINE_LIMIT: usize = 2000;
/// The most bytes looked through to reach the wanted lines.
const SCAN_LIMIT: u64 = 64 * 1024 * 1024;
/// How much of the beginning decides whether a file is text.
const SNIFFED: usize = 8 * 1024;

/// What was read, and whether nobody vouches for it.
pub(super) fn call(
    access: &FileAccess,
    artifacts: Option<&Artifacts>,
    arguments: &Arguments,
) -> (Result<String, String>, bool) {
    match (arguments.text("path"), artifacts) {
        (Ok(name), Some(artifacts)) if name.starts_with(artifacts::SCHEME) => match artifacts.open(name) {
            Ok(kept) => (wanted(arguments).and_then(|wanted| page(kept.file, name, wanted)), kept.untrusted),
            Err(text) => (Err(text), false),
        },
        _ => (read_file(access, arguments), false),
    }
}

/// First line and number of lines.
fn wanted(arguments: &Arguments) -> Result<(u64, u64), String> {
    let first = arguments.optional_number("offset")?.unwrap_or(1).max(1);
    Ok((first, arguments.optional_number("limit")?.unwrap_or(DEFAULT_LINES).max(1)))
}

fn read_file(access: &FileAccess, arguments: &Arguments) -> Result<String, String> {
    let text = arguments.text("path")?;
    let wanted = wanted(arguments)?;
    let allowed = access.resolve(text, Rights::Read)?;
    let shown = &allowed.shown;
    let file = allowed.jail.open_file(&allowed.inside).map_err(|error| explain(shown, &error))?;
    page(file, shown, wanted)
}

fn page(file: std::fs::File, shown: &str, (first, count): (u64, u64)) -> Result<String, String> {
    let length = file.metadata().map(|found| found.len()).unwrap_or(0);
    if length == 0 {
        return Ok(format!("[{shown} is empty]"));
    }
    let mut reader = BufReader::with_capacity(SNIFFED, file.take(SCAN_LIMIT));
    let beginning = reader.fill_buf().map_err(|error| format!("reading {shown}: {error}"))?;
    if beginning.contains(&0) {
        return Err(format!("{shown} is not text ({length} bytes); inspect it with a command instead"));
    }
    numbered(reader, shown, first, count)
}

/// Explains why a file could not be opened.
pub(super) fn explain(shown: &str, error: &JailError) -> String {
    match error {
        JailError::NotFound { .. } => format!("{shown} does not exist; look with list or glob"),
        JailError::Symlink { .. } => {
            format!(
                "{shown} is or leads through a symbolic link, which is never followed; name the real path"
            )
        }
        JailError::NotAFile { .. } => {
            format!("{shown} is a folder or device, not a file; use list for folders")
        }
        JailError::NotAFolder { .. } => format!("{shown}: a part of the path is a file, not a folder"),
        JailError::TooLarge { limit, .. } => format!("{shown} is larger than the allowed {limit}"),
        JailError::Escape { fault, .. } => format!("{shown} is not a usable path: {fault}"),
        JailError::Mount { .. } => format!("{shown} is on another file system, which is not accessible"),
        JailError::AlreadyThere { .. } => format!("{shown} already exists"),
        JailError::Io { action, source, .. } => format!("{action} {shown}: {source}"),
    }
}

fn numbered(
    mut reader: BufReader<std::io::Take<std::fs::File>>,
    shown: &str,
    first: u64,
    count: u64,
) -> Result<String, String> {
    let mut output = String::new();
    let mut line = Vec::new();
    let mut number = 0u64;
    let last = first.saturating_add(count - 1);
    loop {
        line.clear();
        // Bounded, so that a file without line breaks cannot fill the memory.
        let read = reader
            .by_ref()
            .take(SCAN_LIMIT / 8)
            .read_until(b'\n', &mut line)
            .map_err(|error| format!("reading {shown}: {error}"))?;
        if read == 0 {
            break;
        }
        number += 1;
        if number < first {
            continue;
        }
        if number > last || output.len() >= OUTPUT_LIMIT {
            let _ = write!(output, "[more follows: continue with offset={number}]");
            return Ok(output);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\n', '\r']);
        let (kept, was_cut) = cut(text, LINE_LIMIT);
        let _ = write!(output, "{number:>6}\t{kept}");
        if was_cut {
            let _ = write!(output, " [… {} more bytes in this line]", text.len() - kept.len());
        }
        output.push('\n');
    }
    if number < first {
        return Err(format!("{shown} has only {number} lines; offset {first} is past its end"));
    }
    Ok(output)
}
