//! Sessions: who runs when, what a turn leaves behind, workers and their results, replies on their
//! way out, and going on after a crash.
//!
//! `agents.db` is the truth; everything in memory here can be lost at any instant. What a turn
//! *does* belongs to `nexus-agent`, what happens to a message and in which order to [`crate::stages`].

mod broker;
pub(crate) mod convert;
mod engine;
mod history_cache;
pub(crate) mod ledger;
pub(crate) mod live;
pub(crate) mod outbox;
pub(crate) mod outcome;
pub(crate) mod progress;
pub(crate) mod retry;
mod runner;
mod shorten;
pub(crate) mod taint;
mod waiters;
pub(crate) mod workers;

pub(crate) use broker::Shared;
pub use broker::{Broker, BrokerLimits, BrokerParts, Quiescence};
pub use engine::{AgentRequest, AssignRequest, Assigned, Ended, Engine, Framer, Observer, Passage};
pub(crate) use runner::caught;
pub use shorten::{CompactionRequest, Shortening};
