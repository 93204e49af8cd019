//! Questions that wait for the person's consent while a turn runs: which is put, and what an answer means. A question
//! is shown as a whole, page by page, before it can be answered.

use std::collections::VecDeque;

use crate::untrusted;

use super::editor::Input;
use super::feed::Show;

/// What the person typed, as far as a question is concerned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Yes to this one.
    Yes(String),
    /// No to this one.
    No(String),
    /// Nothing yet: the next page of it is to be shown.
    More,
    /// An answer to a question that has run out or was answered elsewhere.
    TooLate,
    /// Nothing of the kind.
    Message,
}

/// What is shown of a question, and the words that stand before the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) rows: Vec<String>,
    pub(crate) prompt: String,
}

/// Columns and rows of the terminal; no columns where they are not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) columns: Option<usize>,
    pub(crate) rows: usize,
}

#[derive(Debug)]
struct Question {
    id: String,
    summary: String,
}

/// The question before the cursor.
#[derive(Debug)]
struct Put {
    id: String,
    /// Pages not shown yet.
    left: VecDeque<Vec<String>>,
    pages: usize,
}

/// Open questions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: VecDeque<Question>,
    put: Option<Put>,
}

/// Rows of a screen that a page leaves free, and fewest rows of a page.
const MARGIN: usize = 3;
const MIN_PAGE: usize = 5;
/// Most columns of a question told to somebody who is typing something else.
const HINT_COLUMNS: usize = 60;

impl Questions {
    /// Takes what the feed shows; returns a line worth telling to somebody who is typing something else.
    pub(crate) fn hear(&mut self, show: &Show, typing: bool) -> Option<String> {
        match show {
            Show::Question { id, summary } => {
                let begins = untrusted::beginning(summary, HINT_COLUMNS, "Enter shows it");
                let line = format!("waiting for your consent (Enter to answer): {begins}");
                self.open.push_back(Question { id: id.clone(), summary: summary.clone() });
                (typing && self.put.is_none()).then_some(line)
            }
            Show::Settled { id, status } => {
                let before = self.open.len();
                self.open.retain(|question| question.id != *id);
                let was_put = self.put.as_ref().is_some_and(|put| put.id == *id);
                (was_put && before > self.open.len()).then(|| format!("the question was {status}"))
            }
            _ => None,
        }
    }

    /// Returns what comes next: another page of the question that is being shown, or the first one of the oldest.
    pub(crate) fn next(&mut self, extent: Extent) -> Option<Page> {
        if self.put.is_none() {
            let question = self.open.front()?;
            let rows = untrusted::rows(&question.summary, extent.columns);
            let page = extent.rows.saturating_sub(MARGIN).max(MIN_PAGE);
            let left: VecDeque<Vec<String>> = rows.chunks(page).map(<[String]>::to_vec).collect();
            self.put = Some(Put { id: question.id.clone(), pages: left.len(), left });
        }
        let put = self.put.as_mut()?;
        let rows = put.left.pop_front().unwrap_or_default();
        let prompt = match put.left.len() {
            0 => "Allow this? [y/N] ".to_owned(),
            left => format!("page {} of {}, Enter shows the next, n refuses ", put.pages - left, put.pages),
        };
        Some(Page { rows, prompt })
    }

    /// Says what an input means. While a question stands before the cursor everything but a clear yes is a
    /// no, once all of it was shown; at the ordinary prompt a message stays a message.
    pub(crate) fn take(&mut self, input: &Input) -> Typed {
        let Some(put) = self.put.take() else { return Typed::Message };
        let word = match input {
            Input::Message(text) => text.trim().to_lowercase(),
            Input::Interrupt | Input::End => "n".to_owned(),
        };
        let is_open = self.open.iter().any(|question| question.id == put.id);
        if is_open && !put.left.is_empty() && !matches!(word.as_str(), "n" | "no") {
            self.put = Some(put);
            return Typed::More;
        }
        self.open.retain(|question| question.id != put.id);
        match word.as_str() {
            _ if !is_open => Typed::TooLate,
            "y" | "yes" => Typed::Yes(put.id),
            _ => Typed::No(put.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXTENT: Extent = Extent { columns: Some(80), rows: 24 };

    fn asked(id: &str) -> Show {
        Show::Question { id: id.to_owned(), summary: "run:\nx".to_owned() }
    }

    fn typed(text: &str) -> Input {
        Input::Message(text.to_owned())
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let mut questions = Questions::default();
        assert_eq!(questions.take(&typed("y")), Typed::Message);
        for (word, yes) in [("y", true), ("YES ", true), ("", false), ("yep", false), ("n", false)] {
            questions.hear(&asked("1"), false);
            let page = questions.next(EXTENT).unwrap();
            assert_eq!(page.rows, ["2 lines, 6 characters:", " 1│ run:", " 2│ x"]);
            assert_eq!(page.prompt, "Allow this? [y/N] ");
            let expected = if yes { Typed::Yes("1".into()) } else { Typed::No("1".into()) };
            assert_eq!(questions.take(&typed(word)), expected, "{word}");
        }
        questions.hear(&asked("1"), false);
        questions.next(EXTENT);
        assert_eq!(questions.take(&Input::Interrupt), Typed::No("1".into()));
    }

    #[test]
    fn a_long_one_is_read_to_its_end_before_a_yes_counts() {
        let mut questions = Questions::default();
        let summary: String = (0..45).map(|number| format!("line {number}\n")).collect();
        questions.hear(&Show::Question { id: "1".to_owned(), summary }, false);
        for number in 1..=2 {
            let page = questions.next(EXTENT).unwrap();
            assert_eq!(page.rows.len(), 21);
            assert_eq!(page.prompt, format!("page {number} of 3, Enter shows the next, n refuses "));
            assert_eq!(questions.take(&typed("y")), Typed::More, "a yes before the end is none");
        }
        assert_eq!(questions.next(EXTENT).unwrap().prompt, "Allow this? [y/N] ");
        assert_eq!(questions.take(&typed("y")), Typed::Yes("1".into()));
    }

    #[test]
    fn a_question_answered_elsewhere_is_not_answered_again() {
        let mut questions = Questions::default();
        questions.hear(&asked("1"), false);
        questions.hear(&asked("2"), false);
        questions.next(EXTENT);
        let settled = Show::Settled { id: "1".into(), status: "expired".into() };
        assert_eq!(questions.hear(&settled, true).as_deref(), Some("the question was expired"));
        assert_eq!(questions.take(&typed("y")), Typed::TooLate);
        questions.next(EXTENT);
        assert_eq!(questions.take(&typed("y")), Typed::Yes("2".into()));
        assert_eq!(questions.next(EXTENT), None);
        assert!(questions.hear(&asked("3"), true).is_some_and(|line| line.ends_with("run:\\u{A}x")));
    }
}
