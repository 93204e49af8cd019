//! The client against a scripted peer on loopback.

mod answers_are_bounded_and_typed;
mod connections_are_kept_and_renewed;
mod events_survive_any_chunking;
#[expect(clippy::unwrap_used, reason = "a test helper fails by panicking")]
mod peer;
mod token_goes_only_where_it_must;
