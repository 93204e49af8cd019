//! `nexus trust`: says whose a workspace is.

use clap::Args;
use nexus_protocol::methods::Method;
use nexus_workspace::{Layout, trust};
use serde_json::{Value, json};

use crate::context::{Context, standing, trust_folder};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus trust`.
#[derive(Debug, Args)]
#[command(after_help = "\
A workspace created by `nexus init` is trusted from the start. One that was copied or cloned starts with its base
URLs, adapters, MCP servers, own automations and BOOT.md disabled until you confirm that it is yours.

Example:
  nexus trust --workspace ~/copied-workspace")]
pub(crate) struct Arguments {
    /// Withdraw the trust
    #[arg(long)]
    revoke: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus trust`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let folder = trust_folder()?;
    let before = standing(&layout);
    if arguments.revoke {
        trust::revoke(&folder, &layout).map(drop)
    } else {
        trust::record(&folder, &layout).map(drop)
    }
    .map_err(|error| Failure::caused(&error).hint(error.hint()))?;
    let now = standing(&layout);
    let is_told = before != now && tell_daemon(context, &layout)?;
    if Format::from_flag(arguments.json) == Format::Json {
        return output::json(
            &json!({ "workspace": layout.root().to_string_lossy(), "trust": now, "changed": before != now, "daemonTold": is_told }),
        );
    }
    let root = layout.root().display();
    let changed = before != now;
    output::line(&match (now.is_trusted(), changed) {
        (true, true) if is_told => format!(
            "{root} is trusted; the running daemon uses its settings and automations from now on, and BOOT.md at its next start"
        ),
        (true, true) => {
            format!("{root} is trusted; its automations, servers and addresses work from the next start")
        }
        (true, false) => format!("{root} was already trusted"),
        (false, true) => format!("{root} is no longer trusted"),
        (false, false) => format!("{root} was not trusted"),
    })
}

/// Has a running daemon look again, so that nobody has to start it anew; tells whether one runs.
fn tell_daemon(context: &Context, layout: &Layout) -> Result<bool, Failure> {
    if nexus_base::lock::inspect(&layout.lock()).is_none() {
        return Ok(false);
    }
    let _: Value = super::call(context, Method::ConfigReload, &json!({}))?;
    Ok(true)
}
