//! `nexus tokens`: keys to the daemon for other programs, each with what it may do and an end.

use std::time::Duration;

use clap::{Args, Subcommand};
use nexus_protocol::control::answers::{Revoked, Tokens};
use nexus_protocol::control::{Named, Nothing, TokenCreate, TokenMade, TokenView};
use nexus_protocol::methods::Method;

use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{self, Format, shorten};

use super::call;

/// Arguments of `nexus tokens`.
#[derive(Debug, Args)]
#[command(after_help = "\
A token is shown once, when it is created; afterwards only its first characters are known. What it may do is stored with it
and cannot be changed: create another one instead. A client that may write to chat talks to the assistant as you.

Examples:
  nexus tokens create --label dashboard --scope 'control.*.read' --expires 30d
  nexus tokens list
  nexus tokens revoke 01J…")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List issued tokens; never their values
    #[command(after_help = "Example:\n  nexus tokens list --all --json")]
    List {
        /// Include revoked and expired tokens
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a token and print it, this once
    #[command(
        after_help = "Example:\n  nexus tokens create --scope control.chat.write --scope control.chat.read --expires 12h"
    )]
    Create {
        /// What it may do, such as control.chat.write or control.*.read; may be repeated
        #[arg(long = "scope", value_name = "SCOPE", required = true)]
        scopes: Vec<String>,
        /// What it is for
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
        /// When it expires: a number with s, m, h or d
        #[arg(long, value_name = "TIME", value_parser = lifetime)]
        expires: Option<Duration>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token; its connections close at once
    #[command(after_help = "Example:\n  nexus tokens revoke 01J…")]
    Revoke {
        /// Token id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Replace a token with a new one that may do the same; it is printed this once
    #[command(after_help = "Example:\n  nexus tokens rotate 01J…")]
    Rotate {
        /// Token id
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `nexus tokens`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List { all, json } => {
            let mut listed: Tokens = call(context, Method::TokensList, &Nothing {})?;
            if !all {
                listed.tokens.retain(is_live);
            }
            list(&listed, Format::from_flag(*json))
        }
        Command::Create { scopes, label, expires, json } => {
            let expires_in_ms = expires.map(|lasts| u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
            let create = TokenCreate { label: label.clone(), scopes: scopes.clone(), expires_in_ms };
            made(&call(context, Method::TokensCreate, &create)?, Format::from_flag(*json))
        }
        Command::Revoke { id, json } => {
            let revoked: Revoked = call(context, Method::TokensRevoke, &Named { id: id.clone() })?;
            match Format::from_flag(*json) {
                Format::Json => output::json(&revoked),
                Format::Text => output::line(&format!("{} ended", revoked.revoked)),
            }
        }
        Command::Rotate { id, json } => {
            made(&call(context, Method::TokensRotate, &Named { id: id.clone() })?, Format::from_flag(*json))
        }
    }
}

fn list(listed: &Tokens, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(listed);
    }
    if listed.tokens.is_empty() {
        return output::line("no tokens have been issued");
    }
    let row = |one: &TokenView| {
        let state = match (one.revoked_at, is_live(one)) {
            (Some(_), _) => "ended",
            (None, false) => "ran out",
            (None, true) => "live",
        };
        vec![
            one.id.clone(),
            state.to_owned(),
            format!("{}…", one.prefix),
            shorten(one.label.as_deref().unwrap_or("-"), 30),
            one.scopes.join(" "),
            one.expires_at.map_or_else(|| "never".to_owned(), |end| end.to_local_rfc3339()),
            one.last_used_at.map_or_else(|| "never".to_owned(), |used| used.to_local_rfc3339()),
        ]
    };
    output::table(
        &["ID", "STATE", "TOKEN", "LABEL", "SCOPES", "UNTIL", "LAST USED"],
        listed.tokens.iter().map(row).collect(),
    )
}

fn made(made: &TokenMade, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json_with_secret(made);
    }
    output::remark("this is the only time it is shown:");
    output::line(&made.token)?;
    output::remark(&format!("id {}, may {}", made.about.id, made.about.scopes.join(" ")));
    Ok(())
}

fn is_live(token: &TokenView) -> bool {
    let now = nexus_base::clock::Timestamp::now();
    token.revoked_at.is_none() && token.expires_at.is_none_or(|end| now < end)
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write 45m, 12h or 30d");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|total| *total > 0).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_a_number_and_a_unit() {
        assert_eq!(lifetime("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(lifetime("45m"), Ok(Duration::from_secs(45 * 60)));
        for wrong in ["", "d", "0h", "12", "1.5h", "-3d", "9w", "99999999999999999999d", "1é"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
