//! Puts the planes together: locks, sockets, logs, and their orderly end.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nexus_base::file::FileError;
use nexus_base::jail::JailError;
use nexus_base::lock::{HeldLock, LockError};

use crate::accept::{Acceptor, Serve as _};
use crate::client::Client;
use crate::hooks::Hooks;
use crate::kernel::{Kernel, KernelService};
use crate::link::{self, Link};
use crate::log::{self, DecisionLog};
use crate::peer::Gatekeeper;
use crate::root::Root;
use crate::run_dir::{RunDir, RunDirError};
use crate::workspaces::Workspaces;

/// Connections each plane takes at a time unless told otherwise.
pub const DEFAULT_MAX_CONNECTIONS: usize = 2048;
/// How long Root waits for a Kernel in another process.
pub const DEFAULT_KERNEL_PATIENCE: Duration = Duration::from_secs(30);
/// Connections the operating system may hold for us before we accept them.
const BACKLOG: i32 = 1024;
/// How long requests under way get to finish when the server stops.
const STOP_PATIENCE: Duration = Duration::from_secs(4);

/// Which planes a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planes {
    /// Both, joined without a socket between them.
    Both,
    /// Root alone; the Kernel is another process.
    RootOnly,
    /// The Kernel alone.
    KernelOnly,
}

/// How to serve.
#[derive(Debug)]
pub struct ServeOptions {
    pub run_dir: RunDir,
    pub planes: Planes,
    /// Connections each plane takes at a time.
    pub max_connections: usize,
    /// How long Root waits for a Kernel in another process.
    pub kernel_patience: Duration,
    /// Whose processes are served; everybody else hears 202.
    pub owner_uid: u32,
    /// When a log is renamed away.
    pub rotate_bytes: u64,
    /// Whether log lines are repeated on standard error.
    pub echo: bool,
    /// What the inside of workspaces needs.
    pub hooks: Hooks,
}

impl ServeOptions {
    /// Returns the defaults for a run folder.
    pub fn new(run_dir: RunDir) -> Self {
        Self {
            run_dir,
            planes: Planes::Both,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            kernel_patience: DEFAULT_KERNEL_PATIENCE,
            owner_uid: rustix::process::getuid().as_raw(),
            rotate_bytes: log::ROTATE_BYTES,
            echo: false,
            hooks: Hooks::default(),
        }
    }
}

/// Why the planes cannot be served here.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process serves this plane already.
    #[error("{plane} is already being served{}", holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    Running {
        plane: &'static str,
        /// By whom, if known.
        holder: Option<u32>,
    },
    /// The run folder cannot be used.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// A file cannot be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// The run folder cannot be opened as jail.
    #[error(transparent)]
    Jail(#[from] JailError),
    /// A socket cannot be made.
    #[error("listening on {}", path.display())]
    Socket {
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ServeError {
    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Running { .. } => Some("stop it, or use another folder with --run-dir"),
            Self::RunDir(error) => error.hint(),
            Self::File(_) | Self::Jail(_) | Self::Socket { .. } => None,
        }
    }
}

/// Planes being served until stopped or dropped.
#[derive(Debug)]
pub struct Server {
    acceptors: Vec<(Acceptor, PathBuf)>,
    kernel: Option<Arc<Kernel>>,
    locks: Vec<HeldLock>,
}

impl Server {
    pub fn start(options: ServeOptions) -> Result<Self, ServeError> {
        options.run_dir.prepare()?;
        raise_descriptor_limit();
        let gatekeeper = Gatekeeper { owner_uid: options.owner_uid };
        let mut server = Self { acceptors: Vec::new(), kernel: None, locks: Vec::new() };
        let run_dir = options.run_dir.clone();
        let link = match options.planes {
            Planes::Both | Planes::KernelOnly => {
                let kernel =
                    server.open_kernel(&run_dir, options.rotate_bytes, options.echo, options.hooks)?;
                let service = KernelService { kernel: Arc::clone(&kernel), gatekeeper };
                server.listen(run_dir.kernel_socket(), service, options.max_connections)?;
                Link::Local(kernel)
            }
            Planes::RootOnly => Link::to_socket(run_dir.kernel_socket(), options.kernel_patience),
        };
        if options.planes != Planes::KernelOnly {
            server.locks.push(acquire(&run_dir.root_lock(), "root")?);
            let log = Arc::new(DecisionLog::open(&run_dir.root_log(), options.rotate_bytes, options.echo)?);
            let root = Root { link, log, gatekeeper };
            server.listen(run_dir.root_socket(), root, options.max_connections)?;
        }
        Ok(server)
    }

