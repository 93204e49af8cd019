//! Changing the document: checked as a whole before anything is written, written in one step, with
//! the last valid document kept beside it.

use nexus_base::file::{self, Durability, FileError};
use nexus_base::id::random_hex;
use nexus_base::lock::{HeldLock, LockError};
use nexus_base::redact::PLACEHOLDER;
use serde_json::{Value, json};

use super::check::DEFAULT_USED;
use super::document::Document;
use super::error::{ConfigError, Problem};
use super::field::{FIELDS, Kind, TOLERATED_SECTIONS, find};
use super::resolve::{Loaded, Overrides, read, resolve};
use crate::Layout;
use crate::trust::Trust;

/// The only key whose value is a secret.
const TOKEN_KEY: &str = "runtime.auth.token";
/// Random bytes in the owner's token.
const TOKEN_BYTES: usize = 24;
/// Longest value given on a command line, in bytes.
const MAX_VALUE_LEN: usize = 64 * 1024;

/// Reads a value as typed: JSON where it parses and the key is not plain text, else the text itself.
///
/// # Errors
/// The value is too long.
pub fn parse_value(key: &str, text: &str) -> Result<Value, ConfigError> {
    if text.len() > MAX_VALUE_LEN {
        let message = format!("is longer than {MAX_VALUE_LEN} bytes");
        return Err(invalid(Problem::new(key, message, "shorten it, or edit the file by hand")));
    }
    let parsed = serde_json::from_str::<Value>(text).ok();
    // `config set agent.id 7` means the text "7"; quotes and null keep their JSON meaning.
    let is_text = find(key).is_some_and(|field| {
        matches!(field.kind, Kind::Text { .. } | Kind::Word(_) | Kind::Address | Kind::Bind | Kind::AuthMode)
    });
    Ok(match parsed {
        Some(value @ (Value::String(_) | Value::Null)) => value,
        Some(value) if !is_text => value,
        Some(_) | None => json!(text),
    })
}

/// Sets one key, or takes it away when `value` is null. Returns the whole result as it now stands.
///
/// # Errors
/// The key or value is wrong, the result would not be valid, or the file cannot be written; the
/// document is then untouched.
pub fn set(layout: &Layout, key: &str, value: Value) -> Result<Loaded, ConfigError> {
    if !is_settable(key) {
        return Err(invalid(Problem::new(key, "is not a known key", "see `nexus config list`")));
    }
    let token = random_hex(TOKEN_BYTES).map_err(ConfigError::Random)?;
    edit(layout, key, |document| {
        let token_before = document.get(TOKEN_KEY).cloned();
        if value.is_null() {
            document.remove(key)?;
        } else {
            document.set(key, value)?;
        }
        // A document without a token cannot be mended one key at a time: making one needs the rest to be
        // right, and any other change needs the token.
        if token_before.is_none() && document.get(TOKEN_KEY).is_none() {
            return document.set(TOKEN_KEY, json!(token));
        }
        // Whichever section around it was named: a token on a command line ends up in histories.
        if document.get(TOKEN_KEY).is_some_and(|after| token_before.as_ref() != Some(after)) {
            let fix = "run `nexus config rotate-token`: a token on a command line ends up in shell histories";
            return Err(invalid(Problem::new(TOKEN_KEY, "cannot be set by hand", fix)));
        }
        Ok(())
    })
}

/// Returns whether the document has no token of the owner's; a change of any key then makes one.
pub fn lacks_token(layout: &Layout) -> bool {
    read(layout).is_ok_and(|document| document.get(TOKEN_KEY).is_none())
}

/// Returns every key there is; a `*` stands for a name of the person's choice.
pub fn known_keys() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|field| field.key)
}

/// Returns whether a key, or a section of keys, is known.
pub fn is_known(key: &str) -> bool {
    is_settable(key)
}

/// Gives the owner a new token; the old one is worth nothing once the daemon has reloaded.
///
/// # Errors
/// The rest of the document is not valid, or the file cannot be written.
pub fn rotate_token(layout: &Layout) -> Result<Loaded, ConfigError> {
    let token = random_hex(TOKEN_BYTES).map_err(ConfigError::Random)?;
    edit(layout, TOKEN_KEY, |document| document.set(TOKEN_KEY, json!(token)))
}

/// Keeps `document`, which must be valid, as the last good one; its token becomes a placeholder.
///
/// # Errors
/// The file cannot be written.
pub fn keep_last_good(layout: &Layout, document: &Document) -> Result<(), ConfigError> {
    let mut copy = document.clone();
    if copy.get(TOKEN_KEY).is_some() {
        copy.set(TOKEN_KEY, json!(PLACEHOLDER))?;
    }
    let path = layout.config_last_good();
    let text = copy.render();
    // Every start calls this; an unchanged file is not worth a sync.
    if file::read_text(&path, super::document::MAX_DOCUMENT_SIZE).is_ok_and(|present| present == text) {
        return Ok(());
    }
    Ok(file::replace(&path, text.as_bytes(), 0o600, Durability::PowerLoss)?)
}

fn edit(
    layout: &Layout,
    key: &str,
    change: impl FnOnce(&mut Document) -> Result<(), ConfigError>,
) -> Result<Loaded, ConfigError> {
    // Two writers that both read first would lose one of the changes.
    let lock = HeldLock::acquire(&layout.config_lock()).map_err(|error| match error {
        LockError::Held { .. } => ConfigError::Busy { path: layout.config().to_owned() },
        LockError::File(error) => error.into(),
    })?;
    let before = read(layout)?;
    let mut after = before.clone();
    change(&mut after)?;
    // The owner typed this, so it is checked as a trusted document; a workspace that is not trusted
    // still ignores the value when it is loaded.
    let loaded = resolve(after, Trust::Trusted, &Overrides::default())?;
    // A slip elsewhere only degrades, but the value just typed must be right or be refused.
    let is_about = |problem: &&Problem| {
        problem.key == key || problem.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
    };
    if let Some(problem) = loaded.warnings.iter().find(is_about) {
        let message = problem.message.trim_end_matches(DEFAULT_USED).to_owned();
        return Err(invalid(Problem { message, ..problem.clone() }));
    }
    if resolve(before.clone(), Trust::Trusted, &Overrides::default()).is_ok() {
        keep_last_good(layout, &before)?;
    }
    write(layout, &loaded.document)?;
    lock.release();
    Ok(loaded)
}

fn write(layout: &Layout, document: &Document) -> Result<(), FileError> {
    file::replace(layout.config(), document.render().as_bytes(), 0o600, Durability::PowerLoss)
}

// A known key, a section of known keys, or anything inside an object another crate checks.
fn is_settable(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or(key);
    let is_inside = |outer: &str| key.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
    find(key).is_some()
        || TOLERATED_SECTIONS.contains(&section)
        || FIELDS.iter().any(|field| {
            field.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
                || (field.kind == Kind::Object && is_inside(field.key))
        })
}

fn invalid(problem: Problem) -> ConfigError {
    ConfigError::Invalid { problems: vec![problem] }
}
