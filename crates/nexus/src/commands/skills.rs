//! `nexus skills`: what the workspace can be taught, what each skill brings, and whether its owner
//! accepted exactly that. Nothing of a skill is run here.

use std::io::BufRead;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use nexus_base::text::visible;
use nexus_protocol::control::answers::{SkillText, SkillView, Skills};
use nexus_protocol::control::{Named, Nothing};
use nexus_protocol::methods::Method;
use nexus_workspace::Layout;
use nexus_workspace::skills::{Consent, Entry, Manifest, accept, write_manifest};
use serde_json::json;

use super::credential::word;
use crate::context::{Context, trust_folder};
use crate::control;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};
use crate::tool_call;

/// Arguments of `nexus skills`.
#[derive(Debug, Args)]
#[command(after_help = "\
A skill is a folder skills/NAME with a SKILL.md in it. Putting one there runs nothing; before it is used, review
what it brings and accept it. A skill that changes has to be accepted again.

Examples:
  nexus skills list
  nexus skills info gmail
  nexus skills verify gmail --accept")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List skills and what they are for
    #[command(after_help = "Example:\n  nexus skills list --tools --json")]
    List {
        /// Only skills for programs
        #[arg(long)]
        tools: bool,
        /// Only skills for services
        #[arg(long)]
        connectors: bool,
        /// Only skills for ways of working
        #[arg(long)]
        guides: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a skill's instructions
    #[command(after_help = "Example:\n  nexus skills use gmail")]
    Use {
        /// Name of the skill
        name: String,
        /// Accept it as it is without asking
        #[arg(long)]
        yes: bool,
    },
    /// Show a skill's files, hash, permissions and anything suspicious
    #[command(after_help = "Example:\n  nexus skills info gmail --json")]
    Info {
        /// Name of the skill
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Scan all skills again and write state/skills/manifest.json
    #[command(after_help = "Example:\n  nexus skills scan")]
    Scan {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Compare skills with the accepted versions; exit code 1 if one is new, changed or suspicious
    #[command(after_help = "Examples:\n  nexus skills verify\n  nexus skills verify gmail --accept")]
    Verify {
        /// Name of the skill; all when left out
        name: Option<String>,
        /// Accept it as it is
        #[arg(long, requires = "name")]
        accept: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `nexus skills`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::List { tools, connectors, guides, json } => {
            let mut found: Skills = control::look(context, Method::SkillsStatus, &Nothing {})?;
            if *tools || *connectors || *guides {
                found.skills.retain(|skill| match kind(skill).as_str() {
                    "tool" => *tools,
                    "connector" => *connectors,
                    _ => *guides,
                });
            }
            list(&found, Format::from_flag(*json))
        }
        Command::Use { name, yes } => follow(context, name, *yes),
        Command::Info { name, json } => {
            let layout = context.existing()?;
            let entry = one(&layout, name)?;
            if *json {
                return output::json(&json!({ "skill": entry, "permissions": entry.permissions() }));
            }
            show(&entry)
        }
        Command::Scan { json } => {
            let layout = context.existing()?;
            let found = look(&layout)?;
            let path = write_manifest(&layout, &found).map_err(|error| Failure::caused(&error))?;
            if *json {
                return output::json(&found);
            }
            for skill in found.skills.iter().filter(|skill| !skill.consent.is_given()) {
                show(skill)?;
                output::line("")?;
            }
            let count = found.skills.len();
            let skills = if count == 1 { "skill" } else { "skills" };
            output::line(&format!("{count} {skills} written to {}", path.display()))
        }
        Command::Verify { name, accept, json } => {
            verify(&context.existing()?, name.as_deref(), *accept, *json)
        }
    }
}

fn look(layout: &Layout) -> Result<Manifest, Failure> {
    let path: Vec<PathBuf> =
        std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default();
    nexus_operations::look_at_skills(layout, &trust_folder()?, path)
        .map_err(|error| Failure::caused(&error).hint("check the folder's owner and permissions"))
}

fn one(layout: &Layout, name: &str) -> Result<Entry, Failure> {
    look(layout)?.skills.into_iter().find(|skill| skill.name == name).ok_or_else(|| {
        Failure::new(format!("no skill {name:?}"))
            .hint("nexus skills list shows the existing ones")
            .exit(Exit::Missing)
    })
}

fn kind(skill: &SkillView) -> String {
    skill.rest.get("kind").map(word).unwrap_or_default()
}

fn list(found: &Skills, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(found);
    }
    if found.skills.is_empty() {
        output::remark("hint: a skill is a folder skills/NAME with a SKILL.md in it");
        return output::line("no skills yet");
    }
    let rows = found
        .skills
        .iter()
        .map(|skill| {
            let description = output::shorten(&skill.description, 60);
            vec![skill.name.clone(), kind(skill), skill.status.clone(), skill.consent.clone(), description]
        })
        .collect();
    output::table(&["SKILL", "KIND", "STATUS", "CONSENT", "DESCRIPTION"], rows)
}

fn show(skill: &Entry) -> Outcome {
    output::line(&format!("{}: {}", skill.name, output::shorten(&skill.head.description, 200)))?;
    output::line(&format!("status       {}, {}", word(&skill.status), word(&skill.consent)))?;
    for missing in &skill.missing {
        output::line(&format!("missing      {}", visible::line(missing)))?;
    }
    for granted in skill.permissions() {
        output::line(&format!("permission   {}", visible::line(&granted)))?;
    }
    if let Some(problem) = &skill.problem {
        output::line(&format!("problem      {}", visible::line(problem)))?;
    }
    let Some(found) = &skill.inspection else { return Ok(()) };
    output::line(&format!("hash         {}", found.hash))?;
    for file in &found.files {
        let kind = word(&file.kind);
        output::line(&format!(
            "file         {} {kind:<7} {:>8} {}",
            file.mode,
            file.size,
            visible::line(&file.path)
        ))?;
    }
    for odd in &found.suspicions {
        let line = odd.line.map(|line| format!(":{line}")).unwrap_or_default();
        output::line(&format!("LOOK         {}{line} {}", visible::line(&odd.file), odd.what))?;
    }
    Ok(())
}

fn follow(context: &Context, name: &str, yes: bool) -> Outcome {
    // Nobody accepts anything from inside a tool call.
    if !tool_call::is_inside() {
        accept_first(&context.existing()?, name, yes)?;
    }
    let skill: SkillText = control::look(context, Method::SkillsUse, &Named { id: name.to_owned() })
        .map_err(|failure| failure.hint_if_missing("nexus skills list shows those there are"))?;
    output::text(&output::harmless(&skill.text))
}

fn accept_first(layout: &Layout, name: &str, yes: bool) -> Outcome {
    let entry = one(layout, name)?;
    if !entry.consent.is_given() {
        if !yes && !agreed(&entry)? {
            return Err(Failure::new(format!("skill {name} is not accepted")).hint(format!(
                "review it with `nexus skills info {name}`, accept it with `nexus skills verify {name} --accept`"
            )));
        }
        record(layout, &entry)?;
    }
    Ok(())
}

fn agreed(entry: &Entry) -> Result<bool, Failure> {
    if !output::stdin_is_terminal() || !output::stdout_is_terminal() {
        return Ok(false);
    }
    show(entry)?;
    let question = match entry.consent {
        Consent::New => "You have not accepted this skill yet. Use it as it is? [y/N] ",
        Consent::Changed => "This skill has changed since you accepted it. Use it as it is now? [y/N] ",
        Consent::Accepted => return Ok(true),
    };
    output::remark_part(question);
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::new(format!("reading the answer: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn record(layout: &Layout, entry: &Entry) -> Outcome {
    let Some(found) = &entry.inspection else {
        return Err(Failure::new(format!("skill {} cannot be inspected", entry.name)));
    };
    accept(&trust_folder()?, layout, &entry.name, found)
        .map_err(|error| Failure::caused(&error).hint(error.hint()))
}

fn verify(layout: &Layout, name: Option<&str>, accepting: bool, json: bool) -> Outcome {
    let mut chosen = match name {
        Some(name) => vec![one(layout, name)?],
        None => look(layout)?.skills,
    };
    if accepting {
        for entry in &mut chosen {
            record(layout, entry)?;
            entry.consent = Consent::Accepted;
        }
    }
    let odd = |entry: &Entry| entry.inspection.as_ref().map_or(0, |found| found.suspicions.len());
    if json {
        output::json(&json!({ "skills": chosen }))?;
    } else {
        let rows = chosen
            .iter()
            .map(|entry| {
                let hash = entry.inspection.as_ref().map(|found| found.hash.clone()).unwrap_or_default();
                vec![entry.name.clone(), word(&entry.consent), odd(entry).to_string(), hash]
            })
            .collect();
        output::table(&["SKILL", "CONSENT", "ODD", "HASH"], rows)?;
    }
    let open = chosen.iter().filter(|entry| !entry.consent.is_given()).count();
    if open > 0 {
        return Err(Failure::new(format!(
            "{open} of {} skills are not accepted in their current form",
            chosen.len()
        ))
        .hint("nexus skills info NAME shows what a skill brings; verify NAME --accept accepts it"));
    }
    Ok(())
}
