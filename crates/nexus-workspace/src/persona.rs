//! Who the agent is and whom it works for: the files onboarding writes, and the questions the
//! runtime asks about them. Writing them is a worker's job, not this module's.
//! Names of persona folders: lower case letters, digits and single hyphens.
//! Front matter of identity files: `key: value` lines between two `---` lines, and no more of YAML.

mod active;
mod onboarding;
mod rights;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nexus_base::clock::Zone;
use nexus_base::file::{FileError, read_text};
use serde::Serialize;

use crate::Layout;
use crate::config::Settings;
use crate::folder::{lies_inside, subfolders};

pub use active::record_active;
pub use onboarding::{Onboarding, onboarding};
pub use rights::{IdentityRights, identity_rights};

/// A line that a file waiting to be filled in carries; its presence makes the file a template.
pub const FILL_IN_MARKER: &str = "<!-- nexus: fill in -->";

/// Most bytes of IDENTITY.md that reach a prompt.
pub const IDENTITY_LIMIT: usize = 4_000;
/// Most bytes of SOUL.md that reach a prompt.
pub const SOUL_LIMIT: usize = 8_000;
/// Most bytes of the user's profile that reach a prompt.
pub const USER_LIMIT: usize = 4_000;
/// Largest file that is looked at.
const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// A text for the prompt, cut if it was too long and saying so at its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PersonaText {
    /// Path relative to the workspace, for people and for "read the rest".
    pub file: String,
    /// The text with front matter, at most the limit plus one line about the cut.
    pub text: String,
    /// Size of the whole file when a part was left out.
    pub cut_from: Option<usize>,
}

impl PersonaText {
    /// Reads the front matter of the text.
    pub fn front_matter(&self) -> FrontMatter {
        FrontMatter::read(&self.text).0
    }
}

/// The persona in use and the person it works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Persona {
    /// Its folder's name as a slug.
    pub slug: Slug,
    /// What it is called: `name` of the front matter, else the slug.
    pub name: String,
    /// IDENTITY.md.
    pub identity: PersonaText,
    /// SOUL.md, when it exists.
    pub soul: Option<PersonaText>,
    /// `state/user/IDENTITY.md`, when it exists.
    pub user: Option<PersonaText>,
}

impl Persona {
    /// Returns the time zone the person lives in: the one their profile names, else this machine's.
    pub fn zone(&self) -> Zone {
        let profile = self.user.as_ref().map(PersonaText::front_matter);
        let named = profile.as_ref().and_then(|profile| Zone::named(profile.get("timezone")?));
        named.unwrap_or_else(Zone::system)
    }
}

/// Returns the persona in use: the configured one, else the one written down as such, else the one changed last.
/// None before onboarding.
///
/// # Errors
/// A file of the persona exists but cannot be read.
pub fn active_persona(layout: &Layout, settings: &Settings) -> Result<Option<Persona>, FileError> {
    let Some(name) = active_folder(layout, settings.agent.id.as_deref())? else { return Ok(None) };
    let folder = layout.agents().join(&name);
    let slug = Slug::from_name(&name).unwrap_or_default();
    let Some(identity) = read(layout, &folder.join("IDENTITY.md"), IDENTITY_LIMIT)? else { return Ok(None) };
    let soul = read(layout, &folder.join("SOUL.md"), SOUL_LIMIT)?;
    let user = read_user(layout)?;
    let name = identity.front_matter().get("name").unwrap_or(slug.as_str()).to_owned();
    Ok(Some(Persona { slug, name, identity, soul, user }))
}

/// Returns every file and folder that decides which persona is in use and what it says.
pub fn sources(layout: &Layout) -> Vec<PathBuf> {
    let folder = layout.agents();
    let mut paths = vec![layout.state().to_owned(), layout.user_identity(), layout.active_persona()];
    paths.extend(layout.user_identity().parent().map(Path::to_owned));
    // A folder that cannot be listed is an error for whoever reads the persona, not here.
    for name in subfolders(&folder, layout.state()).unwrap_or_default() {
        let one = folder.join(name);
        paths.extend([one.join("IDENTITY.md"), one.join("SOUL.md"), one]);
    }
    paths.push(folder);
    paths
}

/// Returns the user's profile, when it exists.
///
/// # Errors
/// The file exists but cannot be read.
pub fn read_user(layout: &Layout) -> Result<Option<PersonaText>, FileError> {
    read(layout, &layout.user_identity(), USER_LIMIT)
}

