//! The typed control-plane client: what the terminal, hooks and the MCP server use to talk to a
//! running daemon. It speaks HTTP/1.1 to loopback only; finding the port and the token is the
//! caller's business, and so is showing anything to a person.

mod client;
mod connection;
mod error;
mod events;
mod query;
mod socket;

pub use client::{Client, probe};
pub use error::ClientError;
pub use events::EventStream;
pub use socket::Socket;
