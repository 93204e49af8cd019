//! `nexus automation register`: a look at the file, a question, a row.

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nexus_automation::{HookPoint, Program, Registration, check};
use nexus_base::text::visible;
use nexus_protocol::automations::{AutomationMode as WireMode, AutomationRegister};
use nexus_protocol::methods::Method;
use nexus_store::runtime::AutomationMode;
use serde_json::Value;

use crate::context::{Context, standing};
use crate::control;
use crate::failure::{Exit, Failure, Outcome};
use crate::output;

/// Arguments of `nexus automation register`.
#[derive(Debug, Args)]
#[command(after_help = "\
The file must be in the workspace's automations folder and be executable. You are shown what it is and asked to agree; with
--yes it is registered as it is. A file that changes later does not run until it is registered again.

Examples:
  nexus automation register greet automations/greet --hook-point runAutomations --blocking
  nexus automation register tally automations/tally.py --hook-point after:runAgent --own-folder --yes")]
pub(super) struct Arguments {
    /// Name of the automation
    name: String,
    /// The file, in the workspace's automations folder
    script: PathBuf,
    /// Hook point at which it runs, such as runAutomations, worker:pre_execution or after:runAgent
    #[arg(long, value_name = "POINT", value_parser = hook_point)]
    hook_point: HookPoint,
    /// Wait for it at the hook point and use what it adds
    #[arg(long)]
    blocking: bool,
    /// Run it until it has acted once
    #[arg(long)]
    once: bool,
    /// Time limit in milliseconds
    #[arg(long, value_name = "MS")]
    timeout_ms: Option<u64>,
    /// Give it a permanent folder state/workspace/NAME
    #[arg(long)]
    own_folder: bool,
    /// Another automation whose folder it is told about; may be repeated
    #[arg(long = "peer", value_name = "NAME")]
    peers: Vec<String>,
    /// Have a model review its work now and then and keep lessons in its folder
    #[arg(long, requires = "own_folder")]
    self_improvement: bool,
    /// Allow it to use the network
    #[arg(long)]
    network: bool,
    /// Description for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Conditions on who and what, as JSON: {"principal": {"type": "owner"}}
    #[arg(long, value_name = "JSON")]
    triggers: Option<String>,
    /// Settings passed to it each time, as JSON
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
    /// Register it as it is without asking
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn hook_point(name: &str) -> Result<HookPoint, String> {
    HookPoint::parse(name).ok_or_else(|| {
        let names: Vec<&str> = HookPoint::ALL.iter().map(|hook| hook.as_str()).collect();
        format!("there are {}", names.join(", "))
    })
}

/// Runs `nexus automation register`.
pub(super) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    if !standing(&layout).is_trusted() {
        return Err(Failure::new("this workspace is not trusted, so its programs would not run")
            .hint("review it, then run nexus trust"));
    }
    let registration = registration(arguments)?;
    let program = check(&layout, &registration)
        .map_err(|error| Failure::caused(&error).maybe_hint(error.hint().as_deref()))?;
    if !arguments.yes && !agreed(arguments, &program)? {
        return Err(Failure::new(format!("{} is not registered", arguments.name))
            .hint(format!("review {} and repeat the command with --yes", program.path)));
    }
    let wanted = AutomationRegister {
        name: registration.name,
        script: program.path.clone(),
        hash: program.hash.clone(),
        hook_point: registration.hook_point.as_str().to_owned(),
        description: registration.description,
        blocking: registration.blocking,
        mode: if arguments.once { WireMode::OneShot } else { WireMode::Persistent },
        timeout_ms: arguments.timeout_ms,
        workspace: registration.workspace,
        peers: registration.peers,
        self_improvement: registration.self_improvement,
        network: registration.network,
        triggers: registration.triggers,
        config: registration.config,
    };
    let made: Value = control::call(context, Method::AutomationsRegister, &wanted)?;
    if arguments.json {
        return output::json(&made);
    }
    show(&program)?;
    output::line(&format!("{} runs at {}", arguments.name, arguments.hook_point))
}

fn registration(arguments: &Arguments) -> Result<Registration, Failure> {
    let json = |name: &str, text: &Option<String>| -> Result<Option<Value>, Failure> {
        text.as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| Failure::new(format!("--{name} is not valid JSON: {error}")).exit(Exit::Usage))
    };
    Ok(Registration {
        name: arguments.name.clone(),
        script: arguments.script.clone(),
        hook_point: arguments.hook_point,
        description: arguments.description.clone(),
        blocking: arguments.blocking,
        mode: if arguments.once { AutomationMode::OneShot } else { AutomationMode::Persistent },
        timeout: arguments.timeout_ms.map(Duration::from_millis),
        workspace: arguments.own_folder,
        peers: arguments.peers.clone(),
        self_improvement: arguments.self_improvement,
        network: arguments.network,
        triggers: json("triggers", &arguments.triggers)?,
        config: json("config", &arguments.config)?,
    })
}

fn show(program: &Program) -> Outcome {
    output::line(&format!("file         {} ({} bytes)", visible::line(&program.path), program.size))?;
    output::line(&format!("hash         {}", program.hash))?;
    let runs = program.interpreter.as_deref().unwrap_or("the operating system directly");
    output::line(&format!("run by       {}", visible::line(runs)))
}

fn agreed(arguments: &Arguments, program: &Program) -> Result<bool, Failure> {
    show(program)?;
    let waits = if arguments.blocking { "waited for" } else { "on its own" };
    output::line(&format!("runs at      {}, {waits}", arguments.hook_point))?;
    let network = if arguments.network { "may be used" } else { "closed" };
    output::line(&format!("network      {network}"))?;
    if !output::stdin_is_terminal() || !output::stdout_is_terminal() {
        return Ok(false);
    }
    output::remark_part("Let this program run whenever that hook point is reached? [y/N] ");
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format!("reading the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
