//! Policies as the owner writes them in the configuration, beside the built-in ones.
//!
//! A document with one wrong policy counts as a whole: leaving out what cannot be read might leave
//! out a refusal.

use std::collections::BTreeSet;
use std::time::Duration;

use nexus_base::conversation::QueueMode;
use nexus_store::agents::ItemMode;
use serde::Deserialize;
use serde_json::Value;

use crate::permissions::{DataLevel, Names, Terms};
use crate::policy::{
    Condition, Decision, Grant, Policy, Routing, SessionRule, StrangerRule, WhichPrincipal, built_in,
};

/// Most policies a document may hold.
const MAX_COUNT: usize = 200;
/// Priority of a policy that names none.
const PRIORITY: u8 = 30;
/// Longest a policy may have an answer wait.
const MAX_DELAY: Duration = Duration::from_secs(3600);
/// Longest name of a persona or a session.
const MAX_NAME_LEN: usize = 200;
/// Names that a policy may use for several tools.
const TOOL_GROUPS: &[(&str, &[&str])] = &[
    ("fs", &["edit", "glob", "grep", "list", "read", "write"]),
    ("memory", &["recall", "remember"]),
    ("project", &["project/*"]),
    ("runtime", &["bash"]),
    ("sessions", &["agent_send", "get_agent_status", "wait"]),
    ("web", &["web_fetch", "web_search"]),
];

/// Why a document is not in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy {which}: {reason}")]
pub struct PolicyProblem {
    /// Its name, or its place in the list.
    pub which: String,
    /// What is wrong.
    pub reason: String,
}

