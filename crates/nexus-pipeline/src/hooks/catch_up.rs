//! After a start: what an earlier life of the daemon left to automations.

use std::sync::Arc;
use std::time::Duration;

use crate::sessions::Ended;
use nexus_automation::{HookPoint, Occasion, OpenTurn};
use nexus_base::clock::Timestamp;
use nexus_base::id::EventId;
use nexus_store::StoreError;
use nexus_store::agents::Item;
use serde_json::{Value, json};

use super::Automations;
use super::ended::{Sender, event_of, sender_of, turn_data};

/// Newest ended requests looked at for memory; older ones were looked at by earlier starts.
const LOOK_BACK: u32 = 500;
/// How often old runs are removed.
const TIDY_EVERY: Duration = Duration::from_secs(6 * 3_600);
/// Runs that are kept at most, however young.
const MAX_RUNS: u64 = 200_000;
/// The automation that keeps what was said.
const WRITER: &str = "memory-writer";

impl Automations {
    /// Lets automations know that the daemon is ready; nothing waits for them.
    pub fn take_up(self: &Arc<Self>) {
        let (automations, ready) = (Arc::clone(self), Timestamp::now());
        self.runner.spawn(async move { automations.started(ready, env!("CARGO_PKG_VERSION")).await });
    }

    /// Fires `runtime:startup` and takes up what was left; nothing waits for it.
    async fn started(self: &Arc<Self>, ready: Timestamp, version: &str) {
        self.detached(HookPoint::RuntimeStartup, || Occasion {
            data: json!({"version": version}),
            ..Occasion::default()
        });
        match self.store.runtime().close_left_over_invocations(ready).await {
            Ok(0) => {}
            Ok(closed) => {
                tracing::info!(closed, "closed runs of automations that the last shutdown interrupted")
            }
            Err(error) => tracing::warn!(%error, "interrupted runs of automations not closed"),
        }
        match self.remember_forgotten().await {
            Ok(0) => {}
            Ok(found) => tracing::info!(found, "processing turns that memory has not seen"),
            Err(error) => tracing::warn!(%error, "turns that memory has not seen not found"),
        }
        self.introduce().await;
        self.tidy_up().await;
        let (automations, quiet) = (Arc::clone(self), Arc::clone(&self.quiet));
        self.quiet.spawn(async move {
            while quiet.rest(TIDY_EVERY).await {
                automations.tidy_up().await;
            }
        });
    }

    /// Removes what is kept of old runs.
    async fn tidy_up(&self) {
        let kept = self.settings.settings().automations.retention;
        let now = Timestamp::now();
        let before =
            Timestamp(now.as_millis().saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX)));
        let mut removed = 0;
        loop {
            match self.store.runtime().prune_invocations(before, MAX_RUNS).await {
                Ok(0) => break,
                Ok(some) => removed += some,
                Err(error) => {
                    tracing::warn!(%error, "old runs of automations not removed");
                    break;
                }
            }
        }
        if removed > 0 {
            tracing::info!(removed, "old runs of automations removed");
        }
    }

    /// Hands turns that ended and that the memory writer never saw to it, oldest first.
    async fn remember_forgotten(&self) -> Result<usize, StoreError> {
        if !self.runner.is_active(WRITER) {
            return Ok(0);
        }
        let mut items = Vec::new();
        for request in self.store.agents().newest_ended(LOOK_BACK).await? {
            items.extend(self.store.agents().item_of_request(&request).await?);
        }
        items.reverse();
        let events: Vec<EventId> = items.iter().map(event_of).collect();
        let unseen = self.store.memory().unprocessed(events).await?;
        let (items, seen): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| unseen.contains(&event_of(item)));
        self.take_up_episodes(&seen).await?;
        let mut found = 0;
        for item in &items {
            let lines = self.store.agents().lines_of_request(&item.new.request_id).await?;
            let turn = match &item.turn_id {
                Some(turn) => self.store.agents().turn(turn).await?,
                None => None,
            };
            let ended = Ended { item, turn: turn.as_ref(), lines: &lines };
            let occasion = self.end_occasion(item, turn_data(&ended));
            if !occasion.is_own_work() {
                found += usize::from(self.runner.run_now(WRITER, occasion).await.is_some());
            }
        }
        Ok(found)
    }

    /// Hands turns that memory has seen and that a crash kept out of an episode to the memory writer, oldest
    /// first.
    async fn take_up_episodes(&self, items: &[Item]) -> Result<(), StoreError> {
        let said = |item: &&Item| matches!(sender_of(&item.new), Sender::Owner | Sender::Person { .. });
        let items: Vec<&Item> = items.iter().filter(said).collect();
        let open =
            self.store.memory().without_episode(items.iter().map(|item| event_of(item)).collect()).await?;
        let mut turns = Vec::with_capacity(open.len());
        for item in items {
            let event = event_of(item);
            if open.contains(&event) && !self.end_occasion(item, Value::Null).is_own_work() {
                let kept = !self.store.memory().facts_from(event.clone()).await?.is_empty();
                turns.push(OpenTurn { session: item.new.session.clone(), event, at: item.enqueued_at, kept });
            }
        }
        if !turns.is_empty() {
            tracing::info!(turns = turns.len(), "processing unfinished episodes");
            self.writer.take_up(turns);
        }
        Ok(())
    }
}
