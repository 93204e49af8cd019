//! Drives credentials through their door.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod bad_pointers_stop_nothing;
mod boot_sync_makes_pointers;
mod every_test_file_is_declared;
mod failures_rest_and_recover;
mod folder_is_tolerant;
mod no_secret_is_written;
mod resolve_fetches_late;
mod scan_masks_what_it_finds;
mod secrets_are_kept_elsewhere;
mod support;
