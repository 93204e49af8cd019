//! A source with three tools, and a client that talks to it in lines.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::mpsc;

use nexus_protocol::tool::{Replay, ToolFuture, ToolHints, ToolOutput, ToolSource, ToolSpec};
use serde_json::{Map, Value, json};

pub(crate) struct Three;

impl ToolSource for Three {
    fn tools(&self) -> Vec<ToolSpec> {
        let spec = |name: &str, replay| ToolSpec {
            name: name.to_owned(),
            description: format!("Does {name}."),
            input_schema: json!({ "type": "object", "properties": { "text": { "type": "string" } } }),
            replay,
        };
        vec![spec("echo", Replay::Safe), spec("fail", Replay::Unsafe), spec("measure", Replay::Safe)]
    }

    fn hints(&self, spec: &ToolSpec) -> ToolHints {
        if spec.name == "fail" { ToolHints::ADDS } else { ToolHints::LOOKS }
    }

    fn instructions(&self) -> Option<String> {
        Some("Call echo.".to_owned())
    }

    fn call<'source>(
        &'source self,
        name: &'source str,
        arguments: Map<String, Value>,
    ) -> ToolFuture<'source> {
        let text = arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        let output = match name {
            "fail" if text == "badly" => panic!("a defect, on purpose"),
            "fail" => ToolOutput::error("it failed"),
            "measure" => ToolOutput::ok(text.len().to_string()),
            _ => ToolOutput::ok(text),
        };
        Box::pin(std::future::ready(output))
    }
}

struct Received(mpsc::Receiver<Vec<u8>>, Vec<u8>);

impl Read for Received {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.1.is_empty() {
            match self.0.recv() {
                Ok(bytes) => self.1 = bytes,
                Err(_) => return Ok(0),
            }
        }
        let taken = buffer.len().min(self.1.len());
        buffer[..taken].copy_from_slice(&self.1[..taken]);
        self.1.drain(..taken);
        Ok(taken)
    }
}

struct Sent(mpsc::Sender<Vec<u8>>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A conversation in lines with a server on a thread of its own.
pub(crate) struct Client {
    to: Option<mpsc::Sender<Vec<u8>>>,
    from: mpsc::Receiver<Vec<u8>>,
    server: Option<std::thread::JoinHandle<Result<(), String>>>,
}

impl Client {
    pub(crate) fn new() -> Self {
        let (to, input) = mpsc::channel();
        let (output, from) = mpsc::channel();
        let server = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let input = BufReader::new(Received(input, Vec::new()));
            let served = nexus_mcp::serve_lines(Arc::new(Three), input, Sent(output));
            runtime.block_on(served).map_err(|error| error.to_string())
        });
        Self { to: Some(to), from, server: Some(server) }
    }

    pub(crate) fn initialized(version: &str) -> Self {
        let client = Self::new();
        let answer = client.ask(&initialize(version));
        assert!(answer["result"].is_object(), "{answer}");
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    pub(crate) fn say(&self, line: &str) {
        self.to.as_ref().unwrap().send(format!("{line}\n").into_bytes()).unwrap();
    }

    pub(crate) fn hear(&self) -> Value {
        let line = self.from.recv_timeout(std::time::Duration::from_secs(10)).unwrap();
        serde_json::from_slice(&line).unwrap()
    }

    pub(crate) fn ask(&self, question: &Value) -> Value {
        self.say(&question.to_string());
        self.hear()
    }

    pub(crate) fn call(&self, id: u64, tool: &str, arguments: &Value) -> Value {
        self.ask(&json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": tool, "arguments": arguments },
        }))
    }

    /// Listens no more, says one thing, and waits for the server with the input still open.
    pub(crate) fn turn_away(mut self, last_words: &str) -> Result<(), String> {
        self.from = mpsc::channel().1;
        self.say(last_words);
        self.server.take().unwrap().join().unwrap()
    }

    /// Ends the input and waits for the server.
    pub(crate) fn leave(mut self) -> Result<(), String> {
        self.to = None;
        self.server.take().unwrap().join().unwrap()
    }
}

pub(crate) fn initialize(version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": version, "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        },
    })
}
