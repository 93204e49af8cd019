//! What a folder is bound to: the workspace that goes with it, if there is one, its persona, the
//! catalog, and the texts made of them.

use std::path::{Path, PathBuf};

use nexus_base::clock::Zone;
use nexus_base::id::to_hex;
use nexus_project::catalog::{Catalog, Skill};
use nexus_project::harness::{HarnessId, ToolLog};
use nexus_project::skills;
use nexus_workspace::Layout;
use nexus_workspace::config::{Settings, ToolLogPlace};
use nexus_workspace::persona::{self, Persona, PersonaText};
use nexus_workspace::templates::INTRODUCTION_MD;
use sha2::{Digest, Sha256};

use crate::{BindingError, Harness};

/// What stands in every instruction file, whatever the harness.
const PROJECT_TEXT: &str = include_str!("../assets/project.md");

/// Largest instruction file that is looked into.
const MAX_INSTRUCTIONS: u64 = 1024 * 1024;
/// How a line begins that says what a copied text was made of.
const SOURCE: &str = "<!-- nexus:source sha256:";

/// A folder and what it is bound to.
#[derive(Debug)]
pub struct Ground {
    root: PathBuf,
    workspace: Option<Layout>,
    persona: Option<Persona>,
    catalog: Catalog,
    tool_log: ToolLog,
    has_untrusted_workspace: bool,
}

impl Ground {
    /// Looks at a folder. `workspace` is the one that goes with it, with its settings.
    pub fn survey(root: &Path, workspace: Option<(&Layout, &Settings)>) -> Result<Self, BindingError> {
        let root = std::fs::canonicalize(root)
            .map_err(|error| nexus_base::file::FileError::new("find", root, error))?;
        let persona = match workspace {
            Some((layout, settings)) => persona::active_persona(layout, settings)?,
            None => None,
        };
        // As the daemon has it, so that every harness meets the same roles.
        let package = workspace
            .and_then(|(layout, settings)| Some(layout.root().join(settings.project.catalog.as_deref()?)));
        let catalog = match package {
            Some(folder) => Catalog::load(&folder)?,
            None => Catalog::embedded()?,
        };
        let tool_log = match workspace.map(|(_, settings)| settings.project.tool_log) {
            Some(ToolLogPlace::Harness) => ToolLog::Harness,
            Some(ToolLogPlace::Shared) | None => ToolLog::Shared,
        };
        Ok(Self {
            root,
            workspace: workspace.map(|(layout, _)| layout.clone()),
            persona,
            catalog,
            tool_log,
            has_untrusted_workspace: false,
        })
    }

    /// Looks at a folder whose workspace nobody trusted: nothing of that workspace is used.
    pub fn survey_untrusted(root: &Path) -> Result<Self, BindingError> {
        Ok(Self { has_untrusted_workspace: true, ..Self::survey(root, None)? })
    }

    /// Returns whether the workspace that goes with the folder is left aside because nobody trusted it.
    pub fn has_untrusted_workspace(&self) -> bool {
        self.has_untrusted_workspace
    }

    /// Returns the folder that is bound.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether any workspace goes with the folder.
    pub fn has_workspace(&self) -> bool {
        self.workspace.is_some()
    }

    /// Returns whether the folder is the workspace itself.
    pub fn is_workspace(&self) -> bool {
        self.workspace
            .as_ref()
            .is_some_and(|layout| std::fs::canonicalize(layout.root()).is_ok_and(|root| root == self.root))
    }

    /// Returns where tool calls in projects are written down.
    pub fn tool_log(&self) -> ToolLog {
        self.tool_log
    }

    /// Returns the roles and skills in force.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the identity files, relative to the workspace, when the folder is the workspace.
    pub(crate) fn identity_files(&self) -> Vec<String> {
        if !self.is_workspace() {
            return Vec::new();
        }
        self.texts().map(|(_, text)| text.file.clone()).collect()
    }

    /// Returns the block of an instruction file that can import: `@` and a path, one on each line.
    pub(crate) fn import_block(&self, sign: &str) -> String {
        let mut lines = vec![format!("{sign}AGENTS.md")];
        lines.extend(self.identity_files().iter().map(|file| format!("{sign}{file}")));
        lines.join("\n")
    }

