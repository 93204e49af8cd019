//! Programs that hold secrets: commands of the owner's, the platform's keychain tool, 1Password's.
//!
//! No shell, a fixed deadline, little output, and nothing of what they print reaches a log or an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_process::{Confinement, Environment, Input, Launch, LaunchError, Status};
use secrecy::{ExposeSecret, SecretString};

/// Longest a program may take. A person who waits for ten seconds has an answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(9);
/// How long a program gets to end itself after that.
const GRACE: Duration = Duration::from_millis(300);
/// Most bytes of output that are read.
const MAX_OUTPUT_SIZE: usize = 1024 * 1024;

/// Variables such programs need to find their own files and sessions.
const PASSED: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "GNUPGHOME",
    "PASSWORD_STORE_DIR",
    "SSH_AUTH_SOCK",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "OP_SERVICE_ACCOUNT_TOKEN",
    "OP_ACCOUNT",
    "OP_CONNECT_HOST",
    "OP_CONNECT_TOKEN",
    "BW_SESSION",
    "VAULT_ADDR",
    "VAULT_TOKEN",
    "AWS_PROFILE",
    "AWS_CONFIG_FILE",
];

/// Why a program gave no secret. No message holds any of its output.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There is no such program.
    #[error("program {name} was not found")]
    NotFound {
        /// Its name as given.
        name: String,
    },
    /// It did not end in time.
    #[error("{name} did not answer within {} seconds", DEADLINE.as_secs())]
    TimedOut { name: String },
    /// It ended with a failure.
    #[error("{name} ended with {status}")]
    Failed {
        name: String,
        /// How it ended.
        status: Status,
    },
    /// It printed no secret.
    #[error("{name} printed no secret{}", at(.json_path.as_deref()))]
    NoSecret {
        name: String,
        /// Where in its output one was looked for.
        json_path: Option<String>,
    },
    /// It could not be started.
    #[error("{name} could not be started")]
    NotStarted {
        name: String,
        /// Why.
        #[source]
        source: LaunchError,
    },
}

fn at(json_path: Option<&str>) -> String {
    json_path.map(|path| format!(" at {path}")).unwrap_or_default()
}

/// Where programs are looked up and what they get to see.
#[derive(Debug, Clone)]
pub(crate) struct Programs<'a> {
    pub(crate) environment: &'a [(String, String)],
}

impl Programs<'_> {
    /// Finds a program by name on the owner's `PATH`, or takes an absolute path.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        let given = Path::new(name);
        if given.is_absolute() {
            return given.is_file().then(|| given.to_owned());
        }
        // A relative path would depend on the working folder, which belongs to nobody here.
        if name.contains('/') || name.is_empty() {
            return None;
        }
        self.path_folders().find_map(|folder| {
            let candidate = folder.join(name);
            is_executable(&candidate).then_some(candidate)
        })
    }

    /// Runs a program and returns what it printed.
    pub(crate) async fn run(
        &self,
        command: &[String],
        input: Option<&SecretString>,
    ) -> Result<Vec<u8>, ProgramError> {
        let name = command.first().cloned().unwrap_or_default();
        let shown = program_name(&name);
        let program = self.find(&name).ok_or_else(|| ProgramError::NotFound { name: name.clone() })?;
        let mut launch = Launch::new(program, "/", Confinement::Unsandboxed)
            .arguments(&command[1..])
            .environment(self.child_environment())
            .deadline(DEADLINE)
            .grace(GRACE)
            .output_limit(MAX_OUTPUT_SIZE);
        if let Some(secret) = input {
            launch = launch.input(Input::Bytes(secret.expose_secret().as_bytes().to_vec()));
        }
        let outcome =
            launch.run().await.map_err(|source| ProgramError::NotStarted { name: shown.clone(), source })?;
        match outcome.status {
            Status::Exited(0) if outcome.stdout.cut == 0 => {
                let mut output = outcome.stdout.head;
                output.extend(outcome.stdout.tail);
                Ok(output)
            }
            Status::TimedOut => Err(ProgramError::TimedOut { name: shown }),
            Status::Exited(0) => Err(ProgramError::NoSecret { name: shown, json_path: None }),
            Status::Exited(_) | Status::Signaled(_) | Status::Cancelled | Status::DiskFull => {
                Err(ProgramError::Failed { name: shown, status: outcome.status })
            }
        }
    }

    fn child_environment(&self) -> Environment {
        let mut environment = Environment::clean();
        for folder in self.path_folders() {
            environment = environment.path_back(folder);
        }
        for (name, value) in self.environment {
            if PASSED.contains(&name.as_str()) || name.starts_with("OP_SESSION_") {
                // The list holds no refused name; a value with a zero byte is left out.
                environment = environment.clone().set(name, value).unwrap_or(environment);
            }
        }
        environment
    }

    /// Returns the folders of the owner's `PATH`, without those in a project: workers write there.
    fn path_folders(&self) -> impl Iterator<Item = PathBuf> {
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let folders: Vec<PathBuf> = path
            .map(|(_, value)| {
                std::env::split_paths(value)
                    .filter(|folder| folder.is_absolute() && !is_in_project(folder))
                    .collect()
            })
            .unwrap_or_default();
        folders.into_iter()
    }
}

fn is_in_project(folder: &Path) -> bool {
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    real.ancestors().any(|above| above.join(".nexus").is_dir())
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Returns a program's own name; the path to it says nothing a person needs.
pub(crate) fn program_name(given: &str) -> String {
    Path::new(given).file_name().map_or_else(|| given.to_owned(), |file| file.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use nexus_base::file::{Durability, create_folder, replace};

    use super::*;

    #[test]
    fn a_program_in_a_project_is_not_the_owners() {
        let folder = tempfile::tempdir().unwrap();
        let (project, own) = (folder.path().join("project"), folder.path().join("own"));
        for place in [project.join("bin"), project.join(".nexus"), own.clone()] {
            create_folder(&place, 0o755).unwrap();
        }
        std::os::unix::fs::symlink(project.join("bin"), folder.path().join("link")).unwrap();
        for place in [project.join("bin/op"), own.join("op")] {
            replace(&place, b"#!/bin/sh\n", 0o755, Durability::Crash).unwrap();
        }
        let path = ["link", "project/bin", "own"].map(|name| folder.path().join(name));
        let path = std::env::join_paths(path).unwrap().into_string().unwrap();
        let environment = [("PATH".to_owned(), path)];
        let programs = Programs { environment: &environment };
        assert_eq!(programs.find("op"), Some(own.join("op")));
    }
}
