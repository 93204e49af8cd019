//! One message per line, as the standard streams carry them. Unlike the library's own reader this one
//! answers what it cannot take: a line that is no JSON, no request, or too long gets an error, and the
//! next line is read.
//!
//! A line is read when everything before it is answered. Then nothing else is under way, and the read may block: no
//! other thread has to wait for the input and pass each line on.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleServer;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Longest line that is read, in bytes.
pub const MAX_LINE_LEN: usize = 16 * 1024 * 1024;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const INVALID_PARAMS: i64 = -32602;

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line that was longer than anything we read; it was passed over.
    TooLong,
}

type Input = Box<dyn BufRead + Send>;
type Output = Arc<Mutex<Box<dyn Write + Send>>>;

/// The two streams.
pub(crate) struct Lines {
    input: Input,
    output: Output,
    conversation: Arc<Conversation>,
    begun: bool,
}

/// How the conversation stands.
#[derive(Debug, Default)]
struct Conversation {
    /// Requests that were read and not yet answered.
    unanswered: AtomicUsize,
    /// An answer could not be written: nobody is there any more.
    is_over: AtomicBool,
    answered: Notify,
}

impl Conversation {
    fn asked(&self) {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
    }

    fn answered(&self, written: bool) {
        self.unanswered.fetch_sub(1, Ordering::SeqCst);
        self.is_over.fetch_or(!written, Ordering::SeqCst);
        self.answered.notify_one();
    }

    /// Waits until everything is answered; `None` when nobody is there any more.
    async fn rest(&self) -> Option<()> {
        while self.unanswered.load(Ordering::SeqCst) > 0 {
            self.answered.notified().await;
        }
        (!self.is_over.load(Ordering::SeqCst)).then_some(())
    }
}

impl Lines {
    pub(crate) fn new(input: impl BufRead + Send + 'static, output: impl Write + Send + 'static) -> Self {
        Self {
            input: Box::new(input),
            output: Arc::new(Mutex::new(Box::new(output))),
            conversation: Arc::default(),
            begun: false,
        }
    }

