//! Redaction of a text that comes in pieces: what may be the beginning of a secret waits for the next
//! piece, everything else passes at once.

use super::{KNOWN_PREFIXES, MIN_TAIL_LEN, PLACEHOLDER, Redactor, is_of_a_key};

/// One text on its way out, piece by piece. All it gives, put together, is what [`Redactor::redact_cut`]
/// makes of the whole.
#[derive(Default)]
pub struct StreamRedactor {
    /// What is not decided yet.
    held: String,
    /// The last letter that was let through.
    before: Option<char>,
    /// A key is going by; its letters are swallowed until it ends.
    in_a_key: bool,
}

impl std::fmt::Debug for StreamRedactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What is held may be half a secret.
        formatter.debug_struct("StreamRedactor").field("held", &self.held.len()).finish_non_exhaustive()
    }
}

impl StreamRedactor {
    /// Takes the next piece and returns what can be shown by now.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        let piece = self.past_a_key(piece);
        self.held.push_str(piece);
        if self.held.is_empty() {
            return String::new();
        }
        let decided = redactor.decided(self.before, &self.held);
        let rest = self.held.split_off(decided.length);
        let mut shown = redactor.redact_after(self.before, &self.held);
        self.held = rest;
        if decided.a_key_follows {
            self.held.clear();
            self.in_a_key = true;
            shown.push_str(PLACEHOLDER);
        }
        self.before = shown.chars().next_back().or(self.before);
        shown
    }

    /// Returns what was still held: the text is over, perhaps in the middle of a secret.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        let rest = redactor.without_begun(redactor.redact_after(self.before, &self.held));
        *self = Self::default();
        rest
    }

    /// Drops the letters of a key that is going by.
    fn past_a_key<'a>(&mut self, piece: &'a str) -> &'a str {
        if !self.in_a_key {
            return piece;
        }
        match piece.find(|character: char| !is_of_a_key(character)) {
            Some(end) => {
                self.in_a_key = false;
                &piece[end..]
            }
            None => "",
        }
    }
}

/// How much of a text does not depend on what follows.
struct Decided {
    /// So many bytes.
    length: usize,
    /// What follows them is a key for certain, however long it will be.
    a_key_follows: bool,
}

impl Redactor {
    fn decided(&self, before: Option<char>, text: &str) -> Decided {
        let (bytes, end) = (text.as_bytes(), text.len());
        // Stretches that are hidden as one: none may be cut in two.
        let mut whole: Vec<(usize, usize)> = Vec::new();
        let mut length = end;
        {
            let secrets = self.secrets.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            for secret in secrets.iter().map(|secret| secret.0.as_str()) {
                whole.extend(text.match_indices(secret).map(|(at, found)| (at, at + found.len())));
                let most = secret.len().saturating_sub(1).min(end);
                let begun = (1..=most).rev().find(|begun| bytes.ends_with(&secret.as_bytes()[..*begun]));
                length = length.min(end - begun.unwrap_or(0));
            }
        }
        let may_be_exact = length < end;
        let starts_a_word = |at: usize| {
            let last = text[..at].chars().next_back().or(before);
            // A secret before it will have become a placeholder.
            last.is_none_or(|character| !character.is_ascii_alphanumeric())
                || whole.iter().any(|(_, after)| *after == at)
        };
        let mut keys = Vec::new();
        let mut certain = None;
        for prefix in KNOWN_PREFIXES {
            let most = (prefix.len() - 1).min(end);
            let begun = (1..=most).rev().find(|begun| bytes.ends_with(&prefix.as_bytes()[..*begun]));
            if let Some(at) = begun.map(|begun| end - begun).filter(|at| starts_a_word(*at)) {
                length = length.min(at);
            }
            for (at, _) in text.match_indices(prefix).filter(|(at, _)| starts_a_word(*at)) {
                let tail = at + prefix.len();
                match text[tail..].find(|character: char| !is_of_a_key(character)) {
                    Some(characters) if characters >= MIN_TAIL_LEN => keys.push((at, tail + characters)),
                    Some(_) => {}
                    None => {
                        length = length.min(at);
                        if end - tail >= MIN_TAIL_LEN {
                            certain = Some(certain.map_or(at, |known: usize| known.min(at)));
                        }
                    }
                }
            }
        }
        whole.append(&mut keys);
        while let Some((start, _)) = whole.iter().find(|(start, end)| *start < length && length < *end) {
            length = *start;
        }
        Decided { length, a_key_follows: certain == Some(length) && !may_be_exact }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor() -> Redactor {
        let redactor = Redactor::new();
        for secret in
            ["correct horse battery", "correct horse", "abcdeXabcde", "töpf-und-würde", "horse/sk-x"]
        {
            redactor.register(secret);
        }
        redactor
    }

    fn streamed(redactor: &Redactor, pieces: &[&str]) -> String {
        let mut stream = StreamRedactor::default();
        let mut shown: String = pieces.iter().map(|piece| stream.push(redactor, piece)).collect();
        shown.push_str(&stream.finish(redactor));
        shown
    }

    #[test]
    fn cut_at_any_place_a_secret_is_hidden_and_nothing_else_is() {
        let redactor = redactor();
        let key = format!("sk-ant-{}", "a1".repeat(12));
        let texts = [
            "my correct horse battery, and a correct horse of wood".to_owned(),
            format!("use {key}, please; risk-based-assessment-of-things"),
            format!("correct horse{key}!"),
            format!("Bearer {} or not", "x9".repeat(20)),
            "abcdeXabcdeXabcde and abcdeXabcd".to_owned(),
            "zwei töpf-und-würde, töpf-und-wür".to_owned(),
            "a horse/sk-x and a horse/sk-".to_owned(),
        ];
        for text in texts {
            let expected = redactor.redact_cut(&text);
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                assert_eq!(streamed(&redactor, &[&text[..at], &text[at..]]), expected, "{text} cut at {at}");
            }
            let characters: Vec<String> = text.chars().map(String::from).collect();
            let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
            assert_eq!(streamed(&redactor, &characters), expected, "{text} letter by letter");
        }
    }

