//! Random kills: a conversation with workers goes on in three sessions while the daemon is killed
//! again and again. Afterwards every acknowledged message has its reply, once.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use nexus_client::Client;
use nexus_testkit::witness::{Ask, Verdict, Witness};

use crate::command::{self, Profile};
use crate::conversation;
use crate::instance::Instance;
use crate::measure::{Samples, show};
use crate::random::Random;

/// Latest moment of a kill after the first message of its round.
const LATEST_KILL: Duration = Duration::from_millis(400);
/// Kills that come while the daemon is still starting, one in so many rounds.
const START_KILLS: u64 = 8;
/// How long recovered work may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);
const SESSIONS: [Option<&str>; 3] = [None, Some("dm:soak-a"), Some("dm:soak-b")];

/// Runs the soak and prints what it found.
pub(crate) fn run(rounds: usize, seed: Option<u64>, binary: Option<&Path>) -> Result<()> {
    let binary = command::nexus(binary, Profile::Release)?;
    let seed = seed.unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_millis() as u64)
    });
    println!("soak crash: {rounds} kills, seed {seed}");
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting tokio")?;
    let mut random = Random::new(seed);
    let mut instance = Instance::new(&binary)?;
    instance.start()?;
    tokio.block_on(conversation::onboard(&instance.client()?))?;

    let mut witness = Witness::new(&instance.workspace());
    let mut verdict = Verdict::default();
    let mut restarts = Samples::default();
    let mut repeated = 0;
    let began = Instant::now();
    for round in 1..=rounds {
        let client = instance.client()?;
        let moment = Duration::from_micros(random.below(LATEST_KILL.as_micros() as u64));
        tokio.block_on(talk_until(&client, &mut witness, &mut random, moment));
        instance.kill()?;
        if random.below(START_KILLS) == 0 {
            instance.spawn(None)?;
            std::thread::sleep(Duration::from_micros(random.below(60_000)));
            instance.kill()?;
        }
        restarts.push(instance.start().with_context(|| format!("restart {round}, seed {seed}"))?);
        let found = tokio.block_on(async {
            let client = instance.client()?;
            repeated += witness.repeat_unacknowledged(&client).await.context("saying it again")?;
            anyhow::Ok(witness.judge(&client, PATIENCE).await.context("judging")?)
        })?;
        if !found.is_clean() {
            println!("round {round}: {found:#?}");
        }
        verdict.extend(found);
        if round % 20 == 0 {
            println!(
                "  {round} kills, {} messages, {:.0} s",
                witness.said().len(),
                began.elapsed().as_secs_f64()
            );
        }
    }
    verdict.extend(tokio.block_on(witness.judge_rest(&instance.client()?)).context("judging the whole")?);
    instance.stop()?;

    let work: Vec<_> = witness.said().iter().filter(|said| said.ask != Ask::Plain).collect();
    let done = work.iter().filter(|said| witness.times_done(said) == 1).count();
    println!(
        "{} messages acknowledged ({repeated} only when said again), {} pieces of work ({done} done, {} interrupted), \
         restart p50 {} p99 {}",
        witness.said().len(),
        work.len(),
        work.len() - done,
        show(restarts.p50()),
        show(restarts.p99()),
    );
    println!("lost {}  doubled {}  stuck {}", verdict.lost.len(), verdict.doubled.len(), verdict.stuck.len());
    if !verdict.is_clean() {
        println!("{verdict:#?}\nkept for a look: {}", instance.keep()?.display());
    }
    ensure!(verdict.is_clean(), "the soak found something; repeat it with --seed {seed}");
    Ok(())
}

/// Talks at random until the moment of the kill has come.
async fn talk_until(client: &Client, witness: &mut Witness, random: &mut Random, moment: Duration) {
    let talking = async {
        loop {
            let session = SESSIONS[random.below(SESSIONS.len() as u64) as usize];
            let ask = match random.below(6) {
                0 | 1 => Ask::Command,
                2 => Ask::Note,
                _ => Ask::Plain,
            };
            if witness.say(client, ask, session).await.is_err() {
                return;
            }
            let pause = Duration::from_micros(random.below(60_000));
            tokio::time::sleep(pause).await;
        }
    };
    // Dropping the future in the middle of a call is what a client sees when the daemon dies.
    let _ = tokio::time::timeout(moment, talking).await;
}
