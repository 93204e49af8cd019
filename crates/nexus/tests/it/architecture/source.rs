//! The checkout as text: its Rust files, with tests, comments and strings taken out on demand, so
//! that a search for a name finds code and nothing else.

use std::path::{Path, PathBuf};

/// Folders that are not part of the committed tree.
const SKIPPED: [&str; 4] = [".git", ".nexus", "target", "node_modules"];

/// One Rust file.
pub(crate) struct RustFile {
    /// Path from the checkout's root, with forward slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl RustFile {
    /// Returns the package the file belongs to, such as `nexus-store` or `xtask`.
    pub(crate) fn package(&self) -> &str {
        let mut parts = self.path.split('/');
        match parts.next() {
            Some("crates") => parts.next().unwrap_or_default(),
            first => first.unwrap_or_default(),
        }
    }

    /// Says whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        ["/tests/", "/examples/", "/benches/"].iter().any(|folder| self.path.contains(folder))
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }

    /// Returns the code alone: no tests, no comments, strings emptied. Line numbers stay.
    pub(crate) fn code(&self) -> String {
        if self.is_test() {
            return String::new();
        }
        let code = blanked(&self.text, Strings::Blank);
        without(&code, &tests_ranges(&code))
    }

    /// Returns code and string contents, without tests and comments.
    pub(crate) fn code_and_strings(&self) -> String {
        if self.is_test() {
            return String::new();
        }
        // Braces inside strings would mislead the search for a test module's end, so the ranges to
        // drop come from the text without strings; both have the same length.
        let ranges = tests_ranges(&blanked(&self.text, Strings::Blank));
        without(&blanked(&self.text, Strings::Keep), &ranges)
    }

    /// Counts the lines that are not tests.
    pub(crate) fn lines_without_tests(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        let dropped: usize = tests_ranges(&blanked(&self.text, Strings::Blank))
            .into_iter()
            .map(|(start, end)| self.text[start..end].lines().count())
            .sum();
        self.text.lines().count().saturating_sub(dropped)
    }
}

/// Returns the checkout's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/nexus lies two below").to_owned()
}

/// Returns every Rust file of the checkout.
pub(crate) fn rust_files() -> Vec<RustFile> {
    let files: Vec<RustFile> = all_files()
        .into_iter()
        .filter(|path| path.ends_with(".rs"))
        .map(|path| RustFile { text: read(&path), path })
        .collect();
    assert!(files.len() > 20, "the walk over the checkout found {} files only", files.len());
    files
}

/// Returns every committed file's path from the root.
pub(crate) fn all_files() -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    walk(&root, &root, &mut found);
    found.sort();
    found
}

/// Reads a file by its path from the root.
pub(crate) fn read(path: &str) -> String {
    let bytes = std::fs::read(root().join(path)).unwrap_or_else(|error| panic!("reading {path}: {error}"));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns `path:line` for each line of `text` that holds one of `needles` as a whole name.
pub(crate) fn places(path: &str, text: &str, needles: &[&str]) -> Vec<String> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| needles.iter().any(|needle| holds_name(line, needle)))
        .map(|(index, line)| format!("{path}:{}: {}", index + 1, line.trim()))
        .collect()
}

