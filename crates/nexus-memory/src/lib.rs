//! What is remembered: facts as sentences, kept with where they came from, and found again.
//!
//! Recall goes by words. This room bounds what is kept, hides secrets before they can become a row,
//! and marks facts by whose words they are. Storing and searching is `nexus-store`'s.

mod fact;
mod memory;

pub use fact::{LONGEST_FACT, Provenance, Recalled};
pub use memory::{HIGHEST_LIMIT, LONGEST_QUERY, Memory, MemoryError};
