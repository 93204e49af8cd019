//! `nexus models`: which model answers and why, and the owner's yes or no to a credential that was found.

use std::io::BufRead;

use clap::{Args, Subcommand};
use nexus_base::text::visible;
use nexus_protocol::control::Nothing;
use nexus_protocol::methods::Method;
use nexus_protocol::models::{ModelAnswer, ModelSource, ModelsView};
use serde_json::Value;

use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{self, Format, single_line};

use super::call;

/// Arguments of `nexus models`.
#[derive(Debug, Args)]
#[command(after_help = "\
The model is chosen in this order: agent.provider and agent.model in the configuration, credentials that were found
(only with your consent), model servers on this machine, the offline guide. Needs a running daemon.

Examples:
  nexus models
  nexus models allow anthropic
  nexus config set agent.model openai/gpt-5-mini")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the model in use, the reason, and the alternatives considered
    #[command(after_help = "Example:\n  nexus models list --json")]
    List,
    /// Allow a provider to answer, using the credential that was found
    #[command(after_help = "Example:\n  nexus models allow anthropic")]
    Allow(Which),
    /// Refuse to use a credential that was found, and stop asking
    #[command(after_help = "Example:\n  nexus models refuse anthropic --account env:ANTHROPIC_API_KEY")]
    Refuse(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// Name of the provider, such as anthropic
    provider: String,
    /// Only this account [default: all that were found]
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
}

/// Runs `nexus models`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let format = Format::from_flag(arguments.json);
    match &arguments.command {
        None | Some(Command::List) => show(&call(context, Method::ModelsList, &Nothing {})?, format),
        Some(Command::Allow(which)) => answer(context, which, Method::ModelsAllow, format),
        Some(Command::Refuse(which)) => answer(context, which, Method::ModelsRefuse, format),
    }
}

/// Asks at the terminal about a credential that was found, before the conversation begins. Nothing happens
/// when nothing waits for an answer.
pub(crate) async fn ask(context: &Context) -> Outcome {
    let client = context.client()?;
    let view: ModelsView = client.call(Method::ModelsList, &Nothing {}).await?;
    let Some(question) = view.question else { return Ok(()) };
    output::remark(&visible::line(&question.text));
    output::remark("Allow it to answer here? [y/N, Enter decides later]");
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let line = match line.await {
        Ok(Ok(line)) => line.trim().to_lowercase(),
        Ok(Err(_)) | Err(_) => return Ok(()),
    };
    let method = match line.as_str() {
        "y" | "yes" => Method::ModelsAllow,
        "n" | "no" => Method::ModelsRefuse,
        _ => return Ok(()),
    };
    let about = ModelAnswer { provider: question.provider, account: Some(question.account) };
    let told: Value = client.call(method, &about).await?;
    output::remark(&format!("model {}", told["model"].as_str().unwrap_or_default()));
    Ok(())
}

fn answer(context: &Context, which: &Which, method: Method, format: Format) -> Outcome {
    let about = ModelAnswer { provider: which.provider.clone(), account: which.account.clone() };
    let told: Value = call(context, method, &about)?;
    if format == Format::Json {
        return output::json(&told);
    }
    let accounts: Vec<&str> =
        told["accounts"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let word = if method == Method::ModelsAllow { "allowed" } else { "refused" };
    let model = told["model"].as_str().unwrap_or_default();
    output::line(&format!("{word} {}; the model in use is {model}", accounts.join(", ")))
}

fn show(view: &ModelsView, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(view);
    }
    let mut lines = vec![
        format!("model    {}", view.model),
        format!("why      {}", single_line(&view.reason)),
        format!("context  {} tokens", view.context_window),
    ];
    lines.extend(view.chain.iter().skip(1).map(|next| format!("next     {next}")));
    for one in &view.considered {
        let source = match one.source {
            ModelSource::Config => "configuration",
            ModelSource::Credential => "credential",
            ModelSource::Local => "this machine",
            ModelSource::Guide => "guide",
        };
        lines.push(format!("seen     {} ({source}): {}", one.model, single_line(&one.outcome)));
    }
    if let Some(question) = &view.question {
        lines.push(format!("asks     {}", visible::line(&question.text)));
        lines.push(format!("         nexus models allow {0}, or nexus models refuse {0}", question.provider));
    }
    output::line(&lines.join("\n"))
}
