//! What is remembered: facts as sentences, kept with where they came from, and found again.
//!
//! Recall goes by words. This room bounds what is kept, hides secrets before they can become a row,
//! and marks facts by whose words they are. Storing and searching is `nexus-store`'s.

mod answer;
mod fact;
mod memory;
mod request;
mod utterance;

pub use answer::{Explanation, ItemId, RecallAnswer, Recalled};
pub use fact::{LONGEST_FACT, Provenance};
pub use memory::{Memory, MemoryError};
pub use request::{Budget, HIGHEST_LIMIT, LONGEST_QUERY, RecallRequest, Scope, Viewer};
pub use utterance::{Extracted, FactKind, LONGEST_UTTERANCE, Learnt, Mention, Utterance, Voice};
