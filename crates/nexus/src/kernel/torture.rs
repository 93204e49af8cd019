//! `nexus kernel torture`: every case, its verdict, and an exit code for scripts.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use nexus_kernel::torture;

use crate::failure::{Failure, Outcome};
use crate::output;

/// Arguments of `nexus kernel torture`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each case gets its own run folder, which is removed afterwards; yours is not touched. Exit code 1 if
any case fails.

Examples:
  nexus kernel torture
  nexus kernel torture --repeat 100
  nexus kernel torture --only link --dir /var/tmp")]
pub(crate) struct Arguments {
    /// Run all cases this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Run only cases whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Create the temporary folders here
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

/// Runs `nexus kernel torture`.
pub(super) fn run(arguments: &Arguments) -> Outcome {
    let started = Instant::now();
    let (mut passed, mut failed) = (0, 0);
    for _ in 0..arguments.repeat {
        let mut told = Ok(());
        torture::run(&arguments.only, arguments.dir.as_deref(), |verdict| {
            let line = match &verdict.failure {
                None => {
                    passed += 1;
                    format!("PASS  {}", verdict.name)
                }
                Some(why) => {
                    failed += 1;
                    format!("FAIL  {}: {why}", verdict.name)
                }
            };
            if told.is_ok() {
                told = output::line(&line);
            }
        });
        told?;
    }
    output::line(&format!("{passed} passed, {failed} failed in {:.1} s", started.elapsed().as_secs_f64()))?;
    if failed > 0 {
        return Err(Failure::new(format!("{failed} cases failed")));
    }
    // A filter that matches nothing proves nothing.
    if passed == 0 {
        Err(Failure::new(format!("no case name contains {:?}", arguments.only)))
    } else {
        Ok(())
    }
}
