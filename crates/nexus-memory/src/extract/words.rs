//! The words that plain statements are recognised by, from `words.json`.

use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'static"))]
pub(super) struct Words {
    /// Words for people and animals who belong to somebody.
    pub(super) relations: Vec<&'static str>,
    /// How sentences about a place go on behind "I".
    pub(super) places: Vec<&'static str>,
    /// How sentences about a preference go on.
    pub(super) preferences: Vec<&'static str>,
    /// How sentences about a lasting state go on.
    pub(super) states: Vec<&'static str>,
    /// Beginnings that ask for something or only muse.
    pub(super) musings: Vec<&'static str>,
    /// How somebody gives the assistant a name.
    pub(super) naming_us: Vec<&'static str>,
    /// Adverbs that change nothing about a statement.
    pub(super) skipped_adverbs: Vec<&'static str>,
    /// Adverbs that may stand before the verb.
    pub(super) adverbs: Vec<&'static str>,
    /// Verbs that are the same behind a name.
    pub(super) unchanged_verbs: Vec<&'static str>,
    /// What may stand before a statement.
    pub(super) greetings: Vec<&'static str>,
    /// Words that are capitalised and are nobody.
    pub(super) nobody: Vec<&'static str>,
}

// A test reads the same file strictly; here a damaged build would find no facts, not panic.
pub(super) static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_json::from_str(include_str!("words.json")).unwrap_or_default());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_is_sound() {
        let words: Words = serde_json::from_str(include_str!("words.json")).unwrap();
        for list in [&words.relations, &words.preferences, &words.nobody] {
            assert!(list.len() >= 20 && list.iter().all(|word| *word == word.to_lowercase()), "{list:?}");
        }
    }
}
