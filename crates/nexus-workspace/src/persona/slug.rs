//! Names of persona folders: lower case letters, digits and single hyphens.

use std::fmt;

use serde::Serialize;

/// Longest slug, in bytes.
pub const MAX_SLUG_LEN: usize = 64;

/// A name that is safe as a folder name everywhere.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Slug(String);

impl Slug {
    /// Makes a slug of any name: `Echo the 2nd!` becomes `echo-the-2nd`. None when nothing is left.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut slug = String::new();
        for character in name.chars() {
            if slug.len() >= MAX_SLUG_LEN {
                break;
            }
            if character.is_ascii_alphanumeric() {
                slug.push(character.to_ascii_lowercase());
            } else if !slug.is_empty() && !slug.ends_with('-') {
                slug.push('-');
            }
        }
        let length = slug.trim_end_matches('-').len();
        slug.truncate(length);
        (!slug.is_empty()).then_some(Self(slug))
    }

    /// Takes text that already is a slug.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_name(text).filter(|slug| slug.0 == text)
    }

    /// Returns the slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Slug {
    /// Returns the slug of an agent whose name has no letter that a slug can carry.
    fn default() -> Self {
        Self("agent".to_owned())
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
