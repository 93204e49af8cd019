//! Which tools a role has and how one call is carried out.

use std::sync::Arc;

use nexus_memory::{Memory, Provenance};
use nexus_protocol::tool::{Replay, ToolOutput, ToolSpec};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::coordination;
use crate::memory_tools;
use crate::ports::Call;
use crate::tools::FileTools;
use crate::turn::Role;

/// The tools of one session, fixed when its first turn begins.
#[derive(Debug, Clone)]
pub struct Toolbox {
    specs: Arc<[ToolSpec]>,
    files: Arc<FileTools>,
    memory: Memory,
    /// What a manager keeps are its owner's words; a worker works things out.
    provenance: Provenance,
}

impl Toolbox {
    /// Gathers a role's tools.
    pub fn new(role: Role, files: Arc<FileTools>, memory: Memory) -> Self {
        let mut specs = vec![coordination::agent_send_spec()];
        let provenance = match role {
            Role::Manager => {
                specs.push(coordination::status_spec());
                specs.push(coordination::wait_spec());
                Provenance::Owner
            }
            Role::Worker => Provenance::Agent,
        };
        specs.extend(files.specs());
        specs.push(memory_tools::recall_spec());
        specs.push(memory_tools::remember_spec());
        Self { specs: specs.into(), files, memory, provenance }
    }

    /// Returns what the model is told.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Returns what a crash in the middle of a call allows; unknown tools never ran.
    pub fn replay(&self, tool: &str) -> Replay {
        if coordination::is_coordination(tool) {
            return Replay::Transactional;
        }
        self.specs.iter().find(|spec| spec.name == tool).map_or(Replay::Safe, |spec| spec.replay)
    }

    /// Runs a call that is not about other agents.
    pub(crate) async fn call(&self, call: &Call, cancel: &CancellationToken) -> ToolOutput {
        match call.tool.as_str() {
            memory_tools::RECALL => memory_tools::recall(&self.memory, &call.arguments).await,
            memory_tools::REMEMBER => {
                memory_tools::remember(&self.memory, &call.arguments, self.provenance).await
            }
            tool if self.files.has(tool) => self.files.call(tool, &call.arguments, cancel).await,
            other => ToolOutput::error(format!("there is no tool {other:?}; you have {}", self.names())),
        }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        names.join(", ")
    }
}

/// Says whether the arguments of a call are an object at all; anything else never reaches a tool.
pub(crate) fn check_arguments(arguments: &Value) -> Result<(), String> {
    if arguments.is_object() { Ok(()) } else { Err("the arguments must be a JSON object".to_owned()) }
}
