//! Automations in the daemon: the runner with everything the shipped ones need, and the places in a
//! request at which it is asked.

mod catch_up;
mod ended;
mod introduction;
mod own_turn;
mod own_work;
mod requests;
mod stages;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sessions::{AgentRequest, Broker};
use nexus_automation::ports::{Learn, Think};
use nexus_automation::{
    BootMd, CommandLogger, Handler, HookPoint, Merged, Occasion, Programs, Quiet, Ran, Reader, Reflection,
    Runner, RunnerParts, Writer, WriterParts,
};
use nexus_base::redact::Redactor;
use nexus_memory::Memory;
use nexus_process::{FileRecord, GroupRecord};
use nexus_protocol::bus::BusBody;
use nexus_store::runtime::InvocationOutcome;
use nexus_store::{Store, StoreError};
use nexus_workspace::config::MemoryAgent;

use crate::Bus;
use crate::live_settings::LiveSettings;
use crate::pipeline::Pipeline;
use nexus_models::Models;
use nexus_workspace::StartOptions;
use tokio_util::sync::CancellationToken;

pub(crate) use self::own_work::OwnWork;
pub use self::requests::PendingRequests;
use self::turn::TurnHooks;

/// The automation that reads memory before workers start.
const READER: &str = "memory-reader";
/// How long automations may go on after a stop was asked for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The daemon's automations.
#[derive(Debug)]
pub struct Automations {
    pub runner: Runner,
    pub(crate) quiet: Arc<Quiet>,
    store: Store,
    settings: Arc<LiveSettings>,
    writer: Arc<Writer>,
    /// What the owner and the assistant were called when memory was last told.
    introduced: tokio::sync::Mutex<Option<String>>,
    learn: Learner,
    /// Ends the answering of what automations ask for.
    stopped: CancellationToken,
}

/// What automations are made of.
#[expect(missing_debug_implementations, reason = "lives for one call, and some parts show nothing")]
pub struct Parts<'a> {
    pub options: &'a StartOptions,
    pub store: &'a Store,
    pub memory: &'a Memory,
    pub settings: &'a Arc<LiveSettings>,
    pub models: &'a Models,
    pub processes: &'a Arc<FileRecord>,
    pub redactor: &'a Arc<Redactor>,
    pub bus: &'a Bus,
}

/// Makes facts without a model.
#[derive(Debug, Clone)]
struct Learner(Memory);

#[async_trait::async_trait]
impl Learn for Learner {
    async fn learn(
        &self,
        utterance: nexus_memory::Utterance,
    ) -> Result<nexus_memory::Learnt, nexus_automation::RunError> {
        self.0.learn(utterance).await.map_err(|error| nexus_automation::RunError(error.to_string()))
    }
}

impl Automations {
    /// Puts them together; none is known before [`Automations::load`], and what they ask for is answered from
    /// [`Automations::serve`] on.
    pub fn new(parts: &Parts<'_>) -> (Arc<Self>, PendingRequests) {
        let Parts { options, store, memory, settings, models, processes, redactor, bus } = parts;
        let setting = |read: fn(&nexus_workspace::config::MemorySettings) -> Duration| {
            let settings = Arc::clone(settings);
            Box::new(move || read(&settings.settings().memory)) as Box<dyn Fn() -> Duration + Send + Sync>
        };
        let with_model = |wanted: fn(&nexus_workspace::config::MemorySettings) -> MemoryAgent| {
            let settings = Arc::clone(settings);
            Box::new(move || wanted(&settings.settings().memory) == MemoryAgent::Model)
                as Box<dyn Fn() -> bool + Send + Sync>
        };
        let trusted = || {
            let options = (*options).clone();
            Box::new(move || options.standing().is_trusted()) as Box<dyn Fn() -> bool + Send + Sync>
        };
        let quiet = Arc::new(Quiet::new(setting(|memory| memory.quiet)));
        let (requests, pending) = requests::channel((*models).clone());
        let think: Arc<dyn Think> = Arc::new(requests.clone());
        let reflection = Arc::new(Reflection::new(
            store.runtime().clone(),
            Arc::clone(&think),
            Arc::clone(&quiet),
            setting(|memory| memory.reflection_interval),
        ));
        let learn = Learner((*memory).clone());
        let reader = Reader::new(
            (*memory).clone(),
            options.layout.clone(),
            Arc::clone(&think),
            Arc::clone(&reflection),
            with_model(|memory| memory.reader),
        );
        let writer = Arc::new(Writer::new(WriterParts {
            store: (*store).clone(),
            layout: options.layout.clone(),
            learn: Arc::new(learn.clone()),
            think,
            quiet: Arc::clone(&quiet),
            reflection: Arc::clone(&reflection),
            with_model: with_model(|memory| memory.writer),
            episodes: requests.of_episodes(),
        }));
        let logger = CommandLogger::new(options.layout.command_log(), Arc::clone(redactor));
        let boot_md = BootMd::new(&options.layout, Arc::new(requests), trusted());
        let builtins: [(&str, Arc<dyn Handler>); 4] = [
            ("memory-reader", Arc::new(reader)),
            ("memory-writer", Arc::clone(&writer) as Arc<dyn Handler>),
            ("command-logger", Arc::new(logger)),
            ("boot-md", Arc::new(boot_md)),
        ];
        let programs = Programs::new(options.layout.clone(), options.home.clone(), Arc::clone(redactor))
            .record(Arc::clone(processes) as Arc<dyn GroupRecord>);
        let bus = (*bus).clone();
        let runner = Runner::new(RunnerParts {
            store: (*store).clone(),
            builtins: HashMap::from(builtins.map(|(name, handler)| (name.to_owned(), handler))),
            programs: Arc::new(programs),
            redactor: Arc::clone(redactor),
            is_trusted: trusted(),
            watch: Box::new(move |ran| tell(&bus, ran)),
            reflect: {
                let (layout, redactor) = (options.layout.clone(), Arc::clone(redactor));
                Box::new(move |automation, occasion, verdict| {
                    reflection.of_program(&layout, &redactor, automation, occasion, verdict);
                })
            },
        });
        let automations = Arc::new(Self {
            runner,
            quiet,
            store: (*store).clone(),
            settings: Arc::clone(settings),
            writer,
            introduced: tokio::sync::Mutex::default(),
            learn,
            stopped: CancellationToken::new(),
        });
        (automations, pending)
    }

