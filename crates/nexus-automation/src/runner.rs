//! The runner: at a hook point, blocking automations one after the other and the others on their own.
//!
//! Whatever an automation does, whoever reached the hook point goes on: errors, panics and timeouts end in
//! the automation's own row and nowhere else.

mod one;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use nexus_base::id::new_ulid;
use nexus_base::redact::Redactor;
use nexus_base::task::Tasks;
use nexus_store::runtime::{Automation, InvocationOutcome};
use nexus_store::{Runtime, Store, StoreError};
use tokio::sync::Semaphore;

use crate::hook_point::HookPoint;
use crate::occasion::Occasion;
use crate::ports::Handler;
use crate::registry::load_active;
use crate::registry::{Entry, Registry};
use crate::verdict::Verdict;

pub use self::one::Tried;
pub use self::one::{Handled, Merged};

/// Automations nobody waits for that run at the same time; more wait for a place.
const DETACHED_AT_ONCE: usize = 8;

/// One ended run, for those who watch.
#[derive(Debug, Clone)]
pub struct Ran<'a> {
    /// The automation's name.
    pub automation: &'a str,
    /// Where it ran.
    pub hook: HookPoint,
    /// What led there.
    pub occasion: &'a Occasion,
    /// How it ended.
    pub outcome: InvocationOutcome,
    /// Why it failed.
    pub error: Option<&'a str>,
}

/// Is told about every run that ended.
pub type Watch = Box<dyn Fn(&Ran<'_>) + Send + Sync>;

/// Is told what a program did that is meant to improve itself.
pub type Reflect = Box<dyn Fn(&Automation, &Occasion, &Verdict) + Send + Sync>;

/// What a runner is made of.
pub struct RunnerParts {
    /// Where automations and their runs are kept.
    pub store: Store,
    /// Code of ours, by the automation's `builtin:` name.
    pub builtins: HashMap<String, Arc<dyn Handler>>,
    /// Runs the owner's programs.
    pub programs: Arc<dyn Handler>,
    /// Hides secrets in what is kept of errors.
    pub redactor: Arc<Redactor>,
    /// Whether programs that came with the workspace may run: asked whenever automations are loaded.
    pub is_trusted: Box<dyn Fn() -> bool + Send + Sync>,
    /// Is told about ended runs.
    pub watch: Watch,
    /// Lets the owner's programs think about their work, where they are meant to.
    pub reflect: Reflect,
}

impl std::fmt::Debug for RunnerParts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RunnerParts").finish_non_exhaustive()
    }
}

/// Runs automations; cheap to clone.
#[derive(Debug, Clone)]
pub struct Runner {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    parts: RunnerParts,
    registry: ArcSwap<Registry>,
    tasks: Tasks,
    places: Arc<Semaphore>,
}

impl Runner {
    /// Makes a runner that knows no automation yet; see [`Runner::reload`].
    pub fn new(parts: RunnerParts) -> Self {
        Self {
            shared: Arc::new(Shared {
                parts,
                registry: ArcSwap::default(),
                tasks: Tasks::default(),
                places: Arc::new(Semaphore::new(DETACHED_AT_ONCE)),
            }),
        }
    }

    /// Reads which automations may run; from here on exactly those do. Returns how many.
    ///
    /// # Errors
    /// They cannot be read; the ones known so far stay.
    pub async fn reload(&self) -> Result<usize, StoreError> {
        self.shared.reload().await
    }

    /// Tells whether anything would run at a hook point. Cheap: it is asked on every turn.
    pub fn waits_at(&self, hook: HookPoint) -> bool {
        !self.shared.registry.load().at(hook).is_empty()
    }

    /// Tells whether an automation of that name may run.
    pub fn is_active(&self, name: &str) -> bool {
        self.shared.registry.load().find(name).is_some()
    }

    /// Runs what waits at a hook point: blocking ones in the order of their names, then the others
    /// without waiting for them.
    pub async fn fire(&self, hook: HookPoint, occasion: Occasion) -> Merged {
        let mut merged = Merged::default();
        let occasion = Arc::new(occasion);
        let (waited_for, detached) = self.chosen(hook, &occasion, &mut merged);
        for entry in waited_for {
            // Once one has dealt with the event there is nothing left to decide.
            if merged.handled.is_some() {
                break;
            }
            let tried = self.shared.run(&entry, Arc::clone(&occasion), new_ulid()).await;
            merged.add(&entry.automation.definition.name, tried);
        }
        for entry in detached {
            self.detach(entry, Arc::clone(&occasion), new_ulid());
        }
        merged
    }

