//! The catalog: nine roles, five skills and the words they share, embedded and checked. What a role
//! may not do is settled here; how a harness enforces it is for others.

pub(crate) mod macros;
mod package;
mod validate;

#[cfg(test)]
mod package_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use nexus_base::words;
use serde::Deserialize;

pub use package::body_hash;
pub use validate::{CatalogError, validate};
pub(crate) use validate::{FILE_CLASSES, SHELL_CLASSES};
pub use validate::{LEAD_ONLY, denied_tools, effective};

words! {
    /// What a role is for.
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Category {
        /// Advises.
        How = "how",
        /// Makes.
        Do = "do",
        /// Verifies.
        Check = "check",
    }
}

words! {
    /// Whether an instance of a role may go on with what it knows.
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ResumeTier {
        /// Across tasks.
        Persistent = "persistent",
        /// With the same files only.
        Bounded = "bounded",
        /// Never.
        Ephemeral = "ephemeral",
    }
}

/// How strong a model a role wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    /// The best there is.
    High,
    /// An ordinary one.
    Standard,
}

/// A role.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What it is given.
    #[serde(default)]
    pub task: String,
    pub category: Category,
    /// Whether it may be resumed.
    pub resume_tier: ResumeTier,
    /// Which model it wants.
    pub model_tier: ModelTier,
    /// What it may not do.
    pub capabilities: Vec<String>,
    /// Its instructions.
    #[serde(skip)]
    pub body: String,
}

/// A way of working that a tag or a command starts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skill {
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The same in a few words.
    #[serde(default)]
    pub summary: String,
    /// Ids of tags that start it.
    #[serde(default)]
    pub triggers: Vec<String>,
    /// Started by a person's own command only.
    #[serde(default)]
    pub manual_only: bool,
    /// Documents of the harness that go with it.
    #[serde(default)]
    pub harness_docs_refs: Vec<String>,
    /// Its instructions.
    #[serde(skip)]
    pub body: String,
}

/// Something a role may not do.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Capability {
    pub id: String,
    /// What it denies.
    pub description: String,
    /// The denial as a word for machines.
    pub intent: String,
    /// Kinds of tools it denies.
    pub blocks_semantic_classes: Vec<String>,
    /// How to tell whether a tool is of such a kind.
    pub prose_guidance: String,
}

/// A word with a meaning: a category or a resume tier.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// The word.
    pub id: String,
    /// What it means.
    pub description: String,
}

/// What a tag does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagKind {
    /// Starts a skill.
    Skill,
    /// Does one thing at once.
    InlineAction,
}

/// A tag in brackets.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    pub id: String,
    /// How it is typed.
    pub trigger: String,
    /// What it does.
    #[serde(rename = "type")]
    pub kind: TagKind,
    /// The skill it starts.
    pub skill: Option<String>,
    /// The action it takes.
    pub handler: Option<String>,
    /// What it does, for people.
    pub description: String,
    /// What may follow the id after a colon.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Advice on using it.
    pub prose_guidance: Option<String>,
}

/// Something a skill's text may ask of the harness.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Its name in the text.
    pub id: String,
    /// What it asks.
    pub description: String,
    /// The same as a word for machines.
    pub intent: String,
    /// Its parameters, and whether each is required.
    pub params: BTreeMap<String, bool>,
    /// What to do where a harness has nothing of the kind.
    pub fallback_behavior: String,
}

/// What memory files are and how they come and go.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryPolicy {
    /// What their names match.
    pub file_name_pattern: String,
    /// Kinds, told by the beginning of the name.
    pub categories: Vec<MemoryCategory>,
    pub rules: Vec<Word>,
}

/// A kind of memory file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryCategory {
    /// The beginning of its name.
    pub prefix: String,
    /// What belongs there.
    pub description: String,
}

/// When tasks are cut otherwise than usual.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskException {
    /// Its id, which the task's context names.
    pub id: String,
    /// When it applies.
    pub when: String,
    /// What is done then.
    pub treatment: String,
}

/// The words everything shares.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// What roles may not do.
    pub capabilities: Vec<Capability>,
    /// What roles are for.
    pub categories: Vec<Word>,
    /// Whether instances go on.
    pub resume_tiers: Vec<Word>,
    /// Tags in messages.
    pub tags: Vec<Tag>,
    /// What skills may ask of a harness.
    pub invocations: Vec<Invocation>,
    /// How memory is kept.
    pub memory_policy: MemoryPolicy,
    /// When tasks are cut otherwise.
    pub task_exceptions: Vec<TaskException>,
}

/// Roles, skills and words.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The roles.
    pub agents: Vec<Agent>,
    pub skills: Vec<Skill>,
    /// The words.
    pub vocabulary: Vocabulary,
}

macro_rules! bodies {
    ($folder:literal: $($id:literal),+) => {
        &[$(($id, include_str!(concat!("../catalog/", $folder, "/", $id, ".md")))),+]
    };
}

const AGENT_BODIES: &[(&str, &str)] = bodies!("agents": "architect", "designer", "postdoc", "strategist", "engineer",
    "writer", "researcher", "tester", "reviewer");
const SKILL_BODIES: &[(&str, &str)] =
    bodies!("skills": "nx-plan", "nx-run", "nx-sync", "nx-init", "nx-setup");

impl Catalog {
    /// Returns the catalog built in, checked.
    ///
    /// # Errors
    /// It is not sound; a test sees to it that it is.
    pub fn embedded() -> Result<Self, CatalogError> {
        let read = |error: serde_json::Error| CatalogError::Unreadable(error.to_string());
        let mut agents: Vec<Agent> =
            serde_json::from_str(include_str!("../catalog/agents.json")).map_err(read)?;
        let mut skills: Vec<Skill> =
            serde_json::from_str(include_str!("../catalog/skills.json")).map_err(read)?;
        let vocabulary = serde_json::from_str(include_str!("../catalog/vocabulary.json")).map_err(read)?;
        let body = |bodies: &[(&str, &str)], id: &str| {
            let found = bodies.iter().find(|(name, _)| *name == id).map(|(_, body)| (*body).to_owned());
            found.unwrap_or_default()
        };
        for agent in &mut agents {
            agent.body = body(AGENT_BODIES, &agent.id);
        }
        for skill in &mut skills {
            skill.body = body(SKILL_BODIES, &skill.id);
        }
        let catalog = Self { agents, skills, vocabulary };
        validate(&catalog)?;
        Ok(catalog)
    }

    /// Finds a role.
    pub fn agent(&self, id: &str) -> Option<&Agent> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// Finds a skill.
    pub fn skill(&self, id: &str) -> Option<&Skill> {
        self.skills.iter().find(|skill| skill.id == id)
    }
}
