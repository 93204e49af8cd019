//! What the plain reader takes from its learned files. Prose is for a model; two kinds of lines are followed by the
//! reader itself, so that what a reflection or the owner wrote there changes what the next worker is told.

use crate::home::{ERRORS, Home, PATTERNS, SKILLS};

/// Most lines that are followed.
const MAX_RULES: usize = 64;
/// Most further searches for one task.
const MAX_SEARCHES: usize = 3;

/// Rules read from the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Learned {
    /// `- words -> other words` in SKILLS.md or PATTERNS.md: a task with the first is also looked up with the second.
    also: Vec<(String, String)>,
    /// `- skip: words` in ERRORS.md: what holds them is not passed on.
    skipped: Vec<String>,
}

impl Learned {
    pub(super) fn of(home: &Home) -> Self {
        let lines = |file: &str| -> Vec<String> {
            let text = home.read(file).unwrap_or_default();
            text.lines().filter_map(|line| Some(line.trim().strip_prefix("- ")?.to_owned())).collect()
        };
        let also = [SKILLS, PATTERNS].into_iter().flat_map(lines).filter_map(|line| {
            let (words, others) = line.split_once("->")?;
            let (words, others) = (plain(words), plain(others));
            (!words.is_empty() && !others.is_empty()).then_some((words, others))
        });
        let skipped = lines(ERRORS).into_iter().filter_map(|line| {
            let words = plain(line.strip_prefix("skip:")?);
            (!words.is_empty()).then_some(words)
        });
        Self { also: also.take(MAX_RULES).collect(), skipped: skipped.take(MAX_RULES).collect() }
    }

    /// Returns what else to look for.
    pub(super) fn searches(&self, task: &str) -> Vec<&str> {
        let task = plain(task);
        let fits = self.also.iter().filter(|(words, _)| task.contains(words.as_str()));
        fits.map(|(_, others)| others.as_str()).take(MAX_SEARCHES).collect()
    }

    /// Tells whether a text is not to be passed on.
    pub(super) fn skips(&self, text: &str) -> bool {
        let text = plain(text);
        self.skipped.iter().any(|words| text.contains(words.as_str()))
    }
}

/// Returns a text in lower case without quotes and doubled blanks.
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace(['"', '`', '“', '”'], "");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
