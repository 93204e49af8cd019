//! The limit on open files, for tests that hold many connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files as it may: many systems start with 1024.
///
/// # Panics
/// The system refuses what it said it allows.
pub fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .expect("a process may use its own limit");
}
