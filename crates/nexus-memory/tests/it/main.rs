//! Drives memory through its door, over a real store.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod access_comes_before_rank;
mod every_test_file_is_declared;
mod facts_are_kept_and_found;
mod forgotten_is_gone;
mod support;
mod turns_are_found_again;
mod what_was_said_becomes_facts;
