//! `nexus start`: the boot order, serving, and the way down.

mod compose;
mod error;
mod steps;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_base::id::BootId;
use nexus_base::lock::{HeldLock, LockError};
use nexus_credentials::{CredentialFolder, Observer, SyncRequest, boot_sync, keychain_sync};
use nexus_process::FileRecord;
use nexus_protocol::bus::BusBody;
use nexus_store::runtime::BootEnd;
use nexus_store::{OpenMode, Store, StoreError};
use nexus_workspace::config::{self, Loaded, Overrides, Settings};
use nexus_workspace::{Layout, StartOptions};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::reload::Reloader;
use crate::signals::{Ask, Signals};
use nexus_base::error::chain;
use nexus_operations::{BootNotes, Daemon, Operations, Phase};
use nexus_pipeline::recovery::{self, Recovered};

use self::compose::{Composed, compose};
pub use self::error::StartError;
use self::steps::Steps;

/// How long running turns may go on after a stop was asked for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Starts in a row that never became ready before the next one is held back.
const TOLERATED_FAILURES: u32 = 3;
/// Longest a start is held back.
const MAX_BACK_OFF: Duration = Duration::from_secs(30);
/// Where the number of such starts is kept.
const UNREADY_STARTS: &str = "boot.unready_starts";
/// File under `state/` naming the processes of running tool calls.
const TOOL_PROCESSES: &str = "tool-processes.json";

/// Boots, serves until told to stop, and goes down in order.
///
/// `ready` is called once, with the address, when `/health` answers 200. `serve` gets the running
/// daemon, its listener and a future that ends when serving must.
///
/// # Errors
/// See [`StartError`]; nothing was served then.
pub async fn start<Serving>(
    options: StartOptions,
    ready: impl FnOnce(SocketAddr),
    serve: impl FnOnce(Operations, TcpListener, CancellationToken) -> Serving,
) -> Result<(), StartError>
where
    Serving: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let mut signals = Signals::listen().map_err(StartError::Serve)?;
    let mut steps = Steps::default();
    let mut lock = steps.step("lock", || take_lock(&options.layout))?;
    let swept = nexus_maintenance::sweep(&options.layout, &options.trust_folder);
    if swept > 0 {
        tracing::info!(swept, "removed temporary files of interrupted writes");
    }
    let loaded = steps.step("config", || load(&options))?;
    match nexus_workspace::init::restore_bootstrap(&options.layout) {
        Ok(true) => tracing::info!("BOOTSTRAP.md was missing or empty; it was written again"),
        Ok(false) => {}
        Err(error) => tracing::warn!(error = chain(&error), "BOOTSTRAP.md could not be written again"),
    }
    let store = steps.step("databases", || {
        Ok::<_, StartError>(Store::open(&options.layout.data(), OpenMode::ReadWrite)?)
    })?;
    let boot = BootId::generate();
    let outcome = run(&options, loaded, &store, &boot, &mut lock, &mut signals, steps, ready, serve).await;
    let end = if outcome.is_ok() { BootEnd::Clean } else { BootEnd::Failed };
    if let Err(error) = store.runtime().boot_ended(boot, end).await {
        tracing::warn!(%error, "end of this boot not recorded");
    }
    store.close().await;
    lock.release();
    outcome
}

