//! The six SQLite databases of a workspace: opening, migrations, ordered writers with group commit,
//! readers beside them, and typed queries. No other crate sees SQL, and this one decides nothing
//! about sessions, people or memory: it stores what they decided.

mod agents;
mod database;
mod error;
mod migrate;
mod open;
mod readers;
mod schema;
mod store;
mod writer;

pub use agents::Agents;
pub use database::Database;
pub use error::{Cause, StoreError};
pub use open::Prepared;
pub use schema::DatabaseName;
pub use store::{DatabaseHealth, OpenMode, Store};
