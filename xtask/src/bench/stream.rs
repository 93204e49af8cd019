//! From the provider's first token to the client's eyes, and from an abort to the provider's socket.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nexus_base::id::SessionLabel;
use nexus_protocol::bus::BusBody;
use nexus_protocol::chat::ChatAbort;
use nexus_testkit::model::{Gate, ModelServer, Reply};
use tokio::runtime::Runtime;

use super::{Options, millis, model};
use crate::conversation::message;
use crate::measure::{Report, Samples};

/// Replies before the clock counts.
const WARM_UP: usize = 5;
/// Replies that are timed.
const ROUNDS: usize = 60;
/// Aborts that are timed.
const ABORTS: usize = 20;
/// Events of the wire format before the first piece of text: the message and its block begin.
const BEFORE_TEXT: usize = 2;
/// Where everything is said.
const SESSION: &str = "dm:bench-stream";
/// Longest anything may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures the first piece of text of each reply, and aborts.
pub(crate) fn measure(binary: &Path, _options: &Options, tokio: &Runtime, report: &mut Report) -> Result<()> {
    println!("first tokens …");
    let server = ModelServer::start();
    let mut instance = model::instance(binary, &server)?;
    instance.start()?;
    let client = instance.client()?;
    let (tokens, aborts) = tokio.block_on(async {
        let mut events = client.events(None, None).await.context("opening the event stream")?;
        let mut tokens = Samples::default();
        for round in 0..WARM_UP + ROUNDS {
            server.script([Reply::text("one two three four five six seven eight").pieces(8)]);
            client.send(message("count", Some(SESSION))).await.context("sending a message")?;
            let mut first = None;
            let ended = async {
                loop {
                    match events.next().await.context("reading events")?.map(|event| event.body) {
                        Some(BusBody::Delta { .. }) if first.is_none() => first = Some(Instant::now()),
                        Some(BusBody::Quiescent { .. }) => return anyhow::Ok(()),
                        Some(_) => {}
                        None => bail!("the event stream ended"),
                    }
                }
            };
            tokio::time::timeout(PATIENCE, ended).await.context("no reply in time")??;
            let asked = server.asked();
            let sent = asked.last().and_then(|asked| asked.sent_at().get(BEFORE_TEXT).copied());
            let (seen, sent) = (first.context("no token came")?, sent.context("nothing was sent")?);
            if round >= WARM_UP {
                tokens.push(seen.saturating_duration_since(sent));
            }
        }
        let mut aborts = Samples::default();
        for _ in 0..ABORTS {
            let gate = Gate::new();
            server.script([Reply::text("one two three four").pieces(4).hold_after(4, &gate)]);
            let accepted = client.send(message("count", Some(SESSION))).await.context("sending a message")?;
            let reached = gate.clone();
            tokio::task::spawn_blocking(move || reached.wait_reached())
                .await
                .context("waiting at the gate")?;
            let number = server.asked().len() - 1;
            let started = Instant::now();
            let abort = ChatAbort { session: Some(SessionLabel::new(SESSION)), workers: false };
            client.abort(&abort).await.context("aborting")?;
            // The testkit's own wait looks too seldom for a measurement.
            while !server.asked().get(number).is_some_and(|asked| asked.hung_up()) {
                anyhow::ensure!(started.elapsed() < PATIENCE, "the provider's socket stays open");
                std::thread::sleep(Duration::from_micros(200));
            }
            aborts.push(started.elapsed());
            client.wait(&accepted.request_id, PATIENCE).await.context("waiting for the end")?;
        }
        anyhow::Ok((tokens, aborts))
    })?;
    report.times("provider's first token → client", "≤ 5 ms", &tokens, millis(5));
    report.times("chat.abort → provider's socket closed", "≤ 100 ms", &aborts, millis(100));
    instance.stop()?;
    Ok(())
}
