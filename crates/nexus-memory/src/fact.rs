//! A fact on its way in and out: one tidy sentence, and whose words it is.

use nexus_base::redact::Redactor;
use nexus_base::words;
use serde::Serialize;
use serde_json::{Value, json};

/// Longest fact, in bytes. Longer things belong into a file that a fact can name.
pub const MAX_FACT_LEN: usize = 2_000;

/// Name of the metadata field that keeps the provenance.
const FIELD: &str = "provenance";

words! {
    /// Whose words a fact is.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Provenance {
        /// The owner's own.
        Owner = "owner",
        /// Worked out by an agent from what the owner and the workspace said.
        Agent = "agent",
        /// From a web page, a tool server, a stranger: true perhaps, but nobody vouches for it.
        Untrusted = "untrusted",
    }
}

impl Provenance {
    pub(crate) fn to_metadata(self) -> Value {
        json!({ FIELD: self.as_str() })
    }

    // A row that does not say whose words it holds is vouched for by nobody.
    pub(crate) fn from_metadata(metadata: &Value) -> Self {
        metadata.get(FIELD).and_then(Value::as_str).and_then(Self::parse).unwrap_or(Self::Untrusted)
    }
}

/// Makes one line of a text and hides what looks like a secret.
pub(crate) fn tidy(text: &str) -> String {
    let line = text.split(|character: char| character.is_whitespace() || character.is_control());
    let line: Vec<&str> = line.filter(|word| !word.is_empty()).collect();
    Redactor::new().redact(&line.join(" "))
}
