//! One launch: what to run, under which restrictions, for how long, and what came of it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::capture::{Captured, LiveOutput};
use crate::environment::Environment;
use crate::group::{GroupRecord, LiveGroup};
use crate::sandbox::{HELPER_ARGUMENT, SandboxError, SandboxProfile, Tier, support, tier_of};

/// How long a program may run when nobody says otherwise.
pub const DEFAULT_DEADLINE: Duration = Duration::from_secs(120);
/// The longest deadline accepted; anything longer is cut to this.
pub const MAX_DEADLINE: Duration = Duration::from_secs(24 * 3600);
/// How many bytes of each output stream are kept when nobody says otherwise.
pub const DEFAULT_OUTPUT_LIMIT: usize = 256 * 1024;

/// How long a program gets to end itself after the first signal.
const DEFAULT_GRACE: Duration = Duration::from_secs(2);
/// The most bytes a program can be given as standard input.
const INPUT_LIMIT: usize = 16 * 1024 * 1024;

/// What stands between a program and the owner's files.
#[derive(Debug, Clone)]
pub enum Confinement {
    /// The sandbox; where it cannot be had, the launch fails.
    Sandbox(SandboxProfile),
    /// Nothing. For programs the owner chose, never for commands a model wrote.
    Unsandboxed,
}

/// The program that confines itself and then becomes the launched one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Helper {
    /// The executable.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl Helper {
    /// Returns this very executable, which must call `run_if_sandbox_helper` first in `main`.
    ///
    /// # Errors
    /// The system does not tell where this executable is.
    pub fn this_program() -> io::Result<Self> {
        Ok(Self { program: std::env::current_exe()?, arguments: vec![HELPER_ARGUMENT.into()] })
    }
}

/// What a program reads as standard input.
#[derive(Debug, Clone, Default)]
pub enum Input {
    /// Nothing.
    #[default]
    Null,
    /// These bytes, then the end.
    Bytes(Vec<u8>),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which did not come from us.
    Signaled(i32),
    /// By us, after its deadline.
    TimedOut,
    /// By us, because the caller cancelled.
    Cancelled,
    /// By us, because a disk it may write to was nearly full.
    DiskFull,
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(formatter, "exit code {code}"),
            Self::Signaled(signal) => write!(formatter, "ended by signal {signal}"),
            Self::TimedOut => formatter.write_str("timed out"),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::DiskFull => formatter.write_str("ended because the disk was nearly full"),
        }
    }
}

/// What came of a launch.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How the program ended.
    pub status: Status,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// How long it took.
    pub duration: Duration,
    /// Processes that were still there after its group was killed, such as ones that had left it.
    pub strays: usize,
}

impl Outcome {
    /// Returns whether the program ended by itself with code 0.
    pub fn succeeded(&self) -> bool {
        self.status == Status::Exited(0)
    }
}

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// This machine cannot enforce a sandbox. Run unsandboxed only if the owner says so for this command.
    #[error("no sandbox on this machine: {reason}")]
    NoSandbox {
        /// What is missing.
        reason: String,
    },
    /// The profile asks for something no sandbox may have.
    #[error(transparent)]
    Profile(#[from] SandboxError),
    /// A restriction could not be put in place, so nothing was run.
    #[error("the sandbox could not be set up: {reason}")]
    Setup {
        /// What went wrong.
        reason: String,
    },
    /// The folder to run in is not there.
    #[error("folder {} does not exist", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The program could not be started.
    #[error("starting {}", program.display())]
    Program {
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The standard input is longer than allowed.
    #[error("standard input of {length} bytes exceeds the allowed {INPUT_LIMIT}")]
    InputTooLong { length: usize },
}

/// A program to run, built step by step.
pub struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) confinement: Confinement,
    pub(crate) helper: Option<Helper>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Environment,
    pub(crate) input: Input,
    pub(crate) tool_socket: Option<(String, OwnedFd)>,
    pub(crate) deadline: Duration,
    pub(crate) grace: Duration,
    pub(crate) output: LiveOutput,
    pub(crate) cancel: CancellationToken,
    pub(crate) record: Option<Arc<dyn GroupRecord>>,
}

