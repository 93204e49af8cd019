//! A command and marked files: which of them it has read, and what it has made of them.
//!
//! Nobody sees what a command reads. It counts as having read a marked file that it names, or whose lines it
//! shows; files it changes carry on the mark of a tainted run, or of the lines they repeat.

use std::path::{Path, PathBuf};

use nexus_base::jail::Jail;

use super::marked::marker;
use crate::marks::{FileMarks, Known, Mark, Marker, covering, source};
use crate::scope::Scope;

/// The longest changed file compared with marked ones.
const MAX_FILE_LEN: u64 = 512 * 1024;

/// What is watched while one command runs.
pub(super) struct Watch<'a> {
    marks: Option<&'a dyn FileMarks>,
    folder: &'a Path,
    /// Marks in the folder before the command, the one that covers all of it first.
    before: Vec<Mark>,
    whole: Option<Mark>,
    /// Who marks what the command changes.
    marker: Option<Marker>,
    /// The command may change nothing.
    looks_only: bool,
    who: Marker,
}

impl<'a> Watch<'a> {
    /// Begins to watch. The folder of a command that may hold words from outside, or bring some, is marked
    /// until it has ended: a death in between leaves the mark.
    pub(super) async fn begin(
        marks: Option<&'a dyn FileMarks>,
        folder: &'a Path,
        scope: &Scope<'_>,
        brings: Option<&str>,
    ) -> Result<Self, String> {
        let who = Marker {
            call: scope.call.clone(),
            request: scope.turn.request_id.clone(),
            sources: brings.unwrap_or_default().to_owned(),
        };
        let looks_only = scope.look_only.is_some();
        let (mut before, mut whole, mut tainted) = (Vec::new(), None, None);
        if let Some(marks) = marks {
            before = marks.touching(folder).await.map_err(|error| format!("not run: {error}"))?;
            whole = covering(&before, folder).cloned();
            tainted = marker(scope).or_else(|| brings.is_some().then(|| who.clone()));
            if let Some(marker) = tainted.as_ref().filter(|_| !looks_only) {
                let marked = marks.begin_command(marker, folder).await;
                marked.map_err(|error| format!("not run: {error}"))?;
            }
        }
        Ok(Self { marks, folder, before, whole, marker: tainted, looks_only, who })
    }

    /// Ends it; `changed` are the files the command changed, if that is known. Returns the marked file it has
    /// read, as a source.
    pub(super) async fn end(
        self,
        command: &str,
        shown: &str,
        changed: Option<Vec<PathBuf>>,
    ) -> Option<String> {
        let marks = self.marks?;
        let mut read = self.whole.as_ref().map(|mark| self.source_of(mark));
        let known = self.look().await;
        if read.is_none() {
            let found = known.named_in(command).or_else(|| known.repeated_in(shown.as_bytes()));
            read = found.map(|mark| self.source_of(mark));
        }
        if self.looks_only {
            return read;
        }
        let marker = self
            .marker
            .clone()
            .or_else(|| read.clone().map(|sources| Marker { sources, ..self.who.clone() }));
        let outcome = match marker {
            Some(marker) => {
                let changed = changed.unwrap_or_else(|| vec![self.folder.to_owned()]);
                marks.end_command(&marker, changed).await
            }
            None => self.mark_copies(marks, &known, changed.unwrap_or_default()).await,
        };
        if let Err(error) = outcome {
            // A mark from before stays. Where there is none the run is tainted instead of its files.
            tracing::warn!(%error, "taint of files changed by a command not recorded");
            read = read.or_else(|| Some("files whose taint could not be recorded".to_owned()));
        }
        read
    }

    /// Marks changed files that repeat lines of marked ones, as a copy does.
    async fn mark_copies(
        &self,
        marks: &dyn FileMarks,
        known: &Known,
        changed: Vec<PathBuf>,
    ) -> Result<(), crate::ports::LedgerError> {
        if known.is_empty() || changed.is_empty() {
            return Ok(());
        }
        let Ok(jail) = Jail::open(self.folder) else { return Ok(()) };
        for path in changed {
            let inside = path.strip_prefix(self.folder).unwrap_or(&path);
            let content = jail.read(inside, MAX_FILE_LEN).unwrap_or_default();
            if let Some(mark) = known.repeated_in(&content)
                && mark.path != path
            {
                let marker = Marker { sources: self.source_of(mark), ..self.who.clone() };
                marks.mark(&marker, &path).await?;
            }
        }
        Ok(())
    }

    async fn look(&self) -> Known {
        if self.before.is_empty() {
            return Known::default();
        }
        let (folder, marks) = (self.folder.to_owned(), self.before.clone());
        tokio::task::spawn_blocking(move || Known::look(&folder, marks)).await.unwrap_or_default()
    }

    fn source_of(&self, mark: &Mark) -> String {
        let shown = mark.path.strip_prefix(self.folder).unwrap_or(&mark.path).display().to_string();
        source(if shown.is_empty() { "task folder" } else { &shown }, mark)
    }
}
