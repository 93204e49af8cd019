//! Which skills their owner accepted, by hash, recorded beside the trust records and so outside the
//! workspace: nothing inside it can accept itself, and a skill that changes is asked about again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability, FileError};
use nexus_base::id::to_hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::inspect::Inspection;
use crate::Layout;
use crate::trust::{self, TrustError, TrustFolder};

/// Largest record that is read.
const MAX_RECORD_SIZE: u64 = 1024 * 1024;

/// Whether the owner accepted a skill as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// Exactly this content was accepted.
    Accepted,
    /// Nobody was asked yet.
    New,
    /// Another content was accepted; it changed since.
    Changed,
}

impl Consent {
    /// Tells whether the skill may be followed.
    pub const fn is_given(self) -> bool {
        matches!(self, Self::Accepted)
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    version: u32,
    skills: BTreeMap<String, Accepted>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accepted {
    hash: String,
    accepted_at: Timestamp,
}

/// Tells whether the owner accepted a skill as it is; doubt means no.
pub fn consent(folder: &TrustFolder, layout: &Layout, name: &str, inspection: &Inspection) -> Consent {
    let record = record_path(folder, layout).ok().map(|path| read(&path)).unwrap_or_default();
    match record.skills.get(name) {
        Some(accepted) if accepted.hash == inspection.hash => Consent::Accepted,
        Some(_) => Consent::Changed,
        None => Consent::New,
    }
}

/// Records that the owner accepts a skill as it is.
///
/// # Errors
/// The workspace has no id, or the record cannot be written.
pub fn accept(
    folder: &TrustFolder,
    layout: &Layout,
    name: &str,
    inspection: &Inspection,
) -> Result<(), TrustError> {
    let path = record_path(folder, layout)?;
    let mut record = read(&path);
    record.version = 1;
    let accepted = Accepted { hash: inspection.hash.clone(), accepted_at: Timestamp::now() };
    record.skills.insert(name.to_owned(), accepted);
    if let Some(parent) = path.parent() {
        file::create_folder(parent, 0o700)?;
    }
    let mut text = serde_json::to_vec_pretty(&record)
        .map_err(|error| FileError::new("rendering", &path, error.into()))?;
    text.push(b'\n');
    file::replace(&path, &text, 0o600, Durability::PowerLoss)?;
    Ok(())
}

fn read(path: &std::path::Path) -> Record {
    file::read_text(path, MAX_RECORD_SIZE)
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok())
        .unwrap_or_default()
}

fn record_path(folder: &TrustFolder, layout: &Layout) -> Result<PathBuf, TrustError> {
    let id = trust::read_id(layout)?.ok_or_else(|| TrustError::NoId { path: layout.workspace_id() })?;
    let root =
        layout.root().canonicalize().map_err(|error| FileError::new("looking at", layout.root(), error))?;
    if folder.path().starts_with(&root) {
        return Err(TrustError::InsideWorkspace { path: folder.path().to_owned() });
    }
    // As with trust, a copy elsewhere is another workspace.
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    Ok(folder.path().join("skills").join(format!("{}-{}.json", id.as_str(), to_hex(&digest[..8]))))
}
