//! Turns what people type into full-text queries that cannot be misread as query syntax, and leaves
//! out words that are too common to tell rows apart.

use rusqlite::{Connection, params};

use crate::error::StoreError;

/// Most terms taken from one query; more make it slow and no better.
const TERM_LIMIT: usize = 32;
/// Shortest term a trigram index can find.
const TRIGRAM: usize = 3;
/// A word in more than one of this many rows says little.
const COMMON_SHARE: i64 = 10;
/// Rows below which no word counts as common: in a short history every word is in a tenth of it.
const FEW_ROWS: i64 = 200;
/// Most rows that the words of one query may touch together, rarest words first.
const TOUCHED_ROWS: i64 = 12_000;

/// How an index cuts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Words {
    /// At spaces.
    Whole,
    /// Into runs of three characters.
    Parts,
}

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

/// Returns a query for those of the words that tell rows apart: one in more than a tenth of the
/// rows is dropped while a rarer one remains, and so are the commonest once too many rows are touched.
pub(crate) fn rare<T: AsRef<str>>(
    connection: &Connection,
    table: &str,
    kind: Words,
    given: &[T],
    total: i64,
) -> Result<Option<String>, StoreError> {
    let shortest = match kind {
        Words::Whole => 1,
        Words::Parts => TRIGRAM,
    };
    let mut terms: Vec<&str> = Vec::new();
    for word in given.iter().flat_map(|text| words(text.as_ref())) {
        if word.chars().count() >= shortest && !terms.contains(&word) && terms.len() < TERM_LIMIT {
            terms.push(word);
        }
    }
    if terms.len() < 2 || total <= FEW_ROWS {
        return Ok(join(terms.into_iter()));
    }
    let common = total / COMMON_SHARE;
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ?1 LIMIT ?2)");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut counted = Vec::with_capacity(terms.len());
    for term in terms {
        let rows: i64 = statement.query_row(params![format!("\"{term}\""), common + 1], |row| row.get(0))?;
        counted.push((rows, term));
    }
    counted.sort_by_key(|(rows, _)| *rows);
    let mut touched = 0;
    let mut kept = Vec::new();
    for (rows, term) in counted.into_iter().filter(|(rows, _)| *rows > 0) {
        let fits = rows <= common && touched + rows <= TOUCHED_ROWS;
        if fits || kept.is_empty() {
            touched += rows;
            kept.push(term);
        }
    }
    Ok(join(kept.into_iter()))
}

/// Tells whether a text has letters of a script that puts no spaces between words.
pub(crate) fn has_unspaced_script(text: &str) -> bool {
    text.chars().any(|character| {
        matches!(character,
            '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
            | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7AF}'
            | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
    })
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
