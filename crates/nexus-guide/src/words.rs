//! Word lists for hearing names, manners, wishes and commands, from `words.json`. Data only; `facts` and `command`
//! say how they are used. What is heard in a sentence is folded: lower case, without apostrophes.

use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Words {
    /// Phrases before the assistant's name.
    pub(crate) before_agent_name: Phrases,
    /// Phrases behind the assistant's name.
    pub(crate) after_agent_name: Vec<&'static str>,
    /// Phrases before the person's name.
    pub(crate) before_user_name: Phrases,
    /// Phrases before what the person wants to be called.
    pub(crate) before_call_name: Vec<&'static str>,
    /// Words of hesitation before a name.
    pub(crate) hesitation: Vec<&'static str>,
    /// Words that end a name, whatever stands before them.
    pub(crate) never_a_name: Vec<&'static str>,
    /// Words that follow "I am" or "you are" without being a name.
    pub(crate) not_after_am: Vec<&'static str>,
    /// Small words inside names that stay lower case.
    pub(crate) name_particles: Vec<&'static str>,
    /// "You decide", in its usual shapes.
    pub(crate) leaves_it_to_us: Vec<&'static str>,
    /// "I will not tell", in its usual shapes.
    pub(crate) declines: Vec<&'static str>,
    /// Manners people ask for.
    pub(crate) manners: Vec<&'static str>,
    /// Words that say a sentence is about the assistant's manner.
    pub(crate) manner_cues: Vec<&'static str>,
    /// Natures people give an assistant.
    pub(crate) creatures: Vec<&'static str>,
    /// How sentences about the person's life and wishes begin.
    pub(crate) about_the_person: Vec<&'static str>,
    /// What stands between manners.
    pub(crate) between_manners: Vec<&'static str>,
    /// Areas that the names of time zones begin with.
    pub(crate) zone_areas: Vec<&'static str>,
    /// First words that are a program and not English.
    pub(crate) programs: Vec<&'static str>,
    /// What people say behind a command that is no part of it.
    pub(crate) after_a_command: Vec<&'static str>,
}

/// Phrases before a name.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(crate) struct Phrases {
    /// Any word may follow.
    pub(crate) firm: Vec<&'static str>,
    /// They also begin ordinary statements, so what follows must look like a name.
    pub(crate) soft: Vec<&'static str>,
}

// A test reads the same file strictly; here a damaged build would hear nothing, not panic.
pub(crate) static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_is_sound() {
        let words: Words = serde_json::from_str(include_str!("words.json")).unwrap();
        for list in [&words.before_agent_name.firm, &words.never_a_name, &words.manners, &words.creatures] {
            assert!(list.len() > 20 && list.iter().all(|word| *word == word.to_lowercase()), "{list:?}");
        }
    }
}
