//! Cuts text into the pieces of the vocabulary as the model's own tokenizer does: letters lowered
//! and without accents, punctuation and Chinese characters alone, then the longest entries first.

use unicode_categories::UnicodeCategories;
use unicode_normalization::UnicodeNormalization;

use super::Asset;

/// Entry for a word that cannot be put together from the vocabulary.
const UNKNOWN: u16 = 100;
/// Longest word that is cut, in characters; a longer one is unknown.
const MAX_WORD_LEN: usize = 100;
/// Mark of an entry that continues a word.
const CONTINUES: &[u8] = b"##";

/// Returns the entries a text is made of, `limit` of them at most.
pub fn pieces(asset: &Asset, text: &str, limit: usize) -> Vec<u16> {
    let mut pieces = Vec::new();
    let mut word = String::new();
    let finish = |word: &mut String, pieces: &mut Vec<u16>| {
        if !word.is_empty() {
            cut(asset, word, pieces);
            word.clear();
        }
        pieces.len() < limit
    };
    let lowered = text.chars().filter(|character| !is_dropped(*character)).nfd();
    let lowered = lowered.filter(|character| character.is_ascii() || !character.is_mark_nonspacing());
    'text: for character in lowered.flat_map(char::to_lowercase) {
        if character.is_whitespace() {
            if !finish(&mut word, &mut pieces) {
                break 'text;
            }
        } else if stands_alone(character) {
            finish(&mut word, &mut pieces);
            word.push(character);
            if !finish(&mut word, &mut pieces) {
                break 'text;
            }
        } else {
            word.push(character);
        }
    }
    finish(&mut word, &mut pieces);
    pieces.truncate(limit);
    pieces
}

/// Cuts one word, or calls it unknown.
fn cut(asset: &Asset, word: &str, pieces: &mut Vec<u16>) {
    if word.chars().count() > MAX_WORD_LEN {
        pieces.push(UNKNOWN);
        return;
    }
    let before = pieces.len();
    let mut rest = word;
    while !rest.is_empty() {
        let mark = if rest.len() == word.len() { b"".as_slice() } else { CONTINUES };
        let found = rest
            .char_indices()
            .map(|(at, character)| at + character.len_utf8())
            .rev()
            .find_map(|end| asset.find(mark, &rest.as_bytes()[..end]).map(|number| (number, end)));
        let Some((number, end)) = found else {
            pieces.truncate(before);
            pieces.push(UNKNOWN);
            return;
        };
        pieces.push(number);
        rest = &rest[end..];
    }
}

/// Control characters and what is no character at all; blanks among them separate words and stay.
fn is_dropped(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\0' | '\u{FFFD}' => true,
        character if character.is_ascii() => character.is_ascii_control(),
        character => character.is_other(),
    }
}

fn stands_alone(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_punctuation();
    }
    character.is_punctuation()
        || matches!(character,
            '\u{4E00}'..='\u{9FFF}' | '\u{3400}'..='\u{4DBF}' | '\u{20000}'..='\u{2A6DF}'
            | '\u{2A700}'..='\u{2B73F}' | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}'
            | '\u{F900}'..='\u{FAFF}' | '\u{2F800}'..='\u{2FA1F}')
}
