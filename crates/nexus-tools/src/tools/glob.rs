//! `glob`: files by name.

use globset::{GlobBuilder, GlobMatcher};
use tokio_util::sync::CancellationToken;

use super::access::{FileAccess, Rights};
use super::arguments::Arguments;
use super::walk::{Go, walk};

pub(super) const NAME: &str = "glob";

/// The most paths one call returns.
const RESULT_LIMIT: usize = 500;
/// The longest pattern taken.
const PATTERN_LIMIT: usize = 1000;

pub(super) fn call(
    access: &FileAccess,
    arguments: &Arguments,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let pattern = arguments.text("pattern")?;
    let (start, rest) = split(pattern);
    let task_folder = access.show(access.task_folder());
    let allowed = access.resolve(if start.is_empty() { &task_folder } else { start }, Rights::Read)?;
    if rest.is_empty() {
        return match allowed.jail.metadata(&allowed.inside) {
            Ok(_) => Ok(format!("{}\n", allowed.shown)),
            Err(_) => Ok(format!("[nothing matches {pattern}]")),
        };
    }
    let matcher = compile(rest)?;
    let mut found = Vec::new();
    let omitted = walk(allowed.jail, &allowed.inside, cancel, |_, relative| {
        if matcher.is_match(relative) {
            found.push(format!("{}/{}", allowed.shown, relative.display()));
        }
        if found.len() > RESULT_LIMIT { Go::Stop } else { Go::On }
    });
    if found.is_empty() {
        return Ok(format!("[nothing matches {pattern}]\n{}", omitted.notes()));
    }
    let more = found.len() > RESULT_LIMIT;
    found.truncate(RESULT_LIMIT);
    found.sort();
    let mut output = found.join("\n");
    output.push('\n');
    if more {
        output.push_str(&format!("[more than {RESULT_LIMIT} files; narrow the pattern]\n"));
    }
    output.push_str(&omitted.notes());
    Ok(output)
}

/// Makes a matcher in which `*` stays inside a folder and `**` crosses folders.
pub(super) fn compile(pattern: &str) -> Result<GlobMatcher, String> {
    if pattern.len() > PATTERN_LIMIT {
        return Err(format!("the pattern is longer than {PATTERN_LIMIT} bytes"));
    }
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("{pattern:?} is not a usable pattern: {error}"))
}

/// Splits off the folders at the beginning that contain no wildcard.
fn split(pattern: &str) -> (&str, &str) {
    let wild = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    if wild == pattern.len() {
        return (pattern, "");
    }
    match pattern[..wild].rfind('/') {
        Some(slash) => (&pattern[..slash], &pattern[slash + 1..]),
        None => ("", pattern),
    }
}
