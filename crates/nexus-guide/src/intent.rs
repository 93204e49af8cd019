//! The closed list of things the guide understands, read from `intents.json`.
//!
//! Owns only the recognition; what happens then is the manager's business.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::pattern::{Pattern, Typing};
use crate::text::{self, Token};

/// One thing the guide understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Intent {
    Run,
    Note,
    Forget,
    Remember,
    WhoAmI,
    Recall,
    ScanCredentials,
    ImportCredentials,
    Status,
    Cancel,
    Retry,
    ListFiles,
    ShowFile,
    Time,
    ConnectModel,
    ChangePersona,
    WhoAreYou,
    Help,
    Thanks,
    Bye,
    Greet,
    Yes,
    No,
}

impl Intent {
    /// Returns whether the words are only polite and give way to anything else in the message.
    pub(crate) const fn is_social(self) -> bool {
        matches!(self, Self::Thanks | Self::Bye | Self::Greet | Self::Yes | Self::No)
    }

    /// Returns whether words of introduction may stand before it.
    const fn may_follow_words(self) -> bool {
        match self {
            Self::Run
            | Self::Note
            | Self::Remember
            | Self::WhoAmI
            | Self::Recall
            | Self::ScanCredentials
            | Self::ImportCredentials
            | Self::Status
            | Self::Time
            | Self::ConnectModel
            | Self::WhoAreYou
            | Self::Help
            | Self::ListFiles => true,
            Self::Forget
            | Self::Cancel
            | Self::Retry
            | Self::ShowFile
            | Self::ChangePersona
            | Self::Thanks
            | Self::Bye
            | Self::Greet
            | Self::Yes
            | Self::No => false,
        }
    }

    /// Returns whether later sentences that mean nothing by themselves belong to this one.
    const fn takes_following(self) -> bool {
        matches!(self, Self::Remember | Self::Note)
    }
}

/// One understood piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) intent: Intent,
    /// What the intent is about, in the person's own words; empty when it needs nothing.
    pub(crate) about: String,
    /// The sentence it came from.
    pub(crate) sentence: String,
}

/// What was understood of one message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Understanding {
    pub(crate) requests: Vec<Request>,
    /// Sentences that meant nothing.
    pub(crate) unknown: Vec<String>,
}

/// One line of the list of abilities.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ability {
    pub(crate) does: &'static str,
    pub(crate) example: &'static str,
}

#[derive(Deserialize, Default)]
struct DataFile {
    lead_ins: Vec<String>,
    tails: Vec<String>,
    intents: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: Intent,
    does: String,
    example: String,
    /// Place in the list of abilities, from 1; 0 is not listed. The order in the file is the order
    /// of matching.
    place: usize,
    patterns: Vec<String>,
}

struct Book {
    lead_ins: Vec<Vec<String>>,
    tails: Vec<Vec<String>>,
    entries: Vec<(Entry, Vec<Pattern>)>,
}

/// Most requests answered out of one message.
const MAX_REQUESTS: usize = 4;

/// Most places inside a sentence where a request is looked for.
const MAX_BEGINNINGS: usize = 8;

static BOOK: LazyLock<Book> = LazyLock::new(|| {
    // A test reads the same file strictly; here a damaged build would understand nothing, not panic.
    let data: DataFile = serde_json::from_str(include_str!("intents.json")).unwrap_or_default();
    let phrases = |list: Vec<String>| {
        list.iter().map(|phrase| phrase.split(' ').map(str::to_owned).collect()).collect()
    };
    Book {
        lead_ins: phrases(data.lead_ins),
        tails: phrases(data.tails),
        entries: data
            .intents
            .into_iter()
            .map(|entry| {
                let patterns = entry.patterns.iter().map(|source| Pattern::compile(source)).collect();
                (entry, patterns)
            })
            .collect(),
    }
});

/// Lists what the guide can do.
pub(crate) fn abilities() -> Vec<Ability> {
    let mut listed: Vec<&'static Entry> =
        BOOK.entries.iter().map(|(entry, _)| entry).filter(|entry| entry.place > 0).collect();
    listed.sort_by_key(|entry| entry.place);
    listed.into_iter().map(|entry| Ability { does: &entry.does, example: &entry.example }).collect()
}

