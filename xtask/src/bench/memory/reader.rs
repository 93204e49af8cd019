//! What memory-reader adds to a worker's start: its whole run, with the vectors at hand and after a rest
//! in which they were let go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_trait::async_trait;
use nexus_automation::ports::{Ask, Think, Thought};
use nexus_automation::{Handler, HookPoint, Occasion, Quiet, Reader, Reflection, Run, RunError, seed, view};
use nexus_memory::{Memory, Viewer};
use nexus_store::events::NewEvent;
use nexus_store::{OpenMode, Store};
use nexus_workspace::Layout;
use serde_json::json;

use crate::bench::millis;
use crate::measure::{Report, Samples};

/// Facts from which on it is measured.
pub(super) const MANY: usize = 100_000;
/// Turns beside the facts.
const TURNS: usize = 10_000;
/// Starts of workers.
const STARTS: usize = 100;
/// Starts after a rest.
const COLD_STARTS: usize = 20;
/// What a worker's start may take longer.
const BAR: u64 = 50;

/// The reader does without a model.
struct NoModel;

#[async_trait]
impl Think for NoModel {
    fn has_model(&self) -> bool {
        false
    }

    async fn take_turn(&self, _ask: Ask) -> Result<Thought, RunError> {
        Err(RunError("there is no model".to_owned()))
    }
}

/// Measures starts of workers whose tasks are made of `asked`.
pub(super) async fn measure(layout: &Layout, asked: &[String], report: &mut Report) -> Result<()> {
    let store = Store::open(&layout.data(), OpenMode::ReadWrite)?;
    let memory = Memory::new(&store);
    for (number, text) in asked.iter().cycle().take(TURNS).enumerate() {
        let mut event = NewEvent::message("bench", &format!("turn {number}"), "owner", text);
        event.container_id = Some("dm".to_owned());
        store.events().insert_outbound(event).await?;
    }
    memory.catch_up(u64::MAX).await?;
    store.flush().await?;
    seed(&store, layout).await?;
    let row = store.runtime().automation("memory-reader").await?.context("memory-reader is seeded")?;
    let automation = Arc::new(row);
    let think: Arc<dyn Think> = Arc::new(NoModel);
    let quiet = Arc::new(Quiet::new(Box::new(|| Duration::ZERO)));
    let every = Box::new(|| Duration::from_secs(600));
    let reflection =
        Arc::new(Reflection::new(store.runtime().clone(), Arc::clone(&think), Arc::clone(&quiet), every));
    let reader = Reader::new(memory.clone(), layout.clone(), think, reflection, Box::new(|| false));
    let start = |task: String| {
        let data = json!({"task": task, "memory": view(&Viewer::Owner)});
        let run = Run {
            automation: Arc::clone(&automation),
            hook: HookPoint::WorkerPreExecution,
            occasion: Arc::new(Occasion { data, ..Occasion::default() }),
            invocation: "bench".to_owned(),
            limit: Duration::from_secs(10),
        };
        let reader = &reader;
        async move {
            let clock = Instant::now();
            let verdict = reader.run(&run).await?;
            anyhow::ensure!(verdict.fired, "nothing was found for a task made of what is known");
            Ok(clock.elapsed())
        }
    };
    let task = |about: &String| format!("Find out about {about} and tell it in one line");
    let (mut warm, mut cold) = (Samples::default(), Samples::default());
    for about in asked.iter().take(STARTS) {
        warm.push(start(task(about)).await?);
    }
    for about in asked.iter().take(COLD_STARTS) {
        memory.rest(Duration::ZERO);
        cold.push(start(task(about)).await?);
    }
    let bar = format!("≤ {BAR} ms");
    report.times("memory-reader on a worker's start, 100000 facts", &bar, &warm, millis(BAR));
    report.times("the same after a rest, vectors not loaded", &bar, &cold, millis(BAR));
    quiet.stop(Duration::from_secs(5)).await;
    store.close().await;
    Ok(())
}
