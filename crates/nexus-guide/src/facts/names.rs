//! Names: where one begins, where it ends, and what only looks like one.

use super::{Heard, phrase_length};
use crate::text::{self, Token, one_line};
use crate::words::{Phrases, WORDS};

/// Longest name that is accepted, in bytes.
const MAX_NAME_LEN: usize = 40;

/// Reads an answer that is nothing but one or two names: `Atlas`, `Atlas and Sam`.
pub(crate) fn bare_names(sentence: &str) -> Vec<String> {
    let words = text::tokens(sentence);
    let start = words.iter().take_while(|word| is_hesitation(&word.folded)).count();
    let words = &words[start..];
    if words.is_empty() || words.len() > 7 {
        return Vec::new();
    }
    let mut names = Vec::new();
    let mut group: Vec<&Token<'_>> = Vec::new();
    for word in words {
        if matches!(word.folded.as_str(), "and" | "&" | "+" | "/" | "und" | "then" | "-") {
            flush_group(&mut names, &mut group);
            continue;
        }
        group.push(word);
        if word.closes_clause {
            flush_group(&mut names, &mut group);
        }
    }
    flush_group(&mut names, &mut group);
    let all: Option<Vec<String>> = names.into_iter().collect();
    all.filter(|names| names.len() <= 2).unwrap_or_default()
}

fn is_hesitation(word: &str) -> bool {
    WORDS.hesitation.contains(&word)
}

fn flush_group(names: &mut Vec<Option<String>>, group: &mut Vec<&Token<'_>>) {
    if group.is_empty() {
        return;
    }
    let looks_right = group.len() <= 3
        && group.iter().all(|word| can_be_name(word, Firmness::Soft))
        && (group.len() == 1 || group.iter().all(|word| is_capital(word.raw)) || group.len() == 2);
    let joined = group.iter().map(|word| word.raw).collect::<Vec<_>>().join(" ");
    names.push(looks_right.then(|| clean_name(&joined)).flatten());
    group.clear();
}

pub(super) fn hear_names(sentence: &str, words: &[Token<'_>], heard: &mut Heard) {
    let mut at = 0;
    while at < words.len() {
        if let Some((length, name, next)) = after_phrase_list(sentence, words, at, &WORDS.before_call_name) {
            heard.call = Some(name);
            at = next.max(at + length);
        } else if let Some((name, next)) = after_phrases(sentence, words, at, &WORDS.before_agent_name) {
            heard.agent_name = Some(name);
            at = next;
        } else if let Some((name, next)) = after_phrases(sentence, words, at, &WORDS.before_user_name) {
            heard.user_name = Some(name);
            at = next;
        } else if let Some((name, whose, next)) = before_phrase(words, at) {
            match whose {
                Whose::Assistant => heard.agent_name = heard.agent_name.take().or(Some(name)),
                Whose::Person => heard.user_name = heard.user_name.take().or(Some(name)),
            }
            at = next;
        } else if let Some((name, whose, next)) = after_label(sentence, words, at) {
            match whose {
                Whose::Assistant => heard.agent_name = Some(name),
                Whose::Person => heard.user_name = Some(name),
            }
            at = next;
        } else {
            at += 1;
        }
    }
}

/// How much the phrase before a word says that the word is a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Firmness {
    /// Any word may follow.
    Firm,
    /// It also begins ordinary statements, so what follows must look like a name.
    Soft,
}

#[derive(Debug, Clone, Copy)]
enum Whose {
    Assistant,
    Person,
}

