//! The tools that touch files and run commands.
//!
//! Which paths a role may use is decided here by code ([`FileAccess`]), and what a command may touch by the
//! sandbox profile of its [`Shell`]. Every failure is a text for the model: what, where, what to do. When a
//! tool may run at all, and what is kept of its result, is decided above.

mod access;
mod arguments;
mod artifacts;
mod background;
mod bash;
mod edit;
mod glob;
mod grep;
mod list;
mod marked;
mod modes;
mod read;
mod shell;
mod walk;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use nexus_base::text::visible;
use nexus_protocol::tool::{ToolOutput, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::changes::{Author, Changes};
use crate::marks::FileMarks;
use crate::scope::{Consent, Done, Scope, in_full};
use crate::specs::spec;
use crate::taint::Level;

pub use access::{AccessError, FileAccess, Rights};
pub use artifacts::Artifacts;
pub use background::BackgroundPrograms;
pub use shell::{OpenToolSocket, Shell, ShellError, ShellSetup, Unconfined};

use arguments::Arguments;

/// The tools of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Read,
    Write,
    Edit,
    List,
    Glob,
    Grep,
    Bash,
}

/// Why the owner is asked before the file that names the persona in use is changed.
const ACTIVE_PERSONA: &str = "it decides which persona speaks";

/// What a manager has: it talks, and keeps notes.
const MANAGER: &[Tool] = &[Tool::Read, Tool::Write, Tool::Edit];
/// What a worker has besides a shell.
const WORKER: &[Tool] = &[Tool::Read, Tool::Write, Tool::Edit, Tool::List, Tool::Glob, Tool::Grep];

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Self::Read => read::NAME,
            Self::Write => write::NAME,
            Self::Edit => edit::NAME,
            Self::List => list::NAME,
            Self::Glob => glob::NAME,
            Self::Grep => grep::NAME,
            Self::Bash => bash::NAME,
        }
    }
}

/// The file tools, and the shell where there is one, of one session.
#[derive(Debug)]
pub struct FileTools {
    access: Arc<FileAccess>,
    shell: Option<Shell>,
    tools: Vec<Tool>,
    changes: Option<Changes>,
    artifacts: Option<Arc<Artifacts>>,
    marks: Option<Arc<dyn FileMarks>>,
}

/// What a call that changes a file leaves behind.
#[derive(Debug)]
struct Trail {
    changes: Option<Changes>,
    author: Author,
}

impl FileTools {
    /// Gives a manager's tools: reading and writing what `access` grants.
    pub fn manager(access: FileAccess) -> Self {
        Self::new(access, None, MANAGER.to_vec())
    }

    /// Gives a worker's tools: everything on files, and `bash` if there is a shell.
    pub fn worker(access: FileAccess, shell: Option<Shell>) -> Self {
        let mut tools = WORKER.to_vec();
        tools.extend(shell.is_some().then_some(Tool::Bash));
        Self::new(access, shell, tools)
    }

    fn new(access: FileAccess, shell: Option<Shell>, tools: Vec<Tool>) -> Self {
        Self { access: Arc::new(access), shell, tools, changes: None, artifacts: None, marks: None }
    }

    /// Keeps every file as it was before a call changes it.
    #[must_use]
    pub fn changes(mut self, changes: Changes) -> Self {
        self.changes = Some(changes);
        self
    }

    /// Lets `read` open kept results.
    #[must_use]
    pub fn artifacts(mut self, artifacts: Arc<Artifacts>) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Marks what tainted runs write, and tells whoever reads it.
    #[must_use]
    pub fn marks(mut self, marks: Arc<dyn FileMarks>) -> Self {
        self.marks = Some(marks);
        self
    }

