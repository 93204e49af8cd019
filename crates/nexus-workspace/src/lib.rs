//! The workspace folder: where everything lies, how it is made, its configuration, templates,
//! personas and skills, and the record outside it that says whose it is.
//!
//! Databases are not made here (`nexus-store`), and no environment variable is read here: names are
//! constants in [`environment`], values come in as arguments.

pub mod config;
pub mod environment;
mod folder;
pub mod init;
mod layout;
pub mod persona;
mod root;
pub mod skills;
mod start;
pub mod templates;
pub mod trust;
pub mod watched;

pub use layout::{Layout, LayoutOverrides};
pub use root::{ResolvedRoot, RootError, RootRequest, RootSource, resolve_root};
pub use start::StartOptions;