    fn refuse(&self, refusal: &Refusal) {
        let answer = json!({
            "jsonrpc": "2.0", "id": refusal.id, "error": { "code": refusal.code, "message": refusal.message },
        });
        // Whoever closed the stream does not read it; the next read says so.
        let _ = write(&self.output, answer.to_string());
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let output = Arc::clone(&self.output);
        let conversation = Arc::clone(&self.conversation);
        async move {
            let written =
                serde_json::to_string(&item).map_err(io::Error::from).and_then(|line| write(&output, line));
            if is_answer(&item) {
                conversation.answered(written.is_ok());
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.conversation.rest().await?;
            // An input that cannot be read has ended.
            let line = match next(&mut self.input).ok().flatten()? {
                Incoming::Line(line) => line,
                Incoming::TooLong => {
                    let message = format!("a message is longer than the allowed {MAX_LINE_LEN} bytes");
                    self.refuse(&Refusal { id: Value::Null, code: INVALID_REQUEST, message });
                    continue;
                }
            };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice(&line) {
                // Nothing is expected before the first request, and the library would end the
                // connection over it.
                Ok(RxJsonRpcMessage::<RoleServer>::Request(request)) => {
                    self.begun = true;
                    self.conversation.asked();
                    return Some(RxJsonRpcMessage::<RoleServer>::Request(request));
                }
                Ok(message) if self.begun => return Some(message),
                Ok(_) => {}
                Err(error) => {
                    if let Some(refusal) = refusal(&line, &error) {
                        self.refuse(&refusal);
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[derive(Debug, PartialEq)]
struct Refusal {
    id: Value,
    code: i64,
    message: String,
}

/// Says what is wrong with a line; nothing for one that is no question.
fn refusal(line: &[u8], error: &serde_json::Error) -> Option<Refusal> {
    #[derive(Deserialize)]
    struct Outline {
        jsonrpc: Option<Value>,
        #[serde(default)]
        id: Value,
        method: Option<Value>,
        result: Option<serde::de::IgnoredAny>,
        error: Option<serde::de::IgnoredAny>,
    }
    let refuse = |id, code, message: String| Some(Refusal { id, code, message });
    if let Err(error) = serde_json::from_slice::<serde::de::IgnoredAny>(line) {
        return refuse(Value::Null, PARSE_ERROR, format!("the line is not valid JSON: {error}"));
    }
    let Ok(outline) = serde_json::from_slice::<Outline>(line) else {
        let what = "a message must be one JSON object; batches are not supported".to_owned();
        return refuse(Value::Null, INVALID_REQUEST, what);
    };
    // Answering answers could go on forever.
    if outline.method.is_none() && (outline.result.is_some() || outline.error.is_some()) {
        return None;
    }
    let id = match outline.id {
        id @ (Value::Number(_) | Value::String(_)) => id,
        _ => Value::Null,
    };
    if outline.jsonrpc != Some(Value::from("2.0")) {
        return refuse(id, INVALID_REQUEST, "the message does not say \"jsonrpc\": \"2.0\"".to_owned());
    }
    match outline.method {
        Some(Value::String(method)) => {
            let method: String = method.chars().take(64).collect();
            refuse(id, INVALID_PARAMS, format!("invalid parameters for {method}: {error}"))
        }
        _ => refuse(id, INVALID_REQUEST, "the message names no method".to_owned()),
    }
}

fn write(output: &Output, mut line: String) -> io::Result<()> {
    line.push('\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output.write_all(line.as_bytes())?;
    output.flush()
}

fn is_answer(message: &TxJsonRpcMessage<RoleServer>) -> bool {
    type Message = TxJsonRpcMessage<RoleServer>;
    matches!(message, Message::Response(_) | Message::Error(_))
}

/// Reads one line; `None` at the end of the input, where a line without an end counts as one.
pub(crate) fn next(input: &mut impl BufRead) -> io::Result<Option<Incoming>> {
    let mut line = Vec::new();
    let mut too_long = false;
    let mut any = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(any.then(|| finish(line, too_long)));
        }
        any = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        too_long = too_long || line.len() + part.len() > MAX_LINE_LEN;
        if too_long {
            line = Vec::new();
        } else {
            line.extend_from_slice(part);
        }
        let taken = part.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() {
            return Ok(Some(finish(line, too_long)));
        }
    }
}

fn finish(line: Vec<u8>, too_long: bool) -> Incoming {
    if too_long { Incoming::TooLong } else { Incoming::Line(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Option<(Value, i64)> {
        let error = serde_json::from_str::<RxJsonRpcMessage<RoleServer>>(line).unwrap_err();
        refusal(line.as_bytes(), &error).map(|refusal| (refusal.id, refusal.code))
    }

    #[test]
    fn what_is_wrong_is_said_under_the_right_id() {
        assert_eq!(said("{"), Some((Value::Null, PARSE_ERROR)));
        assert_eq!(said("nonsense"), Some((Value::Null, PARSE_ERROR)));
        assert_eq!(said("[]"), Some((Value::Null, INVALID_REQUEST)));
        assert_eq!(said("7"), Some((Value::Null, INVALID_REQUEST)));
        assert_eq!(said(r#"{"id":4,"method":"ping"}"#), Some((json!(4), INVALID_REQUEST)));
        assert_eq!(said(r#"{"jsonrpc":"2.0","id":"a"}"#), Some((json!("a"), INVALID_REQUEST)));
        assert_eq!(said(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#), None);
    }

    #[test]
    fn lines_are_cut_at_their_ends_and_long_ones_passed_over() {
        let mut text = b"one\n\ntwo".to_vec();
        let all = |text: &[u8]| {
            let mut input = io::BufReader::with_capacity(7, text);
            std::iter::from_fn(|| next(&mut input).unwrap()).collect::<Vec<_>>()
        };
        let line = |text: &str| Incoming::Line(text.as_bytes().to_vec());
        assert_eq!(all(&text), [line("one"), line(""), line("two")]);
        text.extend(vec![b'x'; MAX_LINE_LEN]);
        text.extend(b"\nlast\n");
        assert_eq!(all(&text), [line("one"), line(""), Incoming::TooLong, line("last")]);
    }
}
