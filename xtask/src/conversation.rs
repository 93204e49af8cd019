//! Talking to a daemon from a bench: the first conversation, and plain turns with their times.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nexus_base::id::{RequestId, SessionLabel};
use nexus_client::{Client, EventStream};
use nexus_protocol::bus::BusBody;
use nexus_protocol::chat::{ChatSend, QueueMode};

/// A message that is answered in one turn without a tool.
pub(crate) const PLAIN: &str = "what can you do?";

/// Longest a turn may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds a message.
pub(crate) fn message(text: &str, session: Option<&str>) -> ChatSend {
    ChatSend {
        message: text.to_owned(),
        session: session.map(SessionLabel::new),
        idempotency_key: None,
        project: None,
        queue_mode: Some(QueueMode::Followup),
        model: None,
    }
}

/// Says something and waits until everything it led to has come to rest.
pub(crate) async fn ask(client: &Client, text: &str, session: Option<&str>) -> Result<RequestId> {
    let accepted = client.send(message(text, session)).await.context("sending a message")?;
    let waited = client.wait(&accepted.request_id, PATIENCE).await.context("waiting for a reply")?;
    ensure!(waited.quiescent, "no rest after {PATIENCE:?} for {text:?}");
    ensure!(!waited.replies.is_empty(), "no reply to {text:?}");
    Ok(accepted.request_id)
}

/// Goes through the first conversation.
pub(crate) async fn onboard(client: &Client) -> Result<()> {
    nexus_testkit::witness::onboard(client).await.context("the first conversation")
}

/// Times of one plain turn.
#[derive(Debug, Clone)]
pub(crate) struct TurnTimes {
    /// Until the message was acknowledged.
    pub(crate) acknowledged: Duration,
    /// Until the reply was readable.
    pub(crate) answered: Duration,
    /// The request, for a look at its stages.
    pub(crate) request: RequestId,
}

/// Sends one plain message and times acknowledgement and reply.
pub(crate) async fn plain_turn(client: &Client, events: &mut EventStream) -> Result<TurnTimes> {
    let started = Instant::now();
    let accepted = client.send(message(PLAIN, None)).await.context("sending a message")?;
    let acknowledged = started.elapsed();
    let answered = async {
        loop {
            match events.next().await.context("reading events")? {
                Some(event) => match event.body {
                    BusBody::Reply { request_id, .. } if request_id == accepted.request_id => {
                        return Ok(started.elapsed());
                    }
                    _ => {}
                },
                None => bail!("the event stream ended"),
            }
        }
    };
    let answered = tokio::time::timeout(PATIENCE, answered).await.context("no reply in time")??;
    Ok(TurnTimes { acknowledged, answered, request: accepted.request_id })
}

/// Fills a workspace: `turns` plain turns over sixteen sessions at once.
pub(crate) async fn fill(client: &Client, turns: usize) -> Result<()> {
    const SESSIONS: usize = 16;
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..SESSIONS {
        let client = client.clone();
        let share = turns / SESSIONS + usize::from(lane < turns % SESSIONS);
        tasks.spawn(async move {
            let session = format!("dm:bench-{lane}");
            for _ in 0..share {
                ask(&client, PLAIN, Some(&session)).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a lane of the filling broke")??;
    }
    Ok(())
}
