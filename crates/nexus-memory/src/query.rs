//! A question taken apart: the words worth looking for, whom it names, and what it means without
//! the names.

use crate::request::MAX_QUERY_LEN;

/// Words that say nothing about what is asked for.
const STOPWORDS: &str = " a about above after again against all also am an and any are aren as at be because been \
before being below between both but by can cannot could couldn d did didn do does doesn doing don down during each \
few for from further get go going got had hadn has hasn have haven having he her here hers herself him himself his \
how i if in into is isn it its itself just kind let like ll m many may me might more most much mustn my myself no nor \
not now of off on once one only or other ought our ours ourselves out over own per re really s same shan she should \
shouldn so some such t than that the their theirs them themselves then there these they this those through to too \
two under until up ve very via was wasn we were weren what when where which while who whom why will with won would \
wouldn you your yours yourself yourselves ";

/// A question taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    /// Words worth looking for, each once.
    pub(crate) words: Vec<String>,
    /// Participants whose name is in the question, as they are called among the participants.
    pub(crate) named: Vec<String>,
    /// The question without those names.
    pub(crate) meaning: String,
}

impl Query {
    /// Takes a question apart. `participants` are the people of the conversations that are asked.
    pub(crate) fn of(text: &str, participants: &[String]) -> Self {
        let text = &text[..text.floor_char_boundary(MAX_QUERY_LEN)];
        let lowered = words(text);
        let named: Vec<String> = participants
            .iter()
            .filter(|name| called(name).iter().any(|part| lowered.contains(part)))
            .cloned()
            .collect();
        let names: Vec<String> = named.iter().flat_map(|name| called(name)).collect();
        let pick = |keep: &dyn Fn(&String) -> bool| -> Vec<String> {
            let mut kept: Vec<String> = Vec::new();
            for word in lowered.iter().filter(|word| keep(word)) {
                if !kept.contains(word) {
                    kept.push(word.clone());
                }
            }
            kept
        };
        // A question of nothing but common words or names is still a question.
        let mut kept = pick(&|word| !is_stopword(word) && !names.contains(word));
        if kept.is_empty() {
            kept = pick(&|word| !is_stopword(word));
        }
        if kept.is_empty() {
            kept = pick(&|_| true);
        }
        Self { words: kept, named, meaning: without(text, &names) }
    }
}

/// Tells whether a word in lower case says nothing about what is asked for.
pub(crate) fn is_stopword(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_lowercase()) && STOPWORDS.contains(&format!(" {word} "))
}

/// Returns the words of a text in lower case.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// Returns what a participant may be called: the parts of their name.
fn called(name: &str) -> Vec<String> {
    words(name).into_iter().filter(|part| part.chars().count() > 1 && !is_stopword(part)).collect()
}

fn without(text: &str, names: &[String]) -> String {
    if names.is_empty() {
        return text.to_owned();
    }
    let kept: Vec<&str> = text
        .split_whitespace()
        .filter(|word| {
            let bare = word.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase();
            let bare = bare.split(['\'', '’']).next().unwrap_or_default();
            !names.iter().any(|name| name == bare)
        })
        .collect();
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_participants_become_speakers_and_leave_the_meaning() {
        let participants = ["Caroline".to_owned(), "Melanie".to_owned()];
        let query = Query::of("When did Caroline's choir sing for Grace?", &participants);
        assert_eq!(query.named, ["Caroline"]);
        assert_eq!(query.words, ["choir", "sing", "grace"]);
        assert_eq!(query.meaning, "When did choir sing for Grace?");
    }

    #[test]
    fn a_question_of_common_words_is_still_a_question() {
        assert_eq!(Query::of("who am I", &[]).words, ["who", "am", "i"]);
        let participants = ["Ada".to_owned()];
        assert_eq!(Query::of("Ada?", &participants).words, ["ada"]);
        assert_eq!(Query::of("…", &[]).words, Vec::<String>::new());
    }
}
