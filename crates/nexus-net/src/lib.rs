//! The only way out to the network: HTTP with TLS, and a guard against addresses nobody meant.
//!
//! A request goes out under a [`Reach`]. An address that a model or a web page named may reach public
//! hosts only, looked at after its name is resolved and again on every redirect. A base URL the owner
//! configured may be any host, but then exactly that one. What is said over a connection is for others.

mod address;
mod error;
mod net;
mod reach;
mod request;
mod resolver;
mod response;

pub use address::{Kept, kept_address};
pub use error::NetError;
pub use net::Net;
pub use reach::{BaseUrl, Reach, join_address, normal_address, with_query};
pub use request::{Method, Request};
pub use response::Response;
