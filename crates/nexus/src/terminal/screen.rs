//! What the conversation looks like at a terminal: streamed text, replies, dim lines about workers,
//! whole lines only while the prompt is shown.

use nexus_protocol::bus::TurnState;

use crate::output::{harmless, shorten, single_line};

use super::editor::Printer;
use super::feed::Show;
use super::wrap::Wrap;

/// Dim text and the end of it.
const DIM: (&str, &str) = ("\u{1b}[2m", "\u{1b}[0m");
/// Bold text and the end of it.
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[0m");

/// What stands before a line about workers and tools.
const NOTICE_MARK: &str = "  · ";

/// Where text goes.
pub(crate) trait Paper {
    /// Puts text down as it is.
    fn put(&mut self, text: &str);

    /// Returns how many columns a line has, if that is known.
    fn columns(&self) -> Option<usize>;
}

impl Paper for Printer {
    fn put(&mut self, text: &str) {
        // A terminal that has gone shows at the next read of a key.
        let _ = self.print(text.to_owned());
    }

    fn columns(&self) -> Option<usize> {
        crate::output::terminal_width().map(usize::from)
    }
}

/// The visible side of a conversation.
#[derive(Debug)]
pub(crate) struct Screen<P> {
    paper: P,
    colour: bool,
    name: String,
    prompting: bool,
    speaking: bool,
    at_line_start: bool,
    held: String,
    wrap: Wrap,
}

impl<P: Paper> Screen<P> {
    /// Makes a screen on which nothing stands yet.
    pub(crate) fn new(paper: P, colour: bool, name: &str) -> Self {
        Self {
            paper,
            colour,
            name: single_line(name),
            prompting: false,
            speaking: false,
            at_line_start: true,
            held: String::new(),
            wrap: Wrap::default(),
        }
    }

    /// Learns what the assistant calls itself.
    pub(crate) fn rename(&mut self, name: &str) {
        self.name = single_line(name);
    }

    /// Says whether a prompt is shown; while it is, only whole lines are written.
    pub(crate) fn set_prompting(&mut self, prompting: bool) {
        if prompting {
            self.end_line();
            self.speaking = false;
        }
        self.prompting = prompting;
        if !prompting {
            let held = std::mem::take(&mut self.held);
            self.raw(&held);
        }
    }

    /// Tells whether a prompt is shown.
    pub(crate) fn is_prompting(&self) -> bool {
        self.prompting
    }

    /// Shows what a feed asks to be shown.
    pub(crate) fn show(&mut self, show: &Show) {
        match show {
            Show::TurnBegan { speaker } => {
                self.end_speech();
                if !speaker.trim().is_empty() {
                    self.rename(speaker);
                }
            }
            Show::Piece(text) => self.speak(text),
            Show::StartOver => {
                self.end_speech();
                self.notice("starting over");
            }
            Show::Reply { text, streamed, state } => {
                if !streamed && !text.trim().is_empty() {
                    self.end_speech();
                    self.speak(text.trim_end());
                }
                self.end_speech();
                if *state == TurnState::Aborted {
                    self.notice("stopped");
                }
            }
            Show::Notice(text) => self.notice(text),
            // The conversation asks them itself.
            Show::Question { .. } | Show::Settled { .. } => {}
            Show::TurnEnded(_) | Show::Quiet(_) => self.end_speech(),
            Show::Stopping => {
                self.end_speech();
                self.notice("the daemon is stopping");
            }
            Show::Gap => self.end_speech(),
        }
    }

    /// Writes a line about what goes on, dim.
    pub(crate) fn notice(&mut self, text: &str) {
        self.end_line();
        let room = self.paper.columns().unwrap_or(usize::MAX).saturating_sub(NOTICE_MARK.chars().count() + 1);
        let line = self.styled(&format!("{NOTICE_MARK}{}", shorten(text, room)), DIM);
        self.raw(&format!("{line}\n"));
    }

    /// Writes lines as they are.
    pub(crate) fn block(&mut self, text: &str) {
        self.end_speech();
        self.raw(&format!("{}\n", harmless(text).trim_end()));
    }

    fn speak(&mut self, text: &str) {
        let text = harmless(text);
        if !self.speaking {
            let text = text.trim_start();
            if text.is_empty() {
                return;
            }
            self.end_line();
            self.speaking = true;
            self.wrap.begin(self.name.chars().count() + 2, self.paper.columns());
            let name = self.styled(&format!("{}>", self.name), BOLD);
            let text = self.wrap.push(text);
            self.raw(&format!("{name} {text}"));
            return;
        }
        let text = self.wrap.push(&text);
        self.raw(&text);
    }

    fn end_speech(&mut self) {
        self.end_line();
        self.speaking = false;
    }

    fn end_line(&mut self) {
        let rest = self.wrap.finish();
        self.raw(&rest);
        if !self.at_line_start {
            self.raw("\n");
        }
        self.wrap.begin(0, self.paper.columns());
    }

    fn styled(&self, text: &str, (on, off): (&str, &str)) -> String {
        if self.colour { format!("{on}{text}{off}") } else { text.to_owned() }
    }

    fn raw(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.at_line_start = text.ends_with('\n');
        if !self.prompting {
            self.paper.put(text);
            return;
        }
        self.held.push_str(text);
        if let Some(end) = self.held.rfind('\n') {
            let rest = self.held.split_off(end + 1);
            let lines = std::mem::replace(&mut self.held, rest);
            self.paper.put(&lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Paper for Vec<String> {
        fn put(&mut self, text: &str) {
            self.push(text.to_owned());
        }

        fn columns(&self) -> Option<usize> {
            None
        }
    }

    fn screen() -> Screen<Vec<String>> {
        Screen::new(Vec::new(), false, "ada")
    }

    fn reply(text: &str, streamed: bool) -> Show {
        Show::Reply { text: text.into(), streamed, state: TurnState::Final }
    }

    #[test]
    fn pieces_flow_and_notices_get_their_own_line() {
        let mut screen = screen();
        screen.show(&Show::TurnBegan { speaker: String::new() });
        screen.show(&Show::Piece("Hello".into()));
        screen.show(&Show::Piece(" you".into()));
        screen.show(&Show::Notice("worker 1: scan".into()));
        screen.show(&Show::Piece("Done.".into()));
        screen.show(&reply("Done.", true));
        assert_eq!(screen.paper.concat(), "ada> Hello you\n  · worker 1: scan\nDone.\n");
    }

    #[test]
    fn while_the_prompt_is_shown_only_whole_lines_appear() {
        let mut screen = screen();
        screen.set_prompting(true);
        screen.show(&Show::Piece("One\ntw".into()));
        assert_eq!(screen.paper, vec!["ada> One\n"]);
        screen.show(&Show::Piece("o".into()));
        screen.show(&reply("One\ntwo", true));
        assert_eq!(screen.paper, vec!["ada> One\n", "two\n"]);
    }

    #[test]
    fn a_message_sent_meanwhile_does_not_lose_what_was_held() {
        let mut screen = screen();
        screen.set_prompting(true);
        screen.show(&Show::Piece("half".into()));
        screen.set_prompting(false);
        screen.show(&Show::Piece(" whole".into()));
        assert_eq!(screen.paper.concat(), "ada> half whole");
    }

    #[test]
    fn a_reply_that_was_streamed_stands_there_once() {
        let mut screen = screen();
        screen.show(&Show::Piece("Hi".into()));
        screen.show(&reply("Hi", true));
        screen.show(&reply("Another", false));
        assert_eq!(screen.paper.concat(), "ada> Hi\nada> Another\n");
    }

    #[test]
    fn escape_sequences_of_a_model_are_taken_out() {
        let mut screen = screen();
        screen.show(&reply("\u{1b}[31mred\u{1b}[0m", false));
        assert_eq!(screen.paper.concat(), "ada> [31mred[0m\n");
    }
}
