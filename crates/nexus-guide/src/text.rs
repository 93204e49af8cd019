//! Words, sentences and safe shortening. Knows nothing about what the words mean.

/// Longest text that is looked at for meaning; the rest of a longer message is only ever quoted.
pub(crate) const MAX_READ_LEN: usize = 8_000;
/// Most words of one sentence that are looked at.
pub(crate) const MAX_TOKENS: usize = 200;

/// One word of a sentence, with what is needed to match it and to quote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// The word as written, without the punctuation around it.
    pub(crate) raw: &'a str,
    /// The word for comparing: lower case, apostrophes gone.
    pub(crate) folded: String,
    /// Where it starts in the sentence.
    pub(crate) start: usize,
    /// Where it ends in the sentence.
    pub(crate) end: usize,
    /// The same with the punctuation around it.
    pub(crate) outer: (usize, usize),
    /// A comma, colon or the like stands behind it.
    pub(crate) closes_clause: bool,
    /// It stood between quotation marks or backticks together with its neighbours.
    pub(crate) opens_quote: bool,
}

/// Splits a sentence into words.
pub(crate) fn tokens(sentence: &str) -> Vec<Token<'_>> {
    let mut result = Vec::new();
    let mut offset = 0;
    for chunk in sentence.split_whitespace() {
        // `split_whitespace` yields slices in order, so each is found at or after the last one.
        let Some(found) = sentence[offset..].find(chunk) else { break };
        let chunk_start = offset + found;
        offset = chunk_start + chunk.len();
        // Leading dots stay: they begin paths and file names.
        let opened = chunk.trim_start_matches(|character: char| {
            (is_edge(character) && character != '.') || character == '('
        });
        let opened = if opened.chars().all(|character| character == '.') { "" } else { opened };
        let lead = chunk.len() - opened.len();
        let mut raw = opened.trim_end_matches(|character: char| is_edge(character) || character == ')');
        if is_abbreviation(raw) && opened[raw.len()..].starts_with('.') {
            raw = &opened[..=raw.len()];
        }
        if raw.is_empty() {
            if let Some(last) = result.last_mut() {
                let last: &mut Token<'_> = last;
                last.closes_clause = true;
            }
            continue;
        }
        let tail = &opened[raw.len()..];
        result.push(Token {
            raw,
            folded: fold(raw),
            start: chunk_start + lead,
            end: chunk_start + lead + raw.len(),
            outer: (chunk_start, chunk_start + chunk.len()),
            closes_clause: tail.contains([',', ';', ':', '.', '!', '?', '—', '–']),
            opens_quote: chunk[..lead].contains(['"', '\'', '“', '‘', '«', '`']),
        });
        if result.len() == MAX_TOKENS {
            break;
        }
    }
    result
}

fn is_edge(character: char) -> bool {
    matches!(
        character,
        '.' | ','
            | '!'
            | '?'
            | ';'
            | ':'
            | '"'
            | '\''
            | '“'
            | '”'
            | '‘'
            | '’'
            | '«'
            | '»'
            | '`'
            | '*'
            | '…'
            | '—'
            | '–'
            | '['
            | ']'
            | '{'
            | '}'
            | '<'
            | '>'
            | '¡'
            | '¿'
    )
}