    /// Answers what they ask for, beside everything else.
    pub fn serve(&self, pending: PendingRequests, broker: Broker, pipeline: Arc<Pipeline>) {
        let (runner, settings) = (self.runner.clone(), Arc::clone(&self.settings));
        let daemon = requests::Daemon { runner, settings, broker, pipeline };
        self.runner.spawn(pending.answer(daemon, self.stopped.clone()));
    }

    /// Reads which automations may run; from here on exactly those do.
    pub async fn load(&self) -> Result<usize, StoreError> {
        self.runner.reload().await
    }

    /// Reads them again beside everything else.
    pub fn load_later(self: &Arc<Self>) {
        let automations = Arc::clone(self);
        self.runner.spawn(async move {
            if let Err(error) = automations.load().await {
                tracing::warn!(%error, "automations not reloaded; keeping the old ones");
            }
        });
    }

    /// Returns what stands around one turn.
    pub(crate) fn around(self: &Arc<Self>, request: &AgentRequest<'_>) -> TurnHooks {
        TurnHooks::new(Arc::clone(self), request)
    }

    /// Runs what waits at a place that has none to wait for it.
    pub(crate) fn detached(&self, hook: HookPoint, occasion: impl FnOnce() -> Occasion) {
        if self.runner.waits_at(hook) {
            self.runner.fire_detached(hook, occasion());
        }
    }

    /// Runs what waits at a place; costs nothing where nothing does.
    pub(crate) async fn fire(&self, hook: HookPoint, occasion: impl FnOnce() -> Occasion) -> Merged {
        if !self.runner.waits_at(hook) {
            return Merged::default();
        }
        self.runner.fire(hook, occasion()).await
    }

    /// Loads memory's vectors while the manager's model thinks: the reader of a worker it may send finds them
    /// there, also after a rest.
    pub(crate) fn warm_memory(&self) {
        let memory = &self.learn.0;
        if memory.is_warm() || !self.runner.is_active(READER) {
            return;
        }
        let memory = memory.clone();
        self.runner.spawn(async move {
            if let Err(error) = memory.warm_up().await {
                tracing::warn!(%error, "memory not ready");
            }
        });
    }

    /// Tells them that the daemon goes down, and gives them a moment.
    pub async fn stop(&self) {
        self.detached(HookPoint::RuntimeShutdown, Occasion::default);
        self.quiet.stop(PATIENCE).await;
        self.stopped.cancel();
        self.runner.drain(PATIENCE).await;
    }
}

fn tell(bus: &Bus, ran: &Ran<'_>) {
    let (automation, hook_point) = (ran.automation.to_owned(), ran.hook.as_str().to_owned());
    let body = match ran.outcome {
        InvocationOutcome::Ok | InvocationOutcome::SkippedCircuit => {
            BusBody::HookFired { automation, hook_point }
        }
        InvocationOutcome::Error | InvocationOutcome::Timeout => {
            BusBody::HookFailed { automation, hook_point, error: ran.error.unwrap_or_default().to_owned() }
        }
    };
    bus.publish(ran.occasion.request_id.clone(), body);
}
