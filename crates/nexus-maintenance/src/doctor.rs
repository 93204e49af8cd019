//! `nexus doctor`: looks at every part of a workspace, says what is wrong and what to do, and mends
//! what can be mended without a decision. Works with and without a daemon.

mod data;
mod files;
mod model;
mod surroundings;

use std::path::Path;

use nexus_credentials::{Checked, Observer};
use nexus_workspace::Layout;
use nexus_workspace::config::{self, Loaded, Overrides};
use nexus_workspace::trust::{self, Trust, TrustFolder};
use serde::Serialize;

/// What a process that resolves credentials says of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenCredential {
    pub reference: String,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
}

/// What to look at.
#[derive(Debug, Clone, Copy)]
pub struct DoctorRequest<'a> {
    /// The workspace.
    pub layout: &'a Layout,
    /// Where trust records lie.
    pub trust_folder: &'a TrustFolder,
    /// This process's environment.
    pub environment: &'a [(String, String)],
    /// The person's home folder.
    pub home: Option<&'a Path>,
    /// What the running daemon says of each credential; without it only what this process sees is told.
    pub daemon_saw: Option<&'a [SeenCredential]>,
    /// Whether to mend what can be mended.
    pub fix: bool,
}

/// How a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// As it should be.
    Fine,
    /// It was wrong and is mended.
    Fixed,
    /// It works, with less than it could.
    Warning,
    /// It does not work.
    Broken,
}

/// What was found about one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    pub part: &'static str,
    pub condition: Condition,
    /// What was found.
    pub message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Check {
    fn new(part: &'static str, condition: Condition, message: impl Into<String>) -> Self {
        Self { part, condition, message: message.into(), hint: None }
    }

    fn fine(part: &'static str, message: impl Into<String>) -> Self {
        Self::new(part, Condition::Fine, message)
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// Whether nothing is broken.
    pub healthy: bool,
    /// The parts, in the order they build on each other.
    pub checks: Vec<Check>,
}

/// Looks at every part.
pub async fn doctor(request: &DoctorRequest<'_>) -> DoctorReport {
    let mut checks = Vec::new();
    let standing = trust::standing(request.trust_folder, request.layout);
    let trusted = standing.as_ref().copied().unwrap_or(Trust::NoRecord);
    files::look(request, &mut checks);
    let loaded = configuration(request, trusted, &mut checks);
    data::look(request, &mut checks);
    surroundings::look(request, loaded.as_ref(), &mut checks);
    checks.push(match standing {
        Ok(Trust::Trusted) => Check::fine("trust", "this workspace is yours"),
        Ok(Trust::NoRecord | Trust::OtherFolder | Trust::NoId) => Check::new(
            "trust",
            Condition::Warning,
            "this workspace was not created here; its base URLs, commands and own automations are disabled",
        )
        .hint("review it, then run `nexus trust`"),
        Err(error) => Check::new("trust", Condition::Warning, error.to_string()).hint(error.hint()),
    });
    credentials(request, trusted, &mut checks).await;
    checks.extend(model::look(request, loaded.as_ref(), trusted).await);
    data::questions(request, &mut checks).await;
    let healthy = checks.iter().all(|check| check.condition != Condition::Broken);
    DoctorReport { healthy, checks }
}

fn configuration(request: &DoctorRequest<'_>, trust: Trust, checks: &mut Vec<Check>) -> Option<Loaded> {
    let overrides = Overrides { flags: Vec::new(), environment: &known_variables(request.environment) };
    match config::load(request.layout, trust, &overrides) {
        Ok(loaded) => {
            if loaded.warnings.is_empty() {
                checks.push(Check::fine("config", "every value is valid"));
            }
            for problem in &loaded.warnings {
                let message = format!("{}: {}", problem.key, problem.message);
                checks.push(Check::new("config", Condition::Warning, message).hint(problem.fix.clone()));
            }
            Some(loaded)
        }
        Err(error) => {
            let last_good = request.layout.config_last_good();
            let mut hint = error.hint();
            if last_good.exists() {
                hint.push_str(&format!(
                    "; {} contains the last valid one, without its token",
                    last_good.display()
                ));
            }
            let message = nexus_base::error::chain(&error);
            checks.push(Check::new("config", Condition::Broken, message).hint(hint));
            None
        }
    }
}

fn known_variables(environment: &[(String, String)]) -> Vec<(String, String)> {
    let known = nexus_workspace::environment::CONFIG_VARIABLES;
    environment.iter().filter(|(name, _)| known.iter().any(|(known, _)| known == name)).cloned().collect()
}

async fn credentials(request: &DoctorRequest<'_>, trust: Trust, checks: &mut Vec<Check>) {
    let folder = nexus_credentials::CredentialFolder::new(request.layout.credentials());
    let resolver =
        nexus_models::credentials::resolver(request.layout, trust, request.environment, request.home);
    match folder.read_all() {
        Ok(listing) => {
            for problem in listing.problems {
                checks.push(
                    Check::new("credentials", Condition::Warning, problem)
                        .hint("repair the file or remove it; `nexus credential add` creates a new one"),
                );
            }
        }
        Err(error) => {
            let message = nexus_base::error::chain(&error);
            checks.push(Check::new("credentials", Condition::Broken, message));
            return;
        }
    }
    if request.fix
        && let Err(error) = folder.rebuild_index()
    {
        checks.push(Check::new("credentials", Condition::Warning, nexus_base::error::chain(&error)));
    }
    let checked = match request.daemon_saw {
        Some(checked) => Ok(checked.to_vec()),
        None => folder.check(&resolver, Observer::Shell).await.map(seen_here),
    };
    match checked {
        Ok(checked) => {
            let total = checked.len();
            let mut bad = 0;
            for one in checked {
                if let Some(problem) = one.problem {
                    bad += 1;
                    let check = Check::new(
                        "credentials",
                        Condition::Warning,
                        format!("{}: {problem}", one.reference),
                    );
                    checks.push(check.hint(one.hint.unwrap_or_default()));
                }
            }
            if bad == 0 {
                checks.push(Check::fine(
                    "credentials",
                    format!("{total} pointers, all of which yield a secret"),
                ));
            }
        }
        Err(error) => {
            checks.push(Check::new("credentials", Condition::Broken, nexus_base::error::chain(&error)));
        }
    }
}

fn seen_here(checked: Vec<Checked>) -> Vec<SeenCredential> {
    let seen = |one: Checked| SeenCredential {
        reference: one.reference.to_string(),
        problem: one.problem,
        hint: one.hint.map(str::to_owned),
    };
    checked.into_iter().map(seen).collect()
}
