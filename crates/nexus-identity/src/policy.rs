//! Policies: who they are about, what they decide, what they give. Evaluation is a pure function.

use std::time::Duration;

use nexus_base::clock::LocalClock;
use nexus_base::words;
use nexus_store::agents::ItemMode;
use serde::Deserialize;

use crate::access::Circumstances;
use crate::permissions::{DataLevel, Names, Permissions, Terms, ToolRule};
use crate::principal::Principal;

words! {
    /// What is decided.
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Decision {
        /// They may.
        Allow = "allow",
        /// They may not.
        Deny = "deny",
        /// The owner is asked first.
        Ask = "ask",
    }
}

/// Whom a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichPrincipal {
    /// Everybody.
    Anyone,
    Owner,
    /// Somebody with an entity, other than the owner.
    Known,
    /// Nobody can say who.
    Unknown,
    /// Nexus itself.
    System,
    Webhook,
    Agent,
}

impl WhichPrincipal {
    const fn is(self, principal: &Principal) -> bool {
        match self {
            Self::Anyone => true,
            Self::Owner => matches!(principal, Principal::Owner { .. }),
            Self::Known => matches!(principal, Principal::Known { .. }),
            Self::Unknown => matches!(principal, Principal::Unknown),
            Self::System => matches!(principal, Principal::System { .. }),
            Self::Webhook => matches!(principal, Principal::Webhook { .. }),
            Self::Agent => matches!(principal, Principal::Agent { .. }),
        }
    }
}

/// What a policy gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// These.
    Fixed(Terms),
    /// What the agent's caller may do.
    Inherited,
}

/// A circumstance that must hold; every part that is named must.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Condition {
    pub platform: Option<String>,
    /// Our account there.
    pub account_id: Option<String>,
    /// Server or team.
    pub space_id: Option<String>,
    /// `dm`, `group`, `channel`, `direct`.
    pub container_kind: Option<String>,
    /// The conversation.
    pub container_id: Option<String>,
    pub thread_id: Option<String>,
    /// The webhook.
    pub hook_id: Option<String>,
    /// The kind of event.
    pub event_type: Option<String>,
    /// The time of day.
    pub time: Option<Hours>,
}

/// When a condition holds, by the owner's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Hours {
    /// Saturday and Sunday.
    Weekends,
    /// From a minute of the day up to, but without, another; across midnight when the second is smaller.
    Between {
        /// First minute.
        from: u16,
        /// Minute after the last.
        to: u16,
    },
}

impl TryFrom<String> for Hours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "weekends" {
            return Ok(Self::Weekends);
        }
        let between = || {
            let (from, to) = text.split_once('-')?;
            Some(Self::Between { from: minute(from)?, to: minute(to)? })
        };
        between().ok_or_else(|| format!("time {text:?} is neither weekends nor HH:MM-HH:MM"))
    }
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str, most: u16| {
        (text.len() == 2).then(|| text.parse::<u16>().ok()).flatten().filter(|number| *number <= most)
    };
    match (number(hour, 24)?, number(minute, 59)?) {
        (24, 0) => Some(24 * 60),
        (24, _) => None,
        (hour, minute) => Some(hour * 60 + minute),
    }
}

impl Hours {
    const fn hold_at(self, clock: LocalClock) -> bool {
        let minute = clock.minute_of_day;
        match self {
            Self::Weekends => clock.is_weekend,
            Self::Between { from, to } if from <= to => from <= minute && minute < to,
            Self::Between { from, to } => from <= minute || minute < to,
        }
    }
}

impl Condition {
    /// A condition on the kind of container alone.
    pub fn in_container(kind: &str) -> Self {
        Self { container_kind: Some(kind.to_owned()), ..Self::default() }
    }

    fn holds(&self, circumstances: &Circumstances) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.platform, Some(&circumstances.platform))
            && is(&self.account_id, circumstances.account_id.as_deref())
            && is(&self.space_id, circumstances.space_id.as_deref())
            && is(&self.container_kind, circumstances.container_kind.as_deref())
            && is(&self.container_id, circumstances.container_id.as_deref())
            && is(&self.thread_id, circumstances.thread_id.as_deref())
            && is(&self.hook_id, circumstances.hook_id.as_deref())
            && is(&self.event_type, circumstances.event_type.as_deref())
            && self.time.is_none_or(|hours| circumstances.clock.is_some_and(|clock| hours.hold_at(clock)))
    }
}

/// Where and how a message is answered, as far as a policy says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routing {
    /// The session it belongs to, and who answers there; named together by one policy.
    pub session: Option<SessionRule>,
    /// How it stands in the session's queue.
    pub queue: Option<ItemMode>,
    /// How long it waits before it is answered.
    pub delay: Option<Duration>,
}

/// A session that a policy names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionRule {
    /// The persona that answers.
    pub persona: Option<String>,
    /// The session's label.
    #[serde(rename = "key")]
    pub label: Option<String>,
}

impl Routing {
    /// Puts what two policies say together, `self` being of the higher priority: the session of the
    /// first that names one, likewise the place in the queue, and the longer delay.
    #[must_use]
    fn merge(&self, lower: &Self) -> Self {
        Self {
            session: self.session.clone().or_else(|| lower.session.clone()),
            queue: self.queue.or(lower.queue),
            delay: self.delay.max(lower.delay),
        }
    }
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name, as logs and traces show it.
    pub name: String,
    /// Higher ones are looked at first.
    pub priority: u8,
    pub about: WhichPrincipal,
    /// Only this entity.
    pub person: Option<String>,
    /// Only people with one of these tags; anybody when there are none.
    pub tags: Vec<String>,
    /// Only under one of these conditions; always when there are none.
    pub conditions: Vec<Condition>,
    pub decision: Decision,
    /// What it gives; for one that asks, what it gives once the owner has agreed.
    pub grant: Grant,
    /// Where and how it is answered.
    pub routing: Routing,
}

