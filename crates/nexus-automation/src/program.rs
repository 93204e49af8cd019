//! The owner's own automations: a file looked at, and a program run with JSON in and JSON out.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_base::id::to_hex;
use nexus_base::jail::{Jail, JailError};
use nexus_base::redact::Redactor;
use nexus_process::{
    Confinement, Environment, EnvironmentError, GroupRecord, Helper, Input, Launch, LaunchError, Network,
    SandboxProfile, Status, Toolchains,
};
use nexus_store::runtime::Automation;
use nexus_workspace::Layout;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::home::Home;
use crate::ports::{Handler, Run, RunError};
use crate::verdict::Verdict;

/// Largest program.
const MAX_PROGRAM_SIZE: u64 = 16 * 1024 * 1024;
/// Most bytes a program may print.
const MAX_OUTPUT: usize = 256 * 1024;
/// How much of what it complained about is kept.
const KEPT_COMPLAINT: usize = 800;
/// How long after its time is up a program is ended here. The runner ends it first and calls it late; this
/// is for whoever runs a program without one.
const HEADROOM: Duration = Duration::from_secs(1);

/// What a file is that may become an automation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// Path from the workspace's root, as its row keeps it.
    pub path: String,
    /// Hash of its content.
    pub hash: String,
    /// Bytes.
    pub size: u64,
    /// What runs it, for scripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter: Option<String>,
}

/// Why a file cannot be an automation.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It lies elsewhere.
    #[error("{} is not in {}", path.display(), folder.display())]
    Elsewhere {
        /// The file.
        path: PathBuf,
        /// Where it should.
        folder: PathBuf,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Jail(#[from] JailError),
    /// It cannot be read.
    #[error("reading {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It may not be run.
    #[error("{} is not executable", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// It is longer than any should be.
    #[error("{} is larger than 16 MiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl ProgramError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Elsewhere { folder, .. } => Some(format!("move it to {}", folder.display())),
            Self::NotExecutable { path } => Some(format!("chmod +x {}", path.display())),
            Self::Jail(_) | Self::Read { .. } | Self::TooLarge { .. } => None,
        }
    }
}

/// Looks at a file in the workspace's `automations` folder; `path` is absolute, or relative to that
/// folder or to the workspace. Nothing is run and no link is followed.
pub fn inspect(layout: &Layout, path: &Path) -> Result<Program, ProgramError> {
    let folder = layout.automations();
    let elsewhere = || ProgramError::Elsewhere { path: path.to_owned(), folder: folder.clone() };
    let inside = if path.is_absolute() {
        path.strip_prefix(&folder).map_err(|_| elsewhere())?
    } else {
        path.strip_prefix("automations").unwrap_or(path)
    };
    if inside.as_os_str().is_empty() {
        return Err(elsewhere());
    }
    let jail = Jail::open(&folder)?;
    let full = folder.join(inside);
    let mut file = jail.open_file(inside)?;
    let metadata = file.metadata().map_err(|source| ProgramError::Read { path: full.clone(), source })?;
    if metadata.len() > MAX_PROGRAM_SIZE {
        return Err(ProgramError::TooLarge { path: full });
    }
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(ProgramError::NotExecutable { path: full });
    }
    let mut content = Vec::new();
    let read = file.by_ref().take(MAX_PROGRAM_SIZE + 1).read_to_end(&mut content);
    read.map_err(|source| ProgramError::Read { path: full, source })?;
    let first = content.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let interpreter = first.strip_prefix(b"#!").map(|line| String::from_utf8_lossy(line).trim().to_owned());
    Ok(Program {
        path: format!("automations/{}", inside.display()),
        hash: format!("sha256:{}", to_hex(&Sha256::digest(&content))),
        size: content.len() as u64,
        interpreter,
    })
}

/// Runs the owner's programs in a sandbox: they see what they are told and their own folder.
pub struct Programs {
    layout: Layout,
    owner_home: PathBuf,
    redactor: Arc<Redactor>,
    record: Option<Arc<dyn GroupRecord>>,
    helper: Option<Helper>,
}

impl std::fmt::Debug for Programs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Programs").finish_non_exhaustive()
    }
}

impl Programs {
    /// Gets ready to run programs of a workspace. What they are told goes through the redactor.
    pub fn new(layout: Layout, owner_home: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { layout, owner_home, redactor, record: None, helper: None }
    }

    /// Writes running programs down, for the next daemon to end left-over ones.
    #[must_use]
    pub fn record(mut self, record: Arc<dyn GroupRecord>) -> Self {
        self.record = Some(record);
        self
    }

