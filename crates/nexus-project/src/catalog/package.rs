//! A catalog from a folder in upstream's layout: `manifest.json`, and the instructions of roles and
//! skills in `agents/{id}/body.md` and `skills/{id}/body.md`, each with the hash the manifest gives.
//! Nothing of a package that is not whole is used.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::validate::{CatalogError, is_id, validate};
use super::{
    Agent, Capability, Catalog, Category, Invocation, MemoryCategory, MemoryPolicy, ModelTier, ResumeTier,
    Skill, Tag, TaskException, Vocabulary, Word,
};
use crate::document;

/// The contract whose packages are read.
const CONTRACT: &str = "2.";
/// The skill a package leaves to whoever uses it.
const SETUP: &str = "nx-setup";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    nexus_core_version: String,
    nexus_core_commit: String,
    schema_contract_version: String,
    agents: Vec<AgentEntry>,
    skills: Vec<SkillEntry>,
    vocabulary: Words,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentEntry {
    id: String,
    name: String,
    description: String,
    #[serde(default)]
    task: String,
    category: Category,
    resume_tier: ResumeTier,
    model_tier: ModelTier,
    capabilities: Vec<String>,
    #[serde(default, rename = "alias_ko")]
    _alias: Option<String>,
    body_hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkillEntry {
    id: String,
    name: String,
    description: String,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    triggers: Vec<String>,
    #[serde(default)]
    manual_only: bool,
    #[serde(default)]
    harness_docs_refs: Vec<String>,
    #[serde(default, rename = "alias_ko")]
    _alias: Option<String>,
    body_hash: String,
}

/// The words are read for what we use; packages may say more about each.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    capabilities: Vec<Capability>,
    categories: Vec<Value>,
    resume_tiers: Vec<Value>,
    tags: Vec<Tag>,
    invocations: Vec<InvocationEntry>,
    memory_policy: PolicyEntry,
    task_exceptions: Vec<ExceptionEntry>,
}

#[derive(Deserialize)]
struct InvocationEntry {
    id: String,
    description: String,
    intent: String,
    fallback_behavior: String,
}

#[derive(Deserialize)]
struct PolicyEntry {
    categories: Vec<CategoryEntry>,
    naming: Naming,
}

#[derive(Deserialize)]
struct CategoryEntry {
    prefix: String,
    description: String,
}

#[derive(Deserialize)]
struct Naming {
    pattern: String,
}

#[derive(Deserialize)]
struct ExceptionEntry {
    id: String,
    applies_when: String,
    treatment: String,
}

#[derive(Deserialize)]
struct WordEntry {
    id: String,
    description: String,
}

impl Catalog {
    /// Reads a package in upstream's layout from a folder, checked like the one built in. A package
    /// without a skill for setting up gets ours: upstream leaves that one to its users.
    ///
    /// # Errors
    /// A file is missing or not of its form, a hash does not fit, a text asks for something unknown, or
    /// an entry breaks a rule.
    pub fn load(folder: &Path) -> Result<Self, CatalogError> {
        let path = folder.join("manifest.json");
        let manifest: Manifest = parsed(&path, &bytes(&path)?)?;
        let wrong = |entry: &str, what| CatalogError::Entry { entry: entry.to_owned(), what };
        if !manifest.schema_contract_version.starts_with(CONTRACT) {
            return Err(wrong("manifest.json", "the contract version is not supported"));
        }
        let commit = &manifest.nexus_core_commit;
        let is_commit = (7..=40).contains(&commit.len())
            && commit.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
        if !is_commit || !is_release(&manifest.nexus_core_version) {
            return Err(wrong("manifest.json", "version or commit has an invalid format"));
        }
        let own = Self::embedded()?;
        let mut agents = Vec::new();
        for entry in manifest.agents {
            let body = body(folder, "agents", &entry.id, &entry.body_hash)?;
            let AgentEntry {
                id,
                name,
                description,
                task,
                category,
                resume_tier,
                model_tier,
                capabilities,
                ..
            } = entry;
            agents.push(Agent {
                id,
                name,
                description,
                task,
                category,
                resume_tier,
                model_tier,
                capabilities,
                body,
            });
        }
        let mut skills = Vec::new();
        for entry in manifest.skills {
            let body = body(folder, "skills", &entry.id, &entry.body_hash)?;
            let SkillEntry {
                id, name, description, summary, triggers, manual_only, harness_docs_refs, ..
            } = entry;
            skills.push(Skill {
                id,
                name,
                description,
                summary,
                triggers,
                manual_only,
                harness_docs_refs,
                body,
            });
        }
        if !skills.iter().any(|skill| skill.id == SETUP) {
            skills.extend(own.skill(SETUP).cloned());
        }
        let catalog = Self { agents, skills, vocabulary: vocabulary(&path, manifest.vocabulary, &own)? };
        validate(&catalog)?;
        Ok(catalog)
    }
}

