//! Sessions, turns, tool calls, queue and outbox: `agents.db`.

use crate::database::Database;

/// Typed queries on `agents.db`.
#[derive(Debug, Clone)]
pub struct Agents {
    database: Database,
}

impl Agents {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }
}