/// `Sam here`, `Atlas for you`, `Atlas is a good name`.
fn before_phrase(words: &[Token<'_>], at: usize) -> Option<(String, Whose, usize)> {
    let first = words.get(at)?;
    if !can_be_name(first, Firmness::Soft) || first.closes_clause {
        return None;
    }
    let follows = |phrase: &str| {
        phrase
            .split(' ')
            .enumerate()
            .all(|(offset, word)| words.get(at + 1 + offset).is_some_and(|token| token.folded == word))
    };
    let person = ["here", "for me", "is my name", "is me"].into_iter().find(|phrase| follows(phrase));
    let assistant = WORDS.after_agent_name.iter().copied().find(|phrase| follows(phrase));
    let (phrase, whose) = match (person, assistant) {
        (Some(phrase), _) => (phrase, Whose::Person),
        (None, Some(phrase)) => (phrase, Whose::Assistant),
        (None, None) => return None,
    };
    if !is_capital(first.raw) && at > 0 {
        return None;
    }
    Some((clean_name(first.raw)?, whose, at + 1 + phrase.split(' ').count()))
}

/// `you: Atlas, me: Sam`, `assistant = Atlas`.
fn after_label(sentence: &str, words: &[Token<'_>], at: usize) -> Option<(String, Whose, usize)> {
    let label = words.get(at)?;
    let whose = match label.folded.as_str() {
        "you" | "assistant" | "agent" | "bot" | "yours" => Whose::Assistant,
        "me" | "user" | "myself" | "mine" | "name" | "owner" => Whose::Person,
        _ => return None,
    };
    let has_mark = sentence[label.end..].trim_start().starts_with([':', '=', '-', '→']);
    // `you Atlas, me Sam` has no mark, but capitals.
    let is_telegraphic = words.get(at + 1).is_some_and(|next| is_capital(next.raw))
        && !label.closes_clause
        && matches!(label.folded.as_str(), "you" | "me" | "mine" | "yours");
    if !has_mark && !is_telegraphic {
        return None;
    }
    let mut next = at + 1;
    while words.get(next).is_some_and(|word| matches!(word.raw, "=" | "-" | ":" | "→" | "->")) {
        next += 1;
    }
    let (name, end) = name_at(sentence, words, next, if has_mark { Firmness::Firm } else { Firmness::Soft })?;
    Some((name, whose, end))
}

fn after_phrase_list(
    sentence: &str,
    words: &[Token<'_>],
    at: usize,
    phrases: &[&str],
) -> Option<(usize, String, usize)> {
    phrases.iter().find_map(|phrase| {
        let length = phrase_length(words, at, phrase)?;
        let (name, next) = name_at(sentence, words, at + length, Firmness::Firm)?;
        Some((length, name, next))
    })
}

fn after_phrases(
    sentence: &str,
    words: &[Token<'_>],
    at: usize,
    phrases: &Phrases,
) -> Option<(String, usize)> {
    let longest = |list: &[&str]| list.iter().filter_map(|phrase| phrase_length(words, at, phrase)).max();
    let (firm, soft) = (longest(&phrases.firm), longest(&phrases.soft));
    let (length, firmness) = if firm > soft { (firm?, Firmness::Firm) } else { (soft?, Firmness::Soft) };
    name_at(sentence, words, at + length, firmness)
}

/// Reads a name that starts at a word; gives it and the word after it.
fn name_at(sentence: &str, words: &[Token<'_>], at: usize, firmness: Firmness) -> Option<(String, usize)> {
    let mut at = at;
    while words.get(at).is_some_and(|word| {
        matches!(
            word.folded.as_str(),
            "just" | "simply" | "maybe" | "perhaps" | "now" | "called" | "named" | "to" | "as" | "be"
        ) && !word.closes_clause
            && words.len() > at + 1
    }) {
        at += 1;
    }
    let first = words.get(at)?;
    if first.opens_quote {
        let inside = &sentence[first.start..];
        let end = inside.find(['"', '”', '»', '`', '\u{2019}', '\'']).filter(|end| *end <= MAX_NAME_LEN);
        if let Some(end) = end {
            let name = clean_name(&inside[..end])?;
            let next = words.iter().position(|word| word.start >= first.start + end).unwrap_or(words.len());
            return Some((name, next));
        }
    }
    if !can_be_name(first, firmness) {
        return None;
    }
    // Without capitals there is no telling where a name ends: one word, or two that end the clause.
    let shouting = !sentence.chars().any(char::is_lowercase);
    let capital = is_capital(first.raw) && !shouting;
    if firmness == Firmness::Soft && !capital && has_more_before_clause_end(words, at, 2) {
        return None;
    }
    let mut end = at + 1;
    if !first.closes_clause {
        while let Some(word) = words.get(end) {
            let goes_on = if capital {
                is_capital(word.raw)
                    || is_particle_inside(words, end)
                    || word.raw.chars().all(|character| character.is_ascii_digit())
            } else {
                end == at + 1 && (end + 1 == words.len() || word.closes_clause)
            };
            if !goes_on || end - at >= 6 || !can_be_name(word, Firmness::Soft) {
                break;
            }
            end += 1;
            if word.closes_clause {
                break;
            }
        }
    }
    let joined = words[at..end].iter().map(|word| word.raw).collect::<Vec<_>>().join(" ");
    Some((clean_name(&joined)?, end))
}

/// Returns whether more than `most` words follow before the clause ends; then a lower-case word
/// after "I am" is the beginning of a statement rather than a name.
fn has_more_before_clause_end(words: &[Token<'_>], at: usize, most: usize) -> bool {
    let rest = words[at..]
        .iter()
        .position(|word| word.closes_clause || word.folded == "and")
        .map_or(words.len() - at, |end| end + 1);
    rest > most
}

fn is_particle_inside(words: &[Token<'_>], at: usize) -> bool {
    WORDS.name_particles.contains(&words[at].folded.as_str())
        && words[at + 1..].iter().take(2).any(|word| is_capital(word.raw))
}

fn can_be_name(word: &Token<'_>, firmness: Firmness) -> bool {
    let has_letters = word.raw.chars().any(char::is_alphanumeric);
    let is_plain = word
        .raw
        .chars()
        .all(|character| character.is_alphanumeric() || matches!(character, '-' | '\'' | '’' | '.' | '_'));
    let is_listed = WORDS.never_a_name.contains(&word.folded.as_str());
    let is_common = firmness == Firmness::Soft
        && (WORDS.not_after_am.contains(&word.folded.as_str())
            || WORDS.manners.contains(&word.folded.as_str())
            || (word.folded.ends_with("ing") && word.folded.len() > 5)
            || (WORDS.creatures.contains(&word.folded.as_str()) && !is_capital(word.raw)));
    // A capital alone does not rescue "I am Fine"; but "Will" and "May" are names when firmly asked for.
    let is_rescued = firmness == Firmness::Firm
        && is_capital(word.raw)
        && matches!(word.folded.as_str(), "will" | "may" | "us");
    has_letters && is_plain && word.raw.len() <= MAX_NAME_LEN && (is_rescued || !(is_listed || is_common))
}

fn is_capital(raw: &str) -> bool {
    raw.chars().next().is_some_and(|character| {
        character.is_uppercase()
            || (character.is_alphabetic() && !character.is_ascii() && !character.is_lowercase())
    })
}

/// Makes a name fit to be shown and stored.
fn clean_name(raw: &str) -> Option<String> {
    let flat = one_line(raw, MAX_NAME_LEN);
    let kept: String = flat
        .chars()
        .filter(|character| {
            character.is_alphanumeric() || matches!(character, ' ' | '-' | '\'' | '’' | '.' | '_')
        })
        .collect();
    let kept = kept.trim_matches(|character: char| character == ' ' || character == '-' || character == '.');
    if !kept.chars().any(char::is_alphanumeric) {
        return None;
    }
    if kept.chars().any(char::is_uppercase) {
        return Some(kept.to_owned());
    }
    let titled: Vec<String> = kept
        .split(' ')
        .map(|word| {
            let mut characters = word.chars();
            characters
                .next()
                .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
        })
        .collect();
    Some(titled.join(" "))
}
