//! Bindings through their public door: what they leave behind, and that it goes again.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "helpers of tests are tests, which the lint cannot see; files of a test need no care"
)]

mod binds_and_takes_back;
mod hooks_answer;
mod leaves_alone;
