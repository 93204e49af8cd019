//! Manner, nature, wishes, time zone and address.

use super::{Heard, phrase_length};
use crate::text::{Token, one_line};
use crate::words::WORDS;

/// Hears an e-mail address and a time zone.
pub(super) fn hear_addresses(words: &[Token<'_>], heard: &mut Heard) {
    for (at, word) in words.iter().enumerate() {
        if let Some((local, domain)) = word.raw.split_once('@')
            && !local.is_empty()
            && domain.contains('.')
            && word.raw.len() <= 120
            && word
                .raw
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "@._+-".contains(character))
        {
            heard.email = Some(word.raw.to_owned());
        }
        let is_zone_name = word.raw.split_once('/').is_some_and(|(area, place)| {
            WORDS.zone_areas.contains(&area)
                && place.len() >= 3
                && place.len() <= 40
                && place
                    .chars()
                    .all(|character| character.is_ascii_alphanumeric() || "_-/+".contains(character))
        });
        let follows_cue = words[..at]
            .iter()
            .rev()
            .take(3)
            .any(|cue| matches!(cue.folded.as_str(), "timezone" | "zone" | "tz"));
        let is_offset = (word.raw.starts_with("UTC") || word.raw.starts_with("GMT")) && word.raw.len() <= 9;
        let is_short_zone = follows_cue
            && word.raw.len() <= 5
            && word.raw.len() >= 3
            && word.raw.chars().all(|character| character.is_ascii_uppercase());
        if is_zone_name || is_offset || is_short_zone {
            heard.timezone = Some(word.raw.to_owned());
        }
    }
}

/// Hears a manner, a nature, an emoji and what the person tells about themselves.
pub(super) fn hear_manner(sentence: &str, words: &[Token<'_>], heard: &mut Heard) {
    let is_manner = |word: &Token<'_>| WORDS.manners.contains(&word.folded.as_str());
    let only_manners =
        words.iter().all(|word| is_manner(word) || WORDS.between_manners.contains(&word.folded.as_str()));
    let mut cue_seen = only_manners;
    let mut speaks_of_self = false;
    for (at, word) in words.iter().enumerate() {
        let folded = word.folded.as_str();
        if WORDS.manner_cues.contains(&folded) {
            cue_seen = true;
            speaks_of_self = false;
        }
        if matches!(folded, "im") || (folded == "am" && at > 0 && words[at - 1].folded == "i") {
            speaks_of_self = true;
        }
        if !cue_seen || speaks_of_self {
            continue;
        }
        if is_manner(word) {
            let before: Vec<&str> =
                words[at.saturating_sub(3)..at].iter().map(|earlier| earlier.folded.as_str()).collect();
            let negated = before.iter().any(|earlier| matches!(*earlier, "not" | "dont" | "never" | "less"));
            let manner = if negated { format!("not {folded}") } else { folded.to_owned() };
            if heard.manners.len() < 6 && !heard.manners.contains(&manner) {
                heard.manners.push(manner);
            }
        }
        let after_article = at > 0
            && matches!(words[at - 1].folded.as_str(), "a" | "an" | "the" | "my" | "creature" | "as")
            || at > 1 && matches!(words[at - 2].folded.as_str(), "a" | "an");
        if WORDS.creatures.contains(&folded) && after_article {
            heard.creature = Some(folded.to_owned());
        }
    }
    if !heard.manners.is_empty() || heard.creature.is_some() {
        heard.manner_quote = Some(one_line(sentence, 160));
    }
    let mentions_emoji = words.iter().any(|word| matches!(word.folded.as_str(), "emoji" | "icon" | "symbol"));
    if mentions_emoji || heard.agent_name.is_some() {
        heard.emoji = sentence.chars().find(|character| is_emoji(*character)).map(String::from);
    }
    let start = (0..words.len())
        .find(|at| WORDS.about_the_person.iter().any(|phrase| phrase_length(words, *at, phrase).is_some()));
    if let Some(first) = start.and_then(|start| words.get(start))
        && heard.manners.is_empty()
        && !words
            .iter()
            .any(|word| word.folded.starts_with("import") || word.folded.starts_with("credential"))
        && !sentence[first.start..].to_lowercase().contains("called")
    {
        heard.about_person = Some(one_line(&sentence[first.start..], 200));
    }
}

fn is_emoji(character: char) -> bool {
    matches!(u32::from(character), 0x1F300..=0x1FAFF | 0x2600..=0x27BF | 0x2B50 | 0x2B55)
}
