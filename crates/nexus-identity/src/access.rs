//! Resolves principals and decides what they may do; every decision leaves a row.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use nexus_base::clock::{LocalClock, Timestamp};
use nexus_base::id::{EventId, RequestId, SessionLabel};
use nexus_store::identity::{AccessEffect, AccessLogRow};
use nexus_store::{Identity, StoreError};
use serde_json::json;

use crate::permissions::Permissions;
use crate::policy::{DEFAULT_DENY, Decision, Policy, Routing, StrangerRule, built_in, evaluate};
use crate::principal::{MAX_NAME_LEN, Principal, Source};

/// Where and how a message came in, as far as policies look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Circumstances {
    pub platform: String,
    /// The sender in the platform's terms.
    pub sender: String,
    /// `dm`, `group`, `channel`, `direct`.
    pub container_kind: Option<String>,
    /// Our account there.
    pub account_id: Option<String>,
    /// Server or team.
    pub space_id: Option<String>,
    /// The conversation.
    pub container_id: Option<String>,
    pub thread_id: Option<String>,
    /// The webhook.
    pub hook_id: Option<String>,
    /// The kind of event.
    pub event_type: Option<String>,
    /// The owner's clock; a policy with hours does not match without one.
    pub clock: Option<LocalClock>,
}

impl Circumstances {
    /// A call over the control plane: always a conversation between two.
    pub fn control_plane(principal: &Principal) -> Self {
        let sender = principal.entity_id().map(|entity| entity.as_str().to_owned());
        Self {
            platform: "control-plane".to_owned(),
            sender: sender.or_else(|| principal.name().map(str::to_owned)).unwrap_or_default(),
            container_kind: Some("dm".to_owned()),
            clock: Timestamp::now().local_clock(),
            ..Self::default()
        }
    }
}

/// A call over the control plane, for the access log.
#[derive(Debug, Clone, Copy)]
pub struct Operation<'a> {
    /// Who called, as the log names them.
    pub caller: &'a str,
    /// What kind of caller.
    pub kind: &'a str,
    /// The permission it took, `control.<resource>.<action>`.
    pub permission: &'a str,
}

/// A decision with its reason and what it allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub decision: Decision,
    /// The policy that decided; none when no policy matched.
    pub policy: Option<String>,
    /// What may be used.
    pub permissions: Permissions,
    /// What may be used once the owner has agreed.
    pub upon_consent: Permissions,
    /// Where and how it is answered.
    pub routing: Routing,
    /// Why not, for a person to read; none when allowed.
    pub reason: Option<String>,
}

/// The gate every request passes. Clones share the policies' source.
#[derive(Debug, Clone)]
pub struct Access {
    identity: Identity,
    policies: Arc<RwLock<Arc<[Policy]>>>,
}

impl Access {
    /// Opens the gate with the built-in policies; strangers are refused.
    pub fn new(identity: Identity) -> Self {
        Self::with_policies(identity, built_in(StrangerRule::Deny))
    }

    /// Opens the gate with these policies and no others.
    pub fn with_policies(identity: Identity, policies: Vec<Policy>) -> Self {
        Self { identity, policies: Arc::new(RwLock::new(policies.into())) }
    }

    /// Puts these policies in force for every clone, from the next decision on.
    pub fn set_policies(&self, policies: Vec<Policy>) {
        *self.policies.write().unwrap_or_else(PoisonError::into_inner) = policies.into();
    }

