//! Columns with a closed list of words, ids, moments and JSON: how they go in and come out.

use nexus_base::clock::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;
use serde_json::Value;

/// A stored value that is none of the words its column may hold.
#[derive(Debug, thiserror::Error)]
#[error("unknown word {0:?}")]
pub(crate) struct UnknownWord(pub(crate) String);

/// Declares an enum that is stored as one of a closed list of words.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        nexus_base::words! {
            $(#[$doc])*
            pub enum $name { $($(#[$variant_doc])* $variant = $word),+ }
        }

        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(rusqlite::types::ToSqlOutput::from(self.as_str()))
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                let word = value.as_str()?;
                Self::parse(word).ok_or_else(|| {
                    let unknown = crate::words::UnknownWord(word.chars().take(80).collect());
                    rusqlite::types::FromSqlError::Other(Box::new(unknown))
                })
            }
        }
    };
}
pub(crate) use words;

/// Reads a word that stands for a value of another crate.
pub(crate) fn word<T>(
    row: &Row<'_>,
    index: usize,
    parse: impl FnOnce(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    parse(text).ok_or_else(|| {
        let unknown = UnknownWord(text.chars().take(80).collect());
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(unknown))
    })
}

/// Reads a moment.
pub(crate) fn moment(row: &Row<'_>, column: &str) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp)
}

/// Reads a moment that may be missing.
pub(crate) fn moment_or_none(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp))
}

/// Reads JSON that may be missing.
pub(crate) fn json(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Value>> {
    let Some(text) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| {
        let index = row.as_ref().column_index(column).unwrap_or_default();
        rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
    })
}

/// Renders JSON for a column that may be empty.
pub(crate) fn json_text(value: Option<&Value>) -> Option<String> {
    value.map(Value::to_string)
}

/// Reads a count. SQLite's integers are signed; a negative count is damage and read as zero.
pub(crate) fn count(row: &Row<'_>, column: impl rusqlite::RowIndex) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Reads a count that may be missing.
pub(crate) fn count_or_none(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(|value| u64::try_from(value).unwrap_or(0)))
}

/// Renders a count for a column.
pub(crate) fn stored_count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
