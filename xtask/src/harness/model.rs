//! A model that says what a script says, in whichever of four wire formats it is asked, and keeps
//! what it was asked.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::wire;

/// One thing the model does.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// It says this.
    Say(&'static str),
    /// It calls a tool.
    Call { tool: String, arguments: Value },
}

/// A running model; its thread ends with the process.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    steps: Vec<Step>,
    next: usize,
    asked: Vec<Value>,
    tokens: u32,
}

impl Model {
    /// Starts one that goes through these steps and stays at the last. `tokens` is what it claims a
    /// request had, which makes some harnesses shorten the conversation.
    pub(crate) fn start(steps: Vec<Step>, tokens: u32) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(Mutex::new(State { steps, next: 0, asked: Vec::new(), tokens }));
        let model = Self { port, state };
        let serving = model.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let model = serving.clone();
                std::thread::spawn(move || {
                    // A harness that hangs up is none of the model's business.
                    let _ = model.serve(&stream);
                });
            }
        });
        Ok(model)
    }

    /// Returns the bodies of all requests that offered tools, oldest first.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.lock().asked.clone()
    }

    fn serve(&self, stream: &TcpStream) -> Result<()> {
        let mut reader = BufReader::new(stream);
        let Some((method, path, body)) = read_request(&mut reader)? else { return Ok(()) };
        let mut writer = stream;
        if method != "POST" {
            return answer(&mut writer, "application/json", &json!({"data": [], "models": []}).to_string());
        }
        if path.to_ascii_lowercase().contains("count") {
            return answer(
                &mut writer,
                "application/json",
                &json!({"input_tokens": 10, "totalTokens": 10}).to_string(),
            );
        }
        let (step, number, tokens) = {
            let mut state = self.lock();
            let offers_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
            // Titles and summaries are asked for without tools and are no part of the script.
            let step = if offers_tools {
                state.asked.push(body.clone());
                let step = state.steps.get(state.next.min(state.steps.len().saturating_sub(1))).cloned();
                state.next += 1;
                step
            } else {
                None
            };
            (step.unwrap_or(Step::Say("fine")), state.next, state.tokens)
        };
        let (kind, text) = wire::render(&path, &body, &step, number, tokens);
        answer(&mut writer, kind, &text)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_request(reader: &mut BufReader<&TcpStream>) -> Result<Option<(String, String, Value)>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (method, path) =
        (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default().to_owned());
    let (mut length, mut chunked) = (0_usize, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().context("reading a length")?;
        }
        chunked |= header.starts_with("transfer-encoding:") && header.contains("chunked");
    }
    let mut bytes = vec![0; length];
    if chunked {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).context("reading a chunk")?;
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            bytes.extend_from_slice(&chunk[..size]);
        }
    } else {
        reader.read_exact(&mut bytes)?;
    }
    Ok(Some((method, path, serde_json::from_slice(&bytes).unwrap_or(Value::Null))))
}

fn answer(stream: &mut impl std::io::Write, kind: &str, body: &str) -> Result<()> {
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(stream.flush()?)
}
