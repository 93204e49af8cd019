//! Skills over the control plane: looked at, never run and never accepted from there.

use nexus_protocol::control::Named;
use nexus_protocol::control::answers::{SkillView, Skills};
use nexus_workspace::skills::{Entry, Manifest};
use serde_json::{Value, json};

use super::{broken, missing, shown_as};
use crate::{Runtime, RuntimeError};

impl Runtime {
    pub(super) async fn skills_status(&self) -> Result<Value, RuntimeError> {
        let found = self.look_at_skills().await?;
        // Files and hashes are what `skills.info` is for.
        let skills: Vec<Entry> =
            found.skills.into_iter().map(|skill| Entry { inspection: None, ..skill }).collect();
        shown_as::<Skills>(&json!({ "skills": skills, "capabilities": found.capabilities }))
    }

    pub(super) async fn skill_info(&self, named: Named) -> Result<Value, RuntimeError> {
        let found = self.look_at_skills().await?;
        let entry = found.skills.into_iter().find(|skill| skill.name == named.id);
        let entry = entry.ok_or_else(|| missing("skill", named.id))?;
        let mut view = json!(entry);
        view["permissions"] = json!(entry.permissions());
        shown_as::<SkillView>(&view)
    }

    async fn look_at_skills(&self) -> Result<Manifest, RuntimeError> {
        let options = &self.shared.control.options;
        let path = options.environment.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, folders)| std::env::split_paths(folders).collect()).unwrap_or_default();
        let (layout, trust) = (options.layout.clone(), options.trust_folder.clone());
        // Every file of every skill is hashed.
        let looked = tokio::task::spawn_blocking(move || crate::skills::look(&layout, &trust, path)).await;
        looked.map_err(|error| broken(&error))?.map_err(|error| broken(&error))
    }
}
