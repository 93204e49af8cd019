//! `nexus chat`: talks to a daemon that runs already.

use std::path::{Path, PathBuf};

use clap::Args;
use nexus_base::id::SessionLabel;
use nexus_project::Project;
use nexus_protocol::chat::MAX_MESSAGE_LEN;

use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output;
use crate::terminal::{self, Answered, Conversation, Link, Style};

/// Arguments of `nexus chat`.
#[derive(Debug, Args)]
#[command(after_help = "\
At a terminal, /help lists the commands, Ctrl-C stops a turn and Ctrl-D exits. From a pipe, every line is one
message; the next one is sent when the work on the previous one is done. After the end of input, and with -m, the wait
ends after five minutes; the daemon carries on working, and `nexus trace` shows it. Exit code 1 means that a message got no
answer.

Examples:
  nexus chat
  nexus chat -m \"Summarise home/notes.md\"
  printf 'Hello\\nWho am I?\\n' | nexus chat --json")]
pub(crate) struct Arguments {
    /// Send this message, wait for the answer and everything that follows from it, print it and exit
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Session to talk in [default: the owner's own, or the project's with --project]
    #[arg(long, value_name = "LABEL")]
    session: Option<String>,
    /// Folder of the project to work in
    #[arg(long, value_name = "PATH")]
    project: Option<PathBuf>,
    /// Model to use, as `provider/model` [default: the configured one]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Print one JSON object per event
    #[arg(long)]
    json: bool,
}

/// Runs `nexus chat`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let project = arguments.project.as_deref().map(project).transpose()?;
    let about = project.as_deref().map(|path| SessionLabel::new(Project::conversation(Path::new(path))));
    let session = arguments.session.as_deref().map(SessionLabel::new).or(about);
    let conversation = Conversation { session, project, model: arguments.model.clone() };
    let message = arguments.message.as_deref().map(checked).transpose()?;
    // Says at once that nothing runs, before any thread or connection is made.
    context.client()?;
    let link = Link::new(context, conversation);
    let runtime = super::client_runtime()?;
    let outcome = runtime.block_on(async {
        match message {
            Some(message) => {
                let style = if arguments.json { Style::Json } else { Style::Bare };
                terminal::send_one(link, message, style).await
            }
            None => match talk(context, link, arguments.json).await? {
                Answered::All => Ok(()),
                // What went wrong was said where the answer would have stood.
                Answered::NotAll => Err(Failure::unread()),
            },
        }
    });
    // A thread may still wait for a key or a line; it ends with the process.
    runtime.shutdown_background();
    outcome
}

/// Talks at the terminal, or line by line when stdin is none or JSON is wanted.
pub(crate) async fn talk(context: &Context, link: Link, json: bool) -> Result<Answered, Failure> {
    if json {
        return terminal::pipe(link, Style::Json).await;
    }
    if output::stdin_is_terminal() && output::stdout_is_terminal() {
        super::models::ask(context).await?;
        return terminal::converse(link).await.map(|()| Answered::All);
    }
    terminal::pipe(link, Style::Transcript).await
}

fn checked(message: &str) -> Result<String, Failure> {
    if message.trim().is_empty() {
        return Err(Failure::new("the message is empty").hint("nexus chat -m \"Hello\"").exit(Exit::Usage));
    }
    if message.len() > MAX_MESSAGE_LEN {
        return Err(Failure::new(format!("the message is longer than {MAX_MESSAGE_LEN} bytes"))
            .hint("put long text in a file under home/ and ask the assistant to read it")
            .exit(Exit::Usage));
    }
    Ok(message.to_owned())
}

/// Returns a project folder as the daemon takes it.
pub(crate) fn project(path: &Path) -> Result<String, Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::new(format!("project {}: {error}", path.display())).exit(Exit::Usage))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| Failure::new("the project's path is not UTF-8").exit(Exit::Usage))
}
