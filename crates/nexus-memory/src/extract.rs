//! Facts in plain statements, without a model: who somebody is, where they live and work, what they
//! like, who belongs to them, what happens when. Only sentences in the first person count, and only of
//! a kind that will still matter in half a year; everything else stays findable as a turn.

mod person;
mod resolve;
mod sentences;
mod words;

use self::words::WORDS;
use crate::utterance::{Extracted, FactKind, MAX_UTTERANCE_LEN, Mention, Utterance, Voice};

/// Most facts taken from one utterance.
const MAX_FACTS: usize = 32;

/// Finds facts in an utterance. `speaker` is what the speaker is called in the third person.
pub fn extract(utterance: &Utterance, speaker: &str) -> Vec<Extracted> {
    // "I" on a web page is nobody we know, and what an agent says of itself is no fact about anybody.
    match &utterance.voice {
        Voice::Owner | Voice::Person { .. } => {}
        Voice::Agent | Voice::Untrusted => return Vec::new(),
    }
    let text = &utterance.text[..utterance.text.floor_char_boundary(MAX_UTTERANCE_LEN)];
    let mut facts = Vec::new();
    for sentence in sentences::split(text) {
        if facts.len() == MAX_FACTS {
            break;
        }
        facts.extend(from_sentence(&sentence, speaker, utterance));
    }
    facts.dedup_by(|left, right| left.text == right.text);
    facts
}

fn from_sentence(sentence: &str, speaker: &str, utterance: &Utterance) -> Option<Extracted> {
    let asked = ["remember that ", "remember: ", "please remember that ", "don't forget that ", "note that "];
    let lowered = sentence.to_lowercase();
    let body = asked.iter().find(|start| lowered.starts_with(**start)).map_or(0, |start| start.len());
    let sentence = sentence.get(body..).unwrap_or(sentence).trim();
    let plain = person::expanded(sentence);
    let lowered = plain.to_lowercase();
    if utterance.voice == Voice::Owner
        && let Some(name) = named_assistant(&plain, &lowered)
    {
        return Some(Extracted {
            text: format!("The assistant is called {name}."),
            kind: FactKind::Persona,
            as_of: utterance.at,
            about_speaker: false,
            speaker_name: None,
            mentions: vec![Mention { name, kind: "persona", relation: None }],
        });
    }
    if let Some(name) = own_name(&plain, &lowered) {
        return Some(Extracted {
            // The sentence must not change with what the owner was called before.
            text: match utterance.voice {
                Voice::Owner => format!("The owner is called {name}."),
                Voice::Person { .. } | Voice::Agent | Voice::Untrusted => {
                    format!("{speaker} is called {name}.")
                }
            },
            kind: FactKind::Name,
            as_of: utterance.at,
            about_speaker: true,
            speaker_name: Some(name),
            mentions: Vec::new(),
        });
    }
    let (kind, mentions) = kind_of(&plain, &lowered, body > 0)?;
    let (dated, as_of) = resolve::dates(&plain, utterance.at);
    let text = person::third(&dated, speaker);
    let about_speaker = kind != FactKind::Note || is_own(&lowered);
    Some(Extracted {
        text: sentences::finished(&text),
        kind,
        as_of: as_of.unwrap_or(utterance.at),
        about_speaker,
        speaker_name: None,
        mentions,
    })
}

fn is_own(lowered: &str) -> bool {
    lowered.starts_with("i ") || lowered.starts_with("my ")
}

