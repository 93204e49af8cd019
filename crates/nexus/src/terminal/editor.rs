//! The line editor: history, several lines in one message, and a printer that writes above the
//! prompt. It runs on a thread of its own, because reading keys blocks.

use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;

use nexus_base::file::Durability;
use nexus_base::redact::Redactor;
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{
    Cmd, ConditionalEventHandler, Editor, Event, EventContext, EventHandler, ExternalPrinter, Helper,
    KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};
use tokio::sync::mpsc;

use crate::failure::Failure;
use nexus_base::error::chain;

use super::slash;

/// Largest history that is looked through for keys, in bytes.
const MAX_HISTORY_SIZE: u64 = 32 * 1024 * 1024;
/// Lines kept in the history file.
const HISTORY_LENGTH: usize = 2000;

/// What the person did at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// A message, perhaps of several lines.
    Message(String),
    /// Ctrl-C at an empty prompt.
    Interrupt,
    /// Ctrl-D on an empty line, or the terminal has gone.
    End,
}

/// What stands before what the person types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Prompt {
    /// A message is wanted.
    Message,
    /// An answer to this question; it is no part of the history.
    Question(String),
}

/// Writes to the terminal, above the prompt while one is shown.
pub(crate) type Printer = Box<dyn ExternalPrinter + Send>;

/// The thread that reads keys.
#[derive(Debug)]
pub(crate) struct Prompter {
    ask: blocking::Sender<Prompt>,
    input: mpsc::UnboundedReceiver<Input>,
}

impl Prompter {
    /// Starts the editor with its history in `history`, or without one.
    pub(crate) fn start(history: Option<PathBuf>) -> Result<(Self, Printer), Failure> {
        let mut editor = build(history.as_deref()).map_err(|error| Failure::caused(&error))?;
        let printer = editor.create_external_printer().map_err(|error| Failure::caused(&error))?;
        let (ask, asked) = blocking::channel();
        let (typed, input) = mpsc::unbounded_channel();
        std::thread::Builder::new()
            .name("editor".to_owned())
            .spawn(move || read_lines(editor, history.as_deref(), &asked, &typed))
            .map_err(|error| Failure::new(format!("starting the line editor: {error}")))?;
        Ok((Self { ask, input }, Box::new(printer)))
    }

    /// Shows the prompt; the next [`Prompter::next`] belongs to it.
    pub(crate) fn show(&self, prompt: Prompt) {
        // A dead editor thread shows in `next`.
        let _ = self.ask.send(prompt);
    }

    /// Waits for what the person does.
    pub(crate) async fn next(&mut self) -> Input {
        self.input.recv().await.unwrap_or(Input::End)
    }
}

/// Returns where the history lies: `$XDG_STATE_HOME/nexus/history`. It is the person's, not the
/// workspace's, so that a workspace can be copied without what was typed elsewhere.
pub(crate) fn history_file() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(nexus_base::file::resolve(&base).join("nexus/history"))
}

fn build(history: Option<&Path>) -> Result<Editor<Rules, FileHistory>, ReadlineError> {
    let mut editor: Editor<Rules, FileHistory> = Editor::new()?;
    editor.set_helper(Some(Rules));
    editor.set_max_history_size(HISTORY_LENGTH)?;
    editor.set_history_ignore_space(true);
    editor.bind_sequence(KeyEvent(KeyCode::Enter, Modifiers::ALT), EventHandler::Simple(Cmd::Newline));
    editor.bind_sequence(KeyEvent::ctrl('c'), EventHandler::Conditional(Box::new(ClearFirst)));
    if let Some(path) = history {
        clean(path);
        // No history yet, or an unreadable one, is no reason not to talk.
        let _ = editor.load_history(path);
    }
    Ok(editor)
}

/// Takes keys out of a history that was written when they were still kept.
fn clean(history: &Path) {
    let Ok(text) = nexus_base::file::read_text(history, MAX_HISTORY_SIZE) else { return };
    let kept = Redactor::new().redact(&text);
    if kept != text {
        // Left as it is it can still be used; the next start tries again.
        let _ = nexus_base::file::replace(history, kept.as_bytes(), 0o600, Durability::Crash);
    }
}

fn read_lines(
    mut editor: Editor<Rules, FileHistory>,
    history: Option<&Path>,
    asked: &blocking::Receiver<Prompt>,
    typed: &mpsc::UnboundedSender<Input>,
) {
    let redactor = Redactor::new();
    while let Ok(prompt) = asked.recv() {
        let (words, keep) = match &prompt {
            Prompt::Message => ("you> ", true),
            Prompt::Question(question) => (question.as_str(), false),
        };
        let input = match editor.readline(words) {
            Ok(line) => {
                // The file outlives the conversation and is nobody's place for keys.
                let kept = redactor.redact(&line);
                if keep && !line.trim().is_empty() && editor.add_history_entry(kept.as_str()).unwrap_or(false)
                {
                    save(&mut editor, history);
                }
                Input::Message(unfold(&line))
            }
            Err(ReadlineError::Interrupted) => Input::Interrupt,
            Err(ReadlineError::Eof) => Input::End,
            Err(error) => {
                tracing::debug!(error = chain(&error), "reading the terminal");
                Input::End
            }
        };
        if typed.send(input).is_err() {
            return;
        }
    }
}

fn save(editor: &mut Editor<Rules, FileHistory>, history: Option<&Path>) {
    let Some(path) = history else { return };
    let Some(folder) = path.parent() else { return };
    // Losing the history file loses no message; the conversation itself is in the database.
    if nexus_base::file::create_folder(folder, 0o700).is_ok()
        && nexus_base::file::open_append(path, 0o600).is_ok()
    {
        let _ = editor.append_history(path);
    }
}

/// A backslash before a line break said "the message goes on"; it is no part of the message.
fn unfold(line: &str) -> String {
    line.replace("\\\n", "\n")
}

/// Ctrl-C takes away what was typed; only at an empty prompt does it mean more.
struct ClearFirst;

impl ConditionalEventHandler for ClearFirst {
    fn handle(
        &self,
        _event: &Event,
        _count: RepeatCount,
        _positive: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let typed = !context.line().is_empty();
        Some(if typed { Cmd::Kill(Movement::WholeBuffer) } else { Cmd::Interrupt })
    }
}

/// When a message is complete and what Tab offers.
#[derive(Debug)]
struct Rules;

impl Helper for Rules {}
impl Highlighter for Rules {}
impl Hinter for Rules {
    type Hint = String;
}

impl Completer for Rules {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..position).unwrap_or(line);
        Ok((0, slash::completions(typed)))
    }
}

impl Validator for Rules {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_of_old_loses_its_keys_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history");
        let key = format!("sk-ant-{}", "k7".repeat(12));
        let old = format!("#V2\nhello\nmy key is {key} here\nlast\n");
        nexus_base::file::replace(&path, old.as_bytes(), 0o600, Durability::Crash).unwrap();
        clean(&path);
        let text = nexus_base::file::read_text(&path, 1024).unwrap();
        assert_eq!(text, old.replace(&key, "[redacted]"));
    }

    #[test]
    fn continued_lines_lose_their_backslash() {
        assert_eq!(unfold("one\\\ntwo \\ three"), "one\ntwo \\ three");
    }
}
