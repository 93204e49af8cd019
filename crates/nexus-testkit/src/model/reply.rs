//! What the scripted model says, and how its words travel.

use serde_json::Value;

use super::Gate;

/// One reply. The same for both formats.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(crate) parts: Vec<Part>,
    pub(crate) status: Option<(u16, String)>,
    pub(crate) raw: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) stop: Option<String>,
    pub(crate) tokens: Option<Tokens>,
    pub(crate) without_ids: bool,
    pub(crate) pieces: usize,
    pub(crate) bytes_at_once: Option<usize>,
    pub(crate) hold_head: Option<Gate>,
    pub(crate) holds: Vec<(usize, Gate)>,
    pub(crate) cut_after: Option<usize>,
    pub(crate) fail_after: Option<(usize, String)>,
}

/// One part of a reply.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    Thinking(String),
    Call { name: String, arguments: String },
}

/// What the server says the reply cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// Read from no cache.
    pub input: u64,
    /// Made.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache; OpenAI's format does not say.
    pub cache_write: u64,
}

impl Reply {
    /// A reply of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().and_text(text)
    }

    /// A reply of one tool call; add more with [`Reply::call`].
    pub fn calls(name: &str, arguments: &Value) -> Self {
        Self::default().call(name, arguments)
    }

    /// A reply that says nothing at all.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A refusal with an HTTP status and the provider's error body.
    pub fn status(status: u16, message: &str) -> Self {
        Self { status: Some((status, message.to_owned())), ..Self::default() }
    }

    /// A body sent as it is, with status 200 and type `text/event-stream`.
    pub fn raw(body: impl Into<Vec<u8>>) -> Self {
        Self { raw: Some(body.into()), ..Self::default() }
    }

    /// Says more.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Thinks, apart from what it says.
    #[must_use]
    pub fn thinking(mut self, text: impl Into<String>) -> Self {
        self.parts.push(Part::Thinking(text.into()));
        self
    }

    /// Calls a tool.
    #[must_use]
    pub fn call(self, name: &str, arguments: &Value) -> Self {
        let arguments = arguments.to_string();
        self.raw_call(name, &arguments)
    }

    /// Calls a tool with arguments that need not be JSON.
    #[must_use]
    pub fn raw_call(mut self, name: &str, arguments: &str) -> Self {
        self.parts.push(Part::Call { name: name.to_owned(), arguments: arguments.to_owned() });
        self
    }

    /// Says what it cost; without this the numbers are made from the lengths.
    #[must_use]
    pub fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Gives this stop reason, in the format's own word.
    #[must_use]
    pub fn stop(mut self, word: &str) -> Self {
        self.stop = Some(word.to_owned());
        self
    }

    /// Leaves ids and usage out, as some compatible servers do. Only OpenAI's format.
    #[must_use]
    pub fn without_ids(mut self) -> Self {
        self.without_ids = true;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends each text and each call's arguments in so many pieces.
    #[must_use]
    pub fn pieces(mut self, pieces: usize) -> Self {
        self.pieces = pieces;
        self
    }

    /// Writes so many bytes at a time, wherever that splits.
    #[must_use]
    pub fn bytes_at_once(mut self, bytes: usize) -> Self {
        self.bytes_at_once = Some(bytes.max(1));
        self
    }

    /// Waits at the gate before anything is sent.
    #[must_use]
    pub fn hold(mut self, gate: &Gate) -> Self {
        self.hold_head = Some(gate.clone());
        self
    }

    /// Waits at the gate after so many events of the stream; a gate nobody opens is a stall.
    #[must_use]
    pub fn hold_after(mut self, events: usize, gate: &Gate) -> Self {
        self.holds.push((events, gate.clone()));
        self
    }

    /// Drops the connection after so many events of the stream.
    #[must_use]
    pub fn cut_after(mut self, events: usize) -> Self {
        self.cut_after = Some(events);
        self
    }

    /// Sends the provider's error event after so many events of the stream, and ends it.
    #[must_use]
    pub fn fail_after(mut self, events: usize, message: &str) -> Self {
        self.fail_after = Some((events, message.to_owned()));
        self
    }
}
