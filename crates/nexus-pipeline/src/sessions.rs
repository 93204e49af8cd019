//! Sessions: who runs when, what a turn leaves behind, workers and their results, replies on their
//! way out, and going on after a crash.
//!
//! `agents.db` is the truth; everything in memory here can be lost at any instant. What a turn
//! *does* belongs to `nexus-agent`, what a request means to `pipeline`.

mod broker;
mod convert;
mod dispatch;
mod engine;
mod history_cache;
mod ledger;
mod live;
mod outcome;
mod progress;
mod run;
mod runner;
mod settlement;
mod shorten;
mod taint;
mod waiters;

pub use broker::{Broker, BrokerLimits, BrokerParts, Quiescence};
pub use engine::{AgentRequest, AssignRequest, Assigned, Ended, Engine, Framer, Observer, Passage};
pub use shorten::{CompactionRequest, Shortening};
