//! From the first person to the third: "I live with my sister" becomes "Ada lives with her sister"
//! without knowing whether Ada is a she: "Ada lives with Ada's sister".

use super::words::WORDS;

/// Writes short forms out: I'm, I've, I'll, I'd.
pub(super) fn expanded(sentence: &str) -> String {
    let mut text = sentence.to_owned();
    for (short, long) in [("I'm ", "I am "), ("I've ", "I have "), ("I'll ", "I will "), ("I'd ", "I would ")]
    {
        text = text.replace(short, long);
        text = text.replace(&short.to_lowercase(), long);
    }
    if let Some(rest) = text.strip_prefix("i ") {
        text = format!("I {rest}");
    }
    text
}

/// Puts a sentence into the third person.
pub(super) fn third(sentence: &str, speaker: &str) -> String {
    let owned = format!("{speaker}'s");
    let mut words: Vec<String> = Vec::new();
    let mut follows_subject = false;
    for word in sentence.split(' ') {
        let end = word.trim_end_matches(['.', ',', '!', ';']).len();
        let (bare, rest) = word.split_at(end);
        let changed = match bare {
            "I" | "me" | "Me" => {
                follows_subject = bare == "I";
                words.push(format!("{speaker}{rest}"));
                continue;
            }
            "My" | "my" => owned.clone(),
            "mine" => owned.clone(),
            "myself" => speaker.to_owned(),
            other if follows_subject => {
                let verb = conjugated(other);
                follows_subject = is_adverb(other);
                verb
            }
            other => other.to_owned(),
        };
        words.push(format!("{changed}{rest}"));
    }
    words.join(" ")
}

fn is_adverb(word: &str) -> bool {
    WORDS.adverbs.contains(&word)
}

/// Puts a verb that follows "I" behind a name. Past tense and helping verbs stay as they are.
fn conjugated(verb: &str) -> String {
    match verb {
        "am" => "is".to_owned(),
        "have" => "has".to_owned(),
        "do" => "does".to_owned(),
        "don't" => "doesn't".to_owned(),
        "haven't" => "hasn't".to_owned(),
        "go" => "goes".to_owned(),
        other if WORDS.unchanged_verbs.contains(&other) || other.ends_with("ed") || is_adverb(other) => {
            other.to_owned()
        }
        other if !other.chars().all(char::is_alphabetic) => other.to_owned(),
        other if ["s", "sh", "ch", "x", "z", "o"].iter().any(|ending| other.ends_with(ending)) => {
            format!("{other}es")
        }
        other => match other.strip_suffix('y') {
            Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
            Some(_) | None => format!("{other}s"),
        },
    }
}
