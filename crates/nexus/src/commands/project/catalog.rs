//! `nexus project catalog`: roles, skills and what each role may not do.

use std::path::PathBuf;

use clap::Args;
use nexus_project::catalog::{Agent, Catalog, denied_tools};
use serde_json::json;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus project catalog`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A package to read instead of the built-in catalog: manifest.json, agents/, skills/
    #[arg(long, value_name = "FOLDER")]
    catalog: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let catalog = match &arguments.catalog {
        None => Catalog::embedded(),
        Some(folder) => Catalog::load(folder),
    };
    let catalog = catalog.map_err(|error| {
        Failure::new(error.to_string()).hint("a package is used whole or not at all; get a fresh copy")
    })?;
    let denied = |agent: &Agent| -> Vec<&'static str> {
        let tools = denied_tools(&agent.capabilities, &catalog.vocabulary.capabilities);
        tools.into_iter().map(|tool| tool.as_str()).collect()
    };
    if Format::from_flag(arguments.json) == Format::Json {
        let agents: Vec<_> = catalog
            .agents
            .iter()
            .map(|agent| {
                json!({
                    "id": agent.id, "description": agent.description, "category": agent.category.as_str(),
                    "resume_tier": agent.resume_tier.as_str(), "capabilities": agent.capabilities,
                    "denied_tools": denied(agent),
                })
            })
            .collect();
        let skills: Vec<_> = catalog
            .skills
            .iter()
            .map(|skill| {
                json!({
                    "id": skill.id, "description": skill.description, "triggers": skill.triggers,
                    "manual_only": skill.manual_only,
                })
            })
            .collect();
        return output::json(&json!({ "agents": agents, "skills": skills }));
    }
    let rows = catalog
        .agents
        .iter()
        .map(|agent| {
            vec![
                agent.id.clone(),
                agent.category.as_str().to_owned(),
                agent.resume_tier.as_str().to_owned(),
                agent.capabilities.join(", "),
                output::shorten(&agent.task, 60),
            ]
        })
        .collect();
    output::table(&["ROLE", "KIND", "RESUMES", "MAY NOT", "FOR"], rows)?;
    output::line("")?;
    let rows = catalog
        .skills
        .iter()
        .map(|skill| {
            let starts = match skill.manual_only {
                true => format!("/{}", skill.id),
                false => skill.triggers.iter().map(|tag| format!("[{tag}]")).collect::<Vec<_>>().join(" "),
            };
            vec![skill.id.clone(), starts, output::shorten(&skill.summary, 70)]
        })
        .collect();
    output::table(&["SKILL", "STARTED BY", "FOR"], rows)
}
