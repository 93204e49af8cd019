//! `nexus mcp`: the tools of a project, and the memory of the workspace that goes with it, for a program
//! that speaks MCP on our standard streams.

mod memory;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use nexus_project::{Project, ProjectTools};
use nexus_protocol::tool::{MergedTools, ToolSource};

use self::memory::MemoryTools;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use nexus_base::error::chain;

/// Bytes read at once; a longer line takes several reads.
const LINE: usize = 64 * 1024;

/// Arguments of `nexus mcp`.
#[derive(Debug, Args)]
#[command(after_help = "\
Standard output carries only the protocol; messages for people go to standard error.

Examples:
  nexus mcp
  claude mcp add nexus -- nexus mcp --project ~/code/shop")]
pub(crate) struct Arguments {
    /// The project's folder [default: the nearest one that holds .nexus/, or the working folder]
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
}

/// Runs `nexus mcp`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let here = Path::new(".");
    let root = match &arguments.project {
        Some(folder) => folder.clone(),
        None => Project::find(here).unwrap_or_else(|| here.to_owned()),
    };
    let tools = ProjectTools::open(&root)
        .map_err(|error| Failure::new(error.message()).hint("name an existing folder with --project"))?;
    let mut sources: Vec<Arc<dyn ToolSource>> = vec![Arc::new(tools.on_the_asking_thread())];
    // Without a workspace there is no memory to offer.
    if context.existing().is_ok() {
        sources.push(Arc::new(MemoryTools::new(context)));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| Failure::new(format!("starting the event loop: {error}")))?;
    let input = io::BufReader::with_capacity(LINE, io::stdin());
    let served =
        runtime.block_on(nexus_mcp::serve_lines(Arc::new(MergedTools::new(sources)), input, io::stdout()));
    served.map_err(|error| Failure::new(chain(&error)))
}
