//! Bindings: the same workspace and project inside other people's coding harnesses. This crate knows
//! which files a harness reads, changes them without touching what is somebody else's, and takes
//! everything back again. What a hook decides belongs to the project layer.

mod check;
mod edit;
mod error;
mod ground;
mod harness;
mod hook;
mod plan;
mod record;
mod wanted;

pub use check::{Standing, State, check, open_reviews};
pub use error::BindingError;
pub use ground::Ground;
pub use harness::Harness;
pub use hook::{Clock, HookAnswer, HookCall, HookEvent, Surroundings};
pub use plan::Plan;
pub use record::RecordFolder;
