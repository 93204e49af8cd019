//! Everything the daemon is made of, put together once.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::time::Instant;

use nexus_base::id::{BootId, EntityId};
use nexus_base::redact::Redactor;
use nexus_memory::Memory;
use nexus_pipeline::sessions::{Broker, BrokerLimits, BrokerParts};
use nexus_process::FileRecord;
use nexus_store::Store;
use nexus_store::agents::Overflow;
use nexus_workspace::config::{DropPolicy, Settings};
use tokio_util::sync::CancellationToken;

use crate::control::Control;
use crate::runtime::{STARTING, Shared};
use crate::tool_socket::ToolCommands;
use crate::{Bus, Runtime};
use nexus_models::Models;
use nexus_pipeline::agent_factory::{AgentFactory, AgentFactoryParts};
use nexus_pipeline::consent::OwnerConsent;
use nexus_pipeline::hooks::{self, Automations};
use nexus_pipeline::live_settings::LiveSettings;
use nexus_pipeline::observer::{Counters, Recorder};
use nexus_pipeline::pipeline::Pipeline;
use nexus_pipeline::questions::Questions;
use nexus_pipeline::spending::Costs;
use nexus_pipeline::tool_assembly::ToolAssembly;
use nexus_workspace::StartOptions;

pub(super) fn compose(
    options: &StartOptions,
    settings: Settings,
    store: &Store,
    boot: &BootId,
    owner: EntityId,
    processes: &Arc<FileRecord>,
    started: Instant,
) -> Runtime {
    let redactor = Arc::clone(&options.redactor);
    redactor.register(settings.runtime.auth.token.expose());
    hide_environment(&redactor, &options.environment);
    let bus = Bus::new();
    let counters = Arc::new(Counters::default());
    let memory = Memory::new(store);
    let commands = Arc::new(ToolCommands {
        environment: options.environment.clone(),
        layout: options.layout.clone(),
        settings: settings.clone(),
        trust: options.standing(),
        memory: memory.clone(),
        runtime: tokio::runtime::Handle::current(),
    });
    let limits = limits(&settings);
    let questions = Arc::new(Questions::new(store.identity().clone(), bus.clone()));
    let stopping = CancellationToken::new();
    let consent = OwnerConsent {
        questions: Arc::clone(&questions),
        redactor: Arc::clone(&redactor),
        stopping: stopping.clone(),
    };
    let models = Models::new(options, &settings, store, Arc::clone(&redactor));
    let live = Arc::new(LiveSettings::new(options.layout.clone(), settings));
    let (automations, pending) = Automations::new(&hooks::Parts {
        options,
        store,
        memory: &memory,
        settings: &live,
        models: &models,
        processes,
        redactor: &redactor,
        bus: &bus,
    });
    let recorder = Arc::new(Recorder {
        store: store.clone(),
        bus: bus.clone(),
        counters: Arc::clone(&counters),
        redactor: Arc::clone(&redactor),
        streams: nexus_pipeline::streams::Streams::new(Arc::clone(&redactor)),
        automations: Arc::clone(&automations),
    });
    let agent_factory = Arc::new(AgentFactory::new(AgentFactoryParts {
        live,
        automations: Arc::clone(&automations),
        models,
        costs: Costs::new(store.runtime().clone()),
        memory,
        sockets: commands,
        processes: Arc::clone(processes),
        consent,
        owner_home: options.home.clone(),
        trust_folder: options.trust_folder.clone(),
        tool_assembly: ToolAssembly::new(options, Arc::clone(&redactor), store.agents().clone()),
    }));
    let broker = Broker::new(BrokerParts {
        agents: store.agents().clone(),
        boot: boot.clone(),
        engine: Arc::clone(&agent_factory) as Arc<dyn nexus_pipeline::sessions::Engine>,
        observer: Arc::clone(&recorder) as Arc<dyn nexus_pipeline::sessions::Observer>,
        limits,
    });
    let pipeline = Arc::new(Pipeline::new(
        store.clone(),
        broker.clone(),
        recorder,
        Arc::clone(&agent_factory),
        Arc::clone(&questions),
        Arc::clone(&automations),
        owner,
    ));
    automations.serve(pending, broker.clone(), Arc::clone(&pipeline));
    Runtime {
        shared: Arc::new(Shared {
            store: store.clone(),
            broker,
            pipeline,
            questions,
            automations,
            agent_factory,
            counters,
            redactor,
            bus,
            health: AtomicU8::new(STARTING),
            started,
            root: options.layout.root().to_owned(),
            notes: std::sync::Mutex::default(),
            stopping,
            control: Control::new(options.clone(), store.identity()),
        }),
    }
}

/// Makes every value of the environment that looks like a credential a secret for the redactor.
fn hide_environment(redactor: &Redactor, environment: &[(String, String)]) {
    let findings = nexus_credentials::scan(environment, nexus_credentials::Depth::Deep);
    for finding in &findings.findings {
        let values = environment.iter().filter(|(name, _)| *name == finding.variable);
        values.for_each(|(_, value)| redactor.register(value));
    }
}

fn limits(settings: &Settings) -> BrokerLimits {
    BrokerLimits {
        queue_cap: settings.queue.cap,
        overflow: match settings.queue.drop_policy {
            DropPolicy::Summarize => Overflow::Summarize,
            DropPolicy::Oldest => Overflow::DropOldest,
            DropPolicy::Reject => Overflow::RejectNew,
        },
        debounce: settings.queue.debounce,
        worker_depth: settings.agents.max_worker_depth,
        workers_per_request: settings.budgets.workers_per_request,
        concurrent_workers: settings.agents.max_concurrent_workers,
        turn_timeout: settings.agents.turn_timeout,
        worker_timeout: settings.agents.worker_timeout,
    }
}
