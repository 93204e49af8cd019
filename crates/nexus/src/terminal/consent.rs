//! Questions that wait for the person's consent while a turn runs: which is put, and what an answer means.

use std::collections::VecDeque;

use crate::output::single_line;

use super::editor::Input;
use super::feed::Show;

/// What the person typed, as far as a question is concerned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Yes to this one.
    Yes(String),
    /// No to this one.
    No(String),
    /// An answer to a question that has run out or was answered elsewhere.
    TooLate,
    /// Nothing of the kind.
    Message,
}

#[derive(Debug)]
struct Question {
    id: String,
    summary: String,
}

/// Open questions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: VecDeque<Question>,
    /// The one that stands before the cursor.
    put: Option<String>,
}

impl Questions {
    /// Takes what the feed shows; returns a line worth telling to somebody who is typing something else.
    pub(crate) fn hear(&mut self, show: &Show, typing: bool) -> Option<String> {
        match show {
            Show::Question { id, summary } => {
                let summary = single_line(summary);
                let line = format!("waits for your consent (Enter to answer): {summary}");
                self.open.push_back(Question { id: id.clone(), summary });
                (typing && self.put.is_none()).then_some(line)
            }
            Show::Settled { id, status } => {
                let before = self.open.len();
                self.open.retain(|question| question.id != *id);
                let was_put = self.put.as_deref() == Some(id);
                (was_put && before > self.open.len()).then(|| format!("the question was {status}"))
            }
            _ => None,
        }
    }

    /// Puts the oldest question that is not put yet and returns the line to ask it with.
    pub(crate) fn next(&mut self) -> Option<String> {
        let question = self.open.front()?;
        self.put = Some(question.id.clone());
        Some(format!("Allow {}? [y/N] ", question.summary))
    }

    /// Says what an input means. While a question stands before the cursor everything but a clear yes is a
    /// no; at the ordinary prompt a message stays a message.
    pub(crate) fn take(&mut self, input: &Input) -> Typed {
        let Some(id) = self.put.take() else { return Typed::Message };
        let was_open = self.open.len();
        self.open.retain(|question| question.id != id);
        if was_open == self.open.len() {
            return Typed::TooLate;
        }
        let agrees = match input {
            Input::Message(text) => matches!(text.trim().to_lowercase().as_str(), "y" | "yes"),
            Input::Interrupt | Input::End => false,
        };
        if agrees { Typed::Yes(id) } else { Typed::No(id) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str) -> Show {
        Show::Question { id: id.to_owned(), summary: "run\nx".to_owned() }
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let mut questions = Questions::default();
        assert_eq!(questions.take(&Input::Message("y".to_owned())), Typed::Message);
        for (typed, yes) in [("y", true), ("YES ", true), ("", false), ("yep", false), ("n", false)] {
            questions.hear(&asked("1"), false);
            assert_eq!(questions.next().as_deref(), Some("Allow run x? [y/N] "));
            let expected = if yes { Typed::Yes("1".into()) } else { Typed::No("1".into()) };
            assert_eq!(questions.take(&Input::Message(typed.to_owned())), expected, "{typed}");
        }
        questions.hear(&asked("1"), false);
        questions.next();
        assert_eq!(questions.take(&Input::Interrupt), Typed::No("1".into()));
    }

    #[test]
    fn a_question_answered_elsewhere_is_not_answered_again() {
        let mut questions = Questions::default();
        questions.hear(&asked("1"), false);
        questions.hear(&asked("2"), false);
        questions.next();
        let settled = Show::Settled { id: "1".into(), status: "expired".into() };
        assert_eq!(questions.hear(&settled, true).as_deref(), Some("the question was expired"));
        assert_eq!(questions.take(&Input::Message("y".to_owned())), Typed::TooLate);
        questions.next();
        assert_eq!(questions.take(&Input::Message("y".to_owned())), Typed::Yes("2".into()));
        assert_eq!(questions.next(), None);
        assert!(questions.hear(&asked("3"), true).is_some_and(|line| line.ends_with("run x")));
    }
}
