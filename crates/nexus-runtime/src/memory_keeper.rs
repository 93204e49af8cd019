//! Keeps memory in order while nobody looks: completes what was to be forgotten, makes vectors that are
//! missing after a start or an upgrade, in small steps, and lets go of them when nobody has asked for a while.

use std::time::Duration;

use nexus_memory::{Beside, Memory};
use tokio_util::sync::CancellationToken;

/// Rows made in one step; a question that comes meanwhile waits for no more than this.
const STEP: u64 = 256;
/// Pause between steps, so that turns come first.
const PAUSE: Duration = Duration::from_millis(5);
/// How often it is looked whether anybody still asks.
const LOOK: Duration = Duration::from_secs(60);
/// How long vectors stay in memory after the last question.
const IDLE: Duration = Duration::from_secs(300);

/// Runs until the daemon stops.
pub(crate) async fn keep(memory: Memory, beside: Beside, stopping: CancellationToken) {
    match memory.finish_forgetting(&beside).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "completed interrupted forgetting"),
        // The note stays; the next start or the next `forget` tries again.
        Err(error) => tracing::error!(%error, "interrupted forgetting not completed"),
    }
    if let Err(error) = catch_up(&memory, &stopping).await {
        // Words still find everything; the next question tries again.
        tracing::warn!(%error, "vectors are not up to date");
    }
    while stopping.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
        memory.rest(IDLE);
    }
}

async fn catch_up(memory: &Memory, stopping: &CancellationToken) -> Result<(), nexus_memory::MemoryError> {
    let missing = memory.not_indexed().await?;
    if missing == 0 {
        return Ok(());
    }
    tracing::info!(missing, "making vectors");
    let mut told = missing;
    let mut left = missing;
    while left > 0 && !stopping.is_cancelled() {
        left = memory.catch_up(STEP).await?;
        if told.saturating_sub(left) >= missing.div_ceil(10).max(STEP) {
            tracing::info!(left, of = missing, "making vectors");
            told = left;
        }
        tokio::time::sleep(PAUSE).await;
    }
    tracing::info!(made = missing.saturating_sub(left), left, "vectors are up to date");
    Ok(())
}
