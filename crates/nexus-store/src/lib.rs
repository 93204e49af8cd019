//! The six SQLite databases of a workspace: opening, migrations, ordered writers with group commit,
//! readers beside them, and typed queries. No other crate sees SQL, and this one decides nothing
//! about sessions, people or memory: it stores what they decided.

pub mod agents;
mod backup;
mod database;
pub mod embeddings;
mod error;
pub mod events;
mod forget;
pub mod identity;
pub mod memory;
mod migrate;
mod open;
mod readers;
mod restored;
pub mod runtime;
mod schema;
mod search;
mod store;
mod words;
mod writer;

pub use agents::Agents;
pub use backup::DatabaseCopy;
pub use database::Database;
pub use embeddings::Embeddings;
pub use error::{Cause, StoreError};
pub use events::Events;
pub use forget::{Forgetting, NotForgotten, TOMBSTONE};
pub use identity::Identity;
pub use memory::Memory;
pub use open::Prepared;
pub use restored::{HeldBack, OpenQuestions};
pub use runtime::Runtime;
pub use schema::DatabaseName;
pub use store::{DatabaseHealth, OpenMode, Store};
pub use writer::WriterFigures;
