//! Drives the workspace through its door.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod config_edit;
mod config_load;
mod every_test_file_is_declared;
mod init_makes_a_workspace;
mod init_refuses_clearly;
mod personas;
mod root_is_found;
mod skills_ask_before_they_are_followed;
mod support;
mod templates_say_what_they_must;
mod trust_is_bound_to_the_folder;
