//! Forgetting: a fact alone, or with everything it came from.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nexus_base::id::{EventId, FactId};
use nexus_store::NotForgotten;
use nexus_store::embeddings::VectorKind;

use crate::memory::{Memory, MemoryError};

/// Largest file that is looked through, in bytes.
const LARGEST_FILE: u64 = 64 * 1024 * 1024;
/// Most files that are looked through.
const MOST_FILES: usize = 10_000;

/// A fact that is gone, and where what it was learnt from still is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenFact {
    /// The fact.
    pub id: FactId,
    /// The event it was learnt from, which still holds the words.
    pub source: Option<EventId>,
}

/// What was forgotten with a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenSource {
    /// The event.
    pub event: EventId,
    /// Facts that went with it.
    pub facts: Vec<FactId>,
    /// Rows that were overwritten.
    pub rows: u64,
    /// What to look for in other files.
    pub quotes: Vec<String>,
}

impl Memory {
    /// Removes a fact with its vector and its place in the index, and says where its source still is.
    ///
    /// # Errors
    /// See [`MemoryError`]; there is no such fact.
    pub async fn forget_fact(&self, id: FactId) -> Result<ForgottenFact, MemoryError> {
        let fact = self.facts.fact(id.clone()).await?.ok_or_else(|| unknown(id.as_str()))?;
        let quoted = fact.source_event_id.clone();
        let source = match quoted {
            Some(event) => self.events.get(event).await?.map(|event| event.id),
            None => None,
        };
        self.forget(id.clone()).await?;
        self.store.scrub().await?;
        Ok(ForgottenFact { id, source })
    }

    /// Overwrites the source of a fact, or an event, with everything that was said and done because of
    /// it and every row that quotes it, and writes the files anew.
    ///
    /// # Errors
    /// See [`MemoryError`]; there is no such thing, or it is still being worked on.
    pub async fn forget_source(&self, fact_or_event: &str) -> Result<ForgottenSource, MemoryError> {
        let fact = self.facts.fact(FactId::new(fact_or_event)).await?;
        let event = match &fact {
            Some(fact) => match &fact.source_event_id {
                Some(event) => event.clone(),
                None => {
                    self.forget(fact.id.clone()).await?;
                    self.store.scrub().await?;
                    let facts = vec![fact.id.clone()];
                    let event = EventId::new("");
                    return Ok(ForgottenSource { event, facts, rows: 1, quotes: vec![fact.text.clone()] });
                }
            },
            None => EventId::new(fact_or_event),
        };
        // Facts first: their rows are needed to find their vectors.
        let facts = self.facts.facts_from(event.clone()).await?;
        let forgotten = match self.store.forget_source(event.clone()).await? {
            Ok(forgotten) => forgotten,
            Err(NotForgotten::Unknown) => return Err(unknown(fact_or_event)),
            Err(NotForgotten::Busy) => return Err(MemoryError::Busy { event }),
        };
        for row in &forgotten.turns {
            self.index.forget(VectorKind::Turn, *row).await?;
        }
        self.index.reload(VectorKind::Fact).await;
        self.embeddings_of_missing_facts().await?;
        self.store.scrub().await?;
        Ok(ForgottenSource {
            event,
            facts: facts.into_iter().map(|fact| fact.id).collect(),
            rows: forgotten.rows,
            quotes: forgotten.quotes,
        })
    }

    /// Removes vectors whose fact is gone.
    async fn embeddings_of_missing_facts(&self) -> Result<(), MemoryError> {
        let known = self.facts.visible_rows(nexus_store::memory::FactFilter::default()).await?;
        let embeddings = self.store.embeddings();
        let stored: Vec<i64> =
            embeddings.visit(VectorKind::Fact, |rows: &mut Vec<i64>, view| rows.push(view.row)).await?;
        for row in stored.into_iter().filter(|row| known.binary_search(row).is_err()) {
            embeddings.remove(VectorKind::Fact, row).await?;
        }
        Ok(())
    }
}

fn unknown(id: &str) -> MemoryError {
    MemoryError::Unknown { id: id.to_owned() }
}

/// Overwrites quotes in the files below a folder where they stand, keeping each file as long as it
/// was: a log stays open for whoever writes it. Folders in `except` and links are left alone. Returns
/// the files that were changed.
///
/// # Errors
/// A file could not be read or written.
pub fn wipe_files(folder: &Path, except: &[PathBuf], quotes: &[String]) -> io::Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if except.contains(&path) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && entry.metadata()?.len() <= LARGEST_FILE && seen < MOST_FILES {
                seen += 1;
                if wipe(&path, quotes)? {
                    changed.push(path);
                }
            }
        }
    }
    Ok(changed)
}

fn wipe(path: &Path, quotes: &[String]) -> io::Result<bool> {
    let mut bytes = Vec::new();
    OpenOptions::new().read(true).open(path)?.read_to_end(&mut bytes)?;
    let mut found = Vec::new();
    for quote in quotes.iter().filter(|quote| !quote.is_empty()) {
        let mut from = 0;
        while let Some(at) = find(&bytes[from..], quote.as_bytes()) {
            found.push((from + at, quote.len()));
            from += at + quote.len();
        }
    }
    if found.is_empty() {
        return Ok(false);
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    for (at, length) in found {
        file.seek(SeekFrom::Start(u64::try_from(at).unwrap_or(u64::MAX)))?;
        file.write_all(&b"*".repeat(length))?;
    }
    file.sync_data()?;
    Ok(true)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    let first = *part.first()?;
    let mut from = 0;
    while let Some(at) = text.get(from..)?.iter().position(|byte| *byte == first) {
        if text[from + at..].starts_with(part) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}