fn vocabulary(path: &Path, words: Words, own: &Catalog) -> Result<Vocabulary, CatalogError> {
    let plain = |list: Vec<Value>| -> Result<Vec<Word>, CatalogError> {
        list.into_iter()
            .map(|value| {
                let WordEntry { id, description } =
                    serde_json::from_value(value).map_err(|error| read(path, &error))?;
                Ok(Word { id, description })
            })
            .collect()
    };
    let invocation = |entry: InvocationEntry| {
        // The manifest only sums requests up; what each takes is fixed by the contract.
        let known = own.vocabulary.invocations.iter().find(|known| known.id == entry.id);
        let params: BTreeMap<String, bool> =
            known.ok_or_else(|| CatalogError::Macro(format!("{} is unknown", entry.id)))?.params.clone();
        let InvocationEntry { id, description, intent, fallback_behavior } = entry;
        Ok(Invocation { id, description, intent, params, fallback_behavior })
    };
    Ok(Vocabulary {
        capabilities: words.capabilities,
        categories: plain(words.categories)?,
        resume_tiers: plain(words.resume_tiers)?,
        tags: words.tags,
        invocations: words.invocations.into_iter().map(invocation).collect::<Result<_, CatalogError>>()?,
        memory_policy: MemoryPolicy {
            file_name_pattern: words.memory_policy.naming.pattern,
            categories: words
                .memory_policy
                .categories
                .into_iter()
                .map(|entry| MemoryCategory { prefix: entry.prefix, description: entry.description })
                .collect(),
            // The rules are the contract's; packages tell them in prose.
            rules: own.vocabulary.memory_policy.rules.clone(),
        },
        task_exceptions: words
            .task_exceptions
            .into_iter()
            .map(|entry| TaskException { id: entry.id, when: entry.applies_when, treatment: entry.treatment })
            .collect(),
    })
}

/// Reads the instructions of a role or skill and compares their hash.
fn body(folder: &Path, kind: &str, id: &str, hash: &str) -> Result<String, CatalogError> {
    let wrong = |what| CatalogError::Entry { entry: id.to_owned(), what };
    // The id becomes a part of a path.
    if !is_id(id) {
        return Err(wrong("the id has an invalid format"));
    }
    let path = folder.join(kind).join(id).join("body.md");
    let text = String::from_utf8(bytes(&path)?).map_err(|_| wrong("the instructions are not UTF-8"))?;
    if body_hash(&text) != hash {
        return Err(wrong("the instructions do not match the manifest"));
    }
    Ok(text)
}

/// Returns the hash of instructions, which does not depend on how lines and the text end.
pub fn body_hash(text: &str) -> String {
    let mut text = text.replace("\r\n", "\n").trim_end().to_owned();
    text.push('\n');
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().fold("sha256:".to_owned(), |mut hash, byte| {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
        hash
    })
}

fn bytes(path: &Path) -> Result<Vec<u8>, CatalogError> {
    let unreadable = |what: String| CatalogError::Unreadable(format!("{}: {what}", path.display()));
    document::read_bytes(path)
        .map_err(|error| CatalogError::Unreadable(error.message()))?
        .ok_or_else(|| unreadable("it is missing".to_owned()))
}

fn parsed<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, CatalogError> {
    serde_json::from_slice(bytes).map_err(|error| read(path, &error))
}

fn read(path: &Path, error: &serde_json::Error) -> CatalogError {
    CatalogError::Unreadable(format!("{}: {error}", path.display()))
}

fn is_release(text: &str) -> bool {
    let numbers = text.split_once('-').map_or(text, |(numbers, _)| numbers);
    let parts: Vec<&str> = numbers.split('.').collect();
    parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}
