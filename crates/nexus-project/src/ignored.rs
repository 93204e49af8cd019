//! What `.nexus/.gitignore` keeps from git, and whether that is what it should: session state and nothing else.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

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
    let rules = read(text);
    let mut faults = Vec::new();
    for (what, path, lines) in KEPT {
        if is_ignored(&rules, path) {
            faults.push(format!(
                ".nexus/.gitignore hides {what} from git; add {lines} at its end to keep it with the project."
            ));
        }
    }
    if !["state/plan.json", "state/nexus/session.json"].iter().all(|path| is_ignored(&rules, path)) {
        faults.push(
            ".nexus/.gitignore lets git track state/, which belongs to one machine; add the line state/ at its end."
                .to_owned(),
        );
    }
    faults
}

fn read(text: &str) -> Gitignore {
    let mut rules = GitignoreBuilder::new("");
    for line in text.lines().filter(|line| line.len() <= MAX_LINE_LEN) {
        // Git passes over a line it cannot read, and so does this.
        let _ = rules.add_line(None, line);
    }
    rules.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Whether git leaves a file out: nothing below a folder that is left out can be given back.
fn is_ignored(rules: &Gitignore, path: &str) -> bool {
    let path = Path::new(path);
    let mut parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
    parts.any(|part| rules.matched(part, part != path).is_ignore())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHITELIST: &str = "*\n!.gitignore\n!context/\n!context/**\n!memory/\n!memory/**\n!history.json\n";

    /// What the faults are about, in order.
    fn about(text: &str) -> Vec<&'static str> {
        let names = ["hides memory/", "hides context/", "hides rules/", "hides history.json", "track state/"];
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
            ("", vec!["track state/"]),
            ("state/\n!state/", vec!["track state/"]),
            ("state/plan.json", vec!["track state/"]),
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
