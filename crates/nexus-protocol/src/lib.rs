//! What crosses a boundary: control-plane requests and answers, bus events, and the tool contract.
//! Types only; nothing here opens, runs or stores anything.

pub mod automations;
pub mod bus;
pub mod chat;
pub mod control;
pub mod error;
pub mod framing;
pub mod memory;
pub mod methods;
pub mod models;
pub mod run;
pub mod schema;
pub mod sse;
pub mod status;
pub mod tool;
pub mod trace;
pub mod ws;
