//! Identifiers: ULID text, sortable by the time they were made, one newtype per kind of thing.

use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use crate::clock::Timestamp;

/// Makes a new ULID as text. Ids made by one process sort in the order they were made.
pub fn new_ulid() -> String {
    static GENERATOR: Mutex<Option<ulid::Generator>> = Mutex::new(None);
    // A poisoned generator still generates: the state behind it is one number.
    let mut guard = GENERATOR.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let generator = guard.get_or_insert_with(ulid::Generator::new);
    // The monotonic counter can only overflow within one millisecond, after 2^80 ids.
    // A clock that went back counts on from the newest id.
    let now = u64::try_from(Timestamp::now().as_millis()).unwrap_or(0);
    let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now);
    generator.generate_from_datetime(now).unwrap_or_else(|_| ulid::Ulid::generate()).to_string()
}

/// Makes `bytes` random bytes as lowercase hex, for tokens.
///
/// # Errors
/// The operating system's random source failed.
pub fn random_hex(bytes: usize) -> std::io::Result<String> {
    let mut buffer = vec![0u8; bytes];
    getrandom::fill(&mut buffer).map_err(std::io::Error::other)?;
    Ok(to_hex(&buffer))
}

/// Renders bytes as lowercase hex.
pub fn to_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        #[serde(transparent)]
        #[schemars(inline)]
        pub struct $name(String);

        impl $name {
            /// Makes a fresh id.
            pub fn generate() -> Self {
                Self(new_ulid())
            }

            /// Takes text that already is an id of this kind.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    )+};
}

id_types! {
    /// One event in `events.db`; deterministic: `{source}:{source_id}`.
    EventId,
    /// One request: a row of `nexus_requests`.
    RequestId,
    /// One exchange with a model, tool calls included.
    TurnId,
    /// One message inside a turn.
    MessageId,
    /// One tool call; also the dispatch id of a worker it started.
    ToolCallId,
    /// One summary that stands for earlier turns of a session.
    CompactionId,
    /// One item waiting for, or taken by, a session.
    QueueItemId,
    /// One line to be said to somebody.
    OutboxId,
    /// A session's stable label, such as `dm:entity-owner` or `worker:{ulid}`.
    SessionLabel,
    /// An entity in `identity.db`.
    EntityId,
    /// A fact in `memory.db`.
    FactId,
    /// One life of the daemon, from start to end.
    BootId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_in_the_order_they_were_made() {
        let made: Vec<String> = (0..1000).map(|_| new_ulid()).collect();
        let mut sorted = made.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(made, sorted);
    }

    #[test]
    fn random_hex_has_two_characters_a_byte() {
        let token = random_hex(24).unwrap();
        assert_eq!(token.len(), 48);
        assert!(token.bytes().all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase()));
    }
}
