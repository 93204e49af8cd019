//! Integration tests of the workspace kernel, one file per behaviour.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test helper fails by panicking")]

mod frames_answer_as_recorded;
mod mounts_are_walls;
mod properties_hold;
mod random_operations_match_a_model;
mod strangers_are_refused;
mod torture_passes;
mod wire_layout;