/// Understands a whole message; `own_name` is how the person may address the assistant.
pub(crate) fn understand(message: &str, own_name: Option<&str>) -> Understanding {
    let mut result = Understanding::default();
    for sentence in text::sentences(message) {
        match understand_sentence(sentence, own_name) {
            Some(mut request) => {
                if request.intent == Intent::Remember && request.about.is_empty() {
                    // `I like tea. Remember that!`
                    request.about = std::mem::take(&mut result.unknown).join(" ");
                }
                let repeated = result
                    .requests
                    .iter()
                    .any(|known| known.intent == request.intent && known.about == request.about);
                if !repeated && result.requests.len() < MAX_REQUESTS {
                    result.requests.push(request);
                }
            }
            None => match result.requests.last_mut() {
                Some(last) if last.intent.takes_following() && !last.about.is_empty() => {
                    last.about = format!("{}. {sentence}", last.about);
                }
                _ => result.unknown.push(sentence.to_owned()),
            },
        }
    }
    // What lies beyond the part that is read is still to be kept whole.
    let unread = &message[text::clip(message, text::MAX_READ_LEN).len()..];
    if let Some(last) = result.requests.last_mut().filter(|last| last.intent.takes_following()) {
        last.about.push_str(unread);
    }
    if result.requests.iter().any(|request| !request.intent.is_social()) {
        result.requests.retain(|request| !request.intent.is_social());
    }
    result
}

pub(crate) fn understand_sentence(sentence: &str, own_name: Option<&str>) -> Option<Request> {
    let book = &*BOOK;
    let all = text::tokens(sentence);
    let own_name = own_name.map(text::fold);
    let whole = views(&all, book, own_name.as_deref());
    let found = [Typing::Exact, Typing::Forgiving]
        .into_iter()
        .find_map(|typing| whole.iter().find_map(|view| match_view(book, sentence, view, typing, false)));
    if found.as_ref().is_some_and(|request| !request.intent.is_social()) {
        return found;
    }
    // Nothing covers the whole sentence: a request may follow some words of introduction.
    let shortest = whole.first().copied().unwrap_or_default();
    let inner = (1..shortest.len())
        .filter(|start| may_begin(shortest, *start))
        .take(MAX_BEGINNINGS)
        .find_map(|start| match_view(book, sentence, &shortest[start..], Typing::Exact, true));
    inner.or_else(|| code_to_run(sentence, &all)).or(found)
}

