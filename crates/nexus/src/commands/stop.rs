//! `nexus stop`: asks the daemon to end and waits until it has.

use std::time::{Duration, Instant};

use clap::Args;
use nexus_workspace::Layout;
use rustix::process::{Pid, Signal};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output;

/// Longest wait: the daemon drains for 30 s, then cancels what is left.
const PATIENCE: Duration = Duration::from_secs(45);
/// When the wait is explained.
const SOON: Duration = Duration::from_secs(1);
/// Pause between looks at the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Arguments of `nexus stop`.
#[derive(Debug, Args)]
#[command(after_help = "\
Turns in progress get up to 30 seconds to finish; a second `nexus stop` ends them at once. Interrupted work
continues at the next start.

Example:
  nexus stop --workspace ~/nexus")]
pub(crate) struct Arguments {}

/// Runs `nexus stop`.
pub(crate) fn run(context: &Context, _arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let pid = daemon(context, &layout)?;
    end(&layout, pid)?;
    output::line(&format!("stopped process {}", pid.as_raw_pid()))
}

/// Returns the process that holds the workspace.
pub(crate) fn daemon(context: &Context, layout: &Layout) -> Result<Pid, Failure> {
    nexus_base::lock::holder(&layout.lock())
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw)
        .ok_or_else(|| context.not_running(layout))
}

/// Ends the daemon gracefully and waits until it has let go of the workspace.
pub(crate) fn end(layout: &Layout, pid: Pid) -> Outcome {
    match rustix::process::kill_process(pid, Signal::TERM) {
        // It went by itself in between.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => {
            return Err(Failure::new(format!("ending process {}: {error}", pid.as_raw_pid()))
                .hint("the daemon may belong to another user"));
        }
    }
    let began = Instant::now();
    let mut explained = false;
    let raw = u32::try_from(pid.as_raw_pid()).ok();
    while nexus_base::lock::holder(&layout.lock()).is_some_and(|holder| Some(holder) == raw) {
        if !explained && began.elapsed() > SOON {
            explained = true;
            output::remark("waiting up to 30 s for turns in progress; a second nexus stop ends them now");
        }
        if began.elapsed() > PATIENCE {
            return Err(Failure::new(format!(
                "process {} still holds the workspace after {} s",
                pid.as_raw_pid(),
                PATIENCE.as_secs()
            ))
            .hint(format!(
                "nexus logs shows what it is doing; kill -9 {} is safe and loses nothing",
                pid.as_raw_pid()
            )));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