/// What happens when somebody with an entity, but without a policy of their own, writes directly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrangerRule {
    /// They are refused.
    Deny,
    /// The owner is asked.
    AskInDirectMessages,
}

/// Name under which the absence of any policy is logged.
pub(crate) const DEFAULT_DENY: &str = "default-deny";

/// Tools Nexus itself needs for texts it sends at start: talking and looking, no commands.
const SYSTEM_TOOLS: &[&str] =
    &["agent_send", "get_agent_status", "glob", "grep", "list", "read", "recall", "remember", "wait"];

/// Returns the policies every workspace starts with.
pub fn built_in(strangers: StrangerRule) -> Vec<Policy> {
    let policy = |name: &str, priority, about, decision, grant| Policy {
        name: name.to_owned(),
        priority,
        about,
        person: None,
        tags: Vec::new(),
        conditions: Vec::new(),
        decision,
        grant,
        routing: Routing::default(),
    };
    let system = Permissions {
        tools: ToolRule { allow: Names::only(SYSTEM_TOOLS.iter().copied()), deny: [].into() },
        credentials: Names::none(),
        data: DataLevel::Contextual,
    };
    let mut policies = vec![
        policy(
            "owner-full-access",
            100,
            WhichPrincipal::Owner,
            Decision::Allow,
            Grant::Fixed(Permissions::everything().into()),
        ),
        policy("system-internal", 50, WhichPrincipal::System, Decision::Allow, Grant::Fixed(system.into())),
        policy("agent-to-agent", 40, WhichPrincipal::Agent, Decision::Allow, Grant::Inherited),
    ];
    if strangers == StrangerRule::AskInDirectMessages {
        policies.push(Policy {
            conditions: vec![Condition::in_container("dm")],
            ..policy(
                "stranger-in-dm",
                20,
                WhichPrincipal::Known,
                Decision::Ask,
                Grant::Fixed(Permissions::nothing().into()),
            )
        });
    }
    policies
}

/// What a set of policies says about a principal.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    pub decision: Decision,
    /// Names of the policies that matched, highest priority first.
    pub matched: Vec<String>,
    /// The policy that decided; none when nothing matched.
    pub decided_by: Option<String>,
    /// What may be used; nothing unless allowed.
    pub permissions: Permissions,
    /// What may be used once the owner has agreed; nothing unless they are asked.
    pub upon_consent: Permissions,
    /// Where and how it is answered; as always when refused.
    pub routing: Routing,
}

/// Evaluates policies: any matching deny denies, else an allow allows, else an ask asks, and nothing
/// at all denies. Several allows give what all of them give, and so do several asks.
pub fn evaluate(policies: &[Policy], principal: &Principal, circumstances: &Circumstances) -> Evaluation {
    let mut matching: Vec<&Policy> =
        policies.iter().filter(|policy| policy.matches(principal, circumstances)).collect();
    matching.sort_by(|one, other| other.priority.cmp(&one.priority).then_with(|| one.name.cmp(&other.name)));
    let first = |decision| matching.iter().find(|policy| policy.decision == decision);
    let deciding = first(Decision::Deny).or_else(|| first(Decision::Allow)).or_else(|| first(Decision::Ask));
    let decision = deciding.map_or(Decision::Deny, |policy| policy.decision);
    let deciders: Vec<&&Policy> = matching.iter().filter(|policy| policy.decision == decision).collect();
    let given = || {
        let terms = deciders.iter().map(|policy| policy.terms(principal));
        let merged = terms.reduce(|all, next| all.and(&next)).unwrap_or_default().permissions();
        // Whatever policies say, an agent never exceeds whoever it acts for.
        match principal {
            Principal::Agent { inherited, .. } => merged.intersect(inherited),
            Principal::Owner { .. }
            | Principal::Known { .. }
            | Principal::Unknown
            | Principal::System { .. }
            | Principal::Webhook { .. } => merged,
        }
    };
    let routes = || {
        let all = deciders.iter().map(|policy| policy.routing.clone());
        all.reduce(|higher, lower| higher.merge(&lower)).unwrap_or_default()
    };
    let (permissions, upon_consent, routing) = match decision {
        Decision::Allow => (given(), Permissions::nothing(), routes()),
        Decision::Ask => (Permissions::nothing(), given(), routes()),
        Decision::Deny => (Permissions::nothing(), Permissions::nothing(), Routing::default()),
    };
    Evaluation {
        decision,
        matched: matching.iter().map(|policy| policy.name.clone()).collect(),
        decided_by: deciding.map(|policy| policy.name.clone()),
        permissions,
        upon_consent,
        routing,
    }
}

impl Policy {
    fn matches(&self, principal: &Principal, circumstances: &Circumstances) -> bool {
        self.about.is(principal)
            && self
                .person
                .as_deref()
                .is_none_or(|person| principal.entity_id().is_some_and(|entity| entity.as_str() == person))
            && (self.tags.is_empty() || self.tags.iter().any(|tag| principal.tags().contains(tag)))
            && (self.conditions.is_empty() || self.conditions.iter().any(|one| one.holds(circumstances)))
    }

    fn terms(&self, principal: &Principal) -> Terms {
        match (&self.grant, principal) {
            (Grant::Fixed(terms), _) => terms.clone(),
            (Grant::Inherited, Principal::Agent { inherited, .. }) => inherited.clone().into(),
            (Grant::Inherited, _) => Permissions::nothing().into(),
        }
    }
}
