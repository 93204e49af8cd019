//! Hears facts for the identity files in what a person says: names, manner, wishes, time zone.
//!
//! Works on one sentence at a time and knows nothing of the conversation; `story` decides what a
//! heard fact means at that point. Nothing is ever heard that the person did not type.

mod manner;
mod names;

use nexus_base::redact::Redactor;

use crate::text::{self, Token};
use crate::words::WORDS;

pub(crate) use names::bare_names;

/// What one sentence said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) agent_name: Option<String>,
    pub(crate) user_name: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) emoji: Option<String>,
    pub(crate) creature: Option<String>,
    /// Manners asked for, such as `calm` or `not formal`.
    pub(crate) manners: Vec<String>,
    /// The sentence that asked for them.
    pub(crate) manner_quote: Option<String>,
    /// What the person said about their own life and wishes.
    pub(crate) about_person: Option<String>,
    /// The choice was left to the assistant.
    pub(crate) leaves_it: bool,
    /// The person would rather not say.
    pub(crate) declines: bool,
}

impl Heard {
    /// Returns whether a name, a manner or another fact was heard.
    pub(crate) fn has_fact(&self) -> bool {
        self.has_name()
            || self.timezone.is_some()
            || self.email.is_some()
            || self.emoji.is_some()
            || self.creature.is_some()
            || !self.manners.is_empty()
            || self.about_person.is_some()
    }

    /// Returns whether a name was heard.
    pub(crate) const fn has_name(&self) -> bool {
        self.agent_name.is_some() || self.user_name.is_some() || self.call.is_some()
    }
}

pub(crate) fn listen(sentence: &str) -> Heard {
    let words = text::tokens(sentence);
    let mut heard = Heard::default();
    if Redactor::new().redact(sentence) != sentence {
        // A pasted key must not end up in an identity file.
        return heard;
    }
    names::hear_names(sentence, &words, &mut heard);
    manner::hear_addresses(&words, &mut heard);
    manner::hear_manner(sentence, &words, &mut heard);
    if !heard.has_name() {
        heard.leaves_it = has_phrase(&words, &WORDS.leaves_it_to_us);
        heard.declines = has_phrase(&words, &WORDS.declines);
    }
    heard
}

fn has_phrase(words: &[Token<'_>], phrases: &[&str]) -> bool {
    (0..words.len()).any(|at| phrases.iter().any(|phrase| phrase_length(words, at, phrase).is_some()))
}

fn phrase_length(words: &[Token<'_>], at: usize, phrase: &str) -> Option<usize> {
    let mut length = 0;
    for word in phrase.split(' ') {
        if words.get(at + length)?.folded != word {
            return None;
        }
        length += 1;
    }
    Some(length)
}

#[cfg(test)]
mod tests;
