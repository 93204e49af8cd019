//! Drives memory through its door, over a real store.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod embedder_is_the_shipped_one;
mod every_test_file_is_declared;
mod facts_are_kept_and_found;
