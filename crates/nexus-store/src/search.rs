//! Turns what people type into full-text queries that cannot be misread as query syntax.

/// Most terms taken from one query; more make it slow and no better.
const TERM_LIMIT: usize = 32;
/// Shortest term a trigram index can find.
const TRIGRAM: usize = 3;

/// Returns a query that finds rows with any of the words, or none if the text has no word.
pub(crate) fn any_word(text: &str) -> Option<String> {
    join(words(text).filter(|word| !word.is_empty()))
}

/// Returns a query for a trigram index: rows that contain any of the words anywhere.
pub(crate) fn any_part(text: &str) -> Option<String> {
    join(words(text).filter(|word| word.chars().count() >= TRIGRAM))
}

/// Returns patterns for `LIKE … ESCAPE '\'` for the words too short for a trigram index.
pub(crate) fn short_patterns(text: &str) -> Vec<String> {
    words(text)
        .filter(|word| !word.is_empty() && word.chars().count() < TRIGRAM)
        .take(TERM_LIMIT)
        .map(|word| format!("%{word}%"))
        .collect()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    // Letters and digits only, so that neither quotes nor LIKE's wildcards can be in a word.
    text.split(|character: char| !character.is_alphanumeric())
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> Option<String> {
    let quoted: Vec<String> = words.take(TERM_LIMIT).map(|word| format!("\"{word}\"")).collect();
    (!quoted.is_empty()).then(|| quoted.join(" OR "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_syntax_is_dropped() {
        assert_eq!(any_word("fish* AND \"chips\""), Some(r#""fish" OR "AND" OR "chips""#.to_owned()));
        assert_eq!(any_word(" -- (*) ^ \" "), None);
        assert_eq!(any_part("to 東京都 go"), Some("\"東京都\"".to_owned()));
        assert_eq!(short_patterns("to 東京 100%"), ["%to%", "%東京%"]);
    }
}
