//! All skills of a workspace together: the listing, `state/skills/manifest.json`, and notes of use.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability, FileError};
use serde::Serialize;

use super::consent::{Consent, consent};
use super::head::SkillHead;
use super::inspect::{FileKind, Inspection, inspect};
use super::standing::{CredentialState, Standing, judge};
use crate::Layout;
use crate::trust::TrustFolder;

/// Format of the manifest.
const MANIFEST_VERSION: u32 = 4;

/// What judging skills needs to know of the machine.
pub struct Surroundings<'a> {
    /// Folders programs are looked up in.
    pub path: Vec<PathBuf>,
    /// How a service's credentials stand.
    pub credential: &'a dyn Fn(&str) -> CredentialState,
    /// Where the owner's consent is recorded.
    pub trust: &'a TrustFolder,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Surroundings").field("path", &self.path).finish_non_exhaustive()
    }
}

/// One skill in the listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Folder's name.
    pub name: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub head: SkillHead,
    pub status: Standing,
    /// What is missing, in words.
    pub missing: Vec<String>,
    /// Whether its owner accepted it as it is.
    pub consent: Consent,
    /// What it brings; none when it could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inspection: Option<Inspection>,
    /// Why it could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Entry {
    /// Returns what a person who accepts the skill gives it, in words.
    pub fn permissions(&self) -> Vec<String> {
        let mut granted = Vec::new();
        let requires = &self.head.requires;
        granted.extend(requires.credentials.iter().map(|service| format!("use the credential of {service}")));
        let programs: Vec<&str> =
            requires.bins.iter().chain(&requires.any_bins).map(String::as_str).collect();
        if !programs.is_empty() {
            granted.push(format!("run {}", programs.join(", ")));
        }
        if !self.head.allowed_tools.is_empty() {
            granted.push(format!("use the tools {}", self.head.allowed_tools.join(", ")));
        }
        if self.head.has_install {
            granted.push("give the assistant installation instructions".to_owned());
        }
        let scripts = self.inspection.iter().flat_map(|found| &found.files);
        if scripts.clone().any(|one| matches!(one.kind, FileKind::Script | FileKind::Binary)) {
            granted.push("bring programs of its own".to_owned());
        }
        granted
    }
}

/// What several skills make possible together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capability {
    pub name: String,
    /// As its best provider stands.
    pub status: Standing,
    /// Skills that provide it.
    pub providers: Vec<String>,
}

/// All skills of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// Format of the file.
    pub version: u32,
    /// When it was made.
    pub generated_at: Timestamp,
    /// The skills, by name.
    pub skills: Vec<Entry>,
    /// What they make possible, by name.
    pub capabilities: Vec<Capability>,
}

/// Why a use could not be noted.
pub type UsageError = FileError;

/// Looks at every skill of a workspace.
///
/// # Errors
/// The folder of skills exists but cannot be listed. A skill that cannot be read is listed as broken.
pub fn manifest(layout: &Layout, surroundings: &Surroundings<'_>) -> Result<Manifest, FileError> {
    let mut skills = Vec::new();
    for name in super::names(layout)? {
        skills.push(entry(layout, surroundings, name));
    }
    let capabilities = capabilities(&skills);
    Ok(Manifest { version: MANIFEST_VERSION, generated_at: Timestamp::now(), skills, capabilities })
}

/// Returns what skills make possible together, by name.
pub fn capabilities(skills: &[Entry]) -> Vec<Capability> {
    let mut capabilities: BTreeMap<&str, Capability> = BTreeMap::new();
    for skill in skills {
        for name in skill.head.capabilities.iter().chain(&skill.head.enables) {
            let capability = capabilities.entry(name).or_insert_with(|| Capability {
                name: name.clone(),
                status: skill.status,
                providers: Vec::new(),
            });
            // The best provider decides.
            capability.status = capability.status.min(skill.status);
            capability.providers.push(skill.name.clone());
        }
    }
    capabilities.into_values().collect()
}

fn entry(layout: &Layout, surroundings: &Surroundings<'_>, name: String) -> Entry {
    let text = super::read(layout, &name).ok().flatten();
    let head = SkillHead::read(text.as_deref().unwrap_or_default());
    let mut missing = Vec::new();
    let has_program = |program: &str| has_program(&surroundings.path, program);
    let was_used = usage_log(layout, &name).exists();
    let mut status = judge(&head, &has_program, surroundings.credential, was_used, &mut missing);
    let (inspection, problem) = match inspect(&layout.skills().join(&name)) {
        Ok(inspection) => (Some(inspection), None),
        Err(error) => {
            status = Standing::Broken;
            (None, Some(format!("{error}: {}", error.source)))
        }
    };
    let consent = match &inspection {
        Some(found) => consent(surroundings.trust, layout, &name, found),
        None => Consent::New,
    };
    Entry { name, head, status, missing, consent, inspection, problem }
}

/// Writes the manifest to `state/skills/manifest.json`.
///
/// # Errors
/// The folder is not writable or full.
pub fn write_manifest(layout: &Layout, manifest: &Manifest) -> Result<PathBuf, FileError> {
    let folder = layout.state().join("skills");
    file::create_folder(&folder, 0o700)?;
    let path = folder.join("manifest.json");
    let mut text = serde_json::to_vec_pretty(manifest)
        .map_err(|error| FileError::new("rendering", &path, error.into()))?;
    text.push(b'\n');
    file::replace(&path, &text, 0o600, Durability::Crash)?;
    Ok(path)
}

/// Notes that a skill was used.
///
/// # Errors
/// The log cannot be written.
pub fn note_use(layout: &Layout, name: &str) -> Result<(), UsageError> {
    let path = usage_log(layout, name);
    if let Some(parent) = path.parent() {
        file::create_folder(parent, 0o700)?;
    }
    let mut log = file::open_append(&path, 0o600)?;
    writeln!(log, "{}", Timestamp::now().0).map_err(|error| FileError::new("writing", path, error))
}

fn usage_log(layout: &Layout, name: &str) -> PathBuf {
    layout.state().join("skills").join(name).join("usage.log")
}

fn has_program(path: &[PathBuf], program: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    if program.is_empty() || program.contains('/') {
        return false;
    }
    path.iter().any(|folder| {
        std::fs::metadata(folder.join(program))
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