impl fmt::Debug for Launch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the environment: it may hold what the caller would not print.
        formatter
            .debug_struct("Launch")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Launch {
    /// Starts building the launch of `program`, an absolute path, in `folder`.
    pub fn new(program: impl Into<PathBuf>, folder: impl Into<PathBuf>, confinement: Confinement) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            confinement,
            helper: None,
            folder: folder.into(),
            environment: Environment::clean(),
            input: Input::Null,
            tool_socket: None,
            deadline: DEFAULT_DEADLINE,
            grace: DEFAULT_GRACE,
            output: LiveOutput::new(DEFAULT_OUTPUT_LIMIT),
            cancel: CancellationToken::new(),
            record: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets the whole environment.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the standard input.
    #[must_use]
    pub fn input(mut self, input: Input) -> Self {
        self.input = input;
        self
    }

    /// Uses another helper than this very executable.
    #[must_use]
    pub fn helper(mut self, helper: Helper) -> Self {
        self.helper = Some(helper);
        self
    }

    /// Leaves `socket` open in the program and tells it the descriptor's number in `variable`.
    #[must_use]
    pub fn tool_socket(mut self, variable: &str, socket: UnixStream) -> Self {
        self.tool_socket = Some((variable.to_owned(), socket.into()));
        self
    }

    /// Sets after how long the program is ended.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline.min(MAX_DEADLINE);
        self
    }

    /// Sets how long the program gets between being asked to end and being killed.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Sets how many bytes of each output stream are kept.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output = LiveOutput::new(bytes);
        self
    }

    /// Returns a view of what the program will say, for looking at while it runs. Set the limit first.
    pub fn live_output(&self) -> LiveOutput {
        self.output.clone()
    }

    /// Ends the program when `token` is cancelled.
    #[must_use]
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Writes the run down while it lives.
    #[must_use]
    pub fn record(mut self, record: Arc<dyn GroupRecord>) -> Self {
        self.record = Some(record);
        self
    }

    /// Runs the program to its end and returns what came of it. When it returns, or is dropped, nothing the
    /// program started is left.
    ///
    /// # Errors
    /// The program did not start; see [`LaunchError`]. A program that fails is an [`Outcome`].
    pub async fn run(self) -> Result<Outcome, LaunchError> {
        self.run_reporting(&|_| {}).await
    }

    /// As [`Launch::run`], and tells `started` about the group as soon as it exists.
    ///
    /// # Errors
    /// As [`Launch::run`].
    pub async fn run_reporting(
        self,
        started: &(dyn Fn(&LiveGroup) + Send + Sync),
    ) -> Result<Outcome, LaunchError> {
        self.check()?;
        let tier = match &self.confinement {
            Confinement::Sandbox(_) => Some(self.find_tier().await?),
            Confinement::Unsandboxed => None,
        };
        crate::running::run(self, tier, started).await
    }

    /// As [`Launch::run`], in a tier that may not work here.
    pub(crate) async fn run_in(self, tier: Tier) -> Result<Outcome, LaunchError> {
        self.check()?;
        crate::running::run(self, Some(tier), &|_| {}).await
    }

    async fn find_tier(&self) -> Result<Tier, LaunchError> {
        let helper = match &self.helper {
            Some(helper) => helper.clone(),
            None => Helper::this_program()
                .map_err(|source| LaunchError::Program { program: self.program.clone(), source })?,
        };
        Ok(tier_of(&helper, &self.environment).await)
    }

    fn check(&self) -> Result<(), LaunchError> {
        if let Input::Bytes(bytes) = &self.input
            && bytes.len() > INPUT_LIMIT
        {
            return Err(LaunchError::InputTooLong { length: bytes.len() });
        }
        if !Path::new(&self.folder).is_dir() {
            return Err(LaunchError::NoFolder { path: self.folder.clone() });
        }
        if let Confinement::Sandbox(profile) = &self.confinement {
            let support = support();
            if !support.is_usable() {
                return Err(LaunchError::NoSandbox { reason: support.gaps.join("; ") });
            }
            profile.check()?;
        }
        Ok(())
    }
}
