//! The shipped asset and its word pieces, through the crate's exports.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod embedder_is_the_shipped_one;
mod every_test_file_is_declared;
