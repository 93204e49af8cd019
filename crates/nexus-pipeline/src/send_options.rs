//! What a person asks for besides the words, and whether they may.

use std::fmt;
use std::path::PathBuf;

use nexus_base::id::SessionLabel;
use nexus_identity::Routing;
use nexus_project::Project;
use nexus_protocol::chat::{ChatSend, MAX_IDEMPOTENCY_KEY_LEN, MAX_MESSAGE_LEN};
use nexus_store::agents::{ItemKind, ItemMode};
use nexus_store::events::AcceptedEvent;
use serde_json::{Value, json};

use crate::RuntimeError;
use crate::pipeline::Pipeline;

/// Longest session label a person may name.
const MAX_LABEL_LEN: usize = 200;
/// What callers of the runtime's own messages begin with.
const SYSTEM: &str = "system:";
/// What the owner is called there.
const OWNER: &str = "owner";

/// Who sent a message; kept with it as text, so that a restart knows it, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentBy {
    Owner,
    /// A program that holds a token, by its name.
    Client(String),
    /// A part of the runtime. People cannot call themselves that: a client's name comes from its token.
    System(String),
}

impl SentBy {
    fn parse(text: &str) -> Self {
        match (text, text.strip_prefix(SYSTEM)) {
            (OWNER, _) => Self::Owner,
            (_, Some(part)) => Self::System(part.to_owned()),
            (_, None) => Self::Client(text.to_owned()),
        }
    }
}

impl fmt::Display for SentBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => formatter.write_str(OWNER),
            Self::Client(name) => formatter.write_str(name),
            Self::System(part) => write!(formatter, "{SYSTEM}{part}"),
        }
    }
}

/// What a person asked for besides the words, kept with the event so that a restart can go on.
#[derive(Debug, Clone)]
pub(crate) struct SendOptions {
    pub(crate) session: SessionLabel,
    pub(crate) mode: ItemMode,
    pub(crate) kind: ItemKind,
    pub(crate) caller: SentBy,
    /// The project the conversation has, if this begins it.
    pub(crate) project: Option<PathBuf>,
    /// The model that answers, by its whole name.
    pub(crate) model: Option<String>,
}

impl SendOptions {
    /// Returns the options of a text that a part of the runtime says, such as BOOT.md.
    /// `session` is where what comes of it is said.
    pub(crate) fn system(part: &str, session: SessionLabel) -> Self {
        Self {
            session,
            mode: ItemMode::Followup,
            kind: ItemKind::System,
            caller: SentBy::System(part.to_owned()),
            project: None,
            model: None,
        }
    }

    /// Returns which part of the runtime speaks, if it is the runtime that does.
    pub(crate) fn system_part(&self) -> Option<&str> {
        match &self.caller {
            SentBy::System(part) => Some(part),
            SentBy::Owner | SentBy::Client(_) => None,
        }
    }

    /// Returns what is kept with the event.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "session": self.session.as_str(),
            "mode": self.mode.as_str(),
            "kind": self.kind.as_str(),
            "caller": self.caller.to_string(),
            "project": self.project,
            "model": self.model,
        })
    }

    /// Reads what was kept with an event.
    pub(crate) fn of(accepted: &AcceptedEvent, owner_session: impl FnOnce() -> SessionLabel) -> Self {
        let text = |name: &str| {
            let metadata = accepted.event.body.metadata.as_ref()?;
            metadata.get(name)?.as_str().map(str::to_owned)
        };
        Self {
            session: text("session").map_or_else(owner_session, SessionLabel::new),
            mode: text("mode").and_then(|word| ItemMode::parse(&word)).unwrap_or(ItemMode::Followup),
            kind: match text("kind").as_deref() {
                Some("system") => ItemKind::System,
                Some(_) | None => ItemKind::Message,
            },
            caller: text("caller").map_or(SentBy::Owner, |text| SentBy::parse(&text)),
            project: text("project").map(PathBuf::from),
            model: text("model"),
        }
    }

    /// Returns the options as the policies that let it in would have it.
    pub(crate) fn routed(&self, routing: &Routing) -> Self {
        let label = routing.session.as_ref().and_then(|rule| rule.label.as_deref());
        Self {
            session: label.map_or_else(|| self.session.clone(), SessionLabel::new),
            mode: routing.queue.unwrap_or(self.mode),
            kind: self.kind,
            caller: self.caller.clone(),
            project: self.project.clone(),
            model: self.model.clone(),
        }
    }
}

impl Pipeline {
    /// Checks a message and reads what is asked for with it.
    pub(crate) fn read_send_options(
        &self,
        send: &ChatSend,
        kind: ItemKind,
        caller: SentBy,
    ) -> Result<SendOptions, RuntimeError> {
        if send.message.trim().is_empty() {
            return Err(invalid("the message is empty", None));
        }
        if send.message.len() > MAX_MESSAGE_LEN {
            return Err(invalid(
                &format!("the message has {} bytes; the limit is {MAX_MESSAGE_LEN}", send.message.len()),
                Some("put long material in a file under home/ and give its path"),
            ));
        }
        if let Some(key) = &send.idempotency_key
            && (key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY_LEN || key.chars().any(char::is_control))
        {
            return Err(invalid(
                &format!("idempotencyKey must have 1 to {MAX_IDEMPOTENCY_KEY_LEN} printable characters"),
                None,
            ));
        }
        // A project opens a folder to workers; whose folders these are decides.
        if send.project.is_some() && caller != SentBy::Owner {
            return Err(RuntimeError::Forbidden { reason: "only the owner may open projects".to_owned() });
        }
        let named = send.project.as_deref().map(|path| self.agent_factory.projects.named(path)).transpose();
        let named = named.map_err(|problem| invalid(&problem, Some("name the folder of a repository")))?;
        let session = match (&send.session, &named) {
            (Some(label), _) => check_label(label)?,
            (None, Some(root)) => SessionLabel::new(Project::conversation(root)),
            (None, None) => self.owner_session(),
        };
        let project = named.or_else(|| self.agent_factory.projects.around_home());
        let mode = send.queue_mode.unwrap_or_else(|| self.agent_factory.settings().queue.mode).into();
        let model =
            send.model.as_deref().map(|wanted| self.agent_factory.models.choosable(wanted)).transpose();
        let model = model.map_err(|problem| {
            invalid(
                &problem,
                Some("`nexus models` shows what is in use; `models.table` describes more of them"),
            )
        })?;
        Ok(SendOptions { session, mode, kind, caller, project, model })
    }
}

/// Checks a session label a person named: a family, a colon, a name.
pub fn check_label(label: &SessionLabel) -> Result<SessionLabel, RuntimeError> {
    let text = label.as_str();
    let well_formed = text.len() <= MAX_LABEL_LEN
        && text.split_once(':').is_some_and(|(family, name)| {
            !family.is_empty() && !name.is_empty() && family.bytes().all(|byte| byte.is_ascii_lowercase())
        })
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_' | b'.'));
    if !well_formed {
        return Err(invalid(
            &format!("{text:?} is not a session label"),
            Some(
                "labels look like chat:garden: a family in lowercase letters, a colon, then letters, digits, - _ . :",
            ),
        ));
    }
    if matches!(label.as_str().split(':').next(), Some("worker" | "system" | "meeseeks")) {
        return Err(RuntimeError::Forbidden {
            reason: format!("{text} is run by the daemon; talk to your assistant instead"),
        });
    }
    Ok(label.clone())
}

pub(crate) fn invalid(message: &str, hint: Option<&str>) -> RuntimeError {
    RuntimeError::Invalid { message: message.to_owned(), hint: hint.map(str::to_owned) }
}
