//! Sentences and names: where one ends, and which words are somebody's.

use super::words::WORDS;

/// Longest sentence that is read, in bytes; what is longer is no plain statement.
const MAX_LEN: usize = 300;

/// Cuts a text into statements; questions, code and overlong ones are left out.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut current = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let ends = match character {
            '\n' => true,
            '.' | '!' | '?' | ';' => characters.peek().is_none_or(|next| next.is_whitespace()),
            _ => false,
        };
        if character != '\n' && character != ';' {
            current.push(character);
        }
        if ends {
            take(&mut current, &mut sentences);
        }
    }
    take(&mut current, &mut sentences);
    sentences
}

fn take(current: &mut String, sentences: &mut Vec<String>) {
    let sentence = current.split_whitespace().collect::<Vec<_>>().join(" ").replace('’', "'");
    current.clear();
    let lowered = sentence.to_lowercase();
    let start =
        WORDS.greetings.iter().find(|start| lowered.starts_with(**start)).map_or(0, |start| start.len());
    let sentence = sentence.get(start..).unwrap_or_default();
    let is_plain = !sentence.is_empty()
        && sentence.len() <= MAX_LEN
        && !sentence.ends_with('?')
        && !sentence.contains(['{', '}', '<', '>', '`']);
    if !is_plain {
        return;
    }
    // "I live in Lisbon and I work at a bakery" says two things.
    let mut rest = sentence;
    for joint in [" and I ", " and my ", ", but I ", " but I ", ", I ", ", my "] {
        if let Some((first, second)) = rest.split_once(joint)
            && first.len() > 3
        {
            sentences.push(first.trim_end_matches([',', ' ']).to_owned());
            let subject = if joint.trim_end().ends_with("my") { "My" } else { "I" };
            let mut more = format!("{subject} {second}");
            take(&mut more, sentences);
            rest = "";
            break;
        }
    }
    if !rest.is_empty() {
        sentences.push(rest.to_owned());
    }
}

/// Returns the capitalised words a text begins with, three at most.
pub(super) fn leading_name(text: &str) -> Option<String> {
    let mut name: Vec<&str> = Vec::new();
    for word in text.split(' ').take(3) {
        let bare = word.trim_end_matches(['.', ',', '!', ';', ':', ')']);
        let bare = bare.strip_suffix("'s").unwrap_or(bare);
        if !is_name(bare) {
            break;
        }
        name.push(bare);
        if bare.len() != word.len() {
            break;
        }
    }
    (!name.is_empty()).then(|| name.join(" "))
}

/// Returns the names inside a sentence: runs of capitalised words that do not begin it.
pub(super) fn names(sentence: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let words: Vec<&str> = sentence.split(' ').collect();
    let mut at = 1;
    while at < words.len() {
        let rest = words[at..].join(" ");
        match leading_name(&rest) {
            Some(name) => {
                at += name.split(' ').count();
                if !names.contains(&name) && names.len() < 6 {
                    names.push(name);
                }
            }
            None => at += 1,
        }
    }
    names
}

/// Returns a sentence with a capital and an end.
pub(super) fn finished(sentence: &str) -> String {
    let sentence = sentence.trim().trim_end_matches(['.', '!']);
    let mut characters = sentence.chars();
    let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", characters.as_str())
}

fn is_name(word: &str) -> bool {
    let mut characters = word.chars();
    characters.next().is_some_and(char::is_uppercase)
        && word.chars().count() > 1
        && characters.all(|character| character.is_alphabetic() || character == '-' || character == '\'')
        && !WORDS.nobody.contains(&word.to_lowercase().as_str())
}
