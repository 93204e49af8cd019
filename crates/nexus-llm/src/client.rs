//! One conversation step with one provider and one credential: send, stream, put the reply together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_credentials::Kind;
use nexus_net::{BaseUrl, Net, NetError, Reach, Request, Response};
use nexus_protocol::sse::{Decoder as SseDecoder, Frame};
use secrecy::SecretString;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::provider::{self, Wire};
use crate::refusal::{self, Who};
use crate::{Conversation, Model, ModelError, ModelName, ModelReply, ReplySink, anthropic, openai};

/// How much of a refusal is looked at.
const MAX_REFUSAL_LEN: usize = 64 * 1024;
/// Largest reply of a server that does not stream.
const MAX_WHOLE_SIZE: usize = 16 * 1024 * 1024;
/// Times a request is worded anew because the server does not know a word of it.
const REWORDINGS: usize = 2;

/// Which model at which address.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The model's name for the ledger.
    pub name: ModelName,
    /// The format it speaks.
    pub wire: Wire,
    pub base: BaseUrl,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// What is known of its dialect; clones share it.
    dialect: Arc<openai::Dialect>,
}

impl Endpoint {
    /// Describes a model at an address.
    pub fn new(name: ModelName, wire: Wire, base: BaseUrl, timeouts: Timeouts) -> Self {
        // The provider's own servers want the new word, everybody else knows the old one.
        let dialect = openai::Dialect::new(name.provider == "openai" && base.host() == "api.openai.com");
        Self { name, wire, base, timeouts, dialect: Arc::new(dialect) }
    }

    /// Tells whether what is said to it stays on this machine.
    pub fn is_local(&self) -> bool {
        self.base.is_loopback()
    }
}

/// How long a provider may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the first piece of the reply.
    pub first_byte: Duration,
    /// Between two pieces.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { first_byte: Duration::from_secs(120), idle: Duration::from_secs(90) }
    }
}

/// A credential in use.
#[derive(Clone)]
pub struct Access {
    pub secret: SecretString,
    pub kind: Kind,
    /// Its name, as `service/account/credential`.
    pub pointer: String,
    /// Whether it is the login of another tool.
    pub is_tool_login: bool,
}

impl fmt::Debug for Access {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Access").field("pointer", &self.pointer).finish_non_exhaustive()
    }
}

/// One model with one credential. Tries once; see [`crate::Chain`] for more patience.
#[derive(Debug, Clone)]
pub struct Client {
    net: Net,
    endpoint: Endpoint,
    access: Option<Access>,
}

impl Client {
    /// Makes a client; nothing is sent.
    pub fn new(net: Net, endpoint: Endpoint, access: Option<Access>) -> Self {
        Self { net, endpoint, access }
    }

    async fn converse(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut rewordings = 0;
        loop {
            let words = match self.endpoint.wire {
                Wire::Anthropic => anthropic::request(&self.endpoint.name.model, conversation),
                Wire::OpenAi => {
                    openai::request(&self.endpoint.name.model, conversation, &self.endpoint.dialect)
                }
            };
            let answer = self.send(&words).await?;
            if answer.is_success() {
                return self.read(answer, conversation, sink).await;
            }
            let status = answer.status();
            let retry_after = refusal::retry_after(&answer);
            let text = answer.text_start(MAX_REFUSAL_LEN).await.unwrap_or_default();
            if rewordings < REWORDINGS
                && status == 400
                && self.endpoint.wire == Wire::OpenAi
                && self.endpoint.dialect.learn(&text)
            {
                rewordings += 1;
                continue;
            }
            return Err(refusal::of_status(status, retry_after, &text, &self.who()));
        }
    }

    async fn send(&self, words: &Value) -> Result<Response, ModelError> {
        let path = provider::chat_path(&self.endpoint.name.provider, self.endpoint.wire);
        let address = provider::address(&self.endpoint.base, path);
        let request = Request::post_json(address, words)
            .map_err(|error| self.rejected(error.to_string()))?
            .header("accept", "text/event-stream")
            .deadline(self.endpoint.timeouts.first_byte)
            .idle(self.endpoint.timeouts.first_byte);
        let request = match (self.endpoint.wire, &self.access) {
            (Wire::Anthropic, access) => anthropic::headers(request, access.as_ref()),
            (Wire::OpenAi, Some(access)) => request.bearer(&access.secret),
            (Wire::OpenAi, None) => request,
        };
        let reach = Reach::Configured(self.endpoint.base.clone());
        self.net.send(request, &reach).await.map_err(|error| self.trouble(&error))
    }

