//! What automations ask of the daemon around them: turns of their own, words in the runtime's name, and that others
//! hear of their episodes. The sessions and the way in are made of automations in turn, so these requests go
//! through a channel that is made before both.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_automation::ports::{Ask, Speak, Think, Thought};
use nexus_automation::{Episode, HookPoint, Occasion, RunError, Runner, Tell};
use nexus_models::Models;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::own_turn;
use crate::live_settings::LiveSettings;
use crate::pipeline::Pipeline;
use crate::sessions::Broker;

/// Provider name of the offline guide, which cannot think.
const GUIDE: &str = "nexus";
/// Requests that wait at most; whoever has one more waits, too.
const MAX_WAITING: usize = 256;

type Answer<T> = oneshot::Sender<Result<T, RunError>>;

enum Request {
    Turn { ask: Ask, answer: Answer<Thought> },
    Say { key: String, text: String, answer: Answer<()> },
    Episode(Episode),
}

/// The end that automations hold.
#[derive(Debug, Clone)]
pub(super) struct Requests {
    models: Models,
    sender: mpsc::Sender<Request>,
}

/// The other end; the daemon answers what comes out of it.
#[derive(Debug)]
pub struct PendingRequests(mpsc::Receiver<Request>);

/// Makes both ends.
pub(super) fn channel(models: Models) -> (Requests, PendingRequests) {
    let (sender, receiver) = mpsc::channel(MAX_WAITING);
    (Requests { models, sender }, PendingRequests(receiver))
}

impl Requests {
    /// Returns what is told of episodes.
    pub(super) fn of_episodes(&self) -> Tell {
        let sender = self.sender.clone();
        Box::new(move |episode| {
            if sender.try_send(Request::Episode(episode)).is_err() {
                tracing::warn!("automations not told of an episode: their queue is full");
            }
        })
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, RunError> {
        let (answer, answered) = oneshot::channel();
        let stopping = || RunError("the daemon is stopping".to_owned());
        self.sender.send(request(answer)).await.map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())?
    }
}

#[async_trait]
impl Think for Requests {
    fn has_model(&self) -> bool {
        self.models.name().provider != GUIDE
    }

    async fn take_turn(&self, ask: Ask) -> Result<Thought, RunError> {
        self.ask(|answer| Request::Turn { ask, answer }).await
    }
}

#[async_trait]
impl Speak for Requests {
    async fn say(&self, key: &str, text: &str) -> Result<(), RunError> {
        let (key, text) = (key.to_owned(), text.to_owned());
        self.ask(|answer| Request::Say { key, text, answer }).await
    }
}

/// Those who answer.
pub(super) struct Daemon {
    pub(super) runner: Runner,
    pub(super) settings: Arc<LiveSettings>,
    pub(super) broker: Broker,
    pub(super) pipeline: Arc<Pipeline>,
}

impl PendingRequests {
    /// Answers requests, each beside the others, until `stopped`; what is under way then is let go.
    pub(super) async fn answer(mut self, daemon: Daemon, stopped: CancellationToken) {
        let (daemon, mut under_way) = (Arc::new(daemon), JoinSet::new());
        loop {
            let request = tokio::select! {
                request = self.0.recv() => request,
                Some(_) = under_way.join_next() => continue,
                () = stopped.cancelled() => break,
            };
            match request {
                Some(Request::Episode(episode)) => daemon.tell(&episode),
                Some(request) => {
                    let daemon = Arc::clone(&daemon);
                    under_way.spawn(async move { daemon.carry_out(request).await });
                }
                None => return,
            }
        }
        // Episodes that ended with the daemon are still told of.
        self.0.close();
        while let Some(request) = self.0.recv().await {
            if let Request::Episode(episode) = request {
                daemon.tell(&episode);
            }
        }
    }
}

impl Daemon {
    async fn carry_out(&self, request: Request) {
        match request {
            Request::Turn { ask, answer } => {
                let thought = own_turn::take(&self.broker, self.settings.persona_name(), ask).await;
                // Whoever asked may have run out of time meanwhile.
                drop(answer.send(thought));
            }
            Request::Say { key, text, answer } => {
                let said = self.pipeline.accept_system("boot", &key, &text).await;
                drop(answer.send(said.map(drop).map_err(|error| RunError(error.to_string()))));
            }
            Request::Episode(episode) => self.tell(&episode),
        }
    }

    fn tell(&self, episode: &Episode) {
        let mut hooks = vec![HookPoint::EpisodeCreated];
        hooks.extend(episode.retained.then_some(HookPoint::EpisodeRetained));
        for hook in hooks.into_iter().filter(|hook| self.runner.waits_at(*hook)) {
            let data = json!({"episode": episode.id, "events": episode.events, "retained": episode.retained});
            let session = Some(episode.session.clone());
            self.runner.fire_detached(hook, Occasion { session, data, ..Occasion::default() });
        }
    }
}