fn holds_name(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(at, _)| {
        let continues = |character: char| character.is_alphanumeric() || character == '_';
        let glued_before = needle.starts_with(continues) && line[..at].ends_with(continues);
        let glued_after = needle.ends_with(continues) && line[at + needle.len()..].starts_with(continues);
        !glued_before && !glued_after
    })
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("listing {}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder entry can be read");
        let path = entry.path();
        let kind = entry.file_type().expect("a folder entry has a type");
        if kind.is_dir() {
            if !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                walk(root, &path, found);
            }
        } else if kind.is_file() {
            let relative = path.strip_prefix(root).expect("the walk stays below the root");
            found.push(relative.to_string_lossy().replace('\\', "/"));
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Strings {
    Keep,
    Blank,
}

/// Replaces comments, and strings if asked, by spaces of the same length.
fn blanked(text: &str, strings: Strings) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (length, drop) = if rest.starts_with(b"//") {
            (rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), true)
        } else if let Some(length) = raw_string(bytes, at) {
            (length, strings == Strings::Blank)
        } else if rest[0] == b'"' {
            (quoted(rest), strings == Strings::Blank)
        } else if rest[0] == b'\'' {
            (character(rest), strings == Strings::Blank)
        } else {
            (1, false)
        };
        if drop {
            blank(&mut out[at..at + length]);
        }
        at += length.max(1);
    }
    String::from_utf8(out).expect("blanking replaces whole characters' bytes by spaces")
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn raw_string(bytes: &[u8], at: usize) -> Option<usize> {
    let glued = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
    let rest = &bytes[at..];
    // `br"…"` arrives here at its `r`, glued to the `b`.
    if rest[0] != b'r' || (glued && bytes[at - 1] != b'b') {
        return None;
    }
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.extend(std::iter::repeat_n(b'#', hashes));
    let body = 2 + hashes;
    let length = rest[body..].windows(end.len()).position(|window| window == end.as_slice());
    Some(length.map_or(rest.len(), |length| body + length + end.len()))
}

fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a character literal, or 1 for the tick of a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest[2..].iter().skip(1).position(|byte| *byte == b'\'').map_or(1, |length| length + 4);
    }
    // One character of up to four bytes, then the closing tick.
    (2..=5).find(|at| rest.get(*at) == Some(&b'\'') && is_one_character(&rest[1..*at])).map_or(1, |at| at + 1)
}

fn is_one_character(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().count() == 1)
}

/// Returns where items under `#[cfg(test)]` lie; `code` has no comments and no strings.
fn tests_ranges(code: &str) -> Vec<(usize, usize)> {
    let bytes = code.as_bytes();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let marks = ["#[cfg(test)]", "#[cfg(all(test,"];
    let mut starts: Vec<usize> =
        marks.iter().flat_map(|mark| code.match_indices(mark)).map(|(start, _)| start).collect();
    starts.sort_unstable();
    for start in starts {
        if ranges.last().is_some_and(|(_, end)| start < *end) {
            continue;
        }
        let mut depth = 0_usize;
        let mut at = start;
        while at < bytes.len() {
            match bytes[at] {
                b'{' => depth += 1,
                b'}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                b';' if depth == 0 => break,
                _ => {}
            }
            at += 1;
        }
        ranges.push((start, (at + 1).min(bytes.len())));
    }
    ranges
}

fn without(text: &str, ranges: &[(usize, usize)]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for (start, end) in ranges {
        blank(&mut bytes[*start..*end]);
    }
    String::from_utf8(bytes).expect("blanking replaces whole characters' bytes by spaces")
}

fn file(text: &str) -> RustFile {
    RustFile { path: "crates/nexus-store/src/sample.rs".to_owned(), text: text.to_owned() }
}

#[test]
fn a_search_sees_code_and_not_what_surrounds_it() {
    let sample = file(concat!(
        "// Command::new in a comment\n",
        "fn one<'a>(text: &'a str) { let _ = \"Command::new \\\" {\"; let _ = r#\"Command::new \"# ; }\n",
        "/* Command::new /* nested */ */ fn two() { let _ = '\"'; Command::new(\"ls\"); }\n",
        "#[cfg(test)]\nmod tests { fn three() { Command::new(\"{\"); } }\n",
        "fn four() {}\n",
    ));
    let found = places(&sample.path, &sample.code(), &["Command::new"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("sample.rs:3:"), "{found:?}");
    assert!(sample.code().contains("fn four"));
    assert!(sample.code_and_strings().contains("Command::new \\\""));
    assert!(!sample.code_and_strings().contains("in a comment"));
    assert_eq!(sample.lines_without_tests(), 4);
}

#[test]
fn a_longer_name_is_another_name() {
    assert_eq!(places("f", "eprintln!(1)", &["println!"]), Vec::<String>::new());
    assert_eq!(places("f", "Connection::open_with(1)", &["Connection::open"]), Vec::<String>::new());
    assert_eq!(places("f", "  Connection::open(1)", &["Connection::open"]).len(), 1);
}
