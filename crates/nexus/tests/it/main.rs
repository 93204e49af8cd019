//! Integration tests of the `nexus` binary, one file per behaviour.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test and its helpers fail by panicking")]

mod architecture;
mod automations_of_the_owner;
mod automations_remember;
mod backup_comes_back;
mod chat_at_a_terminal;
mod config_command;
mod crash_sweep;
mod crash_sweep_with_tools;
mod credentials_commands;
mod credentials_leak_nowhere;
mod daemon_life;
mod doctor_finds_and_mends;
mod files_lose_power_apart;
mod gateway_asks_the_owner;
mod gateway_holds_messages;
mod gateway_is_closed;
mod gateway_tells_no_secret;
mod gateway_under_load;
mod gateway_workers_are_not_owners;
mod help;
mod init_makes_a_workspace;
mod kernel_commands;
mod kernel_crashes;
mod kernel_inside;
mod kernel_serving;
mod lifecycle;
mod mcp_serves_a_project;
mod models_are_chosen;
mod models_converse;
mod models_in_trouble;
mod project_commands;
mod project_cycle;
mod readme_is_real;
mod scripted;
mod skills_ask_first;
mod threats;
mod tidy;
mod tools_at_work;
mod turns_are_told_everything;
mod turns_meet_bad_input;
mod turns_survive_deaths;
mod undo_takes_back;
mod up_from_nothing;
mod without_a_daemon;
