//! What a credential scan found, read from a worker's report and told without any value.

use serde_json::Value;

use crate::text::join_and;

/// Most findings that are told one by one.
const MAX_TOLD: usize = 12;
/// How a report marks what the scan is not certain about.
const NOT_IMPORTABLE: &str = "not importable";

/// One credential, by name only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) variable: String,
    pub(crate) service: Option<String>,
    /// The scan is certain enough to import it.
    pub(crate) known: bool,
    pub(crate) imported: bool,
}

impl Finding {
    /// Returns the name with its service.
    pub(crate) fn shown(&self) -> String {
        match &self.service {
            Some(service) => format!("{} ({service})", self.variable),
            None => self.variable.clone(),
        }
    }
}

/// What came out of a scan or an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Findings {
    pub(crate) found: Vec<Finding>,
    /// Names that were imported by this very run.
    pub(crate) imported: Vec<String>,
}

impl Findings {
    /// Returns what could still be imported.
    pub(crate) fn importable(&self) -> Vec<&Finding> {
        self.found.iter().filter(|finding| finding.known && !finding.imported).collect()
    }

    /// Reads a report: the tool's JSON anywhere in the text, or the lines [`Findings::report`] makes.
    ///
    /// `None` means that the text is no report of a scan.
    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::read_json(text).or_else(|| Self::read_lines(text)).or_else(|| Self::read_prose(text))
    }

    /// Reads the JSON of `nexus credential scan --json` anywhere in a text.
    pub(crate) fn read_json(text: &str) -> Option<Self> {
        text.match_indices('{').take(64).find_map(|(at, _)| {
            let value: Value = serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok()?;
            (value.get("findings").is_some() || value.get("imported").is_some())
                .then(|| Self::from_value(&value))
        })
    }

    fn from_value(value: &Value) -> Self {
        let items = |key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let imported: Vec<String> = items("imported")
            .iter()
            .filter_map(|item| item.as_str().or_else(|| item.get("variable")?.as_str()).and_then(safe_name))
            .map(|reference| readable(&reference))
            .collect();
        let found = items("findings")
            .iter()
            .filter_map(|item| {
                let variable = item
                    .get("variable")
                    .or_else(|| item.get("name"))
                    .and_then(Value::as_str)
                    .or_else(|| item.as_str())
                    .and_then(safe_name)?;
                let service = item.get("service").and_then(Value::as_str).and_then(safe_name);
                let already = item.get("imported").and_then(Value::as_bool).unwrap_or(false);
                let known = item.get("known").and_then(Value::as_bool).unwrap_or(true);
                Some(Finding { imported: already || imported.contains(&variable), known, variable, service })
            })
            .collect();
        Self { found, imported }
    }

    fn read_lines(text: &str) -> Option<Self> {
        let mut result = Self::default();
        let mut recognised = false;
        let mut in_imported = false;
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with("Credential scan found") {
                recognised = true;
                in_imported = false;
            } else if line.starts_with("Imported") {
                recognised = true;
                in_imported = true;
            } else if let Some(item) = line.strip_prefix("- ")
                && recognised
            {
                let (name, rest) = item.split_once(" (").unwrap_or((item, ""));
                if in_imported {
                    result
                        .imported
                        .extend(safe_name(item.replace(['(', ')'], " ").trim()).map(|_| item.to_owned()));
                    continue;
                }
                let Some(variable) = safe_name(name) else { continue };
                let mut notes = rest.trim_end_matches(')').split(", ");
                let service = notes.next().and_then(safe_name);
                let imported = rest.contains("already imported");
                let known = !rest.contains(NOT_IMPORTABLE);
                result.found.push(Finding { variable, service, known, imported });
            }
        }
        recognised.then_some(result)
    }

    /// Another model's worker may report in its own words; names of variables are still plain to see.
    fn read_prose(text: &str) -> Option<Self> {
        let mut found: Vec<Finding> = Vec::new();
        for word in text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_')) {
            let is_variable = word.len() >= 5
                && word.len() <= 64
                && word.contains('_')
                && word.starts_with(|character: char| character.is_ascii_uppercase())
                && word.chars().all(|character| {
                    character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_'
                })
                && ["KEY", "TOKEN", "SECRET", "PASSWORD", "PAT", "CREDENTIAL"]
                    .iter()
                    .any(|tail| word.contains(tail));
            if is_variable && !found.iter().any(|known| known.variable == word) {
                found.push(Finding {
                    variable: word.to_owned(),
                    service: None,
                    known: true,
                    imported: false,
                });
            }
        }
        let lower = text.to_lowercase();
        let says_nothing = ["nothing", "no credential", "no finding", "none found", "not find any"]
            .iter()
            .any(|phrase| lower.contains(phrase));
        (!found.is_empty() || says_nothing).then_some(Self { found, imported: Vec::new() })
    }

    /// Writes the report a worker hands back.
    pub(crate) fn report(&self, is_import: bool) -> String {
        let mut lines = Vec::new();
        if is_import {
            lines.push(format!("Imported {}:", self.imported.len()));
            lines.extend(self.imported.iter().map(|name| format!("- {name}")));
            return lines.join("\n").trim_end_matches(':').to_owned();
        }
        if self.found.is_empty() {
            return "Credential scan found nothing.".to_owned();
        }
        lines.push(format!("Credential scan found {}:", self.found.len()));
        lines.extend(self.found.iter().map(|finding| {
            let service = finding.service.as_deref().unwrap_or("unknown service");
            let note = match (finding.imported, finding.known) {
                (true, _) => ", already imported".to_owned(),
                (false, true) => String::new(),
                (false, false) => format!(", {NOT_IMPORTABLE}"),
            };
            format!("- {} ({service}{note})", finding.variable)
        }));
        lines.join("\n")
    }

    /// Tells the names in a sentence.
    pub(crate) fn told(findings: &[&Finding]) -> String {
        let mut names: Vec<String> = findings.iter().take(MAX_TOLD).map(|finding| finding.shown()).collect();
        if findings.len() > MAX_TOLD {
            names.push(format!("{} more", findings.len() - MAX_TOLD));
        }
        join_and(&names)
    }
}

