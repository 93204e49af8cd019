//! Drives identity through its door, over a real store where rows matter.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod consent_has_an_end;
mod every_test_file_is_declared;
mod permissions_never_grow;
mod policies_decide;
mod policies_from_the_configuration;
mod principals_come_from_their_source;
mod support;
mod tokens_are_known_by_their_hash;