/// Tells whether a text is empty or still waits to be filled in.
pub fn is_template(text: &str) -> bool {
    if text.trim().is_empty() || text.contains(FILL_IN_MARKER) {
        return true;
    }
    let (front_matter, body) = FrontMatter::read(text);
    // `<name>` is how the onboarding text shows a value to be replaced.
    let is_blank = |value: &str| value.is_empty() || (value.starts_with('<') && value.ends_with('>'));
    let values_blank = !front_matter.is_empty() && front_matter.iter().all(|(_, value)| is_blank(value));
    let is_heading_or_blank = |line: &str| line.trim().is_empty() || line.starts_with('#');
    let nothing_said = front_matter.is_empty() && body.lines().all(is_heading_or_blank);
    values_blank || nothing_said
}

// Folders are taken as they are named: a model that wrote `Echo` instead of `echo` has still
// onboarded its owner, and losing its persona over a capital letter would help nobody.
fn active_folder(layout: &Layout, configured: Option<&str>) -> Result<Option<String>, FileError> {
    let folder = layout.agents();
    let changed = |name: &str| -> Option<SystemTime> {
        let file = folder.join(name).join("IDENTITY.md");
        is_file_inside(&file, layout).then(|| std::fs::metadata(&file).ok()?.modified().ok())?
    };
    let mut candidates = subfolders(&folder, layout.state())?;
    candidates.retain(|name| changed(name).is_some());
    let named = |wanted: &str| {
        let slug = Slug::from_name(wanted);
        let is_wanted = |name: &&String| *name == wanted || (slug.is_some() && Slug::from_name(name) == slug);
        candidates.iter().find(is_wanted).cloned()
    };
    let recorded = || active::recorded(layout).and_then(|name| named(&name));
    if let Some(found) = configured.and_then(named).or_else(recorded) {
        return Ok(Some(found));
    }
    // Two written in the same instant: the name decides, so that the answer is always the same.
    Ok(candidates
        .into_iter()
        .filter_map(|name| changed(&name).map(|time| (time, name)))
        .max()
        .map(|(_, name)| name))
}

fn read(layout: &Layout, path: &Path, limit: usize) -> Result<Option<PersonaText>, FileError> {
    if !is_file_inside(path, layout) {
        return Ok(None);
    }
    let whole = read_text(path, MAX_FILE_SIZE)?;
    let file = path.strip_prefix(layout.root()).unwrap_or(path).display().to_string();
    let trimmed = whole.trim();
    if trimmed.len() <= limit {
        return Ok(Some(PersonaText { file, text: trimmed.to_owned(), cut_from: None }));
    }
    let kept = &trimmed[..trimmed.floor_char_boundary(limit)];
    let text =
        format!("{kept}\n[cut here: {} of {} bytes shown; the rest is in {file}]", kept.len(), trimmed.len());
    Ok(Some(PersonaText { file, text, cut_from: Some(trimmed.len()) }))
}

fn is_file_inside(path: &Path, layout: &Layout) -> bool {
    lies_inside(path, layout.state()).is_some_and(|target| target.is_file())
}

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

/// Most lines looked at for the closing `---`.
const MAX_LINES: usize = 64;
/// Longest key or value kept, in bytes.
const MAX_VALUE_LEN: usize = 500;

/// The pairs at the head of a file, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrontMatter(Vec<(String, String)>);

impl FrontMatter {
    /// Splits a text into its front matter and the body after it. Never fails: what is not front
    /// matter is body.
    pub fn read(text: &str) -> (Self, &str) {
        let nothing = (Self::default(), text);
        let start = text.trim_start_matches('\u{feff}');
        let Some(rest) = start.strip_prefix("---").and_then(|rest| rest.split_once('\n')) else {
            return nothing;
        };
        if !rest.0.trim().is_empty() {
            return nothing;
        }
        let mut pairs = Vec::new();
        let mut position = 0;
        for line in rest.1.split_inclusive('\n').take(MAX_LINES) {
            position += line.len();
            let line = line.trim_end();
            if line == "---" {
                return (Self(pairs), &rest.1[position..]);
            }
            // Indented lines belong to nested YAML, which no identity file needs.
            if line.starts_with([' ', '\t', '#', '-']) {
                continue;
            }
            if let Some((key, value)) = line.split_once(':') {
                pairs.push((shorten(key.trim()).to_lowercase(), shorten(unquote(value.trim())).to_owned()));
            }
        }
        nothing
    }

    /// Returns a value that was given and is not empty.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, value)| name == key && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Goes through the pairs in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Tells whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.trim();
        }
    }
    value
}

fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_VALUE_LEN)]
}
