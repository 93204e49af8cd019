//! `nexus identity`: who lives in the workspace and where that is written.

use clap::Args;
use nexus_operations::IdentityReport;
use nexus_protocol::control::Nothing;
use nexus_protocol::methods::Method;

use crate::context::Context;
use crate::control;
use crate::failure::Outcome;
use crate::output::{self, Format};

/// Arguments of `nexus identity`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus identity\n  nexus identity --json")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus identity`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let identity: IdentityReport = control::look(context, Method::AgentIdentityGet, &Nothing {})?;
    if Format::from_flag(arguments.json) == Format::Json {
        return output::json(&identity);
    }
    let path = |path: &Option<std::path::PathBuf>| {
        path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    };
    let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "–".to_owned());
    output::table(
        &["WHO", "NAME", "WRITTEN IN"],
        vec![
            vec!["assistant".to_owned(), named(&identity.agent_name), path(&identity.paths.agent_identity)],
            vec!["soul".to_owned(), String::new(), path(&identity.paths.agent_soul)],
            vec!["you".to_owned(), named(&identity.user_name), path(&identity.paths.user_identity)],
        ],
    )?;
    if identity.agent_name.is_none() {
        output::remark("hint: nexus up starts the conversation in which you choose names");
    }
    Ok(())
}
