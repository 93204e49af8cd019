//! `nexus credential add`: a secret from standard input or a hidden prompt, or a pointer to one. Never
//! from the command line, which others on the machine can list.

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use nexus_credentials::{
    AccountName, CredentialFolder, FileFormat, Keep, Kind, NewCredential, ServiceName, Storage, split_words,
};
use nexus_workspace::Layout;
use secrecy::SecretString;
use serde_json::json;

use super::{file_failure, resolver};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

/// Longest input that is read as a secret.
const MAX_INPUT_LEN: u64 = 128 * 1024;

/// Arguments of `nexus credential add`.
#[derive(Debug, Args)]
#[command(after_help = "\
The secret itself is read from standard input, or typed without echo at a terminal. It is kept in the
platform's keychain, or, where there is none, in a file sealed under a key outside the workspace
(NEXUS_KEY_FILE, or ~/.local/state/nexus/keys). With --env, --file or --command, only the location is recorded.

Examples:
  nexus credential add anthropic < key.txt
  nexus credential add github --account work --command \"gh auth token\"
  nexus credential add openai --file ~/keys.json --json-path openai.key")]
pub(super) struct Arguments {
    /// Name of the service, such as anthropic, openai or github
    service: String,
    /// Name of the account
    #[arg(long, default_value = "default")]
    account: String,
    /// Kind of secret
    #[arg(long, value_enum, default_value_t = KindWord::ApiKey)]
    kind: KindWord,
    /// Where to store the secret
    #[arg(long, value_enum, default_value_t = KeepWord::Auto, conflicts_with_all = ["env", "file", "command"])]
    storage: KeepWord,
    /// Use a variable of the daemon's environment
    #[arg(long, value_name = "VARIABLE", conflicts_with_all = ["file", "command"])]
    env: Option<String>,
    /// Use a file
    #[arg(long, value_name = "PATH", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Use a command that prints the secret; no shell is involved
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
    /// Path of the secret in the file's or command's JSON
    #[arg(long, value_name = "A.B.C")]
    json_path: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KindWord {
    ApiKey,
    Token,
    Oauth,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeepWord {
    Auto,
    Keychain,
    Sealed,
}

/// Runs `nexus credential add`.
pub(super) fn run(layout: &Layout, folder: &CredentialFolder, arguments: &Arguments) -> Outcome {
    let new = named(arguments)?;
    let before = folder.read(&new.service, &new.account).map_err(|error| file_failure(&error))?;
    let is_there = before.is_some_and(|account| account.credentials.iter().any(|one| one.id == new.id));
    let storage = match pointer(arguments)? {
        Some(storage) => {
            folder.add_pointer(&new, storage.clone()).map_err(|error| file_failure(&error))?;
            storage
        }
        None => {
            let secret = read_secret(&new)?;
            let keep = match arguments.storage {
                KeepWord::Auto => Keep::Anywhere,
                KeepWord::Keychain => Keep::Keychain,
                KeepWord::Sealed => Keep::Sealed,
            };
            super::super::client_runtime()?
                .block_on(folder.add_secret(&resolver(layout), &new, &secret, keep))
                .map_err(|error| Failure::caused(&error).hint(error.hint()))?
        }
    };
    let reference = format!("{}/{}/{}", new.service, new.account, new.id);
    if arguments.json {
        return output::json(&json!({
            "reference": reference, "storage": storage.describe(), "replaced": is_there,
        }));
    }
    debug_assert_eq!(Format::from_flag(arguments.json), Format::Text);
    output::remark(&format!("hint: nexus credential verify {}/{} tests it", new.service, new.account));
    let done = if is_there { "replaced" } else { "added" };
    output::line(&format!("{done} {reference}, found in {}", storage.describe()))
}

fn named(arguments: &Arguments) -> Result<NewCredential, Failure> {
    let wrong = |error: &dyn std::error::Error| Failure::caused(error).exit(Exit::Usage);
    let (id, kind) = match arguments.kind {
        KindWord::ApiKey => ("api_key", Kind::ApiKey),
        KindWord::Token => ("token", Kind::Token),
        KindWord::Oauth => ("oauth", Kind::Oauth),
    };
    Ok(NewCredential {
        service: ServiceName::new(&arguments.service).map_err(|error| wrong(&error))?,
        account: AccountName::new(&arguments.account).map_err(|error| wrong(&error))?,
        id: id.to_owned(),
        kind,
    })
}

fn pointer(arguments: &Arguments) -> Result<Option<Storage>, Failure> {
    let json_path = arguments.json_path.clone();
    let usage = |message: &str| Failure::new(message).exit(Exit::Usage);
    if let Some(var) = &arguments.env {
        let is_name = var.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
        if var.is_empty() || !is_name {
            // Most likely the secret itself; it is not repeated.
            return Err(usage("--env takes the name of a variable, not its value"));
        }
        return Ok(Some(Storage::Env { var: var.clone() }));
    }
    if let Some(path) = &arguments.file {
        let path = std::path::absolute(path)
            .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let format = if json_path.is_some() { FileFormat::Json } else { FileFormat::Text };
        return Ok(Some(Storage::File { path, format, json_path }));
    }
    if let Some(line) = &arguments.command {
        let command =
            split_words(line).ok_or_else(|| usage("--command is empty or has an unclosed quote"))?;
        return Ok(Some(Storage::External { command, json_path }));
    }
    if json_path.is_some() {
        return Err(usage("--json-path needs --file or --command"));
    }
    Ok(None)
}

fn read_secret(new: &NewCredential) -> Result<SecretString, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("reading the secret: {error}"));
    let mut text = String::new();
    if output::stdin_is_terminal() {
        output::remark_part(&format!("Secret for {}/{} (not shown): ", new.service, new.account));
        let hidden = HiddenInput::begin();
        let read = std::io::stdin().lock().take(MAX_INPUT_LEN).read_line(&mut text);
        drop(hidden);
        output::remark("");
        read.map_err(failed)?;
    } else {
        std::io::stdin().lock().take(MAX_INPUT_LEN).read_to_string(&mut text).map_err(failed)?;
    }
    let secret = SecretString::from(text.trim());
    secrecy::zeroize::Zeroize::zeroize(&mut text);
    Ok(secret)
}

/// The terminal without echo, until dropped.
struct HiddenInput(Option<rustix::termios::Termios>);

impl HiddenInput {
    fn begin() -> Self {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).ok();
        if let Some(mut hidden) = before.clone() {
            hidden.local_modes.remove(LocalModes::ECHO);
            // Without success the person sees what they type, which they notice.
            let _ = tcsetattr(&stdin, OptionalActions::Flush, &hidden);
        }
        Self(before)
    }
}

impl Drop for HiddenInput {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ =
                rustix::termios::tcsetattr(std::io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
        let _ = std::io::stderr().flush();
    }
}
