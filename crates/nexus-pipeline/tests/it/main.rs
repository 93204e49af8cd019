//! Sessions through their door: admit, wait, read what was said and done.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests, which the lint cannot see")]

mod abort;
mod budgets;
mod cascade;
mod compaction;
mod enrichment;
mod hooks_after_compaction;
mod lives;
mod panics;
mod prompts;
mod queue_modes;
mod resume;
mod shorten;
mod support;
mod trees;
mod turn_limits;
mod workers;
