//! How a project's memory comes and goes: what is kept, where it is added, and how a file is removed so that
//! it can be had again. Reads are counted elsewhere; here they are signs.
//!
//! Nothing is removed by itself. A person names files, or gives three limits at once, and every removal is a commit.

mod collect;
mod git;
mod keep;

pub use collect::{Limits, Removed, Standing, remove, standings, unused};
pub use keep::{Kept, keep, keep_rule};

#[cfg(test)]
mod tests;
