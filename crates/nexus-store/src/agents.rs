//! Sessions, turns, tool calls, queue and outbox: `agents.db`.
//!
//! This file says what was done and what must be said. Steps that belong together commit together:
//! a claim with its turn, a dispatch with its tool result, a finished turn with its reply.

mod claim;
mod columns;
mod compaction;
mod dispatch;
mod finish;
mod ledger;
mod marks;
mod model;
mod outbox;
mod prompts;
mod queue;
mod redispatch;
mod rows;
mod session;
mod view;

pub use claim::{Claim, ClaimedTurn};
pub use columns::{ItemFacts, PermissionSnapshot, SessionSettings, UnreadableColumn};
pub use compaction::{Compaction, NewCompaction, Past, Trim, Undone};
pub use dispatch::{NewDispatch, NewPost};
pub use finish::{FinishTurn, Finished, NewReply, WorkerReport};
pub use ledger::{NewCall, NewStep};
pub use marks::TaintedTurn;
pub use marks::{FileMark, MarkChange};
pub use model::{
    Admitted, Aftermath, CallRecord, CallStatus, Item, ItemKind, ItemMode, ItemOutcome, ItemStatus,
    MessageRecord, MessageRole, NewItem, NewSession, OutboxRecord, OutboxState, OutboxStatus, Overflow,
    SessionRecord, TaskStatus, TurnRecord, TurnStatus, Untaken,
};
pub use redispatch::Redispatch;
pub use view::TurnUsage;
pub use view::{HistoryLine, SessionRow};

use crate::database::Database;
use crate::error::StoreError;

/// Typed queries on `agents.db`.
#[derive(Debug, Clone)]
pub struct Agents {
    database: Database,
}

impl Agents {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Waits until everything queued so far is committed.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.database.flush().await
    }
}

#[cfg(test)]
mod tests;
