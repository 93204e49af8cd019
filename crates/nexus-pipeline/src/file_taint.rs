//! Marks of files over `agents.db`, with a copy in memory so that looking costs nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use nexus_base::clock::Timestamp;
use nexus_base::id::ToolCallId;
use nexus_store::agents::{Agents, FileMark, MarkChange};
use nexus_tools::marks::{FileMarks, Mark, Marker};
use nexus_tools::ports::LedgerError;
use tokio::sync::OnceCell;

/// The longest list of sources kept with a mark, in characters.
const MAX_SOURCES_LEN: usize = 600;

/// A mark is known by its path and, while a command runs, by its call.
type Key = (String, Option<String>);

/// The marks of a workspace.
#[derive(Debug)]
pub(crate) struct KeptMarks {
    agents: Agents,
    /// The workspace, without links.
    root: PathBuf,
    known: OnceCell<Mutex<BTreeMap<Key, FileMark>>>,
}

impl KeptMarks {
    pub(crate) fn new(agents: Agents, root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { agents, root, known: OnceCell::new() }
    }

    async fn known(&self) -> Result<&Mutex<BTreeMap<Key, FileMark>>, LedgerError> {
        self.known
            .get_or_try_init(|| async {
                let marks = self.agents.file_marks().await.map_err(|error| LedgerError(error.to_string()))?;
                Ok(Mutex::new(marks.into_iter().map(|mark| (key(&mark), mark)).collect()))
            })
            .await
    }

    /// Writes a change, then knows it.
    async fn change(&self, change: MarkChange) -> Result<(), LedgerError> {
        let known = self.known().await?;
        let written = self.agents.change_marks(change.clone()).await;
        written.map_err(|error| LedgerError(error.to_string()))?;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = change.ended.as_ref().map(ToString::to_string);
        known.retain(|(path, call), _| !(change.removed.contains(path) || call.is_some() && *call == ended));
        known.extend(change.added.into_iter().map(|mark| (key(&mark), mark)));
        Ok(())
    }

    fn named(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    fn made(&self, marker: &Marker, path: &Path, call: Option<ToolCallId>) -> FileMark {
        FileMark {
            path: self.named(path),
            call,
            request: marker.request.clone(),
            sources: marker.sources.chars().take(MAX_SOURCES_LEN).collect(),
            at: Timestamp::now(),
        }
    }
}

#[async_trait]
impl FileMarks for KeptMarks {
    async fn touching(&self, path: &Path) -> Result<Vec<Mark>, LedgerError> {
        let known = self.known().await?.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known
            .values()
            .map(|mark| (self.root.join(&mark.path), mark))
            .filter(|(marked, _)| path.starts_with(marked) || marked.starts_with(path))
            .map(|(path, mark)| Mark { path, sources: mark.sources.clone() })
            .collect())
    }

    async fn mark(&self, marker: &Marker, path: &Path) -> Result<(), LedgerError> {
        self.change(MarkChange { added: vec![self.made(marker, path, None)], ..MarkChange::default() }).await
    }

    async fn begin_command(&self, marker: &Marker, folder: &Path) -> Result<(), LedgerError> {
        let mark = self.made(marker, folder, Some(marker.call.clone()));
        self.change(MarkChange { added: vec![mark], ..MarkChange::default() }).await
    }

    async fn end_command(&self, marker: &Marker, changed: Vec<PathBuf>) -> Result<(), LedgerError> {
        let added = changed.iter().map(|path| self.made(marker, path, None)).collect();
        self.change(MarkChange { ended: Some(marker.call.clone()), removed: Vec::new(), added }).await
    }

    async fn cut_off(&self, call: &ToolCallId) -> Result<Option<Marker>, LedgerError> {
        let known = self.known().await?.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = known.values().find(|mark| mark.call.as_ref() == Some(call));
        Ok(mark.map(|mark| Marker {
            call: call.clone(),
            request: mark.request.clone(),
            sources: mark.sources.clone(),
        }))
    }

    async fn clear(&self, path: &Path) -> Result<(), LedgerError> {
        self.change(MarkChange { removed: vec![self.named(path)], ..MarkChange::default() }).await
    }
}

fn key(mark: &FileMark) -> Key {
    (mark.path.clone(), mark.call.as_ref().map(ToString::to_string))
}
