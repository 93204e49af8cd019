//! The daemon: boot order, reload, composition.

mod boot;
mod memory_keeper;
mod reload;
mod signals;

pub use boot::{StartError, start};
