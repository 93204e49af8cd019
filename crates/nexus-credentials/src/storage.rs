//! Where a secret is. Kinds of places this version cannot open are kept as they are.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a file holds the secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// The whole file, white space at its ends left out.
    Text,
    /// JSON, with the secret at a path.
    Json,
}

/// The place of one secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    from = "Map<String, Value>",
    tag = "provider",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
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
        #[serde(skip_serializing_if = "Option::is_none")]
        json_path: Option<String>,
    },
    /// The platform's keychain, asked through its own tool.
    Keychain {
        /// The entry's service.
        service: String,
        /// The entry's account, where one is needed.
        #[serde(skip_serializing_if = "Option::is_none")]
        account: Option<String>,
        /// Dotted path inside the entry, when it is JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        json_path: Option<String>,
    },
    /// A command of the owner's that prints the secret. No shell is involved.
    External {
        /// Program and arguments.
        command: Vec<String>,
        /// Dotted path inside its output, when that is JSON.
        #[serde(skip_serializing_if = "Option::is_none")]
        json_path: Option<String>,
    },
    /// A field in 1Password, asked through its own tool.
    #[serde(rename = "1password")]
    OnePassword { vault: String, item: String, field: String },
    /// A file beside the account that only a key outside the workspace opens.
    Sealed {
        /// Path below the folder of credentials.
        file: String,
    },
    /// A place that this version does not open.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

impl Storage {
    /// Names the kind of place.
    pub fn provider(&self) -> &str {
        match self {
            Self::Env { .. } => "env",
            Self::File { .. } => "file",
            Self::Keychain { .. } => "keychain",
            Self::External { .. } => "external",
            Self::OnePassword { .. } => "1password",
            Self::Sealed { .. } => "sealed",
            Self::Other(fields) => fields.get("provider").and_then(Value::as_str).unwrap_or("unknown"),
        }
    }

    /// Describes the place in a few words; there is nothing secret about it.
    pub fn describe(&self) -> String {
        match self {
            Self::Env { var } => format!("variable {var}"),
            Self::File { path, .. } => format!("file {}", path.display()),
            Self::Keychain { service, .. } => format!("keychain {service}"),
            // Arguments stay out: nobody promises that there is no password among them.
            Self::External { command, .. } => {
                format!("command {}", command.first().map(String::as_str).unwrap_or_default())
            }
            Self::OnePassword { vault, item, .. } => format!("1Password {vault}/{item}"),
            Self::Sealed { .. } => "sealed file".to_owned(),
            Self::Other(_) => self.provider().to_owned(),
        }
    }

    /// Tells whether everybody who can read the place finds the same secret there. A variable, a keychain or a
    /// command may give another one to each process.
    pub fn is_same_for_everybody(&self) -> bool {
        matches!(self, Self::File { .. } | Self::Sealed { .. })
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
            "keychain" => Some(Self::Keychain {
                service: text("service")?.to_owned(),
                account: text("account").map(str::to_owned),
                json_path: text("jsonPath").map(str::to_owned),
            }),
            "external" => {
                let command = match fields.get("command")? {
                    Value::String(line) => split_words(line)?,
                    Value::Array(words) => {
                        words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?
                    }
                    _ => return None,
                };
                (!command.is_empty() && command.len() <= MAX_WORDS)
                    .then(|| Self::External { command, json_path: text("jsonPath").map(str::to_owned) })
            }
            "1password" => Some(Self::OnePassword {
                vault: text("vault")?.to_owned(),
                item: text("item")?.to_owned(),
                field: text("field")?.to_owned(),
            }),
            "sealed" => {
                // The path comes from a file that may be a stranger's; it may not lead anywhere else.
                let plain =
                    |file: &&str| file.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
                Some(Self::Sealed { file: text("file").filter(plain)?.to_owned() })
            }
            _ => None,
        }
    }
}

/// Most words of a command.
const MAX_WORDS: usize = 64;

/// Splits a command line into words: white space separates, quotes keep together, and nothing else
/// means anything, since there is no shell.
pub fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(open), character) if open == character => quote = None,
            (Some(_), character) => word.get_or_insert_default().push(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, character) if character.is_whitespace() => words.extend(word.take()),
            (None, character) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    (quote.is_none() && !words.is_empty()).then_some(words)
}

impl From<Map<String, Value>> for Storage {
    fn from(fields: Map<String, Value>) -> Self {
        Self::read(&fields).unwrap_or(Self::Other(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_is_read_back_as_it_was_written() {
        for storage in [
            Storage::Env { var: "A".into() },
            Storage::Keychain { service: "s".into(), account: None, json_path: Some("a.b".into()) },
            Storage::External { command: vec!["pass".into(), "show x".into()], json_path: None },
            Storage::OnePassword { vault: "v".into(), item: "i".into(), field: "f".into() },
            Storage::Sealed { file: "openai/x.sealed".into() },
        ] {
            let written = serde_json::to_string(&storage).unwrap();
            assert_eq!(serde_json::from_str::<Storage>(&written).unwrap(), storage);
        }
    }

    #[test]
    fn a_sealed_pointer_cannot_leave_the_folder() {
        for file in ["../x", "/etc/passwd", "a//b", "a/./b", ""] {
            let fields = json!({ "provider": "sealed", "file": file }).as_object().cloned().unwrap();
            assert!(matches!(Storage::from(fields), Storage::Other(_)), "{file}");
        }
    }

    #[test]
    fn command_lines_split_without_a_shell() {
        let words = split_words("op read 'op://v/my item/f' \"\" $HOME;x").unwrap();
        assert_eq!(words, ["op", "read", "op://v/my item/f", "", "$HOME;x"]);
        assert_eq!(split_words("a 'b"), None);
        assert_eq!(split_words("  "), None);
    }
}
