//! The platform's keychain, through the tool that comes with it: `security` on macOS, `secret-tool`
//! elsewhere. Secrets go in through standard input, never through arguments, which anybody can list.

use secrecy::{ExposeSecret, SecretString};

use crate::program::{ProgramError, Programs};

/// A keychain entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) service: &'a str,
    pub(crate) account: Option<&'a str>,
}

/// The tool this platform has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Security,
    SecretTool,
}

impl Tool {
    /// Returns the platform's tool, whether or not it is installed.
    pub(crate) const fn of_platform() -> Self {
        if cfg!(target_os = "macos") { Self::Security } else { Self::SecretTool }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Security => "security",
            Self::SecretTool => "secret-tool",
        }
    }

    pub(crate) async fn read(
        self,
        programs: &Programs<'_>,
        entry: Entry<'_>,
    ) -> Result<Vec<u8>, ProgramError> {
        let mut command = vec![self.name().to_owned()];
        match self {
            Self::Security => {
                command.extend(["find-generic-password", "-s", entry.service].map(str::to_owned));
                if let Some(account) = entry.account {
                    command.extend(["-a", account].map(str::to_owned));
                }
                command.push("-w".to_owned());
            }
            Self::SecretTool => {
                command.extend(["lookup", "service", entry.service].map(str::to_owned));
                if let Some(account) = entry.account {
                    command.extend(["account", account].map(str::to_owned));
                }
            }
        }
        programs.run(&command, None).await
    }

    pub(crate) async fn store(
        self,
        programs: &Programs<'_>,
        entry: Entry<'_>,
        secret: &SecretString,
    ) -> Result<(), ProgramError> {
        let account = entry.account.unwrap_or_default();
        let (command, input) = match self {
            Self::Security => {
                // The interactive mode reads commands from standard input.
                let line = format!(
                    "add-generic-password -U -s {} -a {} -w {}\n",
                    quoted(entry.service),
                    quoted(account),
                    quoted(secret.expose_secret())
                );
                (vec!["security".to_owned(), "-i".to_owned()], SecretString::from(line))
            }
            Self::SecretTool => {
                let label = format!("--label=nexus {}", entry.service);
                let words = ["secret-tool", "store", &label, "service", entry.service, "account", account];
                (words.map(str::to_owned).to_vec(), secret.clone())
            }
        };
        programs.run(&command, Some(&input)).await.map(drop)
    }

    pub(crate) async fn remove(self, programs: &Programs<'_>, entry: Entry<'_>) -> Result<(), ProgramError> {
        let account = entry.account.unwrap_or_default();
        let command = match self {
            Self::Security => ["security", "delete-generic-password", "-s", entry.service, "-a", account]
                .map(str::to_owned)
                .to_vec(),
            Self::SecretTool => ["secret-tool", "clear", "service", entry.service, "account", account]
                .map(str::to_owned)
                .to_vec(),
        };
        programs.run(&command, None).await.map(drop)
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
