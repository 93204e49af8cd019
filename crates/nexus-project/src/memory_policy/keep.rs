//! Keeping something: into the file that is about it already, else into a new one.

use std::collections::BTreeSet;
use std::path::PathBuf;

use nexus_base::file::{self, Durability};

use crate::catalog::MemoryPolicy;
use crate::{Project, ProjectError, document};

/// Longest text that is kept, in bytes.
const MAX_LEN: usize = 16 * 1024;
/// Largest file that is added to, in bytes.
const MAX_SIZE: usize = 256 * 1024;
/// Most words of a new file's name.
const MAX_WORDS: usize = 4;
/// Least share of a text's words that a file must hold to be about the same.
const OVERLAP: f64 = 0.5;
/// Words that say nothing about a subject.
const EMPTY_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "do", "does", "for", "from", "has",
    "have", "how", "if", "in", "into", "is", "it", "its", "must", "never", "no", "not", "of", "on", "only",
    "or", "our", "so", "that", "the", "their", "then", "there", "they", "this", "to", "use", "uses", "was",
    "we", "when", "which", "will", "with", "you",
];

/// Where something was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The file, relative to the project.
    pub path: PathBuf,
    /// It was added to a file that was there.
    pub merged: bool,
    /// It was there already, word for word.
    pub known: bool,
}

/// Keeps a text in `.nexus/memory/`. A text may begin with a category (`empirical:`, `external:`, `pattern:`).
///
/// # Errors
/// The text is empty or too long, or a file cannot be read or written.
pub fn keep(project: &Project, policy: &MemoryPolicy, text: &str) -> Result<Kept, ProjectError> {
    let text = checked(text, "[m]")?;
    let category = policy.categories.iter().find_map(|category| {
        let rest = text.strip_prefix(category.prefix.trim_end_matches('-'))?.strip_prefix(':')?;
        Some((category.prefix.as_str(), rest.trim()))
    });
    let (prefix, text) = category.unwrap_or(("", text));
    let words = words(text);
    let line = format!("- {}\n", one_line(text));
    let _lock = project.write_lock(&[])?;
    let folder = folder(project, "memory")?;
    let mut best: Option<(f64, String, String)> = None;
    for name in names(project, "memory")? {
        let same_kind = prefix.is_empty() || name.starts_with(prefix);
        let Some(content) = document::read_bytes(&folder.join(&name))?.filter(|_| same_kind) else {
            continue;
        };
        let content = String::from_utf8_lossy(&content).into_owned();
        if content.contains(&line) {
            return Ok(Kept { path: relative("memory", &name), merged: true, known: true });
        }
        let share = overlap(&words, &name, &content);
        if share >= OVERLAP
            && content.len() < MAX_SIZE
            && best.as_ref().is_none_or(|(most, ..)| share > *most)
        {
            best = Some((share, name, content));
        }
    }
    let (name, content, merged) = match best {
        Some((_, name, content)) => (name, with_line(&content, &line), true),
        None => {
            let name = new_name(&folder, prefix, text);
            (name, format!("# {}\n\n{line}", title(text)), false)
        }
    };
    document::write_text(&folder.join(&name), &content, Durability::Crash)?;
    Ok(Kept { path: relative("memory", &name), merged, known: false })
}

/// Keeps a rule in `.nexus/rules/`, in the file of its category.
///
/// # Errors
/// The text is empty or too long, the category is no name, or a file cannot be read or written.
pub fn keep_rule(project: &Project, category: Option<&str>, text: &str) -> Result<Kept, ProjectError> {
    let text = checked(text, "[rule]")?;
    let name = match category.map(slug) {
        Some(name) if name.is_empty() || name.len() > 60 => {
            return Err(ProjectError::Parameter(
                "a rule's category must be a short name such as [rule:git]".to_owned(),
            ));
        }
        Some(name) => format!("{name}.md"),
        None => "project.md".to_owned(),
    };
    let line = format!("- {}\n", one_line(text));
    let _lock = project.write_lock(&[])?;
    let path = folder(project, "rules")?.join(&name);
    let there = document::read_bytes(&path)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let kept = Kept { path: relative("rules", &name), merged: there.is_some(), known: false };
    let content = match there {
        Some(content) if content.contains(&line) => return Ok(Kept { known: true, ..kept }),
        Some(content) => with_line(&content, &line),
        None => format!("# Rules: {}\n\n{line}", name.trim_end_matches(".md")),
    };
    document::write_text(&path, &content, Durability::Crash)?;
    Ok(kept)
}

