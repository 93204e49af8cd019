//! `nexus hook`: what a bound harness calls at each moment of its sessions.

use std::io::Read as _;

use clap::Args;
use nexus_base::clock::Timestamp;
use nexus_bindings::{Clock, Harness, HookCall, HookEvent, Surroundings};
use nexus_project::lifecycle::Moment;

use super::bindings;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output;
use nexus_base::error::chain;

/// Most of its input that is read, in bytes.
const MAX_LEN: u64 = 32 * 1024 * 1024;

/// Arguments of `nexus hook`.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads the harness's JSON from standard input and answers in the harness's own format. Whatever goes wrong, it ends
with exit code 0, so that no session stops because of it. If it cannot check a tool call it prints nothing, except that
damaged project files, which decide what is allowed, cause a refusal.

Example:
  nexus hook session_start --harness cursor < payload.json")]
pub(crate) struct Arguments {
    /// Event: session_start, user_message, subagent_spawn, subagent_complete, pre_tool_use,
    /// post_tool_use, session_end, context_compact, turn_end
    #[arg(value_parser = parse_event)]
    event: HookEvent,
    /// Name of the calling harness
    #[arg(long, value_parser = parse_harness)]
    harness: Harness,
    /// Refuse a tool call that cannot be checked, instead of letting it pass
    #[arg(long)]
    fail_closed: bool,
}

/// Runs `nexus hook`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let Arguments { event, harness, fail_closed } = *arguments;
    let mut input = Vec::new();
    let read = std::io::stdin().lock().take(MAX_LEN).read_to_end(&mut input);
    let here = std::env::current_dir().unwrap_or_default();
    let text = String::from_utf8_lossy(&input);
    let call = read.ok().and_then(|_| HookCall::read(harness, event, &text, &here));
    let answered = match call {
        Some(call) => answer(context, &call),
        None => Err(Failure::new("the input is not a JSON object")),
    };
    match answered {
        Ok(text) if text.is_empty() => Ok(()),
        Ok(text) => output::line(&text),
        Err(failure) if fail_closed && event == HookEvent::Moment(Moment::PreToolUse) => {
            refuse(harness, &failure)
        }
        Err(_) => Ok(()),
    }
}

/// Says whether a command line is one of `nexus hook`, also when it cannot be understood.
pub(crate) fn is_called(arguments: &[String]) -> bool {
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--workspace" => drop(rest.next()),
            flag if flag.starts_with('-') => {}
            name => return name == "hook",
        }
    }
    false
}

/// Deals with a command line that cannot be understood, such as one that a newer version wrote into a harness's settings.
/// Harnesses take an exit code of 2 for a refusal, so it is 0 all the same.
pub(crate) fn misused(arguments: &[String], failure: &Failure) -> Outcome {
    output::failure(failure);
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    if !(has("--fail-closed") && has(Moment::PreToolUse.as_str())) {
        return Ok(());
    }
    let behind = arguments.iter().skip_while(|argument| *argument != "--harness").nth(1);
    let joined = arguments.iter().find_map(|argument| argument.strip_prefix("--harness="));
    let named = joined.or(behind.map(String::as_str)).and_then(Harness::parse);
    // Most harnesses read this shape.
    refuse(named.unwrap_or(Harness::ClaudeCode), failure)
}

fn refuse(harness: Harness, failure: &Failure) -> Outcome {
    let reason = format!("this tool call could not be checked: {failure}");
    output::line(&HookCall::refusal(harness, &reason).stdout)
}

fn answer(context: &Context, call: &HookCall) -> Result<String, Failure> {
    let ground = bindings::survey(context, &call.bound_folder())?;
    let records = bindings::records().ok();
    let around = Surroundings {
        ground: &ground,
        records: records.as_ref(),
        clock: Clock { now: Timestamp::now(), machine: nexus_base::host::describe() },
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
