//! The environment of a started process: made from nothing, never inherited whole.
//!
//! A variable of the daemon reaches a child only if it is on the short pass-through list or the caller
//! names it. Variables that make a loader, shell or interpreter run code are refused by name, so that no
//! file of a workspace can smuggle code into a tool through them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Variable carrying the mark of one run, by which its left-over processes are found.
pub const RUN_MARK_VARIABLE: &str = "NEXUS_RUN_MARK";

/// Where programs are looked up when nothing is put in front.
const SYSTEM_PATH: &[&str] = &["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Harmless variables that keep their value: language, zone and colour choices.
const PASSED_THROUGH: &[&str] = &["LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ", "NO_COLOR"];

/// Names starting with one of these load code or change what a program runs.
const REFUSED_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH_FUNC_",
    "GIT_CONFIG",
    "GIT_SSH",
    "GLIBC_TUNABLES",
    "NPM_CONFIG_",
    "NPM_EXECPATH",
    "NPM_NODE_EXECPATH",
    "MALLOC_",
    "RUSTC_W",
    "CARGO_TARGET_",
    "CARGO_BUILD_",
    "NEXUS_RUN_",
];

/// Names that load code or change what a program runs.
const REFUSED_NAMES: &[&str] = &[
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONBREAKPOINT",
    "PYTHONWARNINGS",
    "PYTHONINSPECT",
    "PYTHONUSERBASE",
    "PERL5LIB",
    "PERL5OPT",
    "PERL5DB",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "GETCONF_DIR",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_TEMPLATE_DIR",
    "GIT_ASKPASS",
    "SSH_ASKPASS",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "MANPAGER",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTC",
    "CARGO",
    "GOFLAGS",
    "MAKEFLAGS",
    "LUA_INIT",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "R_PROFILE",
    "R_PROFILE_USER",
    "OPENSSL_CONF",
    "OPENSSL_MODULES",
    "DOTNET_STARTUP_HOOKS",
];

/// Why a variable was not accepted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EnvironmentError {
    /// The variable makes a loader, shell or interpreter run code, or replaces what is fixed.
    #[error("environment variable {name} is refused: it can change which code a program runs")]
    Refused {
        /// The variable.
        name: String,
    },
    /// The text is not a name a variable can have.
    #[error("{name:?} is not a name of an environment variable")]
    BadName {
        /// The text as given.
        name: String,
    },
    /// The value contains a zero byte.
    #[error("the value of environment variable {name} contains a zero byte")]
    BadValue {
        /// The variable.
        name: String,
    },
}

/// The whole environment a process will see.
#[derive(Debug, Clone)]
pub struct Environment {
    path: Vec<PathBuf>,
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Makes the smallest environment: fixed `PATH`, language and zone of this process, no home.
    pub fn clean() -> Self {
        let mut variables = BTreeMap::new();
        for name in PASSED_THROUGH {
            if let Some(value) = std::env::var_os(name) {
                variables.insert(OsString::from(*name), value);
            }
        }
        variables.entry("LANG".into()).or_insert_with(|| "C.UTF-8".into());
        for (name, value) in [
            ("TERM", "dumb"),
            ("SHELL", "/bin/sh"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            // Asking would wait for a terminal that is not there.
            ("GIT_TERMINAL_PROMPT", "0"),
            ("DEBIAN_FRONTEND", "noninteractive"),
        ] {
            variables.insert(name.into(), value.into());
        }
        Self { path: SYSTEM_PATH.iter().map(PathBuf::from).collect(), variables }
    }

    /// Redirects home, configuration and every cache below `home`, and temporary files to `temp`.
    #[must_use]
    pub fn redirected(mut self, home: &Path, temp: &Path) -> Self {
        for (name, below) in [
            ("HOME", ""),
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_CACHE_HOME", ".cache"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_STATE_HOME", ".local/state"),
            ("CARGO_HOME", ".cargo"),
            ("npm_config_cache", ".cache/npm"),
            ("PIP_CACHE_DIR", ".cache/pip"),
            ("GOPATH", ".go"),
            ("GOCACHE", ".cache/go-build"),
        ] {
            let folder = if below.is_empty() { home.to_owned() } else { home.join(below) };
            self.variables.insert(name.into(), folder.into());
        }
        for name in ["TMPDIR", "TMP", "TEMP"] {
            self.variables.insert(name.into(), temp.into());
        }
        self
    }