    #[test]
    fn ordinary_words_pass_at_once() {
        let redactor = redactor();
        let mut stream = StreamRedactor::default();
        for piece in
            ["Hello", " there,", " the", " ", "risk-based", " plan", " of", " Bears", " is", " done."]
        {
            assert_eq!(stream.push(&redactor, piece), piece);
        }
        // What may be the beginning of a secret waits, for as long as it may be one.
        assert_eq!(stream.push(&redactor, " a cor"), " a ");
        assert_eq!(stream.push(&redactor, "rect ho"), "");
        assert_eq!(stream.push(&redactor, "me"), "correct home");
        assert_eq!(stream.finish(&redactor), "");
    }

    #[test]
    fn a_key_without_end_is_not_kept_without_end() {
        let redactor = redactor();
        let mut stream = StreamRedactor::default();
        let mut shown = stream.push(&redactor, "ghp_");
        for _ in 0..10_000 {
            shown.push_str(&stream.push(&redactor, "Z9z9Z9z9"));
            assert!(stream.held.len() < 64, "{}", stream.held.len());
        }
        shown.push_str(&stream.push(&redactor, " is."));
        assert_eq!(shown, format!("{PLACEHOLDER} is."));
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_reads_as_the_whole_does(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "correct", " ", "horse", "battery", "abcde", "X", "sk-", "sk-ant-", "a1a1a1a1", "Bearer ",
                    "töpf-", "und-", "würde", "ghp_", "word", "/", ".", "\n", "i",
                ]),
                0..24,
            ),
            sizes in prop::collection::vec(1usize..9, 1..64),
        ) {
            let redactor = redactor();
            let text: String = parts.concat();
            let characters: Vec<char> = text.chars().collect();
            let mut pieces = Vec::new();
            let (mut at, mut next) = (0, sizes.iter().cycle());
            while at < characters.len() {
                let end = (at + next.next().unwrap()).min(characters.len());
                pieces.push(characters[at..end].iter().collect::<String>());
                at = end;
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let shown = streamed(&redactor, &pieces);
            let expected = redactor.redact_cut(&text);
            // A key with a secret inside may be hidden as one where the whole shows two placeholders.
            for secret in ["correct horse battery", "correct horse", "abcdeXabcde", "töpf-und-würde", "horse/sk-x"] {
                prop_assert!(!shown.contains(secret), "{text:?} became {shown:?}");
            }
            prop_assert!(shown.matches(PLACEHOLDER).count() >= 1 || !expected.contains(PLACEHOLDER));
            if !expected.contains(PLACEHOLDER) {
                prop_assert_eq!(shown, expected);
            }
        }
    }
}
