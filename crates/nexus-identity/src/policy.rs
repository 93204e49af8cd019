//! Policies: who they are about, what they decide, what they give. Evaluation is a pure function.

use crate::access::Circumstances;
use crate::permissions::{DataLevel, Names, Permissions, ToolRule};
use crate::principal::Principal;

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// They may.
    Allow,
    /// They may not.
    Deny,
    /// The owner is asked first.
    Ask,
}

impl Decision {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Ask => "ask",
        }
    }
}

/// Whom a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichPrincipal {
    /// The owner.
    Owner,
    /// Somebody with an entity, other than the owner.
    Known,
    /// Nobody can say who.
    Unknown,
    /// Nexus itself.
    System,
    /// A webhook.
    Webhook,
    /// An agent.
    Agent,
}

impl WhichPrincipal {
    const fn is(self, principal: &Principal) -> bool {
        match self {
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
    /// These permissions.
    Fixed(Permissions),
    /// What the agent's caller may do.
    Inherited,
}

/// One policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Its name, as logs and traces show it.
    pub name: String,
    /// Higher ones are looked at first.
    pub priority: u8,
    /// Whom it is about.
    pub about: WhichPrincipal,
    /// Only in containers of this kind, such as `dm`; anywhere when absent.
    pub container_kind: Option<String>,
    /// What it decides.
    pub decision: Decision,
    /// What it gives.
    pub grant: Grant,
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
        container_kind: None,
        decision,
        grant,
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
            Grant::Fixed(Permissions::everything()),
        ),
        policy("system-internal", 50, WhichPrincipal::System, Decision::Allow, Grant::Fixed(system)),
        policy("agent-to-agent", 40, WhichPrincipal::Agent, Decision::Allow, Grant::Inherited),
    ];
    if strangers == StrangerRule::AskInDirectMessages {
        policies.push(Policy {
            container_kind: Some("dm".to_owned()),
            ..policy(
                "stranger-in-dm",
                20,
                WhichPrincipal::Known,
                Decision::Ask,
                Grant::Fixed(Permissions::nothing()),
            )
        });
    }
    policies
}

/// What a set of policies says about a principal.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// The decision.
    pub decision: Decision,
    /// Names of the policies that matched, highest priority first.
    pub matched: Vec<String>,
    /// The policy that decided; none when nothing matched.
    pub decided_by: Option<String>,
    /// What may be used; nothing unless allowed.
    pub permissions: Permissions,
}

/// Evaluates policies: any matching deny denies, else an allow allows, else an ask asks, and nothing
/// at all denies. Permissions of several allows are merged.
pub fn evaluate(policies: &[Policy], principal: &Principal, circumstances: &Circumstances) -> Evaluation {
    let mut matching: Vec<&Policy> =
        policies.iter().filter(|policy| policy.matches(principal, circumstances)).collect();
    matching.sort_by(|one, other| other.priority.cmp(&one.priority).then_with(|| one.name.cmp(&other.name)));
    let first = |decision| matching.iter().find(|policy| policy.decision == decision);
    let deciding = first(Decision::Deny).or_else(|| first(Decision::Allow)).or_else(|| first(Decision::Ask));
    let decision = deciding.map_or(Decision::Deny, |policy| policy.decision);
    let permissions = match decision {
        Decision::Allow => matching
            .iter()
            .filter(|policy| policy.decision == Decision::Allow)
            .map(|policy| policy.permissions(principal))
            .reduce(|merged, next| merged.merge(&next))
            .unwrap_or_else(Permissions::nothing),
        Decision::Deny | Decision::Ask => Permissions::nothing(),
    };
    // Whatever policies say, an agent never exceeds whoever it acts for.
    let permissions = match principal {
        Principal::Agent { inherited, .. } => permissions.intersect(inherited),
        Principal::Owner { .. }
        | Principal::Known { .. }
        | Principal::Unknown
        | Principal::System { .. }
        | Principal::Webhook { .. } => permissions,
    };
    Evaluation {
        decision,
        matched: matching.iter().map(|policy| policy.name.clone()).collect(),
        decided_by: deciding.map(|policy| policy.name.clone()),
        permissions,
    }
}

impl Policy {
    fn matches(&self, principal: &Principal, circumstances: &Circumstances) -> bool {
        self.about.is(principal)
            && self
                .container_kind
                .as_deref()
                .is_none_or(|kind| circumstances.container_kind.as_deref() == Some(kind))
    }

    fn permissions(&self, principal: &Principal) -> Permissions {
        match (&self.grant, principal) {
            (Grant::Fixed(permissions), _) => permissions.clone(),
            (Grant::Inherited, Principal::Agent { inherited, .. }) => inherited.clone(),
            (Grant::Inherited, _) => Permissions::nothing(),
        }
    }
}