/// Says what a sentence tells, if it tells something worth keeping.
fn kind_of(plain: &str, lowered: &str, is_asked_for: bool) -> Option<(FactKind, Vec<Mention>)> {
    let note = || is_asked_for.then(|| (FactKind::Note, people(plain)));
    if !is_own(lowered) {
        return relation_of_other(plain, lowered)
            .map(|mention| (FactKind::Relation, vec![mention]))
            .or_else(note);
    }
    if let Some(rest) = lowered.strip_prefix("i ") {
        let rest = strip_adverb(rest);
        if WORDS.musings.iter().any(|start| begins(rest, start)) && !is_asked_for {
            return None;
        }
        let place = WORDS.places.iter().find(|start| begins(rest, start));
        if place.is_some() {
            return Some((FactKind::Place, place_mentions(plain)));
        }
        let mut mentions = people(plain);
        if WORDS.preferences.iter().any(|start| begins(rest, start)) {
            return Some((FactKind::Preference, mentions));
        }
        if let Some(mention) = relative(plain, lowered) {
            mentions.retain(|other| other.name != mention.name);
            mentions.push(mention);
            return Some((FactKind::Relation, mentions));
        }
        if WORDS.states.iter().any(|start| begins(rest, start)) {
            return Some((FactKind::Note, mentions));
        }
        if resolve::names_day(lowered) {
            return Some((FactKind::Date, mentions));
        }
        return note();
    }
    if lowered.starts_with("my favourite ") || lowered.starts_with("my favorite ") {
        return lowered.contains(" is ").then(|| (FactKind::Preference, people(plain)));
    }
    if let Some(mention) = relative(plain, lowered) {
        return Some((FactKind::Relation, vec![mention]));
    }
    let is_birthday = lowered.starts_with("my birthday") || lowered.contains("anniversary");
    if is_birthday || resolve::names_day(lowered) {
        return Some((FactKind::Date, people(plain)));
    }
    let tells =
        [" is ", " are ", " was ", " has ", " lives ", " works "].iter().any(|verb| lowered.contains(verb));
    if tells && WORDS.relations.iter().any(|word| has_word(lowered, word)) {
        return Some((FactKind::Relation, people(plain)));
    }
    note()
}

/// Finds the name of somebody who belongs to the speaker: "my sister Ada", "my dog is called Rex".
fn relative(plain: &str, lowered: &str) -> Option<Mention> {
    for relation in &WORDS.relations {
        let Some(at) = lowered.find(&format!("my {relation}")) else { continue };
        let rest = plain.get(at + 3 + relation.len()..)?;
        let rest = rest.trim_start_matches("'s name").trim_start_matches([',', ' ']);
        let named = ["is called ", "is named ", "is ", "called ", "named ", ""];
        let name = named.iter().find_map(|start| rest.strip_prefix(start).and_then(sentences::leading_name));
        if let Some(name) = name {
            let kind = if ["dog", "cat", "puppy", "kitten", "horse", "rabbit", "parrot"].contains(relation) {
                "animal"
            } else {
                "person"
            };
            return Some(Mention { name, kind, relation: Some((*relation).to_owned()) });
        }
    }
    None
}

/// "Grace is my boss."
fn relation_of_other(plain: &str, lowered: &str) -> Option<Mention> {
    let at = lowered.find(" is my ")?;
    let relation = WORDS.relations.iter().find(|relation| begins(&lowered[at + 7..], relation))?;
    let name = sentences::leading_name(plain)?;
    (name.len() == at).then(|| Mention { name, kind: "person", relation: Some((*relation).to_owned()) })
}

fn own_name(plain: &str, lowered: &str) -> Option<String> {
    for start in ["my name is ", "i am called ", "call me ", "please call me ", "you can call me "] {
        if lowered.starts_with(start) {
            return plain.get(start.len()..).and_then(sentences::leading_name);
        }
    }
    // "I am Ada" says a name; "I am German" and "I am Ada's sister" say something else.
    let rest = lowered.starts_with("i am ").then(|| plain.get(5..)).flatten()?;
    let name = sentences::leading_name(rest)?;
    let after = rest.get(name.len()..).unwrap_or_default().trim_end_matches(['.', '!']);
    let ends = after.is_empty() || after.starts_with(',') || after.starts_with(" and ");
    let is_people = ["an", "ish", "ese", "ch", "ian", "day"].iter().any(|ending| name.ends_with(ending));
    (ends && !is_people).then_some(name)
}

fn named_assistant(plain: &str, lowered: &str) -> Option<String> {
    let start = WORDS.naming_us.iter().find(|start| lowered.starts_with(**start))?;
    plain.get(start.len()..).and_then(sentences::leading_name)
}

/// Capitalised words inside a sentence, as people or things it names.
fn people(plain: &str) -> Vec<Mention> {
    let kind = "person";
    sentences::names(plain).into_iter().map(|name| Mention { name, kind, relation: None }).collect()
}

fn place_mentions(plain: &str) -> Vec<Mention> {
    let kind = "place";
    sentences::names(plain).into_iter().map(|name| Mention { name, kind, relation: None }).collect()
}

fn begins(text: &str, start: &str) -> bool {
    text.strip_prefix(start)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '.', ',', '!', ';']))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|character: char| !character.is_alphanumeric() && character != '-').any(|other| other == word)
}

fn strip_adverb(rest: &str) -> &str {
    WORDS.skipped_adverbs.iter().find_map(|adverb| rest.strip_prefix(*adverb)).unwrap_or(rest)
}

#[cfg(test)]
mod tests;
