//! Registering the owner's own automations: everything checked before a row is made.

use std::path::PathBuf;
use std::time::Duration;

use nexus_base::failpoint;
use nexus_base::file::{self, FileError};
use nexus_store::runtime::{AutomationMode, NewAutomation, Registered};
use nexus_store::{Store, StoreError};
use nexus_workspace::Layout;
use serde_json::{Map, Value, json};

use crate::home::is_name;
use crate::hook_point::HookPoint;
use crate::program::{Program, ProgramError, inspect};
use crate::shipped::{SHIPPED, relative};
use crate::triggers::Triggers;

/// Longest an automation may be given.
const MAX_WAIT: Duration = Duration::from_secs(3_600);
/// Longest description and most peers.
const MAX_DESCRIPTION_LEN: usize = 400;
const MAX_PEERS: usize = 8;

/// What its owner wants registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    pub name: String,
    /// The file, in the workspace's `automations` folder.
    pub script: PathBuf,
    /// Where it runs.
    pub hook_point: HookPoint,
    /// What it does, for people.
    pub description: String,
    /// Whether whatever reaches the hook point waits for it.
    pub blocking: bool,
    /// How often it runs.
    pub mode: AutomationMode,
    /// Longest it may take.
    pub timeout: Option<Duration>,
    /// Whether it gets a folder of its own that stays.
    pub workspace: bool,
    /// Automations whose folders it is told about.
    pub peers: Vec<String>,
    /// Whether a model thinks about its work and keeps what it learns in its folder.
    pub self_improvement: bool,
    /// Whether it may use the network.
    pub network: bool,
    /// When it runs, beyond the hook point.
    pub triggers: Option<Value>,
    /// Its own settings, handed to it each time.
    pub config: Option<Value>,
}

/// Why it was not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The name cannot be one.
    #[error("{0:?} is not a valid name for an automation")]
    Name(String),
    /// The name belongs to one that came with Nexus.
    #[error("{0} comes with Nexus")]
    NameTaken(String),
    /// The file cannot be one.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The file is not the one that was looked at.
    #[error("{path} has the hash {found}, which is not the one that was agreed to")]
    Changed {
        /// The file.
        path: String,
        /// What it has.
        found: String,
    },
    /// Something else about it is not acceptable.
    #[error("{0}")]
    Invalid(String),
    /// Its folder could not be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// The row could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RegisterError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Name(_) => {
                Some("use lowercase letters, digits, - and _, starting with a letter".to_owned())
            }
            Self::NameTaken(_) => Some("choose another name".to_owned()),
            Self::Program(error) => error.hint(),
            Self::Changed { .. } => Some("review it again and register it as it is now".to_owned()),
            Self::Invalid(_) => None,
            Self::File(error) => Some(format!("check {}", error.path.display())),
            Self::Store(error) => error.hint(),
        }
    }
}

/// Registers an automation, switched on. `agreed` is the hash its owner was shown.
pub async fn register(
    store: &Store,
    layout: &Layout,
    wanted: Registration,
    agreed: &str,
) -> Result<(Registered, Program), RegisterError> {
    let program = check(layout, &wanted)?;
    if program.hash != agreed {
        return Err(RegisterError::Changed { path: program.path, found: program.hash });
    }
    let folder = layout.automation_workspaces().join(&wanted.name);
    if wanted.workspace {
        file::create_folder(&folder, 0o700)?;
    }
    let mut config = match wanted.config {
        Some(Value::Object(config)) => config,
        Some(_) | None => Map::new(),
    };
    config.insert("network".to_owned(), json!(wanted.network));
    let row = NewAutomation {
        description: wanted.description,
        mode: wanted.mode,
        script_path: program.path.clone(),
        script_hash: Some(program.hash.clone()),
        triggers: wanted.triggers,
        config: Some(Value::Object(config)),
        hook_point: wanted.hook_point.as_str().to_owned(),
        workspace_dir: wanted.workspace.then(|| relative(layout, &folder)),
        peer_workspaces: (!wanted.peers.is_empty()).then(|| json!(wanted.peers)),
        self_improvement: wanted.self_improvement,
        timeout_ms: wanted.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok()),
        blocking: wanted.blocking,
        bundled: false,
        seed_version: None,
        name: wanted.name.clone(),
    };
    let registered = store.runtime().register_automation(row).await?;
    failpoint::hit("automation.registered");
    match registered {
        Registered::NameTaken => Err(RegisterError::NameTaken(wanted.name)),
        made @ (Registered::New | Registered::Replaced) => Ok((made, program)),
    }
}

/// Checks a registration and looks at its file; nothing is kept yet.
pub fn check(layout: &Layout, wanted: &Registration) -> Result<Program, RegisterError> {
    if !is_name(&wanted.name) {
        return Err(RegisterError::Name(wanted.name.clone()));
    }
    if SHIPPED.iter().any(|shipped| shipped.name == wanted.name) {
        return Err(RegisterError::NameTaken(wanted.name.clone()));
    }
    let invalid = |text: String| Err(RegisterError::Invalid(text));
    if wanted.blocking && !wanted.hook_point.may_block() {
        return invalid(format!(
            "{} does not wait for automations, so nothing can block there",
            wanted.hook_point
        ));
    }
    if wanted.timeout.is_some_and(|limit| limit > MAX_WAIT || limit.is_zero()) {
        return invalid(format!("a time limit must be between 1 ms and {} s", MAX_WAIT.as_secs()));
    }
    if wanted.description.len() > MAX_DESCRIPTION_LEN {
        return invalid(format!("a description may have at most {MAX_DESCRIPTION_LEN} bytes"));
    }
    if wanted.peers.len() > MAX_PEERS || !wanted.peers.iter().all(|peer| is_name(peer)) {
        return invalid(format!("peers must be at most {MAX_PEERS} names of automations"));
    }
    if wanted.self_improvement && !wanted.workspace {
        return invalid("reflection needs a folder of its own (--own-folder)".to_owned());
    }
    if let Err(error) = Triggers::read(wanted.triggers.as_ref()) {
        return invalid(format!("triggers: {error}"));
    }
    if wanted.config.as_ref().is_some_and(|config| !config.is_object()) {
        return invalid("settings must be a JSON object".to_owned());
    }
    Ok(inspect(layout, &wanted.script)?)
}
