//! The six databases by name, and the migrations each of them has. A migration that was released is
//! never edited: its checksum is recorded in every file it was applied to.

use std::path::{Path, PathBuf};

use nexus_base::words;

use crate::migrate::Migration;

words! {
    /// One of the six databases.
    #[derive(PartialOrd, Ord)]
    pub enum DatabaseName {
        /// What arrived and what was said.
        Events = "events",
        /// Sessions, turns, tool calls, queue, outbox.
        Agents = "agents",
        /// People, contacts, grants, access decisions.
        Identity = "identity",
        /// Facts and episodes.
        Memory = "memory",
        /// Vectors of what memory holds.
        Embeddings = "embeddings",
        /// Traces, automations, boots, usage.
        Runtime = "runtime",
    }
}

impl DatabaseName {
    /// Returns the database's file inside `data_dir`.
    pub fn file_in(self, data_dir: &Path) -> PathBuf {
        data_dir.join(format!("{}.db", self.as_str()))
    }

    /// Returns the SQL that makes the file, one migration after the other.
    pub fn sql(self) -> impl Iterator<Item = &'static str> {
        self.migrations().iter().map(|migration| migration.sql)
    }

    pub(crate) const fn migrations(self) -> &'static [Migration] {
        match self {
            Self::Events => EVENTS,
            Self::Agents => AGENTS,
            Self::Identity => IDENTITY,
            Self::Memory => MEMORY,
            Self::Embeddings => EMBEDDINGS,
            Self::Runtime => RUNTIME,
        }
    }
}

const EVENTS: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("../migrations/events/0001_initial.sql") },
    Migration { name: "turns", sql: include_str!("../migrations/events/0002_turns.sql") },
];
const AGENTS: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("../migrations/agents/0001_initial.sql") },
    Migration { name: "compactions", sql: include_str!("../migrations/agents/0002_compactions.sql") },
    Migration { name: "taint", sql: include_str!("../migrations/agents/0003_taint.sql") },
    Migration {
        name: "compactions_asked_for",
        sql: include_str!("../migrations/agents/0004_compactions_asked_for.sql"),
    },
    Migration { name: "places", sql: include_str!("../migrations/agents/0005_places.sql") },
    Migration { name: "marks", sql: include_str!("../migrations/agents/0006_marks.sql") },
    Migration { name: "prompts", sql: include_str!("../migrations/agents/0007_prompts.sql") },
    Migration { name: "quotes", sql: include_str!("../migrations/agents/0008_quotes.sql") },
];
const IDENTITY: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("../migrations/identity/0001_initial.sql") },
    Migration { name: "issued_under", sql: include_str!("../migrations/identity/0002_issued_under.sql") },
    Migration { name: "directory", sql: include_str!("../migrations/identity/0003_directory.sql") },
];
const MEMORY: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("../migrations/memory/0001_initial.sql") },
    Migration { name: "conversation", sql: include_str!("../migrations/memory/0002_conversation.sql") },
    Migration { name: "forget_log", sql: include_str!("../migrations/memory/0003_forget_log.sql") },
    Migration { name: "forgetting", sql: include_str!("../migrations/memory/0004_forgetting.sql") },
    Migration { name: "analysis", sql: include_str!("../migrations/memory/0005_analysis.sql") },
];
const EMBEDDINGS: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("../migrations/embeddings/0001_initial.sql") },
    Migration { name: "vectors", sql: include_str!("../migrations/embeddings/0002_vectors.sql") },
    Migration { name: "chunks", sql: include_str!("../migrations/embeddings/0003_chunks.sql") },
];
const RUNTIME: &[Migration] = &[
    Migration { name: "initial", sql: include_str!("../migrations/runtime/0001_initial.sql") },
    Migration { name: "usage_by_run", sql: include_str!("../migrations/runtime/0002_usage_by_run.sql") },
    Migration { name: "usage_days", sql: include_str!("../migrations/runtime/0003_usage_days.sql") },
    Migration {
        name: "adapters_and_bus",
        sql: include_str!("../migrations/runtime/0004_adapters_and_bus.sql"),
    },
];
