//! Whether an instance of a role begins anew or goes on with what it knows. Pure: whoever asks brings the
//! task, the role's tier and what the tracker says.

use std::path::Path;

use serde_json::Value;

use crate::catalog::ResumeTier;

/// By which a name that nobody knows is taken for a file's: without a folder before it, `config.retries` is none.
const USUAL_ENDINGS: [&str; 24] = [
    "txt", "md", "rs", "toml", "json", "yaml", "yml", "py", "ts", "tsx", "jsx", "mjs", "html", "css", "sh",
    "sql", "go", "cpp", "java", "kt", "rb", "swift", "xml", "csv",
];
/// Most words of a task that are looked at.
const MAX_WORDS: usize = 2_000;

/// What comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A new instance.
    Fresh {
        /// Why, for the log; a person never sees it.
        why: &'static str,
    },
    /// The instance that was there before.
    Resume {
        agent_id: String,
        /// It must read the files again before it changes them.
        reread: bool,
    },
}

/// What is asked.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The task, as it stands in `tasks.json`; `Null` without one.
    pub task: &'a Value,
    /// The role.
    pub agent_name: &'a str,
    /// Its tier; a role without one begins anew.
    pub tier: ResumeTier,
    /// Entries of this harness's tracker, oldest first.
    pub tracker: &'a [Value],
    /// The project's folder.
    pub root: &'a Path,
    /// Whether a path from there is one of a file.
    pub is_file: &'a dyn Fn(&str) -> bool,
    /// Which instances can still be reopened.
    pub can_reopen: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Question").field("agent_name", &self.agent_name).finish_non_exhaustive()
    }
}

/// Returns the role a task belongs to: a name, or in files of newer versions an object with one.
pub fn owner(task: &Value) -> Option<&str> {
    task["owner"].as_str().or_else(|| task["owner"]["role"].as_str())
}

/// Returns the instance a task belongs to.
pub fn owner_instance(task: &Value) -> Option<&str> {
    task["owner_agent_id"].as_str().or_else(|| task["owner"]["agent_id"].as_str())
}

pub fn decide(question: &Question<'_>) -> Choice {
    let fresh = |why| Choice::Fresh { why };
    let policy = question.task["owner_reuse_policy"].as_str();
    if policy == Some("fresh") {
        return fresh("the task says so");
    }
    let Some((place, prior)) = prior(question) else { return fresh("no earlier instance exists") };
    let Some(agent_id) = prior["agent_id"].as_str().filter(|id| (question.can_reopen)(id)) else {
        return fresh("it cannot be reopened");
    };
    let rule = match policy {
        Some("resume") => ResumeTier::Persistent,
        Some("resume_if_same_artifact") => ResumeTier::Bounded,
        _ => question.tier,
    };
    if rule == ResumeTier::Ephemeral {
        return fresh("this role always starts afresh");
    }
    if question.tier != ResumeTier::Bounded && rule != ResumeTier::Bounded {
        return Choice::Resume { agent_id: agent_id.to_owned(), reread: false };
    }
    let own = touched(prior);
    let named = named_files(question);
    let known: Vec<&str> = named.known.iter().map(String::as_str).collect();
    let targets = if known.is_empty() { own.clone() } else { known };
    // Also with the policy `resume`: an instance that does not know of an edit would undo it.
    let others = question.tracker.iter().enumerate().filter(|(number, _)| *number != place);
    let edited = others
        .filter(|(_, entry)| is_active_after(entry, prior))
        .any(|(_, entry)| touched(entry).iter().any(|file| targets.contains(file)));
    if edited {
        return fresh("its files were changed by someone else");
    }
    let is_elsewhere =
        !targets.iter().any(|file| own.contains(file)) || (named.known.is_empty() && named.is_new);
    if rule == ResumeTier::Bounded && is_elsewhere {
        return fresh("the task is about other files");
    }
    Choice::Resume { agent_id: agent_id.to_owned(), reread: true }
}

