//! The little language of `intents.json`: literal words, alternatives, gaps and one capture.
//!
//! `a|b` one of these words · `a?` may be missing · `*` up to eight words of anything ·
//! `<x>` one or more words, handed back as written. A pattern must cover the whole sentence.

use crate::text::{Token, is_near};

/// Longest run of words a `*` may swallow.
const WIDEST_GAP: usize = 8;

/// How exactly words have to be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    /// Letter for letter.
    Exact,
    /// One slip per word is forgiven.
    Forgiving,
}

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    atoms: Vec<Atom>,
}

#[derive(Debug, Clone)]
enum Atom {
    Word { alternatives: Vec<String>, optional: bool },
    Gap,
    Capture,
}

/// The words a capture took, as indices into the tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Pattern {
    /// Compiles a pattern as written in the data file.
    pub(crate) fn compile(source: &str) -> Self {
        let atoms = source
            .split_whitespace()
            .map(|atom| match atom {
                "*" => Atom::Gap,
                _ if atom.starts_with('<') => Atom::Capture,
                _ => {
                    let optional = atom.ends_with('?');
                    let words = atom.trim_end_matches('?');
                    Atom::Word { alternatives: words.split('|').map(str::to_owned).collect(), optional }
                }
            })
            .collect();
        Self { atoms }
    }

    /// Matches the whole sentence; the span is empty when the pattern captures nothing.
    pub(crate) fn matches(&self, tokens: &[Token<'_>], typing: Typing) -> Option<Span> {
        let mut capture = Span::default();
        walk(&self.atoms, tokens, 0, typing, &mut capture).then_some(capture)
    }
}

fn walk(atoms: &[Atom], tokens: &[Token<'_>], at: usize, typing: Typing, capture: &mut Span) -> bool {
    let Some((first, rest)) = atoms.split_first() else {
        return at == tokens.len();
    };
    match first {
        Atom::Word { alternatives, optional } => {
            let fits = tokens.get(at).is_some_and(|token| {
                alternatives.iter().any(|word| match typing {
                    Typing::Exact => *word == token.folded,
                    Typing::Forgiving => is_near(word, &token.folded),
                })
            });
            (fits && walk(rest, tokens, at + 1, typing, capture))
                || (*optional && walk(rest, tokens, at, typing, capture))
        }
        Atom::Gap => {
            let widest = WIDEST_GAP.min(tokens.len().saturating_sub(at));
            (0..=widest).any(|width| walk(rest, tokens, at + width, typing, capture))
        }
        Atom::Capture => {
            // A capture at the end takes everything; in the middle the shortest that fits.
            for end in at + 1..=tokens.len() {
                let end = if rest.is_empty() { tokens.len() } else { end };
                if walk(rest, tokens, end, typing, capture) {
                    *capture = Span { from: at, to: end };
                    return true;
                }
                if rest.is_empty() {
                    return false;
                }
            }
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokens;

    fn capture(pattern: &str, sentence: &str) -> Option<String> {
        let words = tokens(sentence);
        let span = Pattern::compile(pattern).matches(&words, Typing::Forgiving)?;
        Some(words[span.from..span.to].iter().map(|token| token.raw).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn captures_and_gaps() {
        assert_eq!(capture("remember that? <x>", "Remember that I like tea."), Some("I like tea".into()));
        assert_eq!(capture("what|whats * know about <x>", "what do you know about Ann?"), Some("Ann".into()));
        assert_eq!(capture("call <x> now", "call big sam now"), Some("big sam".into()));
        assert_eq!(capture("help", "helping hands"), None);
        assert_eq!(capture("remember <x>", "remember"), None);
    }
}
