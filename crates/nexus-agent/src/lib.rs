//! One turn of an agent: what the model is told, the loop of replies and tool calls, the tools and
//! the limits. Where a turn's steps are kept and how workers are sent off is decided above, behind
//! the traits in [`ports`].

mod budget;
mod channel;
mod compaction;
mod context;
mod estimate;
pub mod history;
pub mod ports;
mod prompt;
mod turn;

pub use budget::Limits;
pub use channel::{Channel, Quoted};
pub use compaction::{AskedToCompact, Compacted, Shortened, Window};
pub use context::{ContextRecord, SizedCount};
pub use estimate::Calibration;
pub use history::SentPart;
pub use prompt::{Assignment, PromptPart, Prompts, RoleSection, SystemPrompt};
pub use turn::{Agent, AgentParts, End, TurnInput, TurnOutcome};
