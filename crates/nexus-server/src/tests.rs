//! The whole control plane over real sockets, with a daemon that does what a test says.

mod closing;
mod fake;
mod frames;
mod limits;
mod log;
mod stream;
mod table;
mod tokens;
mod what_is_asked;
