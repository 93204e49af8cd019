//! The daemon: boot order, reload, composition.

mod boot;
mod disk_reserve;
mod memory_keeper;
mod reload;
mod signals;

pub use boot::{StartError, start};