    /// Runs what waits at a hook point, nobody waiting for any of it.
    pub fn fire_detached(&self, hook: HookPoint, occasion: Occasion) {
        let occasion = Arc::new(occasion);
        let (waited_for, detached) = self.chosen(hook, &occasion, &mut Merged::default());
        for entry in waited_for.into_iter().chain(detached) {
            self.detach(entry, Arc::clone(&occasion), new_ulid());
        }
    }

    /// Runs those that nobody waits for, each once for `cause` however often this is called: what led
    /// here is told again after a crash. When this returns, the triggers are on disk.
    ///
    /// # Errors
    /// A trigger could not be kept; calling again goes on where this stopped.
    pub async fn fire_once(
        &self,
        hook: HookPoint,
        cause: &str,
        occasion: Occasion,
    ) -> Result<(), StoreError> {
        let occasion = Arc::new(occasion);
        let (_, detached) = self.chosen(hook, &occasion, &mut Merged::default());
        for entry in detached {
            let id = format!("{cause}:{}", entry.automation.definition.name);
            let start = one::start_row(&entry, &occasion, id.clone());
            if self.shared.runtime().invocation_started_once(start).await? {
                self.detach(entry, Arc::clone(&occasion), id);
            }
        }
        Ok(())
    }

    /// Runs the blocking ones only; see [`Runner::fire_once`] for the others.
    pub async fn fire_blocking(&self, hook: HookPoint, occasion: Occasion) -> Merged {
        let mut merged = Merged::default();
        let occasion = Arc::new(occasion);
        let (waited_for, _) = self.chosen(hook, &occasion, &mut merged);
        for entry in waited_for {
            let tried = self.shared.run(&entry, Arc::clone(&occasion), new_ulid()).await;
            merged.add(&entry.automation.definition.name, tried);
        }
        merged
    }

    /// Runs one automation now, whatever its triggers say; `None` when it may not run at all.
    pub async fn run_now(&self, name: &str, occasion: Occasion) -> Option<Tried> {
        let entry = self.shared.registry.load().find(name).cloned()?;
        Some(self.shared.run(&entry, Arc::new(occasion), new_ulid()).await)
    }

    /// Tries an automation out, switched on or not. Nothing about it is kept or counted.
    pub async fn try_out(&self, automation: Automation, occasion: Occasion) -> Tried {
        let hook = HookPoint::of_row(&automation.definition.hook_point).unwrap_or(HookPoint::RunAutomations);
        self.shared.try_out(automation, hook, occasion).await
    }

    /// Runs something beside everything else; [`Runner::drain`] waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.tasks.spawn("automations", work);
    }

    /// Waits for runs under way, no longer than `patience`.
    pub async fn drain(&self, patience: Duration) {
        self.shared.tasks.close();
        if tokio::time::timeout(patience, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!(left = self.shared.tasks.len(), "automations still running were cut off");
        }
    }

    fn chosen(
        &self,
        hook: HookPoint,
        occasion: &Occasion,
        merged: &mut Merged,
    ) -> (Vec<Arc<Entry>>, Vec<Arc<Entry>>) {
        if occasion.is_own_work() {
            return (Vec::new(), Vec::new());
        }
        let registry = self.shared.registry.load();
        let met: Vec<Arc<Entry>> =
            registry.at(hook).iter().filter(|entry| entry.triggers.are_met_by(occasion)).cloned().collect();
        merged.matched.extend(met.iter().map(|entry| entry.automation.definition.name.clone()));
        met.into_iter().partition(|entry| entry.blocks())
    }

    fn detach(&self, entry: Arc<Entry>, occasion: Arc<Occasion>, invocation: String) {
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn("automation", async move {
            // The semaphore is never closed; without a place it would only run beside too many others.
            let _place = Arc::clone(&shared.places).acquire_owned().await;
            shared.run(&entry, occasion, invocation).await;
        });
    }
}

impl Shared {
    async fn reload(&self) -> Result<usize, StoreError> {
        let mut active = load_active(&self.parts.store).await?;
        if !(self.parts.is_trusted)() {
            active = active.only_shipped();
        }
        let registry = Registry::new(&active, &self.registry.load());
        let count = registry.len();
        self.registry.store(Arc::new(registry));
        Ok(count)
    }

    fn runtime(&self) -> &Runtime {
        self.parts.store.runtime()
    }
}
