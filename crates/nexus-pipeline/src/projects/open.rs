//! One project while the daemon works in it: its session's beginning and end, and what Lead is still to be told.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use nexus_project::harness::{self, HarnessId};
use nexus_project::lifecycle::{self, Moment, Place, Reply};
use nexus_project::{Project, ProjectError};
use serde_json::{Map, Value};

use super::Projects;

/// Most notes kept for one conversation.
const MAX_NOTES: usize = 50;

/// A project the daemon works in.
#[derive(Debug)]
pub(crate) struct OpenProject {
    pub(super) project: Arc<Project>,
    state: Mutex<State>,
    /// One session begins or ends at a time.
    turnstile: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// When the session was last used; none while there is none.
    used: Option<Instant>,
    /// What conversations are to be told with their next turn.
    notes: HashMap<String, Vec<String>>,
    /// Somebody waits for the session to grow old.
    watched: bool,
}

impl OpenProject {
    pub(super) fn new(project: Project) -> Self {
        Self { project: Arc::new(project), state: Mutex::default(), turnstile: tokio::sync::Mutex::default() }
    }

    /// Makes sure that a session is under way; returns what its beginning gave when this began it.
    pub(super) async fn enter(
        self: &Arc<Self>,
        projects: &Arc<Projects>,
    ) -> Result<Option<Reply>, ProjectError> {
        let _one = self.turnstile.lock().await;
        let used = self.with(|state| state.used);
        let is_old = used.is_some_and(|used| used.elapsed() >= projects.idle);
        // Somebody may have ended it from outside: then its file is gone.
        let is_there = used.is_some() && self.has_session();
        self.with(|state| state.used = Some(Instant::now()));
        self.watch(projects);
        if is_there && !is_old {
            return Ok(None);
        }
        if is_there && is_old {
            self.moment(projects, Moment::SessionEnd, Map::new()).await?;
        }
        self.moment(projects, Moment::SessionStart, Map::new()).await.map(Some)
    }

    /// Says whether the file of a session is there. One that cannot be read is none: a new beginning replaces it.
    fn has_session(&self) -> bool {
        harness::current(&self.project, &HarnessId::ours())
            .unwrap_or_else(|error| {
                tracing::warn!(error = error.message(), "project session restarted");
                None
            })
            .is_some()
    }

    /// Ends the session, if one is under way.
    pub(super) async fn end(&self, projects: &Projects, why: &str) {
        let _one = self.turnstile.lock().await;
        if self.with(|state| state.used.take()).is_none() {
            return;
        }
        let root = self.project.root().display();
        match self.moment(projects, Moment::SessionEnd, Map::new()).await {
            Ok(reply) => {
                for line in reply.reason.iter().chain(&reply.warnings) {
                    tracing::warn!(project = %root, why, line, "project session ended");
                }
            }
            Err(error) => {
                tracing::warn!(project = %root, why, error = error.message(), "project session not ended")
            }
        }
    }

    /// Deals with a moment on a thread that may wait.
    pub(super) async fn moment(
        &self,
        projects: &Projects,
        moment: Moment,
        payload: Map<String, Value>,
    ) -> Result<Reply, ProjectError> {
        let catalog = projects.catalog().map_err(ProjectError::Refused)?;
        let tool_log = projects.tool_log();
        let handle = move |project: &Project| {
            let place = Place { project, harness: &HarnessId::ours(), catalog: &catalog, tool_log };
            lifecycle::handle(&place, moment, &payload)
        };
        self.waiting(handle).await
    }

    /// Runs something on the project on a thread that may wait.
    pub(super) async fn waiting<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Project) -> Result<T, ProjectError> + Send + 'static,
    ) -> Result<T, ProjectError> {
        let project = Arc::clone(&self.project);
        let done = tokio::task::spawn_blocking(move || work(&project)).await;
        done.unwrap_or_else(|error| Err(ProjectError::Refused(format!("it failed: {error}"))))
    }

    /// Leaves something for a conversation's next turn.
    pub(super) fn leave(&self, conversation: &str, notes: Vec<String>) {
        if notes.is_empty() {
            return;
        }
        self.with(|state| {
            let kept = state.notes.entry(conversation.to_owned()).or_default();
            kept.extend(notes);
            let over = kept.len().saturating_sub(MAX_NOTES);
            kept.drain(..over);
        });
    }

    /// Takes what was left for a conversation.
    pub(super) fn take(&self, conversation: &str) -> Vec<String> {
        self.with(|state| state.notes.remove(conversation).unwrap_or_default())
    }

    /// Ends the session once it has not been used for a day. One task per open session, which sleeps until then.
    fn watch(self: &Arc<Self>, projects: &Arc<Projects>) {
        if self.with(|state| std::mem::replace(&mut state.watched, true)) {
            return;
        }
        let (open, projects) = (Arc::clone(self), Arc::clone(projects));
        // It outlives the turn that opened the session.
        let span = tracing::error_span!(parent: None, "project", project = %open.project.root().display());
        projects.tasks.clone().spawn_in(span, async move {
            while let Some(used) = open.with(|state| state.used) {
                let left = projects.idle.saturating_sub(used.elapsed());
                if left.is_zero() {
                    open.end(&projects, "idle for a day").await;
                    break;
                }
                tokio::select! {
                    () = tokio::time::sleep(left) => {}
                    () = projects.stopping.cancelled() => return,
                }
            }
            open.with(|state| state.watched = false);
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where the workspace's own things lie, which are never a project's.
pub(super) fn exempt(projects: &Projects) -> Vec<PathBuf> {
    [projects.layout.state(), projects.layout.home()]
        .map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()))
        .into()
}
