//! Drives automations through their door, over a real store and a real workspace.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod active_automations;
mod every_test_file_is_declared;
mod programs;
mod prompts;
mod runner;
mod seeding;
mod support;
