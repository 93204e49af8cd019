//! Forgetting: a fact alone, or with everything it came from.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use nexus_base::id::{EventId, FactId};
use nexus_base::{failpoint, file};
use nexus_store::embeddings::VectorKind;
use nexus_store::{Forgetting, NotForgotten};

use crate::memory::{Memory, MemoryError};

/// Largest file that is looked through, in bytes.
const MAX_FILE_SIZE: u64 = 64 * 1024 * 1024;
/// Most files that are looked through.
const MAX_FILES: usize = 10_000;

/// A fact that is gone, and where what it was learnt from still is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenFact {
    pub id: FactId,
    /// The event it was learnt from, which still holds the words.
    pub source: Option<EventId>,
}

/// What was forgotten with a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgottenSource {
    /// The event; none when a fact came from nowhere.
    pub event: Option<EventId>,
    /// Facts that went with it.
    pub facts: Vec<FactId>,
    /// Rows that were overwritten.
    pub rows: u64,
    /// Files beside the databases in which it was overwritten.
    pub files: Vec<PathBuf>,
}

/// The files beside the databases that may quote what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside {
    /// Everything below it is looked through.
    pub folder: PathBuf,
    /// But not these.
    pub except: Vec<PathBuf>,
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
        let forgetting = self.store.forget_fact(id.clone()).await?.ok_or_else(|| unknown(id.as_str()))?;
        self.clean_up(&forgetting).await?;
        Ok(ForgottenFact { id, source })
    }

    /// Overwrites the source of a fact, or an event, with everything that was said and done because of
    /// it, every row and every file that quotes it, and writes the databases anew. What a crash cuts off
    /// is completed by [`Memory::finish_forgetting`].
    ///
    /// # Errors
    /// See [`MemoryError`]; there is no such thing, or it is still being worked on.
    pub async fn forget_source(
        &self,
        fact_or_event: &str,
        beside: &Beside,
    ) -> Result<ForgottenSource, MemoryError> {
        let fact = self.facts.fact(FactId::new(fact_or_event)).await?;
        let event = match fact {
            Some(fact) => match fact.source_event_id.clone() {
                Some(event) => event,
                None => {
                    let forgetting = self.store.note_forgetting_fact(&fact).await?;
                    return self.carry_out(forgetting, beside).await;
                }
            },
            None => EventId::new(fact_or_event),
        };
        match self.store.note_forgetting(event.clone()).await? {
            Ok(forgetting) => self.carry_out(forgetting, beside).await,
            Err(NotForgotten::Unknown) => Err(unknown(fact_or_event)),
            Err(NotForgotten::Busy) => Err(MemoryError::Busy { event }),
        }
    }

    /// Completes what was to be forgotten and was cut off; returns how much that was.
    pub async fn finish_forgetting(&self, beside: &Beside) -> Result<usize, MemoryError> {
        let unfinished = self.store.unfinished_forgetting().await?;
        let count = unfinished.len();
        for forgetting in unfinished {
            self.carry_out(forgetting, beside).await?;
        }
        Ok(count)
    }

    async fn carry_out(
        &self,
        forgetting: Forgetting,
        beside: &Beside,
    ) -> Result<ForgottenSource, MemoryError> {
        let (mut rows, mut files) = (0, Vec::new());
        if !forgetting.is_overwritten {
            rows = self.store.overwrite(&forgetting).await?;
            let (Beside { folder, except }, quotes) = (beside.clone(), forgetting.quotes.clone());
            let wiped = tokio::task::spawn_blocking(move || wipe_files(&folder, &except, &quotes)).await;
            files = wiped
                .map_err(|_| MemoryError::Interrupted)?
                .map_err(|source| MemoryError::Files { source })?;
            failpoint::hit("forget.files_wiped");
            self.store.forgetting_overwritten(&forgetting).await?;
        }
        self.clean_up(&forgetting).await?;
        let Forgetting { event, facts, .. } = forgetting;
        Ok(ForgottenSource { event, facts, rows, files })
    }

    /// Removes vectors and what is left in unused parts of the files.
    async fn clean_up(&self, forgetting: &Forgetting) -> Result<(), MemoryError> {
        let Forgetting { turns, quoting, fact_rows, .. } = forgetting;
        for row in turns.iter().chain(quoting) {
            self.index.forget(VectorKind::Turn, *row).await?;
        }
        for row in fact_rows {
            self.index.forget(VectorKind::Fact, *row).await?;
        }
        self.store.scrub().await?;
        failpoint::hit("forget.scrubbed");
        self.store.forgetting_done(forgetting.id()).await?;
        Ok(())
    }
}

fn unknown(id: &str) -> MemoryError {
    MemoryError::Unknown { id: id.to_owned() }
}

/// Overwrites quotes in the files below a folder where they stand, keeping each file as long as it
/// was: a log stays open for whoever writes it. Folders in `except` and links are left alone. Returns
/// the files that were changed.
fn wipe_files(folder: &Path, except: &[PathBuf], quotes: &[String]) -> io::Result<Vec<PathBuf>> {
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
            } else if kind.is_file() && entry.metadata()?.len() <= MAX_FILE_SIZE && seen < MAX_FILES {
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
    file::open_read(path).map_err(|error| error.source)?.read_to_end(&mut bytes)?;
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
    let mut file = file::open_update(path).map_err(|error| error.source)?;
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