/// Folds a word for comparing.
pub(crate) fn fold(word: &str) -> String {
    word.chars()
        .filter(|character| !matches!(character, '\'' | '’' | '`'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Returns whether two folded words are the same but for one slip of the keyboard.
///
/// Short words differ by one letter from too many others, so they must be exact, or have two
/// neighbouring letters swapped.
pub(crate) fn is_near(known: &str, typed: &str) -> bool {
    if known == typed {
        return true;
    }
    let known: Vec<char> = known.chars().collect();
    let typed: Vec<char> = typed.chars().collect();
    let shorter = known.len().min(typed.len());
    if shorter < 4 || known.len().abs_diff(typed.len()) > 1 || known.len() > 24 {
        return false;
    }
    let same_head = known.iter().zip(&typed).take_while(|(left, right)| left == right).count();
    let same_tail =
        known.iter().rev().zip(typed.iter().rev()).take_while(|(left, right)| left == right).count();
    if known.len() == typed.len() {
        let differing = known.len().saturating_sub(same_head + same_tail);
        let is_swap = differing == 2
            && known[same_head] == typed[same_head + 1]
            && known[same_head + 1] == typed[same_head];
        is_swap || (differing == 1 && shorter >= 5)
    } else {
        // One letter too many or too few.
        known.len().max(typed.len()) >= 5 && same_head + same_tail >= shorter
    }
}

/// Splits a message into sentences; code between backticks is never split.
pub(crate) fn sentences(message: &str) -> Vec<&str> {
    let message = clip(message, MAX_READ_LEN);
    let mut result = Vec::new();
    let mut start = 0;
    let mut in_code = false;
    let mut characters = message.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == '`' {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let ends = match character {
            '\n' | '。' | '！' | '？' => true,
            // Inside a word (`/?a=b`) they end nothing.
            '!' | '?' => characters.peek().is_none_or(|(_, next)| !next.is_alphanumeric()),
            ';' => characters.peek().is_some_and(|(_, next)| next.is_whitespace()),
            '.' => {
                characters.peek().is_none_or(|(_, next)| next.is_whitespace())
                    // A dot by itself is a folder, as in `find . -name`.
                    && !message[..at].ends_with(char::is_whitespace)
                    && !is_abbreviation(&message[start..at])
            }
            _ => false,
        };
        if ends {
            let end = at + character.len_utf8();
            push_sentence(&mut result, &message[start..end]);
            start = end;
        }
    }
    // An unclosed backtick would otherwise glue everything together; what is left is one sentence.
    push_sentence(&mut result, &message[start..]);
    result
}

fn push_sentence<'a>(result: &mut Vec<&'a str>, sentence: &'a str) {
    let sentence = sentence.trim();
    if sentence.chars().any(char::is_alphanumeric) {
        result.push(sentence);
    }
}

fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|character: char| is_edge(character) || character == '(');
    let folded = fold(word);
    matches!(
        folded.as_str(),
        "mr" | "mrs" | "ms" | "dr" | "prof" | "st" | "e.g" | "i.e" | "etc" | "jr" | "sr"
    ) || (word.chars().count() == 1 && word.chars().all(char::is_uppercase) && word != "I")
}

/// Returns at most `most` bytes of `text`, cut between letters.
pub(crate) fn clip(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Shortens a long text to its head and tail and says that it did.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = clip(text, most * 2 / 3);
    let tail_start = text.ceil_char_boundary(text.len() - most / 3);
    let cut = tail_start - head.len();
    format!("{head}\n[… {cut} bytes left out …]\n{}", &text[tail_start..])
}

/// Makes one line of a text, for quoting inside a sentence.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = clip(&flat, most);
    if cut.len() < flat.len() { format!("{}…", cut.trim_end()) } else { flat }
}

/// Derives a file-safe folder name; never empty.
pub(crate) fn slug(name: &str) -> String {
    const MAX_LEN: usize = 64;
    let mut result = String::new();
    for character in name.chars() {
        if character.is_ascii_alphanumeric() {
            result.push(character.to_ascii_lowercase());
        } else if !result.is_empty() && !result.ends_with('-') {
            result.push('-');
        }
        if result.len() == MAX_LEN {
            break;
        }
    }
    let trimmed = result.trim_end_matches('-');
    if trimmed.is_empty() { "agent".to_owned() } else { trimmed.to_owned() }
}

/// Joins names as people do: `a, b and c`.
pub(crate) fn join_and(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [init @ .., last] => format!("{} and {last}", init.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_file_safe_and_never_empty() {
        assert_eq!(slug("Atlas"), "atlas");
        assert_eq!(slug("  HAL 9000!! "), "hal-9000");
        assert_eq!(slug("../../etc"), "etc");
        assert_eq!(slug("山田"), "agent");
        assert_eq!(slug(&"ab ".repeat(60)).len(), 64);
    }

    #[test]
    fn one_slip_is_forgiven_but_other_words_are_not() {
        assert!(is_near("remember", "remeber"));
        assert!(is_near("remember", "rememebr"));
        assert!(is_near("hello", "helo"));
        assert!(is_near("help", "hlep"));
        assert!(!is_near("show", "know"));
        assert!(!is_near("note", "not"));
        assert!(!is_near("run", "ran"));
    }

    #[test]
    fn sentences_keep_code_and_initials_together() {
        assert_eq!(sentences("Hi! Run `echo a. b` now. Thanks"), ["Hi!", "Run `echo a. b` now.", "Thanks"]);
        assert_eq!(sentences("I am J. Doe. Hello"), ["I am J. Doe.", "Hello"]);
        assert_eq!(sentences("…"), Vec::<&str>::new());
    }

    #[test]
    fn shortening_says_so() {
        let long = "é".repeat(100);
        assert!(shorten(&long, 30).contains("bytes left out"));
        assert_eq!(shorten("short", 30), "short");
    }
}
