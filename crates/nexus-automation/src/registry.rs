//! Which automations may run where, ready to be asked on every turn without a query.
//! Automations that may run, as the hook runner looks them up.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nexus_store::runtime::{Automation, AutomationMode, AutomationStatus};
use nexus_store::{Store, StoreError};

use crate::circuit::Breaker;
use crate::hook_point::HookPoint;
use crate::shipped::SHIPPED;
use crate::triggers::Triggers;

/// One automation as it runs.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) automation: Arc<Automation>,
    pub(crate) hook: HookPoint,
    pub(crate) triggers: Triggers,
    pub(crate) breaker: Breaker,
    /// A one-shot that has begun its one run.
    taken: AtomicBool,
}

impl Entry {
    /// Takes the one run of a one-shot; always true for the others.
    pub(crate) fn take(&self) -> bool {
        match self.automation.definition.mode {
            AutomationMode::Persistent => true,
            AutomationMode::OneShot => !self.taken.swap(true, Ordering::AcqRel),
        }
    }

    /// Gives the one run back, because it came to nothing.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Tells whether whatever reached the hook point waits for it.
    pub(crate) fn blocks(&self) -> bool {
        self.hook.may_block() && self.automation.definition.blocking
    }
}

/// All automations that may run, by hook point and then by name.
#[derive(Debug)]
pub(crate) struct Registry {
    by_hook: [Vec<Arc<Entry>>; HookPoint::ALL.len()],
}

impl Default for Registry {
    fn default() -> Self {
        Self { by_hook: array::from_fn(|_| Vec::new()) }
    }
}

impl Registry {
    /// Makes a registry. What is known about an automation that did not change since `before` (its
    /// failures, its one run) is carried over.
    pub(crate) fn new(active: &ActiveAutomations, before: &Self) -> Self {
        let mut registry = Self::default();
        for automation in active.iter() {
            let Some(hook) = HookPoint::of_row(&automation.definition.hook_point) else {
                tracing::warn!(
                    automation = automation.definition.name,
                    hook = automation.definition.hook_point,
                    "automation skipped: unknown hook point"
                );
                continue;
            };
            let triggers = match Triggers::read(automation.definition.triggers.as_ref()) {
                Ok(triggers) => triggers,
                Err(error) => {
                    // Running it whenever the hook point is reached would be more than its owner wanted.
                    tracing::warn!(
                        automation = automation.definition.name,
                        error,
                        "automation skipped: its conditions cannot be read"
                    );
                    continue;
                }
            };
            let same = before.at(hook).iter().find(|known| {
                known.automation.id == automation.id && known.automation.updated_at == automation.updated_at
            });
            let entry = same.map_or_else(
                || {
                    Arc::new(Entry {
                        automation: Arc::new(automation.clone()),
                        hook,
                        triggers,
                        breaker: Breaker::of(automation),
                        taken: AtomicBool::new(false),
                    })
                },
                Arc::clone,
            );
            registry.by_hook[hook.index()].push(entry);
        }
        for entries in &mut registry.by_hook {
            entries
                .sort_by(|one, other| one.automation.definition.name.cmp(&other.automation.definition.name));
        }
        registry
    }

    /// Returns those at a hook point, by name.
    pub(crate) fn at(&self, hook: HookPoint) -> &[Arc<Entry>] {
        &self.by_hook[hook.index()]
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_hook.iter().flatten().find(|entry| entry.automation.definition.name == name)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_hook.iter().map(Vec::len).sum()
    }
}

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
