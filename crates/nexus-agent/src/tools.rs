//! The tools that touch files and run commands.
//!
//! Which paths a role may use is decided here by code ([`FileAccess`]), and what a command may touch by the
//! sandbox profile of its [`Shell`]. Every failure is a text for the model: what, where, what to do. When a
//! tool may run at all, and what is kept of its result, is decided above.

mod access;
mod arguments;
mod bash;
mod edit;
mod glob;
mod grep;
mod list;
mod modes;
mod read;
mod shell;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use nexus_protocol::tool::{ToolOutput, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use access::{AccessError, FileAccess, Rights};
pub use shell::{OpenRunSocket, Shell, ShellError, ShellSetup, Unconfined};

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

    fn spec(self) -> ToolSpec {
        match self {
            Self::Read => read::spec(),
            Self::Write => write::spec(),
            Self::Edit => edit::spec(),
            Self::List => list::spec(),
            Self::Glob => glob::spec(),
            Self::Grep => grep::spec(),
            Self::Bash => bash::spec(),
        }
    }
}

/// The file tools, and the shell where there is one, of one session.
#[derive(Debug)]
pub struct FileTools {
    access: Arc<FileAccess>,
    shell: Option<Shell>,
    tools: Vec<Tool>,
}

impl FileTools {
    /// Gives a manager's tools: reading and writing what `access` grants.
    pub fn manager(access: FileAccess) -> Self {
        Self { access: Arc::new(access), shell: None, tools: MANAGER.to_vec() }
    }

    /// Gives a worker's tools: everything on files, and `bash` if there is a shell.
    pub fn worker(access: FileAccess, shell: Option<Shell>) -> Self {
        let mut tools = WORKER.to_vec();
        tools.extend(shell.is_some().then_some(Tool::Bash));
        Self { access: Arc::new(access), shell, tools }
    }

    /// Returns what the model is told.
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(|tool| tool.spec()).collect()
    }

    /// Returns whether there is a tool of that name here.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Runs one call to its end.
    pub async fn call(&self, name: &str, arguments: &Value, cancel: &CancellationToken) -> ToolOutput {
        let Some(tool) = self.find(name) else {
            return ToolOutput::error(format!("there is no tool {name:?} here"));
        };
        let arguments = match Arguments::new(arguments) {
            Ok(arguments) => arguments,
            Err(text) => return ToolOutput::error(text),
        };
        let result = match (tool, &self.shell) {
            (Tool::Bash, Some(shell)) => return bash::call(shell, &arguments, cancel).await,
            (Tool::Bash, None) => Err("there is no shell here".to_owned()),
            (tool, _) => self.on_files(tool, arguments, cancel.clone()).await,
        };
        match result {
            Ok(text) => ToolOutput::ok(text),
            Err(text) => ToolOutput::error(text),
        }
    }

    fn find(&self, name: &str) -> Option<Tool> {
        self.tools.iter().copied().find(|tool| tool.name() == name)
    }

    /// Runs a file tool on a thread of its own: disks can be slow and trees large.
    async fn on_files(
        &self,
        tool: Tool,
        arguments: Arguments,
        cancel: CancellationToken,
    ) -> Result<String, String> {
        let access = Arc::clone(&self.access);
        let work = tokio::task::spawn_blocking(move || match tool {
            Tool::Read => read::call(&access, &arguments),
            Tool::Write => write::call(&access, &arguments),
            Tool::Edit => edit::call(&access, &arguments),
            Tool::List => list::call(&access, &arguments),
            Tool::Glob => glob::call(&access, &arguments, &cancel),
            Tool::Grep => grep::call(&access, &arguments, &cancel),
            Tool::Bash => Err("bash is not a file tool".to_owned()),
        });
        work.await.unwrap_or_else(|error| Err(format!("{} broke off: {error}", tool.name())))
    }
}
