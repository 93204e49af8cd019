//! The torture suite: everything that is known to break servers of this protocol, tried on a clean
//! temporary run folder, one verdict per case. It drives the planes as a client does, over sockets,
//! and reads what they left on disk and in their logs.

mod arena;
mod hardening;
mod jail;
mod logs;
mod operations;
mod planes;
mod seed;
mod stand_in;
mod wire;

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::{Duration, Instant};

use arena::Arena;

/// What a case found: nothing wrong, or what.
type Check = Result<(), String>;

/// One thing that must hold.
struct Case {
    name: &'static str,
    run: fn(&mut Arena) -> Check,
}

/// What became of one case.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The case.
    pub name: &'static str,
    /// What was wrong, if anything.
    pub failure: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Returns the names of all cases, in the order they run.
pub fn case_names() -> Vec<&'static str> {
    cases().map(|case| case.name).collect()
}

/// Runs all cases whose name contains `filter`, each in a new folder below `place`, or below a
/// temporary folder in memory or on disk. Tells each verdict as it falls; returns how many failed.
pub fn run(filter: &str, place: Option<&Path>, mut tell: impl FnMut(&Verdict)) -> usize {
    let mut failed = 0;
    for case in cases().filter(|case| case.name.contains(filter)) {
        let started = Instant::now();
        let failure = judge(case, place).err();
        failed += usize::from(failure.is_some());
        tell(&Verdict { name: case.name, failure, took: started.elapsed() });
    }
    failed
}

fn cases() -> impl Iterator<Item = &'static Case> {
    [seed::CASES, hardening::CASES, wire::CASES, operations::CASES, jail::CASES, planes::CASES, logs::CASES]
        .into_iter()
        .flatten()
}

/// Runs one case in a run folder of its own; a panic is a failure like any other.
fn judge(case: &Case, place: Option<&Path>) -> Check {
    let mut arena = Arena::new(place)?;
    std::panic::catch_unwind(AssertUnwindSafe(|| (case.run)(&mut arena)))
        .unwrap_or_else(|_| Err("the case panicked".to_owned()))
}
