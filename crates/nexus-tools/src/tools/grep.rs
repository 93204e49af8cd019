//! `grep`: lines that match a regular expression.

use std::fmt::Write as _;
use std::path::Path;

use nexus_base::jail::{EntryKind, Jail};
use regex::{Regex, RegexBuilder};
use tokio_util::sync::CancellationToken;

use super::access::{FileAccess, Rights};
use super::arguments::{Arguments, cut};
use super::glob::compile;
use super::read::explain;
use super::walk::{Go, walk};

pub(super) const NAME: &str = "grep";

/// The most lines one call returns.
const MATCH_LIMIT: usize = 200;
/// The most bytes shown of one line.
const LINE_LIMIT: usize = 300;
/// The longest file looked into.
const FILE_LIMIT: u64 = 4 * 1024 * 1024;
/// The most memory a compiled expression may take.
const PATTERN_SIZE: usize = 1024 * 1024;

/// Lines found so far.
#[derive(Debug, Default)]
struct Found {
    text: String,
    lines: usize,
    files: usize,
    full: bool,
}

pub(super) fn call(
    access: &FileAccess,
    arguments: &Arguments,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let pattern = arguments.text("pattern")?;
    let expression = RegexBuilder::new(pattern)
        .case_insensitive(arguments.switch("ignore_case")?)
        .size_limit(PATTERN_SIZE)
        .build()
        .map_err(|error| format!("{pattern:?} is not a usable regular expression: {error}"))?;
    let only = arguments.optional_text("glob")?.map(compile).transpose()?;
    let task_folder = access.show(access.task_folder());
    let allowed = access.resolve(arguments.optional_text("path")?.unwrap_or(&task_folder), Rights::Read)?;
    let shown = &allowed.shown;
    let metadata = allowed.jail.metadata(&allowed.inside).map_err(|error| explain(shown, &error))?;

    let mut found = Found::default();
    let notes = match metadata.kind {
        EntryKind::Folder => walk(allowed.jail, &allowed.inside, cancel, |inside, relative| {
            let by_name = |only: &globset::GlobMatcher| {
                only.is_match(relative) || relative.file_name().is_some_and(|name| only.is_match(name))
            };
            if only.as_ref().is_none_or(by_name) {
                search(
                    allowed.jail,
                    inside,
                    &format!("{shown}/{}", relative.display()),
                    &expression,
                    &mut found,
                );
            }
            if found.full { Go::Stop } else { Go::On }
        })
        .notes(),
        EntryKind::File => {
            search(allowed.jail, &allowed.inside, shown, &expression, &mut found);
            String::new()
        }
        EntryKind::Symlink | EntryKind::Other => {
            return Err(format!("{shown} is a link or special file and is not read"));
        }
    };
    if found.lines == 0 {
        return Ok(format!("[no line matches {pattern}]\n{notes}"));
    }
    let Found { mut text, lines, files, full } = found;
    if full {
        let _ = writeln!(text, "[stopped after {lines} lines in {files} files; narrow the pattern or path]");
    }
    text.push_str(&notes);
    Ok(text)
}

fn search(jail: &Jail, inside: &Path, shown: &str, expression: &Regex, found: &mut Found) {
    // Unreadable, too large or not text: not a place where lines can match.
    let Ok(content) = jail.read(inside, FILE_LIMIT) else { return };
    if content.iter().take(8 * 1024).any(|byte| *byte == 0) {
        return;
    }
    let content = String::from_utf8_lossy(&content);
    let before = found.lines;
    for (index, line) in content.lines().enumerate() {
        if !expression.is_match(line) {
            continue;
        }
        if found.lines == MATCH_LIMIT {
            found.full = true;
            break;
        }
        found.lines += 1;
        let (kept, was_cut) = cut(line, LINE_LIMIT);
        let _ = writeln!(found.text, "{shown}:{}: {kept}{}", index + 1, if was_cut { " […]" } else { "" });
    }
    found.files += usize::from(found.lines > before);
}
