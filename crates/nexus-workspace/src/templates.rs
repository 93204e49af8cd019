//! Texts that `init` writes. Edit the files in `templates/`; they are compiled in.

/// Behaviour contract for every agent in the workspace.
pub const AGENTS_MD: &str = include_str!("../templates/AGENTS.md");
/// What the manager is told while no persona exists.
pub const BOOTSTRAP_MD: &str = include_str!("../templates/BOOTSTRAP.md");

/// What a coding harness is told while no persona exists. It has no workers and sends nobody.
pub const INTRODUCTION_MD: &str = include_str!("../templates/INTRODUCTION.md");

/// What the manager is told while a persona exists and its other files do not; `MISSING` stands for them.
pub(crate) const UNFINISHED_MD: &str = include_str!("../templates/UNFINISHED.md");

/// Largest size of [`AGENTS_MD`] in bytes: it is part of every request.
pub const AGENTS_MD_LIMIT: usize = 3_200;
/// Largest size of [`BOOTSTRAP_MD`] in bytes.
pub const BOOTSTRAP_MD_LIMIT: usize = 4_500;
