//! What `.nexus/.gitignore` keeps from git, and whether that is what it should: session state and nothing else.
//!
//! Reads the forms that people and tools write there: names, `*`, `?`, `**`, `!`, a slash before, between or behind.

/// What git must take, each by a path below `.nexus/` and the lines that give it back.
const KEPT: [(&str, &str, &str); 4] = [
    ("memory/", "memory/a-note.md", "!memory/ and !memory/**"),
    ("context/", "context/a-note.md", "!context/ and !context/**"),
    ("rules/", "rules/a-rule.md", "!rules/ and !rules/**"),
    ("history.json", "history.json", "!history.json"),
];
/// Longest line that is read as a pattern, in bytes.
const MAX_LINE_LEN: usize = 1_000;

/// Returns what is wrong with the text of `.nexus/.gitignore`, each with the lines that mend it at the file's end.
pub(crate) fn faults(text: &str) -> Vec<String> {
    let patterns: Vec<Pattern<'_>> = text.lines().filter_map(Pattern::read).collect();
    let mut faults = Vec::new();
    for (what, path, lines) in KEPT {
        if is_ignored(&patterns, path) {
            faults.push(format!(
                ".nexus/.gitignore hides {what} from git; add {lines} at its end to keep it with the project."
            ));
        }
    }
    if !["state/plan.json", "state/nexus/session.json"].iter().all(|path| is_ignored(&patterns, path)) {
        faults.push(
            ".nexus/.gitignore lets git track state/, which belongs to one machine; add the line state/ at its end."
                .to_owned(),
        );
    }
    faults
}

#[derive(Debug)]
struct Pattern<'a> {
    parts: Vec<&'a str>,
    gives_back: bool,
    folders_only: bool,
}

impl<'a> Pattern<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with('#') || line.len() > MAX_LINE_LEN {
            return None;
        }
        let (gives_back, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (folders_only, line) = line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
        let mut parts: Vec<&str> = line.trim_start_matches('/').split('/').collect();
        // A name without a slash counts at every depth.
        if !line.contains('/') {
            parts.insert(0, "**");
        }
        Some(Self { parts, gives_back, folders_only })
    }
}

/// Whether git leaves a file out: nothing below a folder that is left out can be given back.
fn is_ignored(patterns: &[Pattern<'_>], path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    (1..=parts.len()).any(|depth| {
        let is_folder = depth < parts.len();
        let here = parts.get(..depth).unwrap_or_default();
        let last = patterns
            .iter()
            .rev()
            .find(|pattern| (is_folder || !pattern.folders_only) && fits(&pattern.parts, here));
        last.is_some_and(|pattern| !pattern.gives_back)
    })
}

fn fits(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, rest) => rest.is_none(),
        // At the end it means what is inside, not the folder itself.
        (Some((&"**", [])), rest) => rest.is_some(),
        (Some((&"**", more)), rest) => fits(more, path) || rest.is_some_and(|(_, rest)| fits(pattern, rest)),
        (Some((part, more)), Some((name, rest))) => {
            is_like(part.as_bytes(), name.as_bytes()) && fits(more, rest)
        }
        (Some(_), None) => false,
    }
}

/// Whether a name is like a pattern with `*` and `?`. Goes back to the last star only, so it cannot take long.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, place));
                at += 1;
            }
            Some(character) if *character == b'?' || name.get(place) == Some(character) => {
                at += 1;
                place += 1;
            }
            _ => match star {
                Some((after, taken)) => {
                    star = Some((after, taken + 1));
                    (at, place) = (after, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).unwrap_or_default().iter().all(|character| *character == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITELIST: &str = "*\n!.gitignore\n!context/\n!context/**\n!memory/\n!memory/**\n!history.json\n";

    /// What the faults are about, in order.
    fn about(text: &str) -> Vec<&'static str> {
        let names = ["hides memory/", "hides context/", "hides rules/", "hides history.json", "take state/"];
        let faults = faults(text);
        let found: Vec<&str> =
            names.into_iter().filter(|name| faults.iter().any(|fault| fault.contains(name))).collect();
        assert_eq!(found.len(), faults.len(), "{faults:?}");
        found
    }

    #[test]
    fn what_git_would_do_is_told() {
        for sound in [
            "state/\n",
            "/state/",
            "state",
            "/state/**",
            "state/*\n# rules/",
            "*\n!*/\n!*.md\n!history.json\nstate/",
        ] {
            assert_eq!(about(sound), Vec::<&str>::new(), "{sound}");
        }
        for (text, faults) in [
            (WHITELIST, vec!["hides rules/"]),
            // The folder alone does not give back what lies in it.
            ("*\n!memory/**\n!memory/\n!context/\n!context/**\n!rules/\n!history.json", vec!["hides rules/"]),
            ("state/\nrules/*\n", vec!["hides rules/"]),
            ("state/\nmemory/\n!memory/a-note.md", vec!["hides memory/"]),
            ("state/\n*.md\n", vec!["hides memory/", "hides context/", "hides rules/"]),
            ("state/\nhistory.json\n", vec!["hides history.json"]),
            ("state/\nhist?ry.*\n", vec!["hides history.json"]),
            ("", vec!["take state/"]),
            ("state/\n!state/", vec!["take state/"]),
            ("state/plan.json", vec!["take state/"]),
        ] {
            assert_eq!(about(text), faults, "{text}");
        }
    }

    #[test]
    fn the_advice_mends_what_it_names() {
        for text in
            [WHITELIST, "*", "state/\nrules/*\n**/memory/\n", "history.json\n*.md", "state/\n!state/\n"]
        {
            let mut mended = text.to_owned();
            for fault in faults(text) {
                for line in fault.split([' ', ',', ';']).filter(|word| word.starts_with('!')) {
                    mended.push_str(&format!("\n{line}"));
                }
                if fault.contains("add the line state/") {
                    mended.push_str("\nstate/");
                }
            }
            assert_eq!(faults(&mended), Vec::<String>::new(), "{mended}");
        }
    }
}
