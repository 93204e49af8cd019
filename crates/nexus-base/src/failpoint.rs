//! Named places where a test can kill the process, as `kill -9` would.
//!
//! `NEXUS_FAILPOINT=name` kills at the first pass of that name, `name@3` at the third.
//! `NEXUS_FAILPOINT_LOG=file` appends every name passed, so that a sweep learns what there is to
//! die at instead of keeping a list. `NEXUS_CLOCK_SHIFT=file` moves the wall clock by the milliseconds
//! that file holds, at every look, so that a test can set it forward and back under a running program.
//! Release builds compile all of it away, so production never reads the variables.

/// Environment variable naming the place to die at.
pub const VARIABLE: &str = "NEXUS_FAILPOINT";

/// Environment variable naming a file that gets one line for each pass.
pub const LOG_VARIABLE: &str = "NEXUS_FAILPOINT_LOG";

/// Environment variable naming a file that says by how many milliseconds the wall clock is wrong.
pub const CLOCK_VARIABLE: &str = "NEXUS_CLOCK_SHIFT";

/// Returns by how many milliseconds a test has moved the wall clock.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn clock_shift() -> i64 {
    0
}

/// Returns by how many milliseconds a test has moved the wall clock.
#[cfg(debug_assertions)]
pub(crate) fn clock_shift() -> i64 {
    use std::sync::OnceLock;

    static FILE: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let Some(file) = FILE.get_or_init(|| std::env::var_os(CLOCK_VARIABLE).map(Into::into)) else { return 0 };
    // Not yet written means not yet moved.
    std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Dies here if a test asked for it.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn hit(_name: &str) {}

/// Dies here if a test asked for it.
#[cfg(debug_assertions)]
pub fn hit(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static ARMED: OnceLock<Option<(String, AtomicU32)>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (place, passes) = match text.rsplit_once('@') {
            Some((place, count)) => (place.to_owned(), count.parse().unwrap_or(1)),
            None => (text, 1),
        };
        Some((place, AtomicU32::new(passes)))
    });
    record(name);
    if let Some((place, passes_left)) = armed
        && place == name
        && passes_left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        die();
    }
}

#[cfg(debug_assertions)]
fn record(name: &str) {
    use std::io::Write as _;
    use std::sync::OnceLock;

    static LOG: OnceLock<Option<std::fs::File>> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let path = std::env::var_os(LOG_VARIABLE)?;
        std::fs::OpenOptions::new().append(true).create(true).open(path).ok()
    });
    if let Some(mut log) = log.as_ref() {
        // One write per line, so that processes sharing the file never mix theirs. A test that
        // cannot read its list fails; the program under test goes on.
        let _ = log.write_all(format!("{name}\n").as_bytes());
    }
}

#[cfg(debug_assertions)]
fn die() -> ! {
    // SIGKILL, so that no destructor, flush or handler runs: the same as losing the process.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    loop {
        std::thread::park();
    }
}
