//! Automations that may run, as the hook runner looks them up.

use nexus_store::runtime::{Automation, AutomationStatus};
use nexus_store::{Store, StoreError};

use crate::hook_point::HookPoint;
use crate::shipped::SHIPPED;

/// Automations that are switched on, by name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActiveAutomations(Vec<Automation>);

impl ActiveAutomations {
    /// Returns those registered at a hook point, in the order they run.
    pub fn at(&self, hook: HookPoint) -> impl Iterator<Item = &Automation> {
        self.0.iter().filter(move |one| HookPoint::of_row(&one.definition.hook_point) == Some(hook))
    }

    /// Keeps only those whose code is in this program, for a workspace that is not trusted.
    ///
    /// The row's own word that it was shipped is not enough: the row came with the workspace.
    #[must_use]
    pub fn only_shipped(mut self) -> Self {
        self.0.retain(|one| {
            SHIPPED.iter().any(|shipped| {
                shipped.name == one.definition.name && shipped.script_path() == one.definition.script_path
            })
        });
        self
    }

    /// Goes through all of them by name.
    pub fn iter(&self) -> impl Iterator<Item = &Automation> {
        self.0.iter()
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads the automations that are switched on.
pub async fn load_active(store: &Store) -> Result<ActiveAutomations, StoreError> {
    let mut all = store.runtime().list_automations().await?;
    all.retain(|one| one.status == AutomationStatus::Active);
    Ok(ActiveAutomations(all))
}
