//! `nexus init`: makes a workspace, or what is missing of one.

use clap::Args;
use nexus_workspace::Layout;
use nexus_workspace::init::InitReport;

use crate::context::{Context, trust_folder};
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus init`.
#[derive(Debug, Args)]
#[command(after_help = "\
Running it again changes nothing that exists: files, databases and the token stay as they are.

Examples:
  nexus init
  nexus init --workspace ~/work --json")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus init`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.layout()?;
    let report = make(&layout)?;
    if Format::from_flag(arguments.json) == Format::Json {
        return output::json(&report);
    }
    for path in &report.created {
        output::line(&format!("created  {path}"))?;
    }
    for path in &report.already_present {
        output::line(&format!("present  {path}"))?;
    }
    output::line(&format!("{} is ready", layout.root().display()))?;
    if !report.trust.is_trusted() {
        output::remark("warning: this workspace was not created here and is not trusted");
        output::remark(&format!("hint: if it is yours, run nexus trust{}", context.flag_text()));
    }
    Ok(())
}

/// Makes what is missing.
pub(crate) fn make(layout: &Layout) -> Result<InitReport, Failure> {
    nexus_maintenance::init(layout, &trust_folder()?)
        .map_err(|error| Failure::caused(&error).maybe_hint(error.hint()))
}
