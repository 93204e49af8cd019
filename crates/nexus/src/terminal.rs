//! Conversing: what a person sees of bus events, and the three ways to talk — at a terminal, through
//! a pipe, or with one message. Everything goes over the public protocol.

mod consent;
mod editor;
mod feed;
mod interactive;
mod link;
mod piped;
mod screen;
mod slash;
mod wrap;

pub(crate) use editor::history_file;
pub(crate) use interactive::converse;
pub(crate) use link::{Conversation, Link};
pub(crate) use piped::{Answered, Style, pipe, send_one};
