//! Tags in a conversation that has no project: what needs one says how to get one, and `[m]` becomes a memory.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_agent::ports::{Enrichment, Hooks};
use nexus_memory::Provenance;
use nexus_project::tags::{self, Routing};
use nexus_tools::ports::TurnFacts;

use super::Projects;

/// What opens a project.
const HOW: &str = "this conversation has no project. One is opened with `nexus chat --project PATH`, or with \
    `project` in chat.send";

/// Stands around the turns of a conversation without a project.
pub(super) struct NoProjectHooks {
    projects: Arc<Projects>,
}

impl NoProjectHooks {
    pub(super) fn new(projects: Arc<Projects>) -> Self {
        Self { projects }
    }

    async fn answers(&self, routing: &Routing) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(skill) = &routing.skill {
            lines.push(format!(
                "The person typed {}, but {HOW}. Tell them so; do nothing else about it.",
                skill.typed
            ));
        }
        for action in &routing.actions {
            if action.handler != "memory_store" {
                lines.push(format!("A tag the person used needs a project, but {HOW}. Tell them so."));
                continue;
            }
            let kept = self.projects.memory.remember(&action.input, None, Provenance::Owner).await;
            lines.push(match kept {
                Ok(_) => format!(
                    "Carried out for the person: remembered: {}. Tell them in a few words.",
                    action.input
                ),
                Err(error) => format!("[m] could not be carried out: {error}. Tell the person."),
            });
        }
        lines
    }
}

#[async_trait]
impl Hooks for NoProjectHooks {
    async fn context_ready(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        // Nearly every message has no tag, and pays nothing for those that have.
        if !turn.words.contains('[') && !turn.words.starts_with("/nx-") {
            return Vec::new();
        }
        let Ok(catalog) = self.projects.catalog() else { return Vec::new() };
        let routing = tags::route(&catalog, &turn.words);
        let lines = self.answers(&routing).await;
        if lines.is_empty() {
            return Vec::new();
        }
        vec![Enrichment { source: "project".to_owned(), text: lines.join("\n") }]
    }
}