    /// Returns the block of `AGENTS.md`. Outside the workspace it carries copies of the identity
    /// files, because nothing there can import them.
    pub(crate) fn agents_block(&self) -> String {
        let mut block = PROJECT_TEXT.trim_end().to_owned();
        if self.is_workspace() || self.persona.is_none() {
            return block;
        }
        block.push_str(&format!("\n\n{SOURCE}{} -->", self.source_hash()));
        for (title, text) in self.texts() {
            block.push_str(&format!("\n\n## {title}\n\n{}", text.text.trim()));
        }
        block
    }

    /// Returns the parts of who the agent is and whom it works for.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&'static str, &PersonaText)> {
        self.persona.iter().flat_map(|persona| {
            [
                Some(("Agent Identity", &persona.identity)),
                persona.soul.as_ref().map(|soul| ("Agent Soul", soul)),
                persona.user.as_ref().map(|user| ("User Identity", user)),
            ]
            .into_iter()
            .flatten()
        })
    }

    /// Returns the time zone the owner lives in: the one their profile names, else this machine's.
    pub(crate) fn zone(&self) -> Zone {
        self.persona.as_ref().map_or_else(Zone::system, Persona::zone)
    }

    /// Returns what the assistant is called.
    pub(crate) fn name(&self) -> Option<&str> {
        self.persona.as_ref().map(|persona| persona.name.as_str())
    }

    /// Returns what a harness is told of a workspace that nobody has introduced themselves to.
    pub(crate) fn introduction(&self) -> Option<&'static str> {
        (self.has_workspace() && self.persona.is_none()).then_some(INTRODUCTION_MD)
    }

    /// Tells whether files that a harness reads by itself carry who the agent is, as it is now.
    pub(crate) fn is_told_by_files(&self, harness: Harness) -> bool {
        let lines = |file: &str| -> Vec<String> {
            let text =
                nexus_base::file::read_text(&self.root.join(file), MAX_INSTRUCTIONS).unwrap_or_default();
            text.lines().map(|line| line.trim().to_owned()).collect()
        };
        let imports = |file: &str, sign: &str, wanted: &str| lines(file).contains(&format!("{sign}{wanted}"));
        if !self.is_workspace() {
            let copied = lines("AGENTS.md").contains(&format!("{SOURCE}{} -->", self.source_hash()));
            let is_read = match harness {
                Harness::ClaudeCode => imports("CLAUDE.md", "@", "AGENTS.md"),
                Harness::Gemini => imports("GEMINI.md", "@./", "AGENTS.md"),
                Harness::Codex | Harness::Cursor | Harness::OpenCode | Harness::Qwen => true,
            };
            return self.persona.is_some() && copied && is_read;
        }
        let files = self.identity_files();
        let is_named = |file: &String| match harness {
            Harness::ClaudeCode => imports("CLAUDE.md", "@", file),
            Harness::Gemini => imports("GEMINI.md", "@./", file),
            Harness::OpenCode => ["opencode.json", "opencode.jsonc"]
                .iter()
                .any(|settings| lines(settings).iter().any(|line| line.contains(&format!("\"{file}\"")))),
            Harness::Codex | Harness::Cursor | Harness::Qwen => false,
        };
        !files.is_empty() && files.iter().all(is_named)
    }

    /// Returns the identity files that the first conversation left unwritten.
    pub(crate) fn missing(&self) -> Vec<String> {
        let stage = self.workspace.as_ref().and_then(|layout| persona::onboarding(layout).ok());
        stage.map(|stage| stage.missing().to_vec()).unwrap_or_default()
    }

    /// Returns a skill in words that every harness understands.
    pub(crate) fn skill_body(&self, skill: &Skill) -> Result<String, BindingError> {
        // Files in the common folder are read by several harnesses, so their words are nobody's own.
        let anybody = HarnessId::new("agents")?;
        Ok(skills::instructions(&self.catalog, &anybody, &skill.id, None)?.text)
    }

    fn source_hash(&self) -> String {
        let mut hasher = Sha256::new();
        for (title, text) in self.texts() {
            hasher.update(title.as_bytes());
            hasher.update(text.text.as_bytes());
        }
        to_hex(&hasher.finalize())
    }
}