/// Makes `github/env:GITHUB_TOKEN` readable; other references stay as they are.
fn readable(reference: &str) -> String {
    match reference.split_once("/env:") {
        Some((service, variable)) => format!("{variable} ({service})"),
        None => reference.to_owned(),
    }
}

/// Lets through what can only be a name.
fn safe_name(raw: &str) -> Option<String> {
    let raw = raw.trim();
    let is_name = !raw.is_empty()
        && raw.len() <= 80
        && raw.chars().all(|character| {
            character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | '/' | ' ' | ':')
        });
    is_name.then(|| raw.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"exit code 0
{"findings":[{"variable":"GITHUB_TOKEN","service":"github","kind":"token","masked":"…abcd","known":true,"imported":false},
{"variable":"BRAVE_API_KEY"},{"variable":"OLD_KEY","service":"old","imported":true}],"imported":[]}"#;

    #[test]
    fn json_becomes_lines_and_lines_read_back() {
        let read = Findings::read(JSON).unwrap();
        assert_eq!(read.found.len(), 3);
        assert_eq!(Findings::told(&read.importable()), "GITHUB_TOKEN (github) and BRAVE_API_KEY");
        let report = read.report(false);
        assert!(!report.contains("ghp_"));
        let again = Findings::read(&report).unwrap();
        assert_eq!(again.importable().len(), 2);
    }

    #[test]
    fn nothing_import_prose_and_nonsense() {
        assert_eq!(Findings::read("Credential scan found nothing.").unwrap(), Findings::default());
        assert_eq!(Findings::read(r#"{"findings":[]}"#).unwrap(), Findings::default());
        let imported = Findings::read(r#"{"findings":[],"imported":["A_KEY"]}"#).unwrap();
        assert_eq!(imported.report(true), "Imported 1:\n- A_KEY");
        assert_eq!(Findings::read("Imported 1:\n- A_KEY").unwrap().imported, ["A_KEY"]);
        let imported = Findings::read(r#"{"imported":["github/env:GITHUB_TOKEN"]}"#).unwrap();
        assert_eq!(Findings::read(&imported.report(true)).unwrap().imported, ["GITHUB_TOKEN (github)"]);
        let unsure =
            Findings::read(r#"{"findings":[{"variable":"X_KEY","service":"unknown","known":false}]}"#)
                .unwrap();
        assert!(Findings::read(&unsure.report(false)).unwrap().importable().is_empty());
        assert_eq!(Findings::read("I saw OPENAI_API_KEY set.").unwrap().found[0].variable, "OPENAI_API_KEY");
        assert_eq!(Findings::read("bash: nexus: command not found"), None);
    }
}
