//! Integration tests of the project layer, one file per behaviour.

#![expect(clippy::unwrap_used, reason = "a test and its helpers fail by panicking")]

mod a_search_finds_what_is_there;
mod any_artifact_name_stays_inside;
mod capabilities_cover_every_kind;
mod child;
mod crashes_leave_whole_files;
mod faults_leave_state_alone;
mod full_disk_leaves_state_alone;
mod history_is_remembered;
mod history_keeps_every_byte;
mod many_processes_share_a_project;
mod power_may_go;
