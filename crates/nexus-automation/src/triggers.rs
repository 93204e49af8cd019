//! When an automation runs beyond its hook point: conditions on who and what, all of them optional.

use serde::Deserialize;
use serde_json::Value;

use crate::occasion::Occasion;

/// Most words one condition may list.
const MAX_WORDS: usize = 64;

/// Conditions that must all hold. An empty one holds always.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    principal: PrincipalTriggers,
    event: EventTriggers,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PrincipalTriggers {
    #[serde(rename = "type")]
    kind: Words,
    name: Words,
    relationship: Words,
    entity_id: Words,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EventTriggers {
    platforms: Words,
    types: Words,
    direction: Words,
}

/// One word or several; one of them must be met.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
struct Words(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Words {
    fn from(words: OneOrMany) -> Self {
        Self(match words {
            OneOrMany::One(word) => vec![word],
            OneOrMany::Many(words) => words,
        })
    }
}

impl Words {
    fn met_by(&self, word: Option<&str>) -> bool {
        self.0.is_empty()
            || word.is_some_and(|word| self.0.iter().any(|wanted| wanted.eq_ignore_ascii_case(word)))
    }
}

impl Triggers {
    /// Reads conditions as they are stored.
    ///
    /// # Errors
    /// They are not conditions; the text says why.
    pub fn read(value: Option<&Value>) -> Result<Self, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Self::default()) };
        if !value.is_object() {
            return Err("conditions must be a JSON object".to_owned());
        }
        let triggers: Self = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        match triggers.all().iter().find(|words| words.0.len() > MAX_WORDS) {
            Some(long) => {
                Err(format!("a condition lists {} words; at most {MAX_WORDS} are allowed", long.0.len()))
            }
            None => Ok(triggers),
        }
    }

    /// Tells whether an occasion meets all of them.
    pub fn are_met_by(&self, occasion: &Occasion) -> bool {
        let principal = occasion.principal.as_ref();
        let event = occasion.event.as_ref();
        self.principal.kind.met_by(principal.map(|who| who.kind.as_str()))
            && self.principal.name.met_by(principal.and_then(|who| who.name.as_deref()))
            && self.principal.relationship.met_by(principal.and_then(|who| who.relationship.as_deref()))
            && self.principal.entity_id.met_by(principal.and_then(|who| who.entity_id.as_deref()))
            && self.event.platforms.met_by(event.map(|event| event.platform.as_str()))
            && self.event.types.met_by(event.map(|event| event.kind.as_str()))
            && self.event.direction.met_by(event.map(|event| event.direction.as_str()))
    }

    fn all(&self) -> [&Words; 7] {
        let (principal, event) = (&self.principal, &self.event);
        [
            &principal.kind,
            &principal.name,
            &principal.relationship,
            &principal.entity_id,
            &event.platforms,
            &event.types,
            &event.direction,
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::occasion::{EventFacts, PrincipalFacts};

    fn check(triggers: &Value, expected: bool) {
        let occasion = Occasion {
            principal: Some(PrincipalFacts { kind: "owner".to_owned(), ..PrincipalFacts::default() }),
            event: Some(EventFacts {
                platform: "control-plane".to_owned(),
                kind: "message".to_owned(),
                direction: "inbound".to_owned(),
                content: String::new(),
            }),
            ..Occasion::default()
        };
        let triggers = Triggers::read(Some(triggers)).unwrap();
        assert_eq!(triggers.are_met_by(&occasion), expected, "{triggers:?}");
    }

    #[test]
    fn all_conditions_must_hold_and_absent_ones_do() {
        check(&json!({}), true);
        check(&Value::Null, true);
        check(&json!({"principal": {"type": "Owner"}}), true);
        check(&json!({"principal": {"type": ["known", "owner"]}, "event": {"platforms": "discord"}}), false);
        check(&json!({"principal": {"name": "Ada"}}), false);
        check(&json!({"event": {"types": ["message"], "direction": "inbound"}}), true);
    }

    #[test]
    fn what_is_no_condition_is_refused_and_not_ignored() {
        for wrong in [json!({"who": 1}), json!({"principal": {"kind": "owner"}}), json!([]), json!("owner")] {
            assert!(Triggers::read(Some(&wrong)).is_err(), "{wrong}");
        }
        let long: Vec<String> = (0..65).map(|number| number.to_string()).collect();
        assert!(Triggers::read(Some(&json!({"event": {"types": long}}))).is_err());
    }
}
