//! What the automations of one hook point came to, together.

use super::one::Tried;

/// The event was dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    pub by: String,
    /// What the person is told.
    pub reply: Option<String>,
}

/// What the automations of one hook point came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Names of those whose triggers were met.
    pub matched: Vec<String>,
    /// Names of those that did something.
    pub fired: Vec<String>,
    /// Pieces of context by name; a later automation replaces an earlier one's piece.
    pub enrich: Vec<(String, String)>,
    /// Somebody dealt with the event.
    pub handled: Option<Handled>,
    /// Session the event should go to instead.
    pub session: Option<String>,
}

impl Merged {
    /// Adds one automation's result; those that failed add nothing.
    pub(super) fn add(&mut self, name: &str, tried: Tried) {
        let Tried::Done(verdict) = tried else { return };
        if !verdict.fired {
            return;
        }
        self.fired.push(name.to_owned());
        for (piece, text) in verdict.enrich {
            match self.enrich.iter_mut().find(|(known, _)| *known == piece) {
                Some((_, older)) => *older = text,
                None => self.enrich.push((piece, text)),
            }
        }
        if verdict.handled {
            self.handled = Some(Handled { by: name.to_owned(), reply: verdict.reply });
        }
        if verdict.session.is_some() {
            self.session = verdict.session;
        }
    }

    /// Adds what a later hook point came to.
    pub fn extend(&mut self, later: Self) {
        self.matched.extend(later.matched);
        self.fired.extend(later.fired);
        for (piece, text) in later.enrich {
            match self.enrich.iter_mut().find(|(known, _)| *known == piece) {
                Some((_, older)) => *older = text,
                None => self.enrich.push((piece, text)),
            }
        }
        self.handled = self.handled.take().or(later.handled);
        self.session = later.session.or(self.session.take());
    }
}
