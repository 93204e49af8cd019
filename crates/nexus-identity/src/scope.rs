//! What a token may do: permissions of the form `control.<resource>.<action>`, a part may be `*`.

use std::fmt;

/// Most permissions one token lists.
const MAX_COUNT: usize = 64;
/// Longest permission, in bytes.
const MAX_LEN: usize = 80;

/// What a token may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

/// Why a list of permissions is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    /// Too many.
    #[error("a token must have 1 to {MAX_COUNT} scopes")]
    Count,
    /// Not of the form.
    #[error("{0:?} does not have the form control.<resource>.<action>; a part may be *")]
    Form(String),
    /// More than the token has.
    #[error("the token does not include {0}")]
    Exceeds(String),
}

impl Scopes {
    /// Everything: the owner's own token.
    pub fn everything() -> Self {
        Self(vec!["control.*.*".to_owned()])
    }

    /// Checks a list given by a person.
    ///
    /// # Errors
    /// A scope is not of the form.
    pub fn new(list: &[String]) -> Result<Self, ScopeError> {
        if list.is_empty() || list.len() > MAX_COUNT {
            return Err(ScopeError::Count);
        }
        if let Some(wrong) = list.iter().find(|scope| !is_well_formed(scope)) {
            return Err(ScopeError::Form(wrong.chars().take(MAX_LEN).collect()));
        }
        Ok(Self(list.to_vec()))
    }

    /// Takes a stored list; whatever is not of the form is worth nothing.
    pub fn stored(list: &[String]) -> Self {
        Self(list.iter().filter(|scope| is_well_formed(scope)).cloned().collect())
    }

    /// Tells whether a permission is covered.
    pub fn cover(&self, permission: &str) -> bool {
        self.0.iter().any(|scope| covers(scope, permission))
    }

    /// Returns what is left when a holder wants less. Wanting more is refused, not cut: a client
    /// that believes it may do something must learn that it may not.
    ///
    /// # Errors
    /// Something asked for is not covered.
    pub fn narrowed(&self, asked: &[String]) -> Result<Self, ScopeError> {
        let asked = Self::new(asked)?;
        match asked.0.iter().find(|scope| !self.cover(scope)) {
            Some(beyond) => Err(ScopeError::Exceeds(beyond.clone())),
            None => Ok(asked),
        }
    }

    pub fn list(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(" "))
    }
}

fn is_well_formed(scope: &str) -> bool {
    let parts: Vec<&str> = scope.split('.').collect();
    let is_word = |part: &&str| {
        *part == "*"
            || (!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    scope.len() <= MAX_LEN && parts.len() == 3 && parts[0] == "control" && parts[1..].iter().all(is_word)
}

/// A `*` covers any one part, also another `*`; a word covers itself only.
fn covers(scope: &str, permission: &str) -> bool {
    let (mut scopes, mut parts) = (scope.split('.'), permission.split('.'));
    loop {
        match (scopes.next(), parts.next()) {
            (None, None) => return true,
            (Some(wanted), Some(part)) if wanted == "*" || wanted == part => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(list: &[&str]) -> Result<Scopes, ScopeError> {
        Scopes::new(&list.iter().map(|scope| (*scope).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_star_covers_one_part() {
        let chat = scopes(&["control.chat.*"]).unwrap();
        assert!(chat.cover("control.chat.write"));
        assert!(!chat.cover("control.config.read") && !chat.cover("control.chat.write.more"));
        assert!(Scopes::everything().cover("control.tokens.admin"));
        assert!(!scopes(&["control.*.read"]).unwrap().cover("control.tokens.admin"));
    }

    #[test]
    fn less_is_given_and_more_is_refused() {
        let reading = scopes(&["control.*.read"]).unwrap();
        let asked =
            |list: &[&str]| reading.narrowed(&list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(asked(&["control.chat.read"]).unwrap().list(), ["control.chat.read"]);
        for more in ["control.chat.write", "control.*.*", "control.chat.*"] {
            assert_eq!(asked(&["control.chat.read", more]), Err(ScopeError::Exceeds(more.to_owned())));
        }
    }

    #[test]
    fn nonsense_is_no_scope() {
        for nonsense in
            ["", "*", "control", "control.chat", "chat.send", "control.chat.write.x", "control..read"]
        {
            assert!(scopes(&[nonsense]).is_err(), "{nonsense}");
        }
        assert!(scopes(&[]).is_err());
        assert_eq!(Scopes::stored(&["operator.admin".to_owned()]).list().len(), 0);
    }
}