/// Returns the built-in policies with the document's beside them. One of the same name takes a
/// built-in one's place.
///
/// # Errors
/// A policy cannot be read; nothing of the document should be in force then.
pub fn with_document(document: &[Value], strangers: StrangerRule) -> Result<Vec<Policy>, PolicyProblem> {
    if document.len() > MAX_COUNT {
        return Err(problem("list", format!("more than {MAX_COUNT} policies")));
    }
    let mut policies = built_in(strangers);
    let mut names = BTreeSet::new();
    for (place, value) in document.iter().enumerate() {
        let written: Written = serde_json::from_value(value.clone())
            .map_err(|error| problem(&format!("number {}", place + 1), error.to_string()))?;
        if written.name.is_empty() || !names.insert(written.name.clone()) {
            return Err(problem(&written.name, "the name must be unique".to_owned()));
        }
        policies.retain(|policy| policy.name != written.name);
        if written.enabled {
            policies.push(written.read()?);
        }
    }
    Ok(policies)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default, rename = "description")]
    _description: Option<String>,
    #[serde(default, rename = "match")]
    matching: Match,
    effect: Decision,
    #[serde(default)]
    permissions: Option<WrittenPermissions>,
    #[serde(default)]
    session: Option<SessionRule>,
    #[serde(default)]
    modifiers: WrittenModifiers,
    #[serde(default)]
    priority: Option<u8>,
    #[serde(default = "yes")]
    enabled: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Match {
    #[serde(default)]
    principal: WrittenPrincipal,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrincipal {
    is_user: Option<bool>,
    #[serde(default)]
    relationship: Option<OneOrMany>,
    #[serde(default)]
    tags: Vec<String>,
    person_id: Option<String>,
    #[serde(default)]
    unknown: bool,
    #[serde(default)]
    system: bool,
    #[serde(default)]
    webhook: bool,
    #[serde(default)]
    agent: bool,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenModifiers {
    queue_mode: Option<QueueMode>,
    /// Milliseconds.
    delay_response: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPermissions {
    #[serde(default)]
    tools: WrittenTools,
    credentials: Option<Names>,
    data: Option<DataLevel>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTools {
    allow: Option<Names>,
    #[serde(default)]
    deny: BTreeSet<String>,
}

impl Written {
    fn read(self) -> Result<Policy, PolicyProblem> {
        let name = self.name;
        let priority = self.priority.unwrap_or(PRIORITY);
        if priority > 100 {
            return Err(problem(&name, "priority must be between 0 and 100".to_owned()));
        }
        let mut tags = self.matching.principal.tags.clone();
        match &self.matching.principal.relationship {
            Some(OneOrMany::One(one)) => tags.push(one.clone()),
            Some(OneOrMany::Many(many)) => tags.extend(many.iter().cloned()),
            None => {}
        }
        let routing = routing(&name, self.session, &self.modifiers)?;
        Ok(Policy {
            routing,
            about: self.matching.principal.about(&name)?,
            person: self.matching.principal.person_id,
            tags,
            conditions: self.matching.conditions,
            priority,
            decision: self.effect,
            // Allowing without saying what gives nothing but an answer, and takes nothing from others.
            grant: Grant::Fixed(self.permissions.map(WrittenPermissions::read).unwrap_or_default()),
            name,
        })
    }
}

fn routing(
    policy: &str,
    session: Option<SessionRule>,
    modifiers: &WrittenModifiers,
) -> Result<Routing, PolicyProblem> {
    let named: Vec<&String> =
        session.iter().flat_map(|session| [&session.persona, &session.label]).flatten().collect();
    if named.iter().any(|name| name.is_empty() || name.len() > MAX_NAME_LEN) {
        return Err(problem(
            policy,
            format!("session.persona and session.key must have 1 to {MAX_NAME_LEN} bytes"),
        ));
    }
    if session.is_some() && named.is_empty() {
        return Err(problem(policy, "session must name a persona, a key or both".to_owned()));
    }
    let delay = modifiers.delay_response.map(Duration::from_millis);
    if delay.is_some_and(|delay| delay > MAX_DELAY) {
        let most = MAX_DELAY.as_millis();
        return Err(problem(policy, format!("modifiers.delay_response must be at most {most} milliseconds")));
    }
    Ok(Routing { session, queue: modifiers.queue_mode.map(ItemMode::from), delay })
}

impl WrittenPrincipal {
    fn about(&self, policy: &str) -> Result<WhichPrincipal, PolicyProblem> {
        let kinds: Vec<WhichPrincipal> = [
            (self.is_user == Some(true), WhichPrincipal::Owner),
            (self.is_user == Some(false), WhichPrincipal::Known),
            (self.unknown, WhichPrincipal::Unknown),
            (self.system, WhichPrincipal::System),
            (self.webhook, WhichPrincipal::Webhook),
            (self.agent, WhichPrincipal::Agent),
        ]
        .into_iter()
        .filter_map(|(is_named, kind)| is_named.then_some(kind))
        .collect();
        match kinds.as_slice() {
            [] => Ok(WhichPrincipal::Anyone),
            [one] => Ok(*one),
            _ => Err(problem(
                policy,
                "the conditions contradict each other: they name more than one kind of \
                principal"
                    .to_owned(),
            )),
        }
    }
}

impl WrittenPermissions {
    fn read(self) -> Terms {
        let allow = self.tools.allow.map(|names| match names {
            Names::All => Names::All,
            Names::Only(names) => Names::Only(tools_named(names)),
        });
        Terms { allow, deny: tools_named(self.tools.deny), credentials: self.credentials, data: self.data }
    }
}

/// Replaces the names of groups by their tools.
fn tools_named(names: BTreeSet<String>) -> BTreeSet<String> {
    let expanded =
        names.into_iter().flat_map(|name| match TOOL_GROUPS.iter().find(|(group, _)| *group == name) {
            Some((_, tools)) => tools.iter().map(|tool| (*tool).to_owned()).collect(),
            None => vec![name],
        });
    expanded.collect()
}

fn problem(which: &str, reason: String) -> PolicyProblem {
    PolicyProblem { which: which.chars().take(80).collect(), reason }
}
