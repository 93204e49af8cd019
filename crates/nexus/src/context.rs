//! Where a command works: which workspace, its settings, and the way to its daemon. The one place of
//! this binary that reads the environment for them.

use std::path::{Path, PathBuf};

use nexus_base::file;
use nexus_client::Client;
use nexus_workspace::config::{self, Loaded, Overrides};
use nexus_workspace::trust::{self, Trust, TrustFolder};
use nexus_workspace::{Layout, LayoutOverrides, RootRequest, environment, persona, resolve_root};

use crate::failure::{Exit, Failure};
use crate::tool_call;

/// What the assistant is called before it has a name.
const UNNAMED: &str = "nexus";

/// Where a command works.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    workspace: Option<PathBuf>,
}

impl Context {
    /// Takes the value of `--workspace`.
    pub(crate) fn new(workspace: Option<PathBuf>) -> Self {
        Self { workspace }
    }

    /// Returns where the workspace lies or would lie.
    pub(crate) fn layout(&self) -> Result<Layout, Failure> {
        // There the workspace is the daemon's alone.
        if tool_call::is_inside() {
            return Err(tool_call::unavailable());
        }
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = |name: &str| variable(name).map(PathBuf::from);
        let env_root = path(environment::ROOT);
        let profile = variable(environment::PROFILE).map(|name| name.to_string_lossy().into_owned());
        let cwd = std::env::current_dir().ok();
        let home = home();
        let request = RootRequest {
            flag: self.workspace.as_deref(),
            env_root: env_root.as_deref(),
            profile: profile.as_deref(),
            cwd: cwd.as_deref(),
            home: home.as_deref(),
        };
        let root = resolve_root(&request)
            .map_err(|error| Failure::caused(&error).hint(error.hint()).exit(Exit::Usage))?;
        // Files are never written through a link. Links in a place that the person named are theirs; links inside
        // the workspace may have come with it.
        let root = file::resolve(&root.path);
        let place = |name: &str| path(name).map(|path| file::resolve(&root.join(path)));
        let overrides = LayoutOverrides {
            state: place(environment::STATE_DIR),
            home: place(environment::HOME_DIR),
            config: place(environment::CONFIG_PATH),
        };
        Ok(Layout::with_overrides(root, overrides))
    }

    /// Returns where the workspace lies, which must exist.
    pub(crate) fn existing(&self) -> Result<Layout, Failure> {
        let layout = self.layout()?;
        if layout.config().exists() {
            return Ok(layout);
        }
        Err(Failure::new(format!("no workspace at {}", layout.root().display()))
            .hint(format!("nexus init{} creates one", self.flag_text()))
            .exit(Exit::Missing))
    }

    /// Returns the workspace's settings, origins and warnings.
    pub(crate) fn loaded(&self, layout: &Layout) -> Result<Loaded, Failure> {
        let environment = config_variables();
        let overrides = Overrides { flags: Vec::new(), environment: &environment };
        config::load(layout, standing(layout), &overrides).map_err(Failure::from)
    }

    /// Returns a client of the running daemon. The token goes to nobody but the holder of the
    /// workspace's lock, so with no daemon running nothing is sent to whoever has the port now.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let layout = self.existing()?;
        let holder = nexus_base::lock::inspect(&layout.lock()).ok_or_else(|| self.not_running(&layout))?;
        let port = holder.note.and_then(|note| note.trim().parse().ok()).ok_or_else(|| {
            Failure::new(format!("process {} is starting and has no port yet", holder.pid))
                .hint("try again in a moment")
                .exit(Exit::Missing)
        })?;
        let settings = self.loaded(&layout)?.settings;
        Ok(Client::new(port, settings.runtime.auth.token.expose().to_owned().into()))
    }

    /// Makes the failure of a command that needs a daemon.
    pub(crate) fn not_running(&self, layout: &Layout) -> Failure {
        Failure::new(format!("no daemon is running for {}", layout.root().display()))
            .hint(format!(
                "nexus up{0} starts one and opens a conversation; nexus start{0} only starts it",
                self.flag_text()
            ))
            .exit(Exit::Missing)
    }

    /// Returns what the assistant calls itself, as far as that can be read.
    pub(crate) fn assistant_name(&self) -> String {
        let named = || {
            let layout = self.layout().ok()?;
            let settings = self.loaded(&layout).ok()?.settings;
            Some(persona::active_persona(&layout, &settings).ok()??.name)
        };
        named().filter(|name| !name.trim().is_empty()).unwrap_or_else(|| UNNAMED.to_owned())
    }

    /// Returns the workspace flag as it would be typed again.
    pub(crate) fn flag_text(&self) -> String {
        self.workspace.as_ref().map(|path| format!(" --workspace {}", path.display())).unwrap_or_default()
    }
}

/// Returns the folder of trust records.
pub(crate) fn trust_folder() -> Result<TrustFolder, Failure> {
    let state_home =
        std::env::var_os(environment::XDG_STATE_HOME).map(|path| file::resolve(Path::new(&path)));
    TrustFolder::locate(state_home.as_deref(), home().as_deref())
        .ok_or_else(|| Failure::new("the home folder is unknown").hint("set HOME or XDG_STATE_HOME"))
}

/// Returns whose the workspace is; doubt means that it is a stranger's.
pub(crate) fn standing(layout: &Layout) -> Trust {
    trust_folder().ok().and_then(|folder| trust::standing(&folder, layout).ok()).unwrap_or(Trust::NoRecord)
}

/// Returns the variables that may set configuration values.
pub(crate) fn config_variables() -> Vec<(String, String)> {
    environment::CONFIG_VARIABLES
        .iter()
        .filter_map(|(name, _)| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect()
}

pub(crate) fn home() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|path| Path::is_absolute(path))?;
    Some(file::resolve(&home))
}
