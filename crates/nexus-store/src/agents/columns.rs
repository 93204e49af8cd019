//! Columns of `agents.db` that hold JSON, as types: read once, here. One that cannot be read is kept as it is and
//! says so; whoever needs it decides, and none of them takes it for empty.

use std::path::PathBuf;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name of the fact that says where words come from that nobody vouches for.
pub(super) const UNTRUSTED: &str = "untrusted";
/// What an item with facts that cannot be read counts as having read.
const DAMAGED_ROW: &str = "a damaged row of the ledger";

/// A column that does not hold what it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{column} cannot be read: {why}")]
pub struct UnreadableColumn {
    column: &'static str,
    why: String,
    /// What stands there, so that a copy of the row is no better than the row.
    text: String,
}

/// What is fixed about a session when it is made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSettings {
    /// The persona a policy gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// The folder of the project it works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// The catalog role of a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The project's task of a worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<u64>,
    /// The model it was made with; the only one that is written when there is none, as it always was.
    pub model: Option<String>,
    /// The model its role's tier stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier_model: Option<String>,
}

/// Facts about an item, which the model is told before its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemFacts(Result<Vec<(String, String)>, UnreadableColumn>);

/// What an item may do, as it was decided at admission. Its meaning is `nexus-identity`'s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionSnapshot(Value);

impl ItemFacts {
    /// Returns facts to be written.
    pub fn new<Name: Into<String>>(facts: impl IntoIterator<Item = (Name, String)>) -> Self {
        Self(Ok(facts.into_iter().map(|(name, value)| (name.into(), value)).collect()))
    }

    /// Returns every fact.
    ///
    /// # Errors
    /// The row is damaged; its item must not run as if nothing were known against it.
    pub fn read(&self) -> Result<&[(String, String)], &UnreadableColumn> {
        self.0.as_deref()
    }

    /// Returns the fact of that name; none where facts cannot be read.
    pub fn get(&self, name: &str) -> Option<&str> {
        let facts = self.read().unwrap_or_default();
        facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns where its words come from that nobody vouches for. Nobody vouches for a damaged row.
    pub fn untrusted(&self) -> Option<&str> {
        match self.read() {
            Ok(_) => self.get(UNTRUSTED),
            Err(_) => Some(DAMAGED_ROW),
        }
    }
}

impl PermissionSnapshot {
    pub const fn new(permissions: Value) -> Self {
        Self(permissions)
    }

    /// Returns it as `nexus-identity` reads it; null, which permits nothing, where the row is damaged.
    pub const fn as_json(&self) -> &Value {
        &self.0
    }
}

impl SessionSettings {
    pub(super) fn read(text: &str) -> Result<Self, UnreadableColumn> {
        read("sessions.settings_json", text)
    }
}

fn read<T: for<'a> Deserialize<'a>>(column: &'static str, text: &str) -> Result<T, UnreadableColumn> {
    serde_json::from_str(text).map_err(|error| {
        tracing::error!(column, %error, "damaged row in the ledger");
        UnreadableColumn { column, why: error.to_string(), text: text.to_owned() }
    })
}

fn text_of(value: &impl Serialize) -> rusqlite::Result<ToSqlOutput<'static>> {
    let text = serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    Ok(ToSqlOutput::from(text))
}

impl ToSql for SessionSettings {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        text_of(self)
    }
}

impl ToSql for ItemFacts {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match &self.0 {
            Ok(facts) => text_of(facts),
            Err(damaged) => Ok(ToSqlOutput::from(damaged.text.as_str())),
        }
    }
}

impl FromSql for ItemFacts {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(read("queue_items.frame_json", value.as_str()?)))
    }
}

impl ToSql for PermissionSnapshot {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        text_of(&self.0)
    }
}

impl FromSql for PermissionSnapshot {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(read("queue_items.permissions_json", value.as_str()?).unwrap_or(Value::Null)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_older_builds_wrote() {
        let facts = ItemFacts::new([("sender", "owner".to_owned())]);
        assert_eq!(facts.to_sql(), Ok(ToSqlOutput::from(r#"[["sender","owner"]]"#.to_owned())));
        let settings = SessionSettings { persona: Some("ada".to_owned()), ..SessionSettings::default() };
        assert_eq!(settings.to_sql(), Ok(ToSqlOutput::from(r#"{"persona":"ada","model":null}"#.to_owned())));
        let read = SessionSettings::read(r#"{"model":null,"project":"/x","later":1}"#).unwrap();
        assert_eq!(read, SessionSettings { project: Some("/x".into()), ..SessionSettings::default() });
    }

    #[test]
    fn a_damaged_row_is_never_taken_for_an_empty_one() {
        let damaged = ItemFacts::column_result(ValueRef::from(r#"[["sender","#)).unwrap();
        assert!(damaged.read().is_err());
        assert_eq!(damaged.get("sender"), None);
        assert_eq!(damaged.untrusted(), Some(DAMAGED_ROW));
        assert_eq!(damaged.to_sql(), Ok(ToSqlOutput::from(r#"[["sender","#)));
        assert!(SessionSettings::read("{").is_err());
        assert_eq!(PermissionSnapshot::column_result(ValueRef::from("{")).unwrap().as_json(), &Value::Null);
    }
}