/// Finds the instance in question: the task's own, else the latest of the role.
fn prior<'a>(question: &Question<'a>) -> Option<(usize, &'a Value)> {
    let mut newest_first = question.tracker.iter().enumerate().rev();
    match owner_instance(question.task) {
        Some(id) => newest_first.find(|(_, entry)| entry["agent_id"] == id),
        None => newest_first.find(|(_, entry)| entry["agent_name"] == question.agent_name),
    }
}

fn touched(entry: &Value) -> Vec<&str> {
    entry["files_touched"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Whether an entry may have worked after `prior` stopped. Times are all UTC in one form, so text compares.
fn is_active_after(entry: &Value, prior: &Value) -> bool {
    let Some(stopped) = prior["stopped_at"].as_str() else { return true };
    entry["status"] == "running" || entry["stopped_at"].as_str().is_none_or(|at| at > stopped)
}

/// What the words of a task say about files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    /// Files that somebody is known to have changed, or that are there.
    known: Vec<String>,
    /// It names a path where nothing is yet.
    is_new: bool,
}

/// Finds the files that `context` and `approach` name. Much looks like a path and is none (`and/or`, `v1.2a`), so words
/// name files that are known by their whole path or name, or that lie in the project.
fn named_files(question: &Question<'_>) -> Named {
    let mut named = Named::default();
    let texts = ["context", "approach"].map(|name| question.task[name].as_str().unwrap_or_default());
    let words = texts.iter().flat_map(|text| text.split(ends_word)).flat_map(readings).take(MAX_WORDS);
    for word in words {
        // Outside the project nobody's edits are known.
        let word = match Path::new(word).strip_prefix(question.root) {
            Ok(inside) => inside.to_str().unwrap_or(word),
            Err(_) => word.trim_start_matches("./"),
        };
        let touched = question.tracker.iter().flat_map(touched);
        let mut found: Vec<&str> =
            touched.filter(|file| *file == word || file.rsplit('/').next() == Some(word)).collect();
        let is_inside = !word.starts_with('/') && !word.split('/').any(|part| part == "..");
        if found.is_empty() && is_inside && word.contains(['.', '/']) && (question.is_file)(word) {
            found.push(word);
        }
        named.is_new |= found.is_empty() && is_inside && looks_like_a_path(word);
        for file in found {
            if !named.known.iter().any(|known| known == file) {
                named.known.push(file.to_owned());
            }
        }
    }
    named
}

fn ends_word(character: char) -> bool {
    character.is_whitespace() || ",;`'\"()<>{}|=".contains(character)
}

/// Returns what a word may mean once the marks around it are taken off, and without a line's number.
fn readings(word: &str) -> Vec<&str> {
    let bare = word.trim_matches(['*', ':', '!', '?']).trim_end_matches(['.', '-', ':']);
    if bare.contains("://") {
        return Vec::new();
    }
    let bare = bare.split_once(':').map_or(bare, |(file, _)| file);
    let inside = bare.trim_matches(['[', ']']);
    if inside == bare { vec![bare] } else { vec![bare, inside] }
}

/// Whether a word is a path to a file even where none is: folders and a name with an ending, or a usual ending.
fn looks_like_a_path(word: &str) -> bool {
    let (folders, name) = word.rsplit_once('/').unwrap_or(("", word));
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let is_ending = (1..=5).contains(&ending.len())
        && ending.chars().all(|character| character.is_ascii_alphanumeric())
        && ending.chars().any(|character| character.is_ascii_alphabetic());
    !stem.is_empty() && ((!folders.is_empty() && is_ending) || USUAL_ENDINGS.contains(&ending))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(task: &Value, name: &str, tier: ResumeTier, tracker: &Value) -> Choice {
        let tracker = tracker.as_array().unwrap();
        decide(&Question {
            task,
            agent_name: name,
            tier,
            tracker,
            root: Path::new("/p"),
            is_file: &|_| false,
            can_reopen: &|id| id != "gone",
        })
    }

    fn entry(name: &str, id: &str, stopped: &str, files: &[&str]) -> Value {
        json!({ "harness_id": "nexus", "agent_name": name, "agent_id": id, "started_at": "2026-01-01T00:00:00.000Z",
                "status": "completed", "stopped_at": stopped, "files_touched": files })
    }

    const T1: &str = "2026-01-01T00:01:00.000Z";
    const T2: &str = "2026-01-01T00:02:00.000Z";

    fn resumed(id: &str, reread: bool) -> Choice {
        Choice::Resume { agent_id: id.to_owned(), reread }
    }

    fn is_fresh(choice: &Choice) -> bool {
        matches!(choice, Choice::Fresh { .. })
    }

    #[test]
    fn tiers_decide_where_the_task_says_nothing() {
        let tracker = json!([
            entry("architect", "a", T1, &[]),
            entry("engineer", "e", T1, &["src/x.rs"]),
            entry("tester", "t", T1, &[])
        ]);
        assert_eq!(ask(&Value::Null, "architect", ResumeTier::Persistent, &tracker), resumed("a", false));
        assert_eq!(ask(&Value::Null, "engineer", ResumeTier::Bounded, &tracker), resumed("e", true));
        assert!(is_fresh(&ask(&Value::Null, "tester", ResumeTier::Ephemeral, &tracker)));
        assert!(is_fresh(&ask(&Value::Null, "writer", ResumeTier::Bounded, &tracker)));
    }

    #[test]
    fn the_tasks_policy_overrides_the_tier() {
        let tracker = json!([entry("architect", "a", T1, &["docs/a.md"]), entry("tester", "t", T1, &[])]);
        let policy = |name: &str| json!({ "owner_reuse_policy": name });
        assert!(is_fresh(&ask(&policy("fresh"), "architect", ResumeTier::Persistent, &tracker)));
        assert_eq!(ask(&policy("resume"), "tester", ResumeTier::Ephemeral, &tracker), resumed("t", false));
        assert_eq!(
            ask(&policy("resume_if_same_artifact"), "architect", ResumeTier::Persistent, &tracker),
            resumed("a", true)
        );
        let elsewhere =
            json!({ "owner_reuse_policy": "resume_if_same_artifact", "context": "change src/other.rs" });
        assert!(is_fresh(&ask(&elsewhere, "architect", ResumeTier::Persistent, &tracker)));
    }

    #[test]
    fn an_edit_in_between_forces_a_new_instance_even_with_resume() {
        let tracker =
            json!([entry("engineer", "e", T1, &["src/x.rs"]), entry("writer", "w", T2, &["src/x.rs"])]);
        for task in [json!({}), json!({ "owner_reuse_policy": "resume" })] {
            assert!(is_fresh(&ask(&task, "engineer", ResumeTier::Bounded, &tracker)), "{task}");
        }
        let before =
            json!([entry("writer", "w", T1, &["src/x.rs"]), entry("engineer", "e", T2, &["src/x.rs"])]);
        assert_eq!(ask(&json!({}), "engineer", ResumeTier::Bounded, &before), resumed("e", true));
        let elsewhere =
            json!([entry("engineer", "e", T1, &["src/x.rs"]), entry("writer", "w", T2, &["README.md"])]);
        assert_eq!(ask(&json!({}), "engineer", ResumeTier::Bounded, &elsewhere), resumed("e", true));
        let running = json!([entry("engineer", "e", T1, &["src/x.rs"]),
            { "harness_id": "nexus", "agent_name": "writer", "agent_id": "w", "status": "running", "files_touched": ["src/x.rs"] }]);
        assert!(is_fresh(&ask(&json!({}), "engineer", ResumeTier::Bounded, &running)));
    }

    #[test]
    fn bounded_wants_the_same_files_and_the_same_owner() {
        let tracker =
            json!([entry("engineer", "e1", T1, &["src/x.rs"]), entry("engineer", "e2", T2, &["src/y.rs"])]);
        let task = json!({ "owner_agent_id": "e1", "context": "repair src/x.rs" });
        assert_eq!(ask(&task, "engineer", ResumeTier::Bounded, &tracker), resumed("e1", true));
        let other = json!({ "context": "repair src/x.rs", "approach": "see (src/x.rs)." });
        // The latest of the role worked elsewhere.
        assert!(is_fresh(&ask(&other, "engineer", ResumeTier::Bounded, &tracker)));
        let unknown = json!({ "owner_agent_id": "e9" });
        assert!(is_fresh(&ask(&unknown, "engineer", ResumeTier::Bounded, &tracker)));
    }

    #[test]
    fn what_cannot_be_reopened_begins_anew_without_a_word() {
        let tracker =
            json!([entry("architect", "gone", T1, &[]), { "harness_id": "nexus", "agent_name": "designer" }]);
        assert!(is_fresh(&ask(&Value::Null, "architect", ResumeTier::Persistent, &tracker)));
        assert!(is_fresh(&ask(&Value::Null, "designer", ResumeTier::Persistent, &tracker)));
    }

    fn named(task: &Value, tracker: &Value) -> Named {
        named_files(&Question {
            task,
            agent_name: "engineer",
            tier: ResumeTier::Bounded,
            tracker: tracker.as_array().unwrap(),
            root: Path::new("/p"),
            is_file: &|path| path == "Cargo.toml" || path == "docs/b.md",
            can_reopen: &|_| true,
        })
    }

    #[test]
    fn words_name_files_that_are_known() {
        let tracker = json!([
            entry("engineer", "e", T1, &["src/x.rs", "Makefile", "app/[id].tsx"]),
            entry("writer", "w", T2, &["docs/old.md"])
        ]);
        let known = |text: &str| named(&json!({ "context": text }), &tracker).known;
        for (text, file) in [
            ("Go on with x.rs.", "src/x.rs"),
            ("see (src/x.rs),", "src/x.rs"),
            ("at `./src/x.rs:12:3`", "src/x.rs"),
            ("/p/src/x.rs", "src/x.rs"),
            ("the Makefile", "Makefile"),
            ("\"old.md\"", "docs/old.md"),
            ("[docs/b.md]", "docs/b.md"),
            ("app/[id].tsx", "app/[id].tsx"),
            ("mend Cargo.toml", "Cargo.toml"),
        ] {
            assert_eq!(known(text), [file], "{text}");
        }
        for text in [
            "Settle and/or in the parser",
            "tokio v1.2a",
            "libsrc/x.rs.bak",
            "lib/x.rs",
            "myx.rs",
            "Version 1.5 of e.g. this; see https://x.org/src/x.rs",
            "/q/src/x.rs",
            "../docs/b.md",
        ] {
            assert_eq!(known(text), Vec::<String>::new(), "{text}");
        }
        for (text, is_new) in [
            ("and/or", false),
            ("v1.2a", false),
            ("set config.retries, e.g. to 3", false),
            ("It is b.txt.", true),
            ("src/y.rs", true),
            ("libsrc/x.rs.bak", true),
        ] {
            assert_eq!(named(&json!({ "approach": text }), &tracker).is_new, is_new, "{text}");
        }
    }

    #[test]
    fn words_that_name_no_file_hide_no_edit_in_between() {
        let alone = json!([entry("engineer", "e", T1, &["src/x.rs"])]);
        let edited =
            json!([entry("engineer", "e", T1, &["src/x.rs"]), entry("writer", "w", T2, &["src/x.rs"])]);
        for text in ["Settle and/or in the parser", "Go on with x.rs", "tokio v1.2a", "./src/x.rs"] {
            let task = json!({ "context": text });
            assert_eq!(ask(&task, "engineer", ResumeTier::Bounded, &alone), resumed("e", true), "{text}");
            let forced = json!({ "context": text, "owner_reuse_policy": "resume" });
            for task in [task, forced] {
                assert!(is_fresh(&ask(&task, "engineer", ResumeTier::Bounded, &edited)), "{text}");
            }
        }
        // A new file is another matter, but what the instance knows is out of date all the same.
        let new = json!({ "context": "write src/new.rs", "owner_reuse_policy": "resume" });
        assert!(is_fresh(&ask(&new, "engineer", ResumeTier::Bounded, &edited)));
        let backup = json!({ "context": "Go on with libsrc/x.rs.bak" });
        assert!(is_fresh(&ask(&backup, "engineer", ResumeTier::Bounded, &alone)));
    }
}
