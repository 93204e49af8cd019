//! The control plane over HTTP and WebSocket: routes, frames, authentication, limits and the event
//! stream.
//!
//! It owns the way in and nothing behind it: every decision about a message is the runtime's, the
//! listener is bound by the boot, and the token's comparison lies with whoever knows the token.

mod answer;
mod body;
mod connections;
mod daemon;
mod events;
mod gate;
mod linger;
mod meters;
mod own_names;
mod parameters;
mod routes;
mod serve;
mod stall;
mod throttle;
mod ws;

#[cfg(test)]
mod tests;

pub use routes::{RouteInfo, routes};
pub use serve::serve;
