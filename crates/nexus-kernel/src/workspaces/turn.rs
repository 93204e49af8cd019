//! One at a time per workspace: whoever works on an id makes others who want it wait, and nobody else.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::ws_id::WsId;

/// The ids being worked on now.
#[derive(Debug, Default)]
pub(super) struct Turns {
    busy: Mutex<HashSet<WsId>>,
    freed: Condvar,
}

/// The right to work on one id, until dropped.
#[derive(Debug)]
pub(super) struct Turn<'turns> {
    turns: &'turns Turns,
    id: WsId,
}

impl Turns {
    /// Waits until nobody works on `id`.
    pub(super) fn take(&self, id: &WsId) -> Turn<'_> {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        while !busy.insert(id.clone()) {
            busy = self.freed.wait(busy).unwrap_or_else(PoisonError::into_inner);
        }
        Turn { turns: self, id: id.clone() }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        self.turns.freed.notify_all();
    }
}
