//! Tells memory who is who: the owner's name and the assistant's, once onboarding has settled them.

use nexus_automation::ports::Learn as _;
use nexus_base::clock::Timestamp;
use nexus_memory::{Utterance, Voice};
use nexus_workspace::persona;

use super::Automations;

/// Where it is kept what memory was told.
const INTRODUCED: &str = "memory.introduced";
/// The automation whose work this is.
const WRITER: &str = "memory-writer";

impl Automations {
    /// Tells memory the names that the identity files give, unless it was told them before.
    pub(crate) async fn introduce(&self) {
        let mut introduced = self.introduced.lock().await;
        if introduced.is_some() || !self.runner.is_active(WRITER) {
            return;
        }
        let Some((owner, assistant)) = self.names() else { return };
        let told = format!("{owner}\n{assistant}");
        let known = self.store.runtime().kv_get(INTRODUCED).await.unwrap_or_default();
        if known.as_deref() != Some(told.as_str()) {
            for text in [format!("My name is {owner}."), format!("Your name is {assistant}.")] {
                let utterance = Utterance { text, voice: Voice::Owner, at: Timestamp::now(), event: None };
                if let Err(error) = self.learn.learn(utterance).await {
                    tracing::warn!(%error, "identity facts not stored in memory");
                    return;
                }
            }
            nexus_base::failpoint::hit("memory.introduced");
            if let Err(error) = self.store.runtime().kv_set(INTRODUCED, &told).await {
                tracing::warn!(%error, "storing of identity facts not recorded");
                return;
            }
        }
        *introduced = Some(told);
    }

    /// Returns what the owner and the assistant are called, once both are known.
    fn names(&self) -> Option<(String, String)> {
        let settings = &self.settings;
        let active = persona::active_persona(&settings.layout, &settings.settings()).ok().flatten()?;
        let user = active.user.as_ref()?.front_matter();
        let owner = user.get("name")?.trim().to_owned();
        (!owner.is_empty()).then_some((owner, active.name))
    }
}
