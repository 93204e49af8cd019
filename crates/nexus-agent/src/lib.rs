//! One turn of an agent: what the model is told, the loop of replies and tool calls, the tools and
//! the limits. Where a turn's steps are kept and how workers are sent off is decided above, behind
//! the traits in [`ports`].

mod budget;
pub mod changes;
mod compaction;
mod context;
pub mod coordination;
mod estimate;
pub mod history;
pub mod marks;
mod memory_tools;
pub mod ports;
mod project_tool;
mod prompt;
mod relevance;
mod scope;
mod sent;
mod taint;
mod toolbox;
pub mod tools;
mod turn;
pub mod web;

pub use budget::Limits;
pub use compaction::{AskedToCompact, Cause as CompactionCause, Compacted, Shortened, Window};
pub use context::{ContextRecord, RememberedFact, SizedCount};
pub use estimate::Calibration;
pub use project_tool::ProjectTool;
pub use prompt::{Assignment, PromptPart, Prompts, RoleSection, SystemPrompt};
pub use scope::{Done, RunFacts, Scope};
pub use sent::SentPart;
pub use taint::{Level as TaintLevel, Taint};
pub use toolbox::Toolbox;
pub use turn::{Agent, AgentParts, End, Role, TurnInput, TurnOutcome};
