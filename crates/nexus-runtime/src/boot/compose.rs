//! Everything the daemon is made of, put together once.

use std::sync::Arc;
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

use crate::reload::Reloader;
use nexus_models::Models;
use nexus_operations::{Bus, Daemon, Lifecycle, Operations, Reload, TokenAccess};
use nexus_pipeline::agent_factory::{AgentFactory, AgentFactoryParts};
use nexus_pipeline::consent::OwnerConsent;
use nexus_pipeline::hooks::{self, Automations};
use nexus_pipeline::live_settings::LiveSettings;
use nexus_pipeline::observer::{Counters, Recorder};
use nexus_pipeline::pipeline::Pipeline;
use nexus_pipeline::questions::Questions;
use nexus_pipeline::reminder::CredentialReminder;
use nexus_pipeline::spending::Costs;
use nexus_pipeline::tool_assembly::ToolAssembly;
use nexus_pipeline::tool_sockets::ToolSockets;
use nexus_workspace::StartOptions;

/// The daemon, put together.
pub(super) struct Composed {
    pub(super) daemon: Arc<Daemon>,
    pub(super) operations: Operations,
    pub(super) reloader: Arc<Reloader>,
}

pub(super) fn compose(
    options: &StartOptions,
    settings: Settings,
    store: &Store,
    boot: &BootId,
    owner: EntityId,
    processes: &Arc<FileRecord>,
    started: Instant,
) -> Composed {
    let redactor = Arc::clone(&options.redactor);
    redactor.register(settings.runtime.auth.token.expose());
    hide_environment(&redactor, &options.environment);
    let bus = Bus::new();
    let counters = Arc::new(Counters::default());
    let memory = Memory::new(store);
    let (sockets, tool_calls) = ToolSockets::channel();
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
        sockets,
        processes: Arc::clone(processes),
        consent,
        owner_home: options.home.clone(),
        trust_folder: options.trust_folder.clone(),
        reminder: CredentialReminder::new(store.runtime().clone(), &options.layout),
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
    let daemon = Arc::new(Daemon {
        broker,
        pipeline,
        questions,
        automations,
        agent_factory,
        counters,
        bus,
        lifecycle: Lifecycle::new(started, stopping),
        tokens: TokenAccess::new(store.identity()),
    });
    let (options, store) = (options.clone(), store.clone());
    let reloader =
        Arc::new(Reloader { options: options.clone(), store: store.clone(), daemon: Arc::clone(&daemon) });
    let reload = Arc::clone(&reloader) as Arc<dyn Reload>;
    let operations = Operations::new(options, store, Arc::clone(&daemon), reload);
    nexus_base::task::spawn("tool calls", operations.clone().serve_tool_calls(tool_calls));
    Composed { daemon, operations, reloader }
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
