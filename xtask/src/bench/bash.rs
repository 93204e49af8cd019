//! What the sandbox adds to a command: `true` bare and through `bash` of a worker's launch.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nexus_process::{Confinement, Environment, Helper, Launch, Network, SandboxProfile};
use tokio::runtime::Runtime;

use super::{Options, millis};
use crate::measure::{Report, Samples, show};

/// Runs before the clock counts; the first one finds the tier.
const WARM_UP: usize = 5;
/// What a call may cost over a bare one.
const BAR_MS: u64 = 10;

/// Measures a call of `true` with and without the sandbox.
pub(crate) fn measure(binary: &Path, options: &Options, tokio: &Runtime, report: &mut Report) -> Result<()> {
    println!("commands …");
    let folder = tempfile::tempdir().context("making a folder")?;
    let path = folder.path().canonicalize().context("finding the folder")?;
    let helper =
        Helper { program: binary.to_owned(), arguments: vec![nexus_process::HELPER_ARGUMENT.into()] };
    let profile = SandboxProfile::system().network(Network::Off).write(&path);
    let launch = |confinement: Confinement| {
        Launch::new("/bin/bash", &path, confinement)
            .arguments(["--noprofile", "--norc", "-c", "true"])
            .environment(Environment::clean().redirected(&path, &path))
            .helper(helper.clone())
    };
    let mut times = [Samples::default(), Samples::default()];
    for round in 0..WARM_UP + options.rounds {
        let confinements = [Confinement::Unsandboxed, Confinement::Sandbox(profile.clone())];
        for (samples, confinement) in times.iter_mut().zip(confinements) {
            let begun = Instant::now();
            let outcome = tokio.block_on(launch(confinement).run()).context("running a command")?;
            ensure!(outcome.succeeded(), "{}: {}", outcome.status, outcome.stderr.text());
            if round >= WARM_UP {
                samples.push(begun.elapsed());
            }
        }
    }
    let [bare, confined] = times;
    let tier = nexus_process::tier_with(&helper).map(|tier| tier.to_string()).unwrap_or_default();
    report.times("bash -c true, bare", "–", &bare, None);
    let bar = bare.p50() + millis(BAR_MS).unwrap_or_default();
    let shown = format!("≤ {} (bare + {BAR_MS} ms)", show(bar));
    report.times(&format!("bash -c true, sandbox ({tier})"), &shown, &confined, Some(bar));
    Ok(())
}
