//! The guide, driven through the model trait the way the runtime drives it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a failed test may panic, and the measured rate is printed"
)]

mod corpus;
mod declared;
mod interruptions;
mod onboarding;
mod properties;
mod streaming;
mod transcript;
mod world;
