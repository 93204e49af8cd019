//! Drives the way out through its door; loopback only.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod every_test_file_is_declared;
mod guard_holds_on_the_wire;