    /// Uses another sandbox helper than this very executable.
    #[must_use]
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = Some(helper);
        self
    }

    fn confinement(&self, run: &Run, folder: &Path, temp: &Path, program: &Path) -> SandboxProfile {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let owner_home = real(&self.owner_home);
        let network = match wants_network(&run.automation) {
            true => Network::On,
            false => Network::Off,
        };
        let profile = SandboxProfile::system()
            .protect(real(self.layout.root()))
            .protect(real(self.layout.state()))
            .protect(real(self.layout.config()))
            .protect(&owner_home)
            .toolchains(&Toolchains::below(&owner_home))
            .network(network)
            .execute(program)
            .write(temp);
        if folder == temp { profile } else { profile.write(folder) }
    }

    fn told(&self, run: &Run, home: Option<&Home>) -> Result<Vec<u8>, RunError> {
        let mut told = json!({
            "version": 1,
            "hook": run.hook.as_str(),
            "automation": {
                "name": run.automation.definition.name,
                "config": run.automation.definition.config,
            },
            "invocation": run.invocation,
        });
        let occasion = serde_json::to_value(&*run.occasion).map_err(|error| RunError(error.to_string()))?;
        if let (Value::Object(told), Value::Object(occasion)) = (&mut told, occasion) {
            told.extend(occasion);
            if let Some(home) = home {
                told.insert("workspace".to_owned(), home.to_json());
                let peers: Vec<Value> =
                    home.peers.iter().map(|(name, dir)| json!({"name": name, "dir": dir})).collect();
                told.insert("peers".to_owned(), Value::Array(peers));
            }
        }
        let mut line = self.redactor.redact(&told.to_string()).into_bytes();
        line.push(b'\n');
        Ok(line)
    }
}

#[async_trait]
impl Handler for Programs {
    async fn run(&self, run: &Run) -> Result<Verdict, RunError> {
        let definition = &run.automation.definition;
        let inside = Path::new(&definition.script_path);
        let found = inspect(&self.layout, inside).map_err(|error| RunError(error.to_string()))?;
        if definition.script_hash.as_deref() != Some(found.hash.as_str()) {
            return Err(RunError(format!(
                "{} has changed since it was registered; review it and register it again",
                definition.script_path
            )));
        }
        let broken = |what: &str, error: &dyn std::fmt::Display| RunError(format!("{what}: {error}"));
        let root =
            self.layout.root().canonicalize().map_err(|error| broken("finding the workspace", &error))?;
        let program = root.join(&found.path);
        let temp = tempfile::Builder::new()
            .prefix("nexus-automation-")
            .tempdir()
            .map_err(|error| broken("creating its folder", &error))?;
        let temp_path = temp.path().canonicalize().map_err(|error| broken("creating its folder", &error))?;
        let home = Home::of(&run.automation, &self.layout);
        let folder = match &home {
            Some(home) => home.folder.canonicalize().map_err(|error| broken("finding its folder", &error))?,
            None => temp_path.clone(),
        };
        let environment = environment(run, &temp_path).map_err(|error| RunError(error.to_string()))?;
        let profile = self.confinement(run, &folder, &temp_path, &program);
        let mut launch = Launch::new(&program, &folder, Confinement::Sandbox(profile))
            .environment(environment)
            .input(Input::Bytes(self.told(run, home.as_ref())?))
            .deadline(run.limit.saturating_add(HEADROOM))
            .output_limit(MAX_OUTPUT);
        if let Some(record) = &self.record {
            launch = launch.record(Arc::clone(record));
        }
        if let Some(helper) = &self.helper {
            launch = launch.helper(helper.clone());
        }
        let outcome = launch.run().await.map_err(|error| RunError(explain(&error)))?;
        let complaint = outcome.stderr.text();
        let complaint = nexus_base::text::shorten(&complaint, KEPT_COMPLAINT);
        match outcome.status {
            Status::Exited(0) => Verdict::read(&definition.name, &outcome.stdout.text()).map_err(RunError),
            other if complaint.is_empty() => Err(RunError(other.to_string())),
            other => Err(RunError(format!("{other}: {complaint}"))),
        }
    }
}

/// Tells whether its owner let an automation use the network.
pub fn wants_network(automation: &Automation) -> bool {
    let config = automation.definition.config.as_ref();
    config.and_then(|config| config.get("network")).and_then(Value::as_bool).unwrap_or(false)
}

fn environment(run: &Run, temp: &Path) -> Result<Environment, EnvironmentError> {
    Environment::clean()
        .redirected(temp, temp)
        .set("NEXUS_HOOK", run.hook.as_str())?
        .set("NEXUS_AUTOMATION", &run.automation.definition.name)
}

fn explain(error: &LaunchError) -> String {
    match error {
        LaunchError::NoSandbox { reason } => format!("not run: no sandbox on this machine ({reason})"),
        LaunchError::Profile(error) => format!("not run: {error}"),
        LaunchError::Setup { reason } => {
            format!("not run: the sandbox could not be set up ({reason})")
        }
        LaunchError::NoFolder { path } => format!("not run: its folder {} is missing", path.display()),
        LaunchError::Program { program, source } => {
            format!("not run: starting {}: {source}", program.display())
        }
        LaunchError::InputTooLong { length } => format!("not run: its input of {length} bytes is too long"),
    }
}
