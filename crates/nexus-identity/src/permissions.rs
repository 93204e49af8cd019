//! What somebody may use: tools, credentials, data. A value that can be stored with a request, so
//! that what was decided at its start still holds when it runs after a restart.

use std::collections::BTreeSet;

use nexus_store::agents::PermissionSnapshot;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// Names that are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// Every one.
    All,
    /// These. A part of a name between slashes may be `*`: `github/*`, `*/work`.
    Only(BTreeSet<String>),
}

/// How much of what is known may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataLevel {
    /// Nothing.
    None,
    /// What a stranger may know.
    #[serde(alias = "restricted")]
    Minimal,
    /// What the conversation is about.
    Contextual,
    /// Everything.
    Full,
}

/// Which tools may be used. A denied tool is denied whatever allows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRule {
    /// May be used.
    pub allow: Names,
    /// May not be used.
    pub deny: BTreeSet<String>,
}

/// Everything somebody may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permissions {
    pub tools: ToolRule,
    /// Credentials, as `service/account`.
    pub credentials: Names,
    pub data: DataLevel,
}

impl Names {
    /// Names nothing.
    pub const fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// Names these.
    pub fn only<I: IntoIterator<Item = T>, T: Into<String>>(names: I) -> Self {
        Self::Only(names.into_iter().map(Into::into).collect())
    }

    /// Tells whether `name` is meant.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|pattern| covers(pattern, name)),
        }
    }

    fn intersection(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, rest) | (rest, Self::All) => rest.clone(),
            (Self::Only(one), Self::Only(two)) => {
                let pairs = one.iter().flat_map(|left| two.iter().map(move |right| (left, right)));
                Self::Only(pairs.filter_map(|(left, right)| common(left, right)).collect())
            }
        }
    }
}

fn covers(pattern: &str, name: &str) -> bool {
    let (mut patterns, mut parts) = (pattern.split('/'), name.split('/'));
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(expected), Some(part)) if expected == "*" || expected == part => {}
            _ => return false,
        }
    }
}

// What both patterns mean: of `a/*` and `*/b` that is `a/b`.
fn common(left: &str, right: &str) -> Option<String> {
    let (mut lefts, mut rights) = (left.split('/'), right.split('/'));
    let mut parts = Vec::new();
    loop {
        match (lefts.next(), rights.next()) {
            (None, None) => return Some(parts.join("/")),
            (Some("*"), Some(part)) | (Some(part), Some("*")) => parts.push(part),
            (Some(one), Some(two)) if one == two => parts.push(one),
            _ => return None,
        }
    }
}

/// What one policy says about permissions. A part that it leaves out it neither gives nor limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terms {
    pub allow: Option<Names>,
    pub deny: BTreeSet<String>,
    pub credentials: Option<Names>,
    pub data: Option<DataLevel>,
}

impl Terms {
    /// Returns what holds under both: never more than either gives.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let names = |one: &Option<Names>, two: &Option<Names>| match (one, two) {
            (Some(one), Some(two)) => Some(one.intersection(two)),
            (said, None) | (None, said) => said.clone(),
        };
        Self {
            allow: names(&self.allow, &other.allow),
            deny: self.deny.union(&other.deny).cloned().collect(),
            credentials: names(&self.credentials, &other.credentials),
            data: self.data.into_iter().chain(other.data).min(),
        }
    }

    /// Returns what is given in the end: nothing where nobody said anything.
    pub fn permissions(self) -> Permissions {
        Permissions {
            tools: ToolRule { allow: self.allow.unwrap_or_else(Names::none), deny: self.deny },
            credentials: self.credentials.unwrap_or_else(Names::none),
            data: self.data.unwrap_or(DataLevel::None),
        }
    }
}

impl From<Permissions> for Terms {
    fn from(all: Permissions) -> Self {
        Self {
            allow: Some(all.tools.allow),
            deny: all.tools.deny,
            credentials: Some(all.credentials),
            data: Some(all.data),
        }
    }
}

impl Permissions {
    /// Allows everything.
    pub const fn everything() -> Self {
        Self {
            tools: ToolRule { allow: Names::All, deny: BTreeSet::new() },
            credentials: Names::All,
            data: DataLevel::Full,
        }
    }

    /// Allows nothing.
    pub const fn nothing() -> Self {
        Self {
            tools: ToolRule { allow: Names::none(), deny: BTreeSet::new() },
            credentials: Names::none(),
            data: DataLevel::None,
        }
    }

    /// Tells whether a tool may be used.
    pub fn may_use_tool(&self, name: &str) -> bool {
        self.tools.allow.contains(name) && !self.tools.deny.iter().any(|pattern| covers(pattern, name))
    }

    /// Tells whether a credential, as `service/account`, may be used.
    pub fn may_use_credential(&self, reference: &str) -> bool {
        self.credentials.contains(reference)
    }

    /// Returns what both allow: a worker's permissions out of its caller's and its task's.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        Self {
            tools: ToolRule {
                allow: self.tools.allow.intersection(&other.tools.allow),
                deny: self.tools.deny.union(&other.tools.deny).cloned().collect(),
            },
            credentials: self.credentials.intersection(&other.credentials),
            data: self.data.min(other.data),
        }
    }

    /// Returns the snapshot that is stored with a request.
    pub fn snapshot(&self) -> PermissionSnapshot {
        PermissionSnapshot::new(self.to_json())
    }

    /// Reads a snapshot that was stored with a request. Anything that is not one allows nothing.
    pub fn of(snapshot: &PermissionSnapshot) -> Self {
        Self::from_json(snapshot.as_json())
    }

    /// Renders what is shown of them.
    pub fn to_json(&self) -> Value {
        json!({
            "tools": { "allow": self.tools.allow, "deny": self.tools.deny },
            "credentials": self.credentials,
            "data": self.data,
        })
    }

    /// Reads a stored snapshot. Anything that is not one allows nothing.
    pub fn from_json(value: &Value) -> Self {
        Self::deserialize(value).unwrap_or_else(|_| Self::nothing())
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            Self::Only(names) => names.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Word(String),
            List(BTreeSet<String>),
        }
        match Form::deserialize(deserializer)? {
            Form::Word(word) if word == "*" => Ok(Self::All),
            Form::Word(_) => Err(serde::de::Error::custom("expected \"*\" or a list of names")),
            Form::List(names) => Ok(Self::Only(names)),
        }
    }
}
