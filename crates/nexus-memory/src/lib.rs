//! What is remembered: facts as sentences, kept with where they came from, everything that was said,
//! and one way to find both again.
//!
//! Recall goes by words, by meaning, by time and by speaker, needs no model and no network, and leaves
//! out what the asker may not see before it ranks. This crate bounds what is kept, hides secrets before
//! they can become a row, and marks facts by whose words they are. Rows are `nexus-store`'s.

mod answer;
mod dates;
mod extract;
mod fact;
mod forget;
mod index;
mod learn;
mod memory;
mod query;
mod recall;
mod request;
mod utterance;
mod vectors;

pub use answer::{Explanation, ItemId, RecallAnswer, Recalled};
pub use extract::extract;
pub use fact::{MAX_FACT_LEN, Provenance};
pub use forget::{Beside, ForgottenFact, ForgottenSource};
pub use memory::{Memory, MemoryError, VectorCounts};
pub use nexus_embedder::BYTES_PER_VECTOR;
pub use request::{Budget, MAX_LIMIT, MAX_QUERY_LEN, RecallRequest, Scope, Viewer};
pub use utterance::{Extracted, FactKind, Learnt, MAX_UTTERANCE_LEN, Mention, Utterance, Voice};
