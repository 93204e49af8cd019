//! Who the assistant and the person are, as far as the system prompt tells.

use crate::task::USER_IDENTITY_PATH;
use crate::text::one_line;

/// The heading that says onboarding is under way.
const ONBOARDING: &str = "## Onboarding";
/// The heading that says which identity files onboarding has left unwritten.
const UNFINISHED: &str = "## Unfinished Onboarding";

/// One identity document: its front matter and its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Document {
    fields: Vec<(String, String)>,
    pub(crate) body: String,
}

/// What the system prompt says about identities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Persona {
    pub(crate) is_onboarding: bool,
    /// Identity files that the prompt says are missing though the assistant has its identity.
    pub(crate) missing: Vec<String>,
    pub(crate) agent: Option<Document>,
    pub(crate) soul: Option<Document>,
    pub(crate) user: Option<Document>,
}

impl Persona {
    /// Reads a system prompt.
    pub(crate) fn read(system: &str) -> Self {
        let is_onboarding = system.lines().any(|line| line.trim_end() == ONBOARDING);
        let unfinished = section(system, UNFINISHED).filter(|_| !is_onboarding).unwrap_or_default();
        Self {
            is_onboarding,
            missing: files_named(unfinished),
            agent: section(system, "## Agent Identity").map(Document::read),
            soul: section(system, "## Agent Soul").map(Document::read),
            user: section(system, "## User Identity").map(Document::read),
        }
    }

    /// Tells whether the person's profile is the file that is missing.
    pub(crate) fn lacks_user(&self) -> bool {
        self.missing.iter().any(|path| path == USER_IDENTITY_PATH)
    }

    /// Returns the assistant's name.
    pub(crate) fn agent_name(&self) -> Option<&str> {
        self.agent.as_ref()?.field("name")
    }

    /// Returns what the person is called.
    pub(crate) fn call_name(&self) -> Option<&str> {
        let user = self.user.as_ref()?;
        user.field("call").or_else(|| user.field("name"))
    }
}

impl Document {
    /// Reads a document with optional front matter.
    pub(crate) fn read(text: &str) -> Self {
        let text = text.trim_start();
        let mut lines = text.lines();
        let mut fields = Vec::new();
        let mut body = text;
        if lines.next().map(str::trim_end) == Some("---") {
            let mut length = text.find('\n').map_or(text.len(), |end| end + 1);
            for line in lines {
                length += line.len() + 1;
                if line.trim_end() == "---" {
                    break;
                }
                if let Some((key, value)) = line.split_once(':') {
                    fields.push((key.trim().to_owned(), unquote(value.trim())));
                }
            }
            body = text.get(length.min(text.len())..).unwrap_or_default();
        }
        Self { fields, body: body.trim().to_owned() }
    }

    /// Returns a front matter value that is not empty.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Sets a front matter value.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        match self.fields.iter_mut().find(|(key, _)| key == name) {
            Some((_, known)) => value.clone_into(known),
            None => self.fields.push((name.to_owned(), value.to_owned())),
        }
    }

    /// Renders the document as a file.
    pub(crate) fn render(&self) -> String {
        let mut result = String::from("---\n");
        for (key, value) in &self.fields {
            result.push_str(&format!("{key}: {}\n", quote(value)));
        }
        result.push_str("---\n\n");
        result.push_str(self.body.trim());
        result.push('\n');
        result
    }
}

/// Quotes a front matter value where YAML would read it as something else than text.
pub(crate) fn quote(value: &str) -> String {
    let flat = one_line(value, 200);
    let is_plain = flat.chars().next().is_some_and(char::is_alphabetic)
        && flat.chars().all(|character| {
            character.is_alphanumeric() || matches!(character, ' ' | '-' | '_' | '.' | '/' | ',' | '@' | '+')
        })
        && !matches!(
            flat.to_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    // A JSON string is a YAML string.
    if is_plain { flat } else { serde_json::Value::String(flat).to_string() }
}

fn unquote(value: &str) -> String {
    serde_json::from_str::<String>(value).unwrap_or_else(|_| value.trim_matches('\'').to_owned())
}

/// Returns the files that the first line of a section with such names lists.
fn files_named(text: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.contains("`state/")).unwrap_or_default();
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.starts_with("state/")).map(str::to_owned).collect()
}

/// Returns the lines below a heading up to the next heading of its level.
fn section<'a>(system: &'a str, heading: &str) -> Option<&'a str> {
    let mut start = None;
    let mut offset = 0;
    for line in system.split_inclusive('\n') {
        let trimmed = line.trim_end();
        match start {
            None if trimmed == heading => start = Some(offset + line.len()),
            Some(start) if trimmed.starts_with("## ") => return system.get(start..offset),
            _ => {}
        }
        offset += line.len();
    }
    start.and_then(|start| system.get(start..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_front_matter_are_read() {
        let system = "Role\n## Agent Identity\n---\nname: \"HAL: 9000\"\nemoji: 🦉\nvibe:\n---\n# I\n\nbody\n## Agent Soul\ns\n## User Identity\n\n---\nname: Sam\n---\n";
        let persona = Persona::read(system);
        assert!(!persona.is_onboarding);
        assert_eq!(persona.agent_name(), Some("HAL: 9000"));
        assert_eq!(persona.agent.as_ref().unwrap().field("vibe"), None);
        assert_eq!(persona.agent.as_ref().unwrap().body, "# I\n\nbody");
        assert_eq!(persona.call_name(), Some("Sam"));
        assert!(Persona::read("x\n## Onboarding\ny").is_onboarding);
        assert!(!Persona::read("say ## Onboarding").is_onboarding);
    }

    #[test]
    fn documents_survive_rendering() {
        let mut document = Document::read("---\nname: Sam\n---\n\nbody\n");
        document.set("name", "no");
        document.set("call", "Sam: \"the man\"");
        assert_eq!(Document::read(&document.render()), document);
    }
}
