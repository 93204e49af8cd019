//! Drives the model clients through their door against the scripted server; loopback only.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod every_test_file_is_declared;
mod failover_moves_on;
mod formats_carry_everything;
mod local_servers_are_found;
mod support;
mod trouble_is_typed;
