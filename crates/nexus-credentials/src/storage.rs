//! Where a secret is. Kinds of places this version cannot open are kept as they are.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// How a file holds the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// The whole file, white space at its ends left out.
    Text,
    /// JSON, with the secret at a path.
    Json,
}

/// The place of one secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Map<String, Value>", into = "Map<String, Value>")]
pub enum Storage {
    /// An environment variable of the daemon.
    Env {
        /// Its name.
        var: String,
    },
    /// A file that another tool keeps up to date.
    File {
        /// Absolute path.
        path: PathBuf,
        /// How it holds the secret.
        format: FileFormat,
        /// Dotted path inside JSON.
        json_path: Option<String>,
    },
    /// A keychain, command or vault that this version does not open.
    Other(Map<String, Value>),
}

impl Storage {
    /// Names the kind of place.
    pub fn provider(&self) -> &str {
        match self {
            Self::Env { .. } => "env",
            Self::File { .. } => "file",
            Self::Other(fields) => fields.get("provider").and_then(Value::as_str).unwrap_or("unknown"),
        }
    }

    /// Describes the place in a few words; there is nothing secret about it.
    pub fn describe(&self) -> String {
        match self {
            Self::Env { var } => format!("variable {var}"),
            Self::File { path, .. } => format!("file {}", path.display()),
            Self::Other(_) => self.provider().to_owned(),
        }
    }

    fn read(fields: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        match text("provider")? {
            "env" => Some(Self::Env { var: text("var")?.to_owned() }),
            "file" => {
                let path = text("path").map(Path::new).filter(|path| path.is_absolute())?;
                let json_path = text("jsonPath").map(str::to_owned);
                let format = match text("format") {
                    Some("json") => FileFormat::Json,
                    Some("text") => FileFormat::Text,
                    None if json_path.is_some() => FileFormat::Json,
                    None => FileFormat::Text,
                    Some(_) => return None,
                };
                Some(Self::File { path: path.to_owned(), format, json_path })
            }
            _ => None,
        }
    }
}

impl From<Map<String, Value>> for Storage {
    fn from(fields: Map<String, Value>) -> Self {
        Self::read(&fields).unwrap_or(Self::Other(fields))
    }
}

impl From<Storage> for Map<String, Value> {
    fn from(storage: Storage) -> Self {
        let mut fields = Self::new();
        match storage {
            Storage::Other(fields) => return fields,
            Storage::Env { var } => {
                fields.insert("provider".into(), json!("env"));
                fields.insert("var".into(), json!(var));
            }
            Storage::File { path, format, json_path } => {
                fields.insert("provider".into(), json!("file"));
                fields.insert("path".into(), json!(path));
                let format = match format {
                    FileFormat::Text => "text",
                    FileFormat::Json => "json",
                };
                fields.insert("format".into(), json!(format));
                if let Some(json_path) = json_path {
                    fields.insert("jsonPath".into(), json!(json_path));
                }
            }
        }
        fields
    }
}