#[expect(clippy::too_many_arguments, reason = "the one place where everything meets")]
async fn run<Serving>(
    options: &StartOptions,
    loaded: Loaded,
    store: &Store,
    boot: &BootId,
    lock: &mut HeldLock,
    signals: &mut Signals,
    mut steps: Steps,
    ready: impl FnOnce(SocketAddr),
    serve: impl FnOnce(Operations, TcpListener, CancellationToken) -> Serving,
) -> Result<(), StartError>
where
    Serving: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let started = Instant::now();
    store.runtime().boot_started(boot.clone(), std::process::id()).await?;
    let unready = count_start(store).await?;
    hold_back(unready, signals).await;

    let clock = Instant::now();
    let mut warnings: Vec<String> = loaded
        .warnings
        .iter()
        .map(|problem| format!("{}: {}; {}", problem.key, problem.message, problem.fix))
        .collect();
    let (note, looked_for_logins) = sync_credentials(options, &loaded.settings, &mut warnings);
    steps.done("credentials", clock, note);
    let clock = Instant::now();
    let owner = nexus_identity::seed_owner(store.identity()).await?;
    steps.done("owner", clock, if owner.created { "made".to_owned() } else { owner.name });
    let owner = owner.entity;
    let clock = Instant::now();
    let note = match nexus_automation::seed(store, &options.layout).await {
        Ok(report) => report.to_string(),
        Err(error) => {
            warnings.push(format!("automations: {}", chain(&error)));
            "degraded".to_owned()
        }
    };
    steps.done("automations", clock, note);

    let clock = Instant::now();
    let listener = listen(&loaded.settings, options.port).await?;
    let address = listener.local_addr().map_err(StartError::Serve)?;
    lock.note(&address.port().to_string()).map_err(StartError::Lock)?;
    let (processes, left_over) =
        FileRecord::open(&options.layout.state().join(TOOL_PROCESSES)).map_err(StartError::Lock)?;
    let processes = Arc::new(processes);
    let Composed { daemon, operations, reloader } =
        compose(options, loaded.settings, store, boot, owner, &processes, started);
    if let Err(problem) = reloader.apply_policies(&daemon.agent_factory.settings()) {
        warnings.push(format!(
            "{problem}; until it is repaired the built-in policies apply and only the owner has access"
        ));
    }
    warnings.extend(daemon.agent_factory.projects.take_settings(&daemon.agent_factory.settings()).err());
    daemon.agent_factory.models.remember().await?;
    daemon.note_owner_token(store).await?;
    let ending = CancellationToken::new();
    let serving = nexus_base::task::spawn("server", serve(operations, listener, ending.clone()));
    steps.done("server", clock, address.to_string());
    steps.done("adapters", Instant::now(), "none configured".to_owned());
    let clock = Instant::now();
    let active = daemon.automations.load().await?;
    if !options.standing().is_trusted() {
        // A copied workspace brings rows of its own; only ours run until somebody vouches for the rest.
        warnings.push("this workspace is not trusted; review it, then run `nexus trust`".to_owned());
    }
    steps.done("hooks", clock, format!("{active} active automations"));
    let clock = Instant::now();
    let ended = recovery::end_processes(left_over, processes).await;
    let recovered = take_up(&daemon, store, ended).await?;
    steps.done("recovery", clock, recovered.to_string());
    daemon.agent_factory.reminder.start().await?;

    for step in &steps.done {
        tracing::info!(step = step.step, microseconds = step.duration_us, note = step.note, "boot step");
    }
    for warning in &warnings {
        tracing::warn!(warning, "the daemon starts degraded");
    }
    *daemon.lifecycle.notes() = BootNotes { steps: steps.done, warnings };
    store.runtime().kv_set(UNREADY_STARTS, "0").await?;
    daemon.lifecycle.set_phase(Phase::Serving);
    daemon.bus.publish(None, BusBody::Started { version: env!("CARGO_PKG_VERSION").to_owned() });
    ready(address);
    daemon.agent_factory.models.look_around();
    nexus_base::task::spawn(
        "memory",
        crate::memory_keeper::keep(
            daemon.agent_factory.memory.clone(),
            nexus_pipeline::memory_service::beside(&options.layout),
            daemon.lifecycle.stopping().clone(),
        ),
    );
    let stopping = daemon.lifecycle.stopping().clone();
    nexus_base::task::spawn("disk-reserve", crate::disk_reserve::keep(options.layout.data(), stopping));
    check_credentials(options, looked_for_logins);
    daemon.automations.take_up();

    let outcome = serve_until_stopped(&daemon, &reloader, signals, serving, &ending).await;
    go_down(&daemon).await;
    outcome
}

fn take_lock(layout: &Layout) -> Result<HeldLock, StartError> {
    if !layout.config().exists() {
        return Err(StartError::NoWorkspace(layout.root().to_owned()));
    }
    match HeldLock::acquire_with_folder(&layout.lock(), &layout.data()) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held { holder, .. }) => Err(StartError::AlreadyRunning(holder)),
        Err(LockError::File(error)) => Err(StartError::Lock(error)),
    }
}

pub(crate) fn load(options: &StartOptions) -> Result<Loaded, StartError> {
    let overrides = Overrides { flags: Vec::new(), environment: &options.environment };
    let loaded = config::load(&options.layout, options.standing(), &overrides)?;
    if let Err(error) = config::keep_last_good(&options.layout, &loaded.document) {
        tracing::warn!(error = chain(&error), "last good configuration not saved");
    }
    Ok(loaded)
}

/// Counts this start; a start that becomes ready sets the count back.
async fn count_start(store: &Store) -> Result<u32, StoreError> {
    let before: u32 =
        store.runtime().kv_get(UNREADY_STARTS).await?.and_then(|text| text.parse().ok()).unwrap_or(0);
    store.runtime().kv_set(UNREADY_STARTS, &(before + 1).to_string()).await?;
    Ok(before)
}

/// Keeps a start that would fail like the ones before it from burning the machine.
async fn hold_back(unready: u32, signals: &mut Signals) {
    let Some(over) = unready.checked_sub(TOLERATED_FAILURES) else { return };
    let pause = Duration::from_secs(1u64 << over.min(5)).min(MAX_BACK_OFF);
    tracing::warn!(unready, ?pause, "the last starts never became ready; delaying this one");
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        _ = signals.next() => {}
    }
}

