//! Patience and second choices: a passing trouble is tried again, then the next credential, then the next
//! model. What was tried is in the error when nothing worked.

mod keys;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use nexus_net::Net;
use tokio_util::sync::CancellationToken;

use self::keys::Key;
pub use self::keys::{Keys, Learned, MayUse};
use crate::error::Tried;
use crate::{
    Access, Client, Conversation, Endpoint, Model, ModelError, ModelEvent, ModelName, ModelReply, ReplySink,
};

/// Longest pause between two tries.
const MAX_PAUSE: Duration = Duration::from_secs(8);
/// Longest wait a provider's wish is granted when there is somebody else to ask.
const SHORT_WAIT: Duration = Duration::from_secs(2);
/// Longest list in an error.
const MAX_TRIED: usize = 12;

/// How often and how soon something is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Tries beyond the first, per credential.
    pub retries: u32,
    /// Pause before the first of them; doubled each time, with jitter.
    pub first_pause: Duration,
    /// Longest wait a provider's wish is granted when there is nobody else to ask.
    pub longest_wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { retries: 2, first_pause: Duration::from_millis(500), longest_wait: Duration::from_secs(20) }
    }
}

/// One model of a chain.
#[derive(Debug, Clone)]
pub struct Link {
    /// The model and its address.
    pub endpoint: Endpoint,
    /// Whose credentials it takes.
    pub needs: Needs,
}

/// Whose credentials a model takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// None, as servers on this machine.
    Nothing,
    /// One of this service; without one it is not asked.
    Service(String),
    /// One of this service if there is any.
    MaybeService(String),
}

/// Models in the order they are tried.
pub struct Chain {
    net: Net,
    links: Vec<Link>,
    keys: Keys,
    patience: Patience,
}

impl fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Chain").field("links", &self.links).finish_non_exhaustive()
    }
}

/// What to do after a failure.
enum Next {
    Credential,
    Model,
    /// The same again after a pause.
    Again(Duration),
    /// Nothing would change it, or words were shown that cannot be taken back.
    GiveUp,
}

impl Chain {
    /// Makes a chain; `links` has at least one.
    pub fn new(net: Net, links: Vec<Link>, keys: Keys, patience: Patience) -> Self {
        Self { net, links, keys, patience }
    }

    /// Returns the models in the order they are tried.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    async fn try_link(
        &self,
        link: &Link,
        is_last: bool,
        talk: &Talk<'_>,
        tried: &mut Vec<Tried>,
    ) -> Result<Option<ModelReply>, ModelError> {
        let keys = match self.keys.of(&link.needs).await {
            Ok(keys) => keys,
            Err(outcome) => {
                note(tried, link, None, outcome);
                return Ok(None);
            }
        };
        let count = keys.len();
        for (number, key) in keys.into_iter().enumerate() {
            let access = match self.keys.open(&key).await {
                Ok(access) => access,
                Err(outcome) => {
                    note(tried, link, key.pointer(), outcome);
                    continue;
                }
            };
            let alone = is_last && number + 1 == count;
            match self.try_key(link, &key, access, alone, talk, tried).await? {
                Outcome::Reply(reply) => return Ok(Some(reply)),
                Outcome::NextCredential => {}
                Outcome::NextModel => return Ok(None),
            }
        }
        Ok(None)
    }

    async fn try_key(
        &self,
        link: &Link,
        key: &Key,
        access: Option<Access>,
        alone: bool,
        talk: &Talk<'_>,
        tried: &mut Vec<Tried>,
    ) -> Result<Outcome, ModelError> {
        let client = Client::new(self.net.clone(), link.endpoint.clone(), access);
        let mut count = 0;
        loop {
            let error = match talk.ask(&client).await {
                Ok(reply) => {
                    self.keys.worked(key).await;
                    return Ok(Outcome::Reply(reply));
                }
                Err(error) => error,
            };
            let next = if talk.has_shown() { Next::GiveUp } else { self.decide(&error, count, alone) };
            match next {
                Next::GiveUp => {
                    self.keys.failed(key, &error).await;
                    return Err(error);
                }
                Next::Again(pause) => {
                    count += 1;
                    tracing::debug!(model = %link.endpoint.name, %error, ?pause, count, "a model is asked again");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = talk.cancel.cancelled() => return Err(ModelError::Cancelled),
                    }
                }
                Next::Credential | Next::Model => {
                    tracing::warn!(model = %link.endpoint.name, %error, code = error.code(), "model call failed");
                    self.keys.failed(key, &error).await;
                    note(tried, link, key.pointer(), error.to_string());
                    talk.remember(error);
                    let credential = matches!(next, Next::Credential);
                    return Ok(if credential { Outcome::NextCredential } else { Outcome::NextModel });
                }
            }
        }
    }

    /// Decides what follows the `count`-th retry of one credential; `alone` when there is nobody else.
    fn decide(&self, error: &ModelError, count: u32, alone: bool) -> Next {
        let pause = jittered(self.patience.first_pause.saturating_mul(1 << count.min(10))).min(MAX_PAUSE);
        let more = count < self.patience.retries;
        let granted =
            if alone { self.patience.longest_wait } else { SHORT_WAIT.min(self.patience.longest_wait) };
        match error {
            ModelError::Cancelled | ModelError::ContextTooLong => Next::GiveUp,
            ModelError::RateLimited { retry_after: Some(wait), .. } if more && *wait <= granted => {
                Next::Again((*wait).max(pause))
            }
            ModelError::RateLimited { retry_after: None, .. } if more && alone => Next::Again(pause),
            ModelError::RateLimited { .. }
            | ModelError::Unauthorized { .. }
            | ModelError::NoCredit { .. } => Next::Credential,
            ModelError::Unavailable { retry_after: Some(wait), .. } if more && *wait <= granted => {
                Next::Again((*wait).max(pause))
            }
            ModelError::Unavailable { retry_after: None, .. } | ModelError::BrokenOff { .. } if more => {
                Next::Again(pause)
            }
            // Waiting that long twice is worse than asking somebody else.
            ModelError::TimedOut { .. } if more && count == 0 && alone => Next::Again(pause),
            // Another credential meets the same server.
            ModelError::Unavailable { .. }
            | ModelError::BrokenOff { .. }
            | ModelError::TimedOut { .. }
            | ModelError::Rejected { .. }
            | ModelError::Exhausted { .. } => Next::Model,
        }
    }
}