    fn policies(&self) -> Arc<[Policy]> {
        Arc::clone(&self.policies.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records a control-plane call that is no event: who, what, and whether they may.
    pub fn log_operation(&self, who: &Operation<'_>, refusal: Option<&str>) {
        self.identity.log_access_later(AccessLogRow {
            timestamp: Timestamp::now(),
            event_id: None,
            request_id: None,
            platform: "control-plane".to_owned(),
            sender_id: who.caller.to_owned(),
            container_kind: None,
            principal_id: None,
            principal_type: who.kind.to_owned(),
            principal_name: None,
            policies_matched: None,
            effect: if refusal.is_none() { AccessEffect::Allow } else { AccessEffect::Deny },
            deny_reason: refusal.map(str::to_owned),
            tools_allowed: None,
            tools_denied: None,
            credentials_allowed: None,
            data_access: None,
            persona: None,
            session_key: None,
            grants_applied: None,
            processing_time_ms: None,
            operation: Some(who.permission.to_owned()),
        });
    }

    /// Says who is behind a source. A sender who is new gets an entity; merges are followed.
    pub async fn principal(&self, source: Source) -> Result<Principal, StoreError> {
        match source {
            Source::Owner { entity } => self.person(entity).await,
            Source::System { name } => Ok(Principal::System { name }),
            Source::Webhook { name } => Ok(Principal::Webhook { name }),
            Source::Agent { session, inherited } => Ok(Principal::Agent { session, inherited }),
            Source::Sender { platform, space, sender, name } => {
                let is_usable = |text: &String| !text.trim().is_empty() && text.len() <= MAX_NAME_LEN;
                let Some(sender) = sender.filter(is_usable).filter(|_| is_usable(&platform)) else {
                    return Ok(Principal::Unknown);
                };
                let space = space.filter(is_usable);
                let name = name.map(|name| name.chars().take(MAX_NAME_LEN).collect::<String>());
                let entity = self
                    .identity
                    .record_contact(&platform, space.as_deref(), &sender, name.as_deref())
                    .await?;
                self.person(entity).await
            }
        }
    }

    /// Decides about a message over the control plane and records the decision.
    pub fn decide(&self, principal: &Principal, event: &EventId, session: &SessionLabel) -> Verdict {
        tracing::trace!("policies decide");
        self.decide_in(principal, &Circumstances::control_plane(principal), event, session)
    }

    /// Decides about a message that came in under these circumstances and records the decision.
    pub fn decide_in(
        &self,
        principal: &Principal,
        circumstances: &Circumstances,
        event: &EventId,
        session: &SessionLabel,
    ) -> Verdict {
        let watch = Instant::now();
        let evaluation = evaluate(&self.policies(), principal, circumstances);
        let policy = evaluation.decided_by;
        let reason = match evaluation.decision {
            Decision::Allow => None,
            Decision::Deny => Some(match &policy {
                Some(name) => format!("policy {name} denies it"),
                None => format!("no policy allows messages from principals of kind {}", principal.kind()),
            }),
            Decision::Ask => Some("the owner has to approve it first".to_owned()),
        };
        let permissions = evaluation.permissions;
        let matched = match evaluation.matched.is_empty() {
            true => json!([DEFAULT_DENY]),
            false => json!(evaluation.matched),
        };
        self.identity.log_access_later(AccessLogRow {
            timestamp: Timestamp::now(),
            event_id: Some(event.clone()),
            request_id: None,
            platform: circumstances.platform.clone(),
            sender_id: circumstances.sender.clone(),
            container_kind: circumstances.container_kind.clone(),
            principal_id: principal.entity_id().cloned(),
            principal_type: principal.kind().to_owned(),
            principal_name: principal.name().map(str::to_owned),
            policies_matched: Some(matched),
            effect: match evaluation.decision {
                Decision::Allow => AccessEffect::Allow,
                Decision::Deny => AccessEffect::Deny,
                Decision::Ask => AccessEffect::Ask,
            },
            deny_reason: reason.clone(),
            tools_allowed: Some(json!(permissions.tools.allow)),
            tools_denied: Some(json!(permissions.tools.deny)),
            credentials_allowed: Some(json!(permissions.credentials)),
            data_access: permissions.to_json()["data"].as_str().map(str::to_owned),
            persona: evaluation.routing.session.as_ref().and_then(|rule| rule.persona.clone()),
            session_key: Some(session.clone()),
            grants_applied: None,
            processing_time_ms: u64::try_from(watch.elapsed().as_millis()).ok(),
            operation: None,
        });
        Verdict {
            decision: evaluation.decision,
            policy,
            permissions,
            upon_consent: evaluation.upon_consent,
            routing: evaluation.routing,
            reason,
        }
    }

    /// Records that the owner's consent let a message in that a policy asked about.
    pub fn log_consent(&self, principal: &Principal, event: &EventId, question: &RequestId) {
        let circumstances = Circumstances::control_plane(principal);
        self.identity.log_access_later(AccessLogRow {
            timestamp: Timestamp::now(),
            event_id: Some(event.clone()),
            request_id: Some(question.clone()),
            platform: circumstances.platform,
            sender_id: circumstances.sender,
            container_kind: circumstances.container_kind,
            principal_id: principal.entity_id().cloned(),
            principal_type: principal.kind().to_owned(),
            principal_name: principal.name().map(str::to_owned),
            policies_matched: None,
            effect: AccessEffect::Allow,
            deny_reason: None,
            tools_allowed: None,
            tools_denied: None,
            credentials_allowed: None,
            data_access: None,
            persona: None,
            session_key: None,
            grants_applied: Some(json!([question.as_str()])),
            processing_time_ms: None,
            operation: None,
        });
    }

    async fn person(&self, entity: nexus_base::id::EntityId) -> Result<Principal, StoreError> {
        let Some(found) = self.identity.resolve_canonical(entity).await? else {
            return Ok(Principal::Unknown);
        };
        if found.is_user {
            return Ok(Principal::Owner { entity: found.id, name: found.name });
        }
        let tags = self.identity.entity_tags(found.id.clone()).await?;
        Ok(Principal::Known { entity: found.id, name: found.name, tags })
    }
}
