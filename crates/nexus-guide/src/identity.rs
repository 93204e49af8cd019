//! Composes the three identity files out of what the person said and fixed wording.

use crate::persona::quote;
use crate::task::{FileDraft, USER_IDENTITY_PATH};
use crate::text::{join_and, slug};

/// Name taken when the person leaves it to us.
pub(crate) const DEFAULT_AGENT_NAME: &str = "Echo";
/// What we call a person who would rather not say.
pub(crate) const DEFAULT_USER_NAME: &str = "Friend";
const DEFAULT_EMOJI: &str = "🧭";
const DEFAULT_CREATURE: &str = "assistant";
const DEFAULT_MANNER: &[&str] = &["calm", "friendly", "to the point"];

/// What is known about both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub(crate) agent_name: Option<String>,
    pub(crate) user_name: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) emoji: Option<String>,
    pub(crate) creature: Option<String>,
    pub(crate) manners: Vec<String>,
    pub(crate) manner_quotes: Vec<String>,
    pub(crate) about_person: Vec<String>,
}

impl Profile {
    /// Returns what to call the person.
    pub(crate) fn call_name(&self) -> Option<&str> {
        self.call.as_deref().or_else(|| {
            let name = self.user_name.as_deref()?;
            let first = name.split(' ').next().unwrap_or(name);
            // `Dr. Strange` is not called `Dr.`
            Some(if first.ends_with('.') || first.chars().count() < 2 { name } else { first })
        })
    }

    /// Returns the manner in words.
    pub(crate) fn manner(&self) -> String {
        if self.manners.is_empty() { DEFAULT_MANNER.join(", ") } else { self.manners.join(", ") }
    }

    /// Composes the files once both names are known; `folder` keeps a folder that was chosen before.
    pub(crate) fn files(&self, folder: Option<&str>) -> Option<Vec<FileDraft>> {
        let agent = self.agent_name.as_deref()?;
        let user = self.user_name.as_deref()?;
        let call = self.call_name().unwrap_or(user);
        let folder = folder.map_or_else(|| slug(agent), str::to_owned);
        Some(vec![
            FileDraft {
                path: format!("state/agents/{folder}/IDENTITY.md"),
                content: self.agent_identity(agent, call),
            },
            FileDraft {
                path: format!("state/agents/{folder}/SOUL.md"),
                content: self.agent_soul(agent, call),
            },
            FileDraft { path: USER_IDENTITY_PATH.to_owned(), content: self.user_identity(user, call, agent) },
        ])
    }

    fn agent_identity(&self, agent: &str, call: &str) -> String {
        let emoji = self.emoji.as_deref().unwrap_or(DEFAULT_EMOJI);
        let creature = self.creature.as_deref().unwrap_or(DEFAULT_CREATURE);
        let article = if creature.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
        let manner = self.manner();
        let mut lines = vec![
            "---".to_owned(),
            format!("name: {}", quote(agent)),
            format!("emoji: {}", quote(emoji)),
            format!("creature: {}", quote(creature)),
            format!("vibe: {}", quote(&manner)),
            "---".to_owned(),
            String::new(),
            format!("# {agent}"),
            String::new(),
            format!(
                "I am {agent}, {article} {creature}, and this workspace is where {call} and I work together."
            ),
            format!("My manner is {manner}."),
        ];
        if let Some(words) = quoted(&self.manner_quotes) {
            lines.push(format!("{call} put it this way: {words}."));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn agent_soul(&self, agent: &str, call: &str) -> String {
        let manner = self.manner();
        [
            "---".to_owned(),
            format!("name: {}", quote(agent)),
            "---".to_owned(),
            String::new(),
            format!("# What {agent} stands for"),
            String::new(),
            format!("I keep my manner ({manner}) even when things go wrong."),
            String::new(),
            "- I say what I did, what I did not do, and what I do not know.".to_owned(),
            "- I give work to workers and report the outcome, good or bad, without being asked.".to_owned(),
            format!("- I pass on what {call} tells me to nobody unless {call} asks me to."),
            "- Before anything is deleted, published or paid for, I ask.".to_owned(),
            "- I use secrets, but never show them or write them down.".to_owned(),
            "- When it is unclear what is wanted, I ask instead of guessing.".to_owned(),
            String::new(),
        ]
        .join("\n")
    }

    fn user_identity(&self, user: &str, call: &str, agent: &str) -> String {
        let mut lines =
            vec!["---".to_owned(), format!("name: {}", quote(user)), format!("call: {}", quote(call))];
        if let Some(zone) = &self.timezone {
            lines.push(format!("timezone: {}", quote(zone)));
        }
        if let Some(email) = &self.email {
            lines.push(format!("email: {}", quote(email)));
        }
        lines.extend(["---".to_owned(), String::new(), format!("# {user}"), String::new()]);
        if user == DEFAULT_USER_NAME {
            lines.push(format!(
                "The person {agent} works with would rather not give a name; “{call}” will do."
            ));
        } else {
            let called = if user == call { String::new() } else { format!(" and is called {call}") };
            lines.push(format!("The person {agent} works with is {user}{called}."));
        }
        if self.about_person.is_empty() {
            lines.push(format!("Nothing else about {call} was said in the first conversation."));
        } else {
            lines.push(String::new());
            lines.push("Said in the first conversation:".to_owned());
            lines.push(String::new());
            lines.extend(self.about_person.iter().map(|said| format!("- “{said}”")));
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

fn quoted(quotes: &[String]) -> Option<String> {
    let marked: Vec<String> = quotes.iter().map(|said| format!("“{}”", said.trim_end_matches('.'))).collect();
    (!marked.is_empty()).then(|| join_and(&marked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persona::Document;

    #[test]
    fn files_hold_only_what_was_said() {
        let profile = Profile {
            agent_name: Some("HAL 9000".into()),
            user_name: Some("Ana de la Cruz".into()),
            manners: vec!["dry".into()],
            manner_quotes: vec!["Be dry.".into()],
            about_person: vec!["I like tea".into()],
            timezone: Some("Europe/Madrid".into()),
            ..Profile::default()
        };
        let files = profile.files(None).unwrap();
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(
            paths,
            ["state/agents/hal-9000/IDENTITY.md", "state/agents/hal-9000/SOUL.md", "state/user/IDENTITY.md"]
        );
        let user = Document::read(&files[2].content);
        assert_eq!(user.field("call"), Some("Ana"));
        assert_eq!(user.field("timezone"), Some("Europe/Madrid"));
        assert_eq!(user.field("email"), None);
        assert!(user.body.contains("“I like tea”"));
        let agent = Document::read(&files[0].content);
        assert_eq!(agent.field("vibe"), Some("dry"));
        // The whole persona stays within its share of the prompt.
        assert!(files.iter().map(|file| file.content.len()).sum::<usize>() < 2_600);
    }

    #[test]
    fn names_that_yaml_would_misread_are_quoted() {
        let profile =
            Profile { agent_name: Some("No".into()), user_name: Some("007".into()), ..Profile::default() };
        let files = profile.files(Some("kept")).unwrap();
        assert!(files[0].content.contains("name: \"No\""));
        assert!(files[2].content.contains("name: \"007\""));
        assert_eq!(files[1].path, "state/agents/kept/SOUL.md");
    }
}
