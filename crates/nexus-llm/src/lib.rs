//! Models behind one trait: a neutral conversation in, a streamed reply out.
//!
//! The offline guide implements the same trait, so nothing above this room can tell a network
//! model from a local one. Provider wire formats stay inside this room.

mod conversation;
mod error;
mod model;
mod probe;

pub use conversation::{Content, Conversation, Message, Role, StopReason, Usage};
pub use error::ModelError;
pub use model::{Model, ModelEvent, ModelName, ModelReply, ReplySink};
pub use probe::{ProbeRequest, Verdict, probe};