    async fn read(
        &self,
        answer: Response,
        conversation: &Conversation,
        sink: ReplySink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let is_whole = answer.header("content-type").is_some_and(|kind| kind.contains("application/json"));
        match self.endpoint.wire {
            Wire::Anthropic => self.stream(answer, anthropic::Decoder::default(), sink).await,
            Wire::OpenAi => {
                let mut decoder = openai::Decoder::new(conversation);
                if !is_whole {
                    return self.stream(answer, decoder, sink).await;
                }
                let body = answer.bytes(MAX_WHOLE_SIZE).await.map_err(|error| self.trouble(&error))?;
                let data = String::from_utf8_lossy(&body).into_owned();
                decoder.take(&Frame { data, ..Frame::default() }, sink, &self.who())?;
                decoder.finish(&self.who())
            }
        }
    }

    async fn stream(
        &self,
        mut answer: Response,
        mut decoder: impl Decode,
        sink: ReplySink<'_>,
    ) -> Result<ModelReply, ModelError> {
        tracing::trace!("its answer is read");
        let who = self.who();
        let mut frames = SseDecoder::new();
        let mut patience = self.endpoint.timeouts.first_byte;
        loop {
            let piece = match tokio::time::timeout(patience, answer.chunk()).await {
                Ok(Ok(piece)) => piece,
                Ok(Err(error)) => return Err(self.broken(&error)),
                Err(_) => {
                    let reason = format!("no data for {} ms", patience.as_millis());
                    return Err(ModelError::TimedOut { provider: who.provider, reason });
                }
            };
            patience = self.endpoint.timeouts.idle;
            let Some(piece) = piece else { break };
            frames.push(&piece).map_err(|error| broken_off(&who, &error.to_string()))?;
            while let Some(event) = frames.next_frame() {
                if decoder.take(&event, sink, &who)? {
                    // The rest is the end of the stream; reading it lets the connection be used again.
                    let _ = tokio::time::timeout(Duration::from_millis(50), answer.chunk()).await;
                    return decoder.finish(&who);
                }
            }
        }
        if let Ok(Some(event)) = frames.finish() {
            decoder.take(&event, sink, &who)?;
        }
        decoder.finish(&who)
    }

    fn who(&self) -> Who {
        Who {
            provider: self.endpoint.name.provider.clone(),
            pointer: self.access.as_ref().map(|access| access.pointer.clone()),
            is_tool_login: self.access.as_ref().is_some_and(|access| access.is_tool_login),
        }
    }

    fn rejected(&self, reason: String) -> ModelError {
        ModelError::Rejected { provider: self.endpoint.name.provider.clone(), reason }
    }

    /// What trouble before the reply means.
    fn trouble(&self, error: &NetError) -> ModelError {
        let (provider, reason) = (self.endpoint.name.provider.clone(), error.to_string());
        match error {
            NetError::TimedOut { .. } => ModelError::TimedOut { provider, reason },
            NetError::Unresolved { .. } | NetError::Unreachable { .. } | NetError::BrokenOff { .. } => {
                ModelError::Unavailable { provider, reason, retry_after: None }
            }
            NetError::BadAddress { .. }
            | NetError::Kept { .. }
            | NetError::OtherHost { .. }
            | NetError::TooManyRedirects { .. }
            | NetError::TooLong { .. }
            | NetError::Client { .. } => ModelError::Rejected { provider, reason },
        }
    }

    /// What trouble in the middle of the reply means.
    fn broken(&self, error: &NetError) -> ModelError {
        let (provider, text) = (self.endpoint.name.provider.clone(), error.to_string());
        match error {
            NetError::TimedOut { .. } => ModelError::TimedOut { provider, reason: text },
            NetError::BrokenOff { reason, .. } => ModelError::BrokenOff { provider, reason: reason.clone() },
            _ => ModelError::BrokenOff { provider, reason: text },
        }
    }
}

#[async_trait]
impl Model for Client {
    fn name(&self) -> ModelName {
        self.endpoint.name.clone()
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        // Dropping the exchange closes its socket: the provider stops, and stops charging.
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::Cancelled),
            reply = self.converse(conversation, sink) => reply,
        }
    }
}

/// Puts a reply together from a provider's events.
pub(crate) trait Decode: Send {
    /// Takes an event; returns whether the reply is complete.
    fn take(&mut self, event: &Frame, sink: ReplySink<'_>, who: &Who) -> Result<bool, ModelError>;

    /// Returns the reply, if its end has come.
    fn finish(self, who: &Who) -> Result<ModelReply, ModelError>;
}

pub(crate) fn broken_off(who: &Who, reason: &str) -> ModelError {
    ModelError::BrokenOff { provider: who.provider.clone(), reason: reason.to_owned() }
}

/// Reads a tool call's arguments. What does not parse is kept as text: the call then reaches the agent,
/// which tells the model what is wrong with it, instead of ending the turn.
pub(crate) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Returns arguments as providers accept them in a history: always an object.
pub(crate) fn as_object(input: &Value) -> Value {
    match input {
        Value::Object(_) => input.clone(),
        other => serde_json::json!({ "unparsed": other }),
    }
}
