//! Named places where a test can kill the process, as `kill -9` would.
//!
//! `NEXUS_FAILPOINT=name` kills at the first pass of that name, `name@3` at the third. Release
//! builds compile the check away, so production never reads the variable.

/// Environment variable naming the place to die at.
pub const VARIABLE: &str = "NEXUS_FAILPOINT";

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
    if let Some((place, passes_left)) = armed
        && place == name
        && passes_left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        die();
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
