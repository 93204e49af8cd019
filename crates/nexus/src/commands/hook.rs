//! `nexus hook`: what a bound harness calls at each moment of its sessions.

use std::io::Read as _;

use clap::Args;
use nexus_base::clock::Timestamp;
use nexus_bindings::{Clock, Harness, HookCall, HookEvent, Surroundings};

use super::bindings;
use crate::context::Context;
use crate::failure::{Failure, Outcome, chain};
use crate::output;

/// Most of its input that is read, in bytes.
const LONGEST: u64 = 32 * 1024 * 1024;

/// Arguments of `nexus hook`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads the harness's JSON on standard input and answers in the harness's own shape. Whatever goes wrong, it ends
with exit code 0 and says nothing, so that no session stops because of it.

Example:
  nexus hook session_start --harness cursor < payload.json")]
pub(crate) struct Arguments {
    /// The moment: session_start, user_message, subagent_spawn, subagent_complete, pre_tool_use,
    /// post_tool_use, session_end, context_compact, turn_end
    #[arg(value_parser = parse_event)]
    event: HookEvent,
    /// The harness that calls
    #[arg(long, value_parser = parse_harness)]
    harness: Harness,
    /// Refuse a tool call when it cannot be decided, instead of letting it pass
    #[arg(long)]
    fail_closed: bool,
}

/// Runs `nexus hook`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let mut input = Vec::new();
    if std::io::stdin().lock().take(LONGEST).read_to_end(&mut input).is_err() {
        return Ok(());
    }
    let here = std::env::current_dir().unwrap_or_default();
    let text = String::from_utf8_lossy(&input);
    let Some(call) = HookCall::read(arguments.harness, arguments.event, &text, &here) else { return Ok(()) };
    match answer(context, &call) {
        Ok(text) if text.is_empty() => Ok(()),
        Ok(text) => output::line(&text),
        Err(failure) if arguments.fail_closed => {
            let reason = format!("this call could not be checked: {failure}");
            output::line(&call.refuse(&reason).stdout)
        }
        Err(_) => Ok(()),
    }
}

fn answer(context: &Context, call: &HookCall) -> Result<String, Failure> {
    let ground = bindings::survey(context, &call.bound_folder())?;
    let records = bindings::records().ok();
    let around = Surroundings {
        ground: &ground,
        records: records.as_ref(),
        clock: Clock {
            time: Timestamp::now().to_local_rfc3339(),
            zone: nexus_base::clock::local_zone_name(),
            machine: format!("{} ({})", std::env::consts::OS, std::env::consts::ARCH),
        },
        inside_cursor: std::env::var_os("CURSOR_VERSION").is_some(),
    };
    let answer = call.answer(&around).map_err(|error| Failure::new(chain(&error)))?;
    Ok(answer.stdout)
}

fn parse_event(name: &str) -> Result<HookEvent, String> {
    HookEvent::parse(name).ok_or_else(|| format!("use one of {}", HookEvent::names().join(", ")))
}

fn parse_harness(name: &str) -> Result<Harness, String> {
    let names = Harness::ALL.map(Harness::as_str).join(", ");
    Harness::parse(name).ok_or_else(|| format!("use one of {names}"))
}
