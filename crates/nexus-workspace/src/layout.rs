//! Every path of a workspace, computed from its root. No path is built anywhere else.

use std::path::{Path, PathBuf};

/// Places that may lie elsewhere than under the root, as the environment gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LayoutOverrides {
    /// Value of `NEXUS_STATE_DIR`.
    pub state: Option<PathBuf>,
    /// Value of `NEXUS_HOME`.
    pub home: Option<PathBuf>,
    /// Value of `NEXUS_CONFIG_PATH`.
    pub config: Option<PathBuf>,
}

/// Where everything of one workspace lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
    state: PathBuf,
    home: PathBuf,
    config: PathBuf,
}

impl Layout {
    /// Lays a workspace out under `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with_overrides(root, LayoutOverrides::default())
    }

    /// Lays a workspace out under `root`, with some places elsewhere. Relative ones start at the root.
    pub fn with_overrides(root: impl Into<PathBuf>, overrides: LayoutOverrides) -> Self {
        let root = root.into();
        let given = |place: Option<PathBuf>| place.filter(|path| !path.as_os_str().is_empty());
        let state = root.join(given(overrides.state).unwrap_or_else(|| "state".into()));
        let home = root.join(given(overrides.home).unwrap_or_else(|| "home".into()));
        let config = match given(overrides.config) {
            Some(path) => root.join(path),
            None => state.join("config.json"),
        };
        Self { root, state, home, config }
    }

    /// Returns the root folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the user's own folder.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the folder of everything Nexus keeps.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the configuration document.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Returns the copy of the last configuration known to be valid, token left out.
    pub fn config_last_good(&self) -> PathBuf {
        self.state.join("config.last-good.json")
    }

    /// Returns the lock that keeps two writers of the configuration apart.
    pub fn config_lock(&self) -> PathBuf {
        self.state.join("config.lock")
    }

    /// Returns the file with this workspace's random id.
    pub fn workspace_id(&self) -> PathBuf {
        self.state.join("workspace-id")
    }

    /// Returns the behaviour contract every agent reads.
    pub fn agents_md(&self) -> PathBuf {
        self.root.join("AGENTS.md")
    }

    /// Returns the optional text sent to the assistant at every start.
    pub fn boot_md(&self) -> PathBuf {
        self.root.join("BOOT.md")
    }

    /// Returns the folder of skills.
    pub fn skills(&self) -> PathBuf {
        self.root.join("skills")
    }

    /// Returns the folder of the owner's own automations.
    pub fn automations(&self) -> PathBuf {
        self.root.join("automations")
    }

    /// Returns the folder of the six databases.
    pub fn data(&self) -> PathBuf {
        self.state.join("data")
    }

    /// Returns the folder of agent personas.
    pub fn agents(&self) -> PathBuf {
        self.state.join("agents")
    }

    /// Returns the permanent onboarding text.
    pub fn bootstrap_md(&self) -> PathBuf {
        self.agents().join("BOOTSTRAP.md")
    }

    /// Returns the file that names the persona in use.
    pub fn active_persona(&self) -> PathBuf {
        self.agents().join("ACTIVE")
    }

    /// Returns the folder of one persona.
    pub fn persona(&self, slug: &crate::persona::Slug) -> PathBuf {
        self.agents().join(slug.as_str())
    }

    /// Returns the folder about the user.
    pub fn user(&self) -> PathBuf {
        self.state.join("user")
    }

    /// Returns the user's profile.
    pub fn user_identity(&self) -> PathBuf {
        self.user().join("IDENTITY.md")
    }

    /// Returns the folder of credential pointers.
    pub fn credentials(&self) -> PathBuf {
        self.state.join("credentials")
    }

    /// Returns the folder of automation workspaces.
    pub fn automation_workspaces(&self) -> PathBuf {
        self.state.join("workspace")
    }

    /// Returns the workspace lock, which also names the daemon's process.
    pub fn lock(&self) -> PathBuf {
        self.state.join("nex.pid")
    }

    /// Returns the folder of logs.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// Returns the daemon's log.
    pub fn log_file(&self) -> PathBuf {
        self.logs().join("nex.log")
    }

    /// Returns the audit trail of commands that agents ran.
    pub fn command_log(&self) -> PathBuf {
        self.logs().join("commands.jsonl")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_move_only_what_they_name() {
        let overrides = LayoutOverrides { state: Some("/var/nx".into()), ..LayoutOverrides::default() };
        let layout = Layout::with_overrides("/w", overrides);
        assert_eq!(layout.config(), Path::new("/var/nx/config.json"));
        assert_eq!(layout.home(), Path::new("/w/home"));
        assert_eq!(layout.data(), Path::new("/var/nx/data"));
        let empty = LayoutOverrides { home: Some(PathBuf::new()), ..LayoutOverrides::default() };
        assert_eq!(Layout::with_overrides("/w", empty), Layout::new("/w"));
    }
}