    /// Serves one client without any socket, for a command that found no server. A Kernel that runs
    /// alone is used; otherwise this process is the Kernel for as long as the value lives.
    pub fn in_process(options: ServeOptions) -> Result<(Self, Client), ServeError> {
        options.run_dir.prepare()?;
        let run_dir = options.run_dir.clone();
        let mut server = Self { acceptors: Vec::new(), kernel: None, locks: Vec::new() };
        let kernel_socket = run_dir.kernel_socket();
        let link = if answers(&kernel_socket) {
            Link::to_socket(kernel_socket, options.kernel_patience)
        } else {
            Link::Local(server.open_kernel(&run_dir, options.rotate_bytes, options.echo, options.hooks)?)
        };
        server.locks.push(acquire(&run_dir.root_lock(), "root")?);
        let log = Arc::new(DecisionLog::open(&run_dir.root_log(), options.rotate_bytes, options.echo)?);
        let root = Root { link, log, gatekeeper: Gatekeeper { owner_uid: options.owner_uid } };
        let failed = |source| ServeError::Socket { path: run_dir.root_socket(), source };
        let (near, far) = UnixStream::pair().map_err(failed)?;
        std::thread::Builder::new()
            .name("kernel".into())
            .spawn(move || root.serve(&Arc::new(far)))
            .map_err(failed)?;
        Ok((server, Client::over(near)))
    }

    /// Returns how many clients are connected now, over all planes.
    pub fn connections(&self) -> usize {
        self.acceptors.iter().map(|(acceptor, _)| acceptor.connections()).sum()
    }

    /// Makes every write fail as on a full disk, or stops doing so; for the torture suite.
    pub(crate) fn pretend_disk_full(&self, full: bool) {
        if let Some(kernel) = &self.kernel {
            kernel.pretend_disk_full(full);
        }
    }

    /// Stops accepting, lets requests under way finish, removes the sockets, gives up the locks.
    pub fn stop(self) {
        drop(self);
    }

    fn open_kernel(
        &mut self,
        run_dir: &RunDir,
        rotate_bytes: u64,
        echo: bool,
        hooks: Hooks,
    ) -> Result<Arc<Kernel>, ServeError> {
        self.locks.push(acquire(&run_dir.kernel_lock(), "kernel")?);
        let log = DecisionLog::open(&run_dir.kernel_log(), rotate_bytes, echo)?;
        let workspaces = Workspaces::open(run_dir.clone(), hooks)?;
        let kernel = Arc::new(Kernel::new(workspaces, log));
        self.kernel = Some(Arc::clone(&kernel));
        Ok(kernel)
    }

    fn listen(
        &mut self,
        path: PathBuf,
        service: impl crate::accept::Serve,
        max_connections: usize,
    ) -> Result<(), ServeError> {
        let started = bind(&path).and_then(|listener| Acceptor::start(listener, service, max_connections));
        match started {
            Ok(acceptor) => self.acceptors.push((acceptor, path)),
            Err(source) => return Err(ServeError::Socket { path, source }),
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Root first: it was started last, and nobody should reach a Kernel that has gone.
        for (acceptor, path) in self.acceptors.iter().rev() {
            // Unlinked while the lock is held, so it cannot be a successor's socket.
            let _ = std::fs::remove_file(path);
            acceptor.stop(STOP_PATIENCE);
        }
        for lock in self.locks.drain(..) {
            lock.release();
        }
    }
}

fn acquire(path: &Path, plane: &'static str) -> Result<HeldLock, ServeError> {
    HeldLock::acquire(path).map_err(|error| match error {
        LockError::Held { holder, .. } => ServeError::Running { plane, holder },
        LockError::File(error) => error.into(),
    })
}

/// Returns whether somebody serves this socket.
pub fn answers(path: &Path) -> bool {
    link::open_socket(path, Duration::from_secs(1)).is_ok()
}

/// Binds a socket whose mode is right from the start to the eyes of others: its folder is 0700.
fn bind(path: &Path) -> io::Result<UnixListener> {
    if answers(path) {
        // The lock is ours, so this is something else, and not ours to unlink.
        return Err(io::ErrorKind::AddrInUse.into());
    }
    match std::fs::symlink_metadata(path) {
        Ok(_) => std::fs::remove_file(path)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    // Again, for a longer queue than the standard library asks for.
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Two thousand connections need more descriptors than most systems grant at first; what the system
/// allows at most is still the limit.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
