//! One turn of an agent: what the model is told, the loop of replies and tool calls, the tools and
//! the limits. Where a turn's steps are kept and how workers are sent off is decided above, behind
//! the traits in [`ports`].

mod budget;
pub mod coordination;
pub mod history;
mod memory_tools;
pub mod ports;
mod prompt;
mod toolbox;
pub mod tools;
mod turn;

pub use budget::Limits;
pub use prompt::{PromptPart, SystemPrompt};
pub use toolbox::Toolbox;
pub use turn::{Agent, AgentParts, End, Role, TurnInput, TurnOutcome};
