//! What a run has read that nobody vouches for, and what follows from it.
//!
//! A run is one request of the owner with everything it leads to. Once it has read a web page, a tool
//! server's words or a stranger's, it stays in its box: no network for commands, changes only in its
//! task folder, memory marked as nobody's. Where the mark is kept is decided above.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use nexus_memory::Provenance;

use crate::ports::Role;

/// The most sources named; more of them change nothing.
const MAX_SOURCES: usize = 16;
/// The longest name of a source, in characters.
const MAX_SOURCE_LEN: usize = 300;
/// The most addresses remembered as seen.
const MAX_SEEN: usize = 4_000;
/// Stands before sources that only an earlier run of the same conversation read.
const EARLIER: &str = "(earlier) ";
/// Stands between sources where several share a line.
const BETWEEN: &str = "; ";

/// How far a run is to be trusted with what it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It has read only what the owner and the workspace say.
    Clean,
    /// An earlier run of this conversation read something; its words are still in view.
    Shadow,
    /// It has read something itself.
    Tainted,
}

/// What a run has read; shared by everything that happens in it.
#[derive(Debug, Default)]
pub struct Taint {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sources: Vec<String>,
    earlier: Vec<String>,
    seen: HashSet<String>,
}

impl Taint {
    /// Begins with what is known already: lines or facts as [`Taint::stored`] and [`Taint::fact`] wrote them.
    pub fn new<'a>(known: impl IntoIterator<Item = &'a str>) -> Self {
        let taint = Self::default();
        for text in known {
            for source in text.lines().flat_map(|line| line.split(BETWEEN)) {
                match source.strip_prefix(EARLIER) {
                    Some(source) => taint.shadow(source),
                    None => drop(taint.add(source)),
                }
            }
        }
        taint
    }

    /// Notes that the run reads from `source`; returns whether that is new.
    pub fn add(&self, source: &str) -> bool {
        let source = tidy(source);
        let mut inner = self.lock();
        let is_new =
            !source.is_empty() && inner.sources.len() < MAX_SOURCES && !inner.sources.contains(&source);
        if is_new {
            inner.sources.push(source);
        }
        is_new
    }

    /// Notes that an earlier run of this conversation read from `source`.
    pub fn shadow(&self, source: &str) {
        let source = tidy(source);
        let mut inner = self.lock();
        if !source.is_empty() && inner.earlier.len() < MAX_SOURCES && !inner.earlier.contains(&source) {
            inner.earlier.push(source);
        }
    }

    /// Returns how far the run is to be trusted.
    pub fn level(&self) -> Level {
        let inner = self.lock();
        match (inner.sources.is_empty(), inner.earlier.is_empty()) {
            (false, _) => Level::Tainted,
            (true, false) => Level::Shadow,
            (true, true) => Level::Clean,
        }
    }

    /// Returns what the run itself has read, one source a line, as it is kept; none when nothing.
    pub fn stored(&self) -> Option<String> {
        let inner = self.lock();
        (!inner.sources.is_empty()).then(|| inner.sources.join("\n"))
    }

    /// Returns the fact that travels with everything the run hands on: tasks, results, messages.
    pub fn fact(&self) -> Option<String> {
        let inner = self.lock();
        let earlier = inner.earlier.iter().map(|source| format!("{EARLIER}{source}"));
        let all: Vec<String> = match inner.sources.is_empty() {
            false => inner.sources.clone(),
            true => earlier.collect(),
        };
        (!all.is_empty()).then(|| all.join(BETWEEN))
    }

    /// Returns the reason for a refusal or a question, in words.
    pub fn reason(&self) -> Option<String> {
        let inner = self.lock();
        match (inner.sources.first(), inner.earlier.first()) {
            (Some(source), _) => Some(format!("this run has read {source}, which is not a trusted source")),
            (None, Some(source)) => {
                Some(format!("this conversation has read {source}, which is not a trusted source"))
            }
            (None, None) => None,
        }
    }

    /// Returns the first thing that was read, by this run or an earlier one of the conversation.
    pub(crate) fn origin(&self) -> Option<String> {
        let inner = self.lock();
        inner.sources.first().or(inner.earlier.first()).cloned()
    }

    /// Remembers an address that stood in what was read.
    pub(crate) fn saw_address(&self, address: &str) {
        let mut inner = self.lock();
        if inner.seen.len() < MAX_SEEN {
            inner.seen.insert(address.to_owned());
        }
    }

    /// Tells whether an address stood in what was read: asking for it tells nobody anything new.
    pub(crate) fn has_seen(&self, address: &str) -> bool {
        self.lock().seen.contains(address)
    }

    /// Returns whose words a fact is that the run wants to keep.
    pub(crate) fn provenance(&self, role: Role) -> Provenance {
        match (self.level(), role) {
            // What a manager keeps are its owner's words; a worker works things out.
            (Level::Clean, Role::Manager) => Provenance::Owner,
            (Level::Clean, Role::Worker) | (Level::Shadow, _) => Provenance::Agent,
            (Level::Tainted, _) => Provenance::Untrusted,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes one short line of a source, without what separates sources.
fn tidy(source: &str) -> String {
    let flat: String = source
        .replace(BETWEEN, ", ")
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(MAX_SOURCE_LEN)
        .collect();
    flat.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_on_says_the_same_to_the_next() {
        let taint = Taint::new([]);
        assert_eq!((taint.level(), taint.fact(), taint.stored()), (Level::Clean, None, None));
        assert_eq!(taint.provenance(Role::Manager), Provenance::Owner);
        taint.shadow("the page a");
        assert_eq!(taint.level(), Level::Shadow);
        let worker = Taint::new(taint.fact().as_deref());
        assert_eq!((worker.level(), worker.stored()), (Level::Shadow, None));
        assert_eq!(worker.provenance(Role::Manager), Provenance::Agent);
        assert!(worker.add("the page b; and\nmore") && !worker.add("the page b, and more"));
        assert_eq!(worker.stored().as_deref(), Some("the page b, and more"));
        let parent = Taint::new(worker.fact().as_deref());
        assert_eq!(parent.level(), Level::Tainted);
        assert_eq!(parent.provenance(Role::Worker), Provenance::Untrusted);
        assert!(parent.reason().unwrap().contains("the page b"));
    }

    #[test]
    fn sources_are_bounded() {
        let taint = Taint::default();
        for number in 0..100 {
            taint.add(&format!("{number} {}", "x".repeat(1000)));
        }
        assert!(taint.stored().unwrap().len() < MAX_SOURCES * (MAX_SOURCE_LEN + 1));
    }
}