    /// Returns what the model is told.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().filter_map(|tool| spec(tool.name())).collect()
    }

    /// Returns whether there is a tool of that name here.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Runs one call to its end.
    pub async fn call(&self, name: &str, arguments: &Value, scope: &Scope<'_>) -> Done {
        let Some(tool) = self.find(name) else {
            return Done::own(ToolOutput::error(format!("there is no tool {name:?} here")));
        };
        let arguments = match Arguments::new(arguments) {
            Ok(arguments) => arguments,
            Err(text) => return Done::own(ToolOutput::error(text)),
        };
        let trail = Trail { changes: self.changes.clone(), author: author(scope) };
        match (tool, &self.shell) {
            (Tool::Bash, Some(shell)) => {
                bash::call(shell, &arguments, scope, &trail, self.marks.as_deref()).await
            }
            (Tool::Bash, None) => Done::from(Err("there is no shell tool here".to_owned())),
            (Tool::Write | Tool::Edit, _) => {
                let standing = match self.may_change(tool, &arguments, scope).await {
                    Ok(standing) => standing,
                    Err(refusal) => return Done::from(Err(refusal)),
                };
                self.changing(tool, standing, arguments, trail, scope).await
            }
            (Tool::Read | Tool::List | Tool::Glob | Tool::Grep, _) => {
                self.looking(tool, arguments, trail, scope).await
            }
        }
    }

    fn find(&self, name: &str) -> Option<Tool> {
        self.tools.iter().copied().find(|tool| tool.name() == name)
    }

    /// Asks the owner before a run that read somebody's words changes anything but its task folder, and before
    /// anybody changes what is the owner's to decide.
    async fn may_change(
        &self,
        tool: Tool,
        arguments: &Arguments,
        scope: &Scope<'_>,
    ) -> Result<Standing, String> {
        let tainted = scope.run.taint.reason().filter(|_| scope.level > Level::Clean);
        let path = arguments.text("path")?;
        let place = self.access.place(path)?;
        let reason = match (tainted, self.access.is_asked(&place)) {
            (None, false) => return Ok(Standing::Clean),
            (Some(_), false) if place.starts_with(self.access.task_folder()) => return Ok(Standing::Boxed),
            (Some(reason), false) => reason,
            (None, true) => ACTIVE_PERSONA.to_owned(),
            (Some(reason), true) => format!("{ACTIVE_PERSONA} and {reason}"),
        };
        // Nobody is asked about what would be refused anyway.
        self.access.resolve(path, Rights::ReadWrite)?;
        let name = tool.name();
        let shown = visible::line(&self.access.show(&place));
        let summary = if tool == Tool::Edit {
            let everywhere = arguments.switch("replace_all")?;
            let heading = format!(
                "edit {shown}, {}:",
                if everywhere { "wherever it occurs" } else { "where it occurs" }
            );
            let marked = |mark: &str, text: &str| -> String {
                text.split('\n').map(|line| format!("{mark} {line}\n")).collect()
            };
            let change = marked("-", arguments.text("old")?) + &marked("+", arguments.text("new")?);
            in_full(&heading, change.trim_end_matches('\n'))?
        } else {
            in_full(&format!("write {shown}:"), arguments.text("content")?)?
        };
        let hash = crate::changes::hash_of(summary.as_bytes());
        let consent = Consent {
            tool: name,
            runs_command: false,
            summary,
            resources: vec![format!("{name}:{}#{hash}", place.display())],
            reason,
        };
        scope.consent(consent).await.map(|()| Standing::Vouched)
    }

    /// Runs a file tool on a thread of its own: disks can be slow and trees large.
    async fn on_files(
        &self,
        tool: Tool,
        arguments: Arguments,
        trail: Trail,
        cancel: CancellationToken,
    ) -> Done {
        let (access, artifacts) = (Arc::clone(&self.access), self.artifacts.clone());
        let work = tokio::task::spawn_blocking(move || match tool {
            Tool::Read => match read::call(&access, artifacts.as_deref(), &arguments) {
                (Ok(text), true) => Done::from_outside(ToolOutput::ok(text), "a stored result from outside"),
                (result, _) => Done::from(result),
            },
            Tool::Write => Done::from(write::call(&access, &arguments, &trail)),
            Tool::Edit => Done::from(edit::call(&access, &arguments, &trail)),
            Tool::List => Done::from(list::call(&access, &arguments)),
            Tool::Glob => Done::from(glob::call(&access, &arguments, &cancel)),
            Tool::Grep => Done::from(grep::call(&access, &arguments, &cancel)),
            Tool::Bash => Done::from(Err("bash is not a file tool".to_owned())),
        });
        let name = tool.name();
        work.await.unwrap_or_else(|error| Done::from(Err(format!("{name} failed: {error}"))))
    }
}

/// Whose words a change of a file carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Those of a run that has read nothing from outside.
    Clean,
    /// Perhaps somebody's from outside; the file is marked.
    Boxed,
    /// The owner has seen and allowed exactly this.
    Vouched,
}

fn author(scope: &Scope<'_>) -> Author {
    Author {
        run: scope.run.root_request_id.clone(),
        request: scope.turn.request_id.clone(),
        session: scope.turn.session.to_string(),
        call: scope.call.clone(),
    }
}
