//! Drives credentials through their door.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod boot_sync_makes_pointers;
mod every_test_file_is_declared;
mod folder_is_tolerant;
mod no_secret_is_written;
mod resolve_fetches_late;
mod scan_masks_what_it_finds;
mod support;