fn match_view(
    book: &Book,
    sentence: &str,
    view: &[Token<'_>],
    typing: Typing,
    is_inner: bool,
) -> Option<Request> {
    let entries = book.entries.iter().filter(|(entry, _)| !is_inner || entry.id.may_follow_words());
    for (entry, patterns) in entries {
        for pattern in patterns {
            let Some(span) = pattern.matches(view, typing) else { continue };
            if is_inner && view.len() < 2 {
                continue;
            }
            let ends = (view.get(span.from), span.to.checked_sub(1).and_then(|last| view.get(last)));
            let about = match ends {
                // Punctuation belongs to a command line, quotation marks above all.
                (Some(first), Some(last)) if span.to > span.from && entry.id == Intent::Run => {
                    let whole = &sentence[first.outer.0..last.outer.1];
                    whole.trim_end_matches(['.', '?', '!', ',', ';']).to_owned()
                }
                // A capture up to the last word read goes on to the end of a very long sentence.
                (Some(first), Some(_)) if span.to == view.len() && view.len() >= text::MAX_TOKENS => {
                    sentence[first.start..].to_owned()
                }
                (Some(first), Some(last)) if span.to > span.from => {
                    sentence[first.start..last.end].to_owned()
                }
                _ => String::new(),
            };
            return Some(Request { intent: entry.id, about, sentence: sentence.to_owned() });
        }
    }
    None
}

/// Returns whether a request may begin here: at a new clause, or within the first few words
/// unless they deny it or tell about somebody ("I cannot remember where …").
fn may_begin(tokens: &[Token<'_>], start: usize) -> bool {
    let before = &tokens[..start];
    if before.last().is_some_and(|token| token.closes_clause) {
        return true;
    }
    let tells = before.last().is_some_and(|token| {
        matches!(
            token.folded.as_str(),
            "i" | "we" | "they" | "he" | "she" | "it" | "to" | "a" | "an" | "the" | "my" | "who"
        )
    });
    let denies = before.iter().any(|token| {
        matches!(
            token.folded.as_str(),
            "not" | "never" | "cant" | "cannot" | "dont" | "wont" | "couldnt" | "didnt" | "no"
        )
    });
    start <= 5 && !tells && !denies
}

/// `start `sleep 5``: a verb of doing and something between backticks.
fn code_to_run(sentence: &str, tokens: &[Token<'_>]) -> Option<Request> {
    let does = tokens.iter().take(5).any(|token| {
        matches!(
            token.folded.as_str(),
            "start" | "launch" | "invoke" | "try" | "do" | "call" | "use" | "perform"
        )
    });
    (does && crate::task::inline_code(sentence).is_some()).then(|| Request {
        intent: Intent::Run,
        about: String::new(),
        sentence: sentence.to_owned(),
    })
}

/// The sentence without its polite tail, then with more and more of its polite beginning removed,
/// and at last as it was written.
fn views<'t, 'a>(all: &'t [Token<'a>], book: &Book, own_name: Option<&str>) -> Vec<&'t [Token<'a>]> {
    let mut end = all.len();
    while let Some(shorter) = strip_tail(&all[..end], book, own_name) {
        end = shorter;
    }
    let mut result = vec![&all[..end]];
    let mut rest = &all[..end];
    while let Some(start) = strip_lead(rest, book, own_name) {
        rest = &rest[start..];
        result.push(rest);
    }
    if end < all.len() {
        result.push(all);
    }
    result
}

fn strip_tail(tokens: &[Token<'_>], book: &Book, own_name: Option<&str>) -> Option<usize> {
    let last = tokens.last()?;
    if tokens.len() > 1 && own_name == Some(last.folded.as_str()) {
        return Some(tokens.len() - 1);
    }
    book.tails.iter().find_map(|phrase| {
        let start = tokens.len().checked_sub(phrase.len()).filter(|start| *start > 0)?;
        tokens[start..].iter().zip(phrase).all(|(token, word)| token.folded == *word).then_some(start)
    })
}

fn strip_lead(tokens: &[Token<'_>], book: &Book, own_name: Option<&str>) -> Option<usize> {
    if tokens.len() > 1 && own_name == tokens.first().map(|token| token.folded.as_str()) {
        return Some(1);
    }
    book.lead_ins.iter().find_map(|phrase| {
        (phrase.len() < tokens.len() && tokens.iter().zip(phrase).all(|(token, word)| token.folded == *word))
            .then_some(phrase.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_file_is_sound() {
        let data: DataFile = serde_json::from_str(include_str!("intents.json")).unwrap();
        assert!(data.intents.len() >= 12);
        for entry in &data.intents {
            let found = understand_sentence(&entry.example, None).map(|request| request.intent);
            assert_eq!(found, Some(entry.id), "example {:?}", entry.example);
        }
    }

    #[test]
    fn following_sentences_belong_to_what_is_stored() {
        let found = understand("Hi! Please remember that I like tea. Especially green tea. Thanks!", None);
        assert_eq!(found.requests.len(), 1);
        assert_eq!(found.requests[0].intent, Intent::Remember);
        assert_eq!(found.requests[0].about, "I like tea. Especially green tea.");
    }

    #[test]
    fn long_texts_are_kept_whole_and_read_quickly() {
        let long = format!("remember that {}", "word ".repeat(5_000));
        let found = understand(&long, None);
        assert_eq!(found.requests[0].about.split_whitespace().count(), 5_000);
        let started = std::time::Instant::now();
        for hostile in
            ["a, ".repeat(4_000), "please ".repeat(2_000), "what do you ".repeat(2_000), "`a ".repeat(2_000)]
        {
            understand(&hostile, None);
        }
        // Generous for a slow, unoptimised build; what counts is that it is not quadratic in the text.
        assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    }
}
