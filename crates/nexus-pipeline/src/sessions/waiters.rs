//! Who waits for which tree: a change wakes those who wait for it and nobody else.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nexus_base::id::RequestId;
use tokio::sync::watch;

/// Every tree somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    trees: Mutex<HashMap<RequestId, watch::Sender<()>>>,
}

/// One waiter's view of one tree. Changes from the moment it was made are not missed.
#[derive(Debug)]
pub(crate) struct Watching<'a> {
    waiters: &'a Waiters,
    root: RequestId,
    changes: Option<watch::Receiver<()>>,
}

impl Waiters {
    /// Begins to watch a tree.
    pub(crate) fn watch(&self, root: &RequestId) -> Watching<'_> {
        let changes = self.lock().entry(root.clone()).or_insert_with(|| watch::channel(()).0).subscribe();
        Watching { waiters: self, root: root.clone(), changes: Some(changes) }
    }

    /// Tells whoever watches a tree that something in it changed.
    pub(crate) fn changed(&self, root: &RequestId) {
        if let Some(tree) = self.lock().get(root) {
            tree.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, watch::Sender<()>>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watching<'_> {
    /// Waits for the next change.
    pub(crate) async fn changed(&mut self) {
        if let Some(changes) = &mut self.changes {
            // The sender lives as long as anybody watches.
            let _ = changes.changed().await;
        }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut trees = self.waiters.lock();
        self.changes = None;
        if trees.get(&self.root).is_some_and(|tree| tree.receiver_count() == 0) {
            trees.remove(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed_and_nothing_is_left_behind() {
        let waiters = Waiters::default();
        let (one, two) = (RequestId::new("one"), RequestId::new("two"));
        let mut first = waiters.watch(&one);
        let second = waiters.watch(&one);
        waiters.changed(&one);
        waiters.changed(&two);
        first.changed().await;
        drop(second);
        assert_eq!(waiters.lock().len(), 1);
        drop(first);
        assert!(waiters.lock().is_empty());
    }
}