    /// Puts `folder` in front of `PATH`; meant for toolchains found by this program itself.
    #[must_use]
    pub fn path_front(mut self, folder: impl Into<PathBuf>) -> Self {
        self.path.insert(0, folder.into());
        self
    }

    /// Puts `folder` at the end of `PATH`.
    #[must_use]
    pub fn path_back(mut self, folder: impl Into<PathBuf>) -> Self {
        self.path.push(folder.into());
        self
    }

    /// Sets a variable.
    ///
    /// # Errors
    /// The name is on the refused list or is no name.
    pub fn set(mut self, name: &str, value: impl AsRef<OsStr>) -> Result<Self, EnvironmentError> {
        check_name(name)?;
        let value = value.as_ref();
        if value.as_encoded_bytes().contains(&0) {
            return Err(EnvironmentError::BadValue { name: name.to_owned() });
        }
        self.variables.insert(name.into(), value.to_owned());
        Ok(self)
    }

    /// Takes a variable of this process over, when it is set.
    ///
    /// # Errors
    /// As [`Environment::set`].
    pub fn inherit(self, name: &str) -> Result<Self, EnvironmentError> {
        match std::env::var_os(name) {
            Some(value) => self.set(name, value),
            None => check_name(name).map(|()| self),
        }
    }

    /// Returns the value a process would see.
    pub fn get(&self, name: &str) -> Option<OsString> {
        if name == "PATH" {
            return Some(self.path_text());
        }
        self.variables.get(OsStr::new(name)).cloned()
    }

    /// Returns where a program of that name would be found.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        self.path.iter().map(|folder| folder.join(name)).find(|candidate| is_executable(candidate))
    }

    /// Sets a variable of this crate's own choice, refused list or not.
    pub(crate) fn fix(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    pub(crate) fn mark(&mut self, mark: &str) {
        self.variables.insert(RUN_MARK_VARIABLE.into(), mark.into());
    }

    pub(crate) fn pairs(&self) -> Vec<(OsString, OsString)> {
        let mut pairs: Vec<_> =
            self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        pairs.push(("PATH".into(), self.path_text()));
        pairs
    }

    fn path_text(&self) -> OsString {
        // A folder with a colon in its name cannot stand in PATH; leaving it out is all one can do.
        std::env::join_paths(
            self.path.iter().filter(|folder| !folder.as_os_str().as_encoded_bytes().contains(&b':')),
        )
        .unwrap_or_default()
    }
}

fn check_name(name: &str) -> Result<(), EnvironmentError> {
    let well_formed = !name.is_empty()
        && name.len() <= 256
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    // Case is ignored: npm reads `npm_config_…` in any case, and a shell function needs no capitals.
    let upper = name.to_ascii_uppercase();
    let refused = REFUSED_NAMES.contains(&upper.as_str())
        || REFUSED_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    match (refused, well_formed) {
        (true, _) => Err(EnvironmentError::Refused { name: name.to_owned() }),
        (false, false) => Err(EnvironmentError::BadName { name: name.to_owned() }),
        (false, true) => Ok(()),
    }
}

pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_loading_variables_are_refused() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "ld_preload",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "BASH_ENV",
            "ENV",
            "PATH",
            "npm_execpath",
            "npm_config_script_shell",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "BASH_FUNC_ls%%",
            "JAVA_TOOL_OPTIONS",
            "NEXUS_RUN_FD",
            "PERL5OPT",
            "RUBYOPT",
        ] {
            assert_eq!(
                Environment::clean().set(name, "x").unwrap_err(),
                EnvironmentError::Refused { name: name.to_owned() },
            );
        }
    }

    #[test]
    fn malformed_names_and_values_are_refused() {
        for name in ["", "1A", "A=B", "A B", "A\0"] {
            assert!(
                matches!(Environment::clean().set(name, "x"), Err(EnvironmentError::BadName { .. })),
                "{name:?}"
            );
        }
        assert!(matches!(Environment::clean().set("A", "x\0y"), Err(EnvironmentError::BadValue { .. })));
    }

    #[test]
    fn home_and_caches_are_redirected() {
        let environment = Environment::clean().redirected(Path::new("/h"), Path::new("/t"));
        assert_eq!(environment.get("HOME").unwrap(), "/h");
        assert_eq!(environment.get("CARGO_HOME").unwrap(), "/h/.cargo");
        assert_eq!(environment.get("TMPDIR").unwrap(), "/t");
        assert_eq!(environment.get("USERPROFILE"), None);
    }
}