enum Outcome {
    Reply(ModelReply),
    NextCredential,
    NextModel,
}

/// One request on its way through the chain.
struct Talk<'a> {
    conversation: &'a Conversation,
    sink: ReplySink<'a>,
    cancel: &'a CancellationToken,
    shown: AtomicBool,
    /// What went wrong last.
    last: Mutex<Option<ModelError>>,
}

impl Talk<'_> {
    fn remember(&self, error: ModelError) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    async fn ask(&self, client: &Client) -> Result<ModelReply, ModelError> {
        let sink = |event: ModelEvent| {
            // Reasoning is kept apart and may begin anew; words that were read may not.
            if matches!(event, ModelEvent::TextDelta(_)) {
                self.shown.store(true, Ordering::Relaxed);
            }
            (self.sink)(event);
        };
        client.reply(self.conversation, &sink, self.cancel).await
    }

    fn has_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Model for Chain {
    fn name(&self) -> ModelName {
        self.links.first().map_or_else(
            || ModelName { provider: "none".to_owned(), model: "none".to_owned() },
            |link| link.endpoint.name.clone(),
        )
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        tracing::trace!("a model is asked");
        let talk = Talk { conversation, sink, cancel, shown: AtomicBool::new(false), last: Mutex::default() };
        let mut tried = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            let is_last = number + 1 == self.links.len();
            if let Some(mut reply) = self.try_link(link, is_last, &talk, &mut tried).await? {
                reply.model = Some(link.endpoint.name.clone());
                return Ok(reply);
            }
        }
        // A list of one says less than the thing itself.
        let last = talk.last.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (last, tried.len()) {
            (Some(only), 1) => Err(only),
            (_, _) => Err(ModelError::Exhausted { tried }),
        }
    }
}

fn note(tried: &mut Vec<Tried>, link: &Link, pointer: Option<String>, outcome: String) {
    if tried.len() < MAX_TRIED {
        tried.push(Tried { model: link.endpoint.name.to_string(), pointer, outcome });
    }
}

/// Spreads retries of several turns apart: three quarters to five quarters of the pause.
fn jittered(pause: Duration) -> Duration {
    let random = nexus_base::id::random_hex(1).ok().and_then(|hex| u32::from_str_radix(&hex, 16).ok());
    pause * (192 + random.unwrap_or(128) / 2) / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_around_the_pause() {
        for _ in 0..50 {
            let pause = jittered(Duration::from_millis(1000));
            assert!((750..=1250).contains(&pause.as_millis()), "{pause:?}");
        }
    }
}
