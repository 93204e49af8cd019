//! Every pass of every failpoint: a recorded conversation says where the daemon can die, and then
//! it dies there, once for each place.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nexus_base::failpoint::{LOG_VARIABLE, VARIABLE};
use nexus_testkit::witness::{Ask, Verdict, Witness};
use tokio::runtime::Runtime;

use crate::command::{self, Profile};
use crate::instance::Instance;

/// How long recovered work may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the soak and prints what it found.
pub(crate) fn run(passes: usize, binary: Option<&Path>) -> Result<()> {
    let binary = command::nexus(binary, Profile::Debug)?;
    let tokio =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting tokio")?;
    let places = record(&binary, &tokio)?;
    let total: usize = places.values().map(|count| (*count).min(passes)).sum();
    println!("soak failpoints: {} names, {total} places to die at", places.len());
    ensure!(!places.is_empty(), "no failpoint was passed; is this a debug build?");

    let began = Instant::now();
    let mut verdict = Verdict::default();
    let mut survived = 0;
    for (name, count) in &places {
        for pass in 1..=(*count).min(passes) {
            let place = format!("{name}@{pass}");
            let found = die_at(&binary, &tokio, &place).with_context(|| format!("dying at {place}"))?;
            match found {
                None => println!("  {place}: not reached this time"),
                Some(found) if found.is_clean() => survived += 1,
                Some(found) => {
                    println!("  {place}: {found:#?}");
                    verdict.extend(found);
                }
            }
        }
    }
    println!("{survived} of {total} deaths survived without a trace, {:.0} s", began.elapsed().as_secs_f64());
    println!("lost {}  doubled {}  stuck {}", verdict.lost.len(), verdict.doubled.len(), verdict.stuck.len());
    ensure!(verdict.is_clean(), "the soak found something");
    Ok(())
}

/// Lists the failpoints that init, start, onboarding and a conversation pass, and how often.
fn record(binary: &Path, tokio: &Runtime) -> Result<BTreeMap<String, usize>> {
    let mut instance = Instance::bare(binary)?;
    let log = instance.log().with_extension("failpoints");
    instance.set(LOG_VARIABLE, &log.to_string_lossy());
    let mut witness = Witness::new(&instance.workspace());
    tokio.block_on(live(&mut instance, &mut witness))?;
    instance.stop()?;
    let mut places = BTreeMap::new();
    for name in std::fs::read_to_string(&log).context("reading the passed failpoints")?.lines() {
        *places.entry(name.to_owned()).or_insert(0) += 1;
    }
    Ok(places)
}

/// Lives through the same conversation with one death in it; nothing when the place was not reached.
fn die_at(binary: &Path, tokio: &Runtime, place: &str) -> Result<Option<Verdict>> {
    let mut instance = Instance::bare(binary)?;
    instance.set(VARIABLE, place);
    let mut witness = Witness::new(&instance.workspace());
    let mut died = tokio.block_on(live(&mut instance, &mut witness)).is_err();
    // What is passed on the way down only is died at there.
    died |= instance.stop().is_err() || instance.was_killed();
    instance.kill()?;
    instance.unset(VARIABLE);
    tokio.block_on(live(&mut instance, &mut witness)).context("after the death")?;
    let client = instance.client()?;
    let verdict = tokio.block_on(async {
        let mut verdict = witness.judge(&client, PATIENCE).await?;
        verdict.extend(witness.judge_rest(&client).await?);
        anyhow::Ok(verdict)
    })?;
    instance.stop()?;
    Ok(died.then_some(verdict))
}

/// Init, start, first conversation, then one message of each kind; goes on where a death left it.
async fn live(instance: &mut Instance, witness: &mut Witness) -> Result<()> {
    const LIFE: [Ask; 6] =
        [Ask::Onboarding(0), Ask::Onboarding(1), Ask::Onboarding(2), Ask::Plain, Ask::Command, Ask::Note];
    let output = instance.nexus(["init"]).output().context("starting nexus init")?;
    ensure!(output.status.success(), "nexus init ended with {}", output.status);
    instance.start()?;
    let client = instance.client()?;
    witness.repeat_unacknowledged(&client).await.context("saying it again")?;
    for said in witness.said() {
        let request = said.request.as_ref().context("everything said is acknowledged")?;
        ensure!(client.wait(request, PATIENCE).await?.quiescent, "{} does not come to rest", said.key);
    }
    for ask in LIFE.into_iter().skip(witness.said().len()) {
        let request = witness.say(&client, ask, None).await.context("saying something")?;
        ensure!(client.wait(&request, PATIENCE).await?.quiescent, "{ask:?} does not come to rest");
    }
    Ok(())
}