/// Returns what a boot report says of it, and whether other tools' logins were due to be looked for.
fn sync_credentials(
    options: &StartOptions,
    settings: &Settings,
    warnings: &mut Vec<String>,
) -> (String, bool) {
    let folder = CredentialFolder::new(options.layout.credentials());
    let request = SyncRequest {
        observer: Observer::Daemon,
        environment: &options.environment,
        home: Some(&options.home),
        ttl: settings.credentials.sync_ttl,
    };
    match boot_sync(&folder, &request) {
        Ok(report) => {
            warnings.extend(report.problems.iter().map(|problem| format!("credentials: {problem}")));
            (format!("{} accounts, {} new", report.total, report.added.len()), report.looked_for_logins)
        }
        Err(error) => {
            warnings.push(format!("credentials: {}", chain(&error)));
            ("degraded".to_owned(), false)
        }
    }
}

/// Looks in the background for logins in the keychain, where those were due, and whether every pointer still gives
/// a secret: keychains and commands may take their time, and a bad one is marked with its reason and holds up nobody.
/// What they give is made known to the redactor.
fn check_credentials(options: &StartOptions, with_keychain: bool) {
    let folder = CredentialFolder::new(options.layout.credentials());
    let resolver = nexus_models::credentials::of_daemon(options);
    let options = options.clone();
    nexus_base::task::spawn("credentials", async move {
        if with_keychain {
            let request = SyncRequest {
                observer: Observer::Daemon,
                environment: &options.environment,
                home: Some(&options.home),
                ttl: Duration::ZERO,
            };
            match keychain_sync(&folder, &resolver, &request).await {
                Ok(report) if report.added.is_empty() => {}
                Ok(report) => tracing::info!(added = ?report.added, "logins were found in the keychain"),
                Err(error) => tracing::warn!(error = chain(&error), "the keychain could not be looked at"),
            }
        }
        match folder.check(&resolver, Observer::Daemon).await {
            Ok(checked) => {
                for one in checked.iter().filter(|one| one.problem.is_some()) {
                    let reason = one.problem.as_deref().unwrap_or_default();
                    tracing::warn!(credential = %one.reference, reason, "credential yields no secret");
                }
            }
            Err(error) => tracing::warn!(error = chain(&error), "credentials not checked"),
        }
    });
}

/// Port 0 asks the system for a free one.
async fn listen(settings: &Settings, port: Option<u16>) -> Result<TcpListener, StartError> {
    let port = port.unwrap_or(settings.runtime.port);
    let address = SocketAddr::new(settings.runtime.bind.ip(), port);
    TcpListener::bind(address).await.map_err(|source| {
        if source.kind() == std::io::ErrorKind::AddrInUse {
            StartError::PortTaken { port, holder: nexus_process::listener_of(port) }
        } else {
            StartError::Listen { port, source }
        }
    })
}

/// Takes up what an earlier life left, in the order that keeps each step repeatable.
async fn take_up(daemon: &Daemon, store: &Store, processes: usize) -> Result<Recovered, StoreError> {
    let broker = &daemon.broker;
    broker.settle().await?;
    let restored = broker.end_restored().await?;
    if restored > 0 {
        tracing::warn!(restored, "ended work that was in progress when the backup was made");
    }
    let traces = recovery::close_traces(store, broker).await?;
    let accepted = recovery::readmit(store, &daemon.pipeline).await?;
    let sessions = broker.resume().await?;
    Ok(Recovered { processes, accepted, sessions, traces })
}

async fn serve_until_stopped(
    daemon: &Daemon,
    reloader: &Reloader,
    signals: &mut Signals,
    mut serving: tokio::task::JoinHandle<std::io::Result<()>>,
    ending: &CancellationToken,
) -> Result<(), StartError> {
    loop {
        tokio::select! {
            ask = signals.next() => match ask {
                Ask::Reload => reloader.on_signal().await,
                Ask::Stop => break,
            },
            served = &mut serving => {
                return match served {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => Err(StartError::Serve(error)),
                    Err(error) => Err(StartError::Serve(std::io::Error::other(error))),
                };
            }
        }
    }
    tracing::info!("stopping: waiting for running turns, accepting nothing new");
    daemon.lifecycle.set_phase(Phase::Stopping);
    daemon.bus.publish(None, BusBody::Stopping);
    daemon.pipeline.drain().await;
    tokio::select! {
        () = daemon.broker.drain(PATIENCE) => {}
        // A second signal means now.
        _ = signals.next() => daemon.broker.drain(Duration::ZERO).await,
    }
    daemon.automations.stop().await;
    daemon.lifecycle.stopping().cancel();
    ending.cancel();
    match tokio::time::timeout(Duration::from_secs(6), serving).await {
        Ok(Ok(Err(error))) => Err(StartError::Serve(error)),
        Ok(Ok(Ok(())) | Err(_)) | Err(_) => Ok(()),
    }
}

/// Makes sure that everything is told to stop, whichever way serving ended.
async fn go_down(daemon: &Daemon) {
    daemon.lifecycle.set_phase(Phase::Stopping);
    daemon.lifecycle.stopping().cancel();
    daemon.broker.drain(Duration::ZERO).await;
    daemon.agent_factory.projects.close_all().await;
}