/// Returns the names of the Markdown files in a folder of notes, sorted.
pub(super) fn names(project: &Project, folder: &str) -> Result<Vec<String>, ProjectError> {
    let path = project.folder().join(folder);
    let entries = match std::fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ProjectError::file("listing", path, error)),
    };
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".md"))
        .collect();
    names.sort();
    Ok(names)
}

fn checked<'a>(text: &'a str, tag: &str) -> Result<&'a str, ProjectError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ProjectError::Parameter(format!("{tag} must be followed by the text to keep")));
    }
    if text.len() > MAX_LEN {
        return Err(ProjectError::Parameter(format!(
            "the text has {} bytes; the limit is {MAX_LEN}",
            text.len()
        )));
    }
    Ok(text)
}

fn folder(project: &Project, name: &str) -> Result<PathBuf, ProjectError> {
    let folder = project.folder().join(name);
    match std::fs::symlink_metadata(&folder) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(ProjectError::NotAFolder { path: folder }),
        Err(_) => drop(file::create_folder(&folder, 0o755)?),
    }
    Ok(folder)
}

fn relative(folder: &str, name: &str) -> PathBuf {
    PathBuf::from(".nexus").join(folder).join(name)
}

fn with_line(content: &str, line: &str) -> String {
    format!("{}\n{line}", content.trim_end())
}

/// A note is one entry of a list, so its own line breaks become indented ones.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n  ")
}

/// Returns how much of a text's words a file holds, counting only files whose name or heading shares one.
fn overlap(words: &BTreeSet<String>, name: &str, content: &str) -> f64 {
    if words.is_empty() {
        return 0.0;
    }
    let mut head: BTreeSet<String> = self::words(&name.trim_end_matches(".md").replace('-', " "));
    head.extend(self::words(content.lines().next().unwrap_or_default()));
    let inside = self::words(content);
    let shared = words.iter().filter(|word| head.contains(*word) || inside.contains(*word)).count();
    let about = words.iter().any(|word| head.contains(word));
    if about && shared >= 2 { shared as f64 / words.len() as f64 } else { 0.0 }
}

/// Returns the words of a text that say what it is about.
fn words(text: &str) -> BTreeSet<String> {
    text.split(|character: char| !character.is_alphanumeric())
        .map(str::to_lowercase)
        .filter(|word| word.chars().count() > 1 && !EMPTY_WORDS.contains(&word.as_str()))
        .filter(|word| !word.chars().all(|character| character.is_ascii_digit()))
        .collect()
}

fn slug(text: &str) -> String {
    let characters: String = text
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' })
        .collect();
    characters.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

fn title(text: &str) -> String {
    nexus_base::text::shorten(text.lines().next().unwrap_or_default(), 60)
}

/// Makes a name of two to four words that no file has.
fn new_name(folder: &std::path::Path, prefix: &str, text: &str) -> String {
    let known = words(text);
    let mut chosen: Vec<String> = Vec::new();
    for word in text.split(|character: char| !character.is_alphanumeric()) {
        let word = word.to_lowercase();
        if known.contains(&word) && !chosen.contains(&slug(&word)) && !slug(&word).is_empty() {
            chosen.push(slug(&word));
        }
        if chosen.len() == MAX_WORDS {
            break;
        }
    }
    let mut stem = chosen.join("-");
    stem.truncate(60);
    let stem = if stem.is_empty() { "note".to_owned() } else { stem };
    let mut name = format!("{prefix}{stem}.md");
    // Another file of that name is about something else, or it would have been added to.
    for character in 'b'..='z' {
        if !folder.join(&name).exists() {
            break;
        }
        name = format!("{prefix}{stem}-{character}.md");
    }
    name
}
