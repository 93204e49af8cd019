//! What a skill brings: every file, its kind and rights, one hash over all of it, and what looks odd.

use std::fs::Metadata;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nexus_base::file::{self, FileError};
use nexus_base::id::to_hex;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::suspicion::{self, Suspicion};

/// Most files of one skill.
const MAX_FILES: usize = 2_000;
/// Most bytes of one skill.
const MAX_SKILL_SIZE: u64 = 64 * 1024 * 1024;
/// Deepest folder.
const MAX_DEPTH: usize = 16;
/// Largest file whose text is looked at.
const MAX_TEXT_SIZE: usize = 1024 * 1024;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    Text,
    /// Text that may be run.
    Script,
    /// A picture, a font or an archive.
    Data,
    /// A program for a machine, or bytes nobody can read.
    Binary,
    Link,
    /// A pipe, socket or device.
    Special,
}

/// One file of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillFile {
    /// Path below the skill.
    pub path: String,
    pub kind: FileKind,
    /// Bytes.
    pub size: u64,
    /// Rights, as in `0644`.
    pub mode: String,
}

/// Everything a skill brings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// Hash over names, rights and contents.
    pub hash: String,
    /// Its files, by path.
    pub files: Vec<SkillFile>,
    /// What deserves a second look.
    pub suspicions: Vec<Suspicion>,
}

/// Looks at every file of the skill in `folder`. Nothing is run, no link is followed.
///
/// # Errors
/// A file cannot be read, or the skill is larger than any should be.
pub fn inspect(folder: &Path) -> Result<Inspection, FileError> {
    let found = listed(folder)?;
    let mut total = 0;
    let mut hash = Sha256::new();
    let mut inspection = Inspection { hash: String::new(), files: Vec::new(), suspicions: Vec::new() };
    for path in found {
        let full = folder.join(&path);
        let metadata =
            std::fs::symlink_metadata(&full).map_err(|error| FileError::new("looking at", &full, error))?;
        total += metadata.len();
        if total > MAX_SKILL_SIZE {
            return Err(too_much(folder, "it is larger than 64 MiB"));
        }
        let looked = look(&full, &path, &metadata, &mut inspection.suspicions)?;
        // Lengths in front of parts, so that no two skills can share a hash by moving a border.
        for part in [path.as_bytes(), looked.file.mode.as_bytes(), &looked.content_hash] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        inspection.files.push(looked.file);
    }
    inspection.hash = format!("sha256:{}", to_hex(&hash.finalize()));
    Ok(inspection)
}

struct Looked {
    file: SkillFile,
    content_hash: Vec<u8>,
}

fn look(
    full: &Path,
    path: &str,
    metadata: &Metadata,
    suspicions: &mut Vec<Suspicion>,
) -> Result<Looked, FileError> {
    let mode = metadata.permissions().mode() & 0o7777;
    let mut suspect = |what| suspicions.push(Suspicion { file: path.to_owned(), line: None, what });
    let (kind, content_hash) = if metadata.is_symlink() {
        let target = std::fs::read_link(full).map_err(|error| FileError::new("reading", full, error))?;
        suspect("is a link to another place");
        (FileKind::Link, Sha256::digest(target.as_os_str().as_encoded_bytes()).to_vec())
    } else if metadata.is_file() {
        let content = read(full)?;
        let kind = kind_of(&content, mode);
        match kind {
            FileKind::Binary => suspect("is a binary whose content cannot be reviewed"),
            FileKind::Text | FileKind::Script => {
                let text = String::from_utf8_lossy(&content[..content.len().min(MAX_TEXT_SIZE)]).into_owned();
                suspicions.extend(suspicion::look(path, &text));
            }
            FileKind::Data | FileKind::Link | FileKind::Special => {}
        }
        (kind, Sha256::digest(&content).to_vec())
    } else {
        suspect("is a pipe, socket or device");
        (FileKind::Special, Vec::new())
    };
    if mode & 0o6000 != 0 {
        suspicions.push(Suspicion {
            file: path.to_owned(),
            line: None,
            what: "runs with the permissions of its owner",
        });
    }
    let file = SkillFile { path: path.to_owned(), kind, size: metadata.len(), mode: format!("{mode:04o}") };
    Ok(Looked { file, content_hash })
}

fn kind_of(content: &[u8], mode: u32) -> FileKind {
    const PROGRAMS: &[&[u8]] = &[
        b"\x7fELF",
        b"MZ",
        b"\xfe\xed\xfa\xce",
        b"\xfe\xed\xfa\xcf",
        b"\xce\xfa\xed\xfe",
        b"\xcf\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
        b"\0asm",
    ];
    const DATA: &[&[u8]] =
        &[b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"%PDF", b"wOFF", b"wOF2", b"OggS", b"ID3"];
    let head = &content[..content.len().min(8 * 1024)];
    if PROGRAMS.iter().any(|mark| head.starts_with(mark)) {
        return FileKind::Binary;
    }
    if DATA.iter().any(|mark| head.starts_with(mark)) && mode & 0o111 == 0 {
        return FileKind::Data;
    }
    if head.contains(&0) || std::str::from_utf8(content).is_err() {
        return FileKind::Binary;
    }
    if mode & 0o111 != 0 || head.starts_with(b"#!") { FileKind::Script } else { FileKind::Text }
}

/// Lists the paths of a skill's files, sorted.
pub(super) fn listed(folder: &Path) -> Result<Vec<String>, FileError> {
    let mut found = Vec::new();
    walk(folder, folder, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(root: &Path, folder: &Path, depth: usize, found: &mut Vec<String>) -> Result<(), FileError> {
    let failed = |error| FileError::new("listing", folder, error);
    if depth > MAX_DEPTH {
        return Err(too_much(root, "its folders are nested too deep"));
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(root, &path, depth + 1, found)?;
            continue;
        }
        if found.len() >= MAX_FILES {
            return Err(too_much(root, "it has more than 2000 files"));
        }
        let relative = path.strip_prefix(root).unwrap_or(&path);
        // A name that is not UTF-8 still counts and shows as well as it can.
        found.push(relative.to_str().map_or_else(|| format!("{relative:?}"), str::to_owned));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let failed = |error| FileError::new("reading", path, error);
    let mut content = Vec::new();
    file::open_read(path)?.take(MAX_SKILL_SIZE + 1).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

fn too_much(folder: &Path, why: &str) -> FileError {
    FileError::new("looking at", folder, std::io::Error::other(why.to_owned()))
}
