//! Whether an instance of a role begins anew or goes on with what it knows. Pure: whoever asks brings the
//! task, the role's tier and what the tracker says.

use serde_json::Value;

use crate::catalog::ResumeTier;

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
        /// Its id.
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

/// Decides.
pub fn decide(question: &Question<'_>) -> Choice {
    let fresh = |why| Choice::Fresh { why };
    let policy = question.task["owner_reuse_policy"].as_str();
    if policy == Some("fresh") {
        return fresh("the task says so");
    }
    let Some((place, prior)) = prior(question) else { return fresh("nobody was there before") };
    let Some(agent_id) = prior["agent_id"].as_str().filter(|id| (question.can_reopen)(id)) else {
        return fresh("it cannot be reopened");
    };
    let rule = match policy {
        Some("resume") => ResumeTier::Persistent,
        Some("resume_if_same_artifact") => ResumeTier::Bounded,
        _ => question.tier,
    };
    if rule == ResumeTier::Ephemeral {
        return fresh("this role always begins anew");
    }
    if question.tier != ResumeTier::Bounded && rule != ResumeTier::Bounded {
        return Choice::Resume { agent_id: agent_id.to_owned(), reread: false };
    }
    let own = touched(prior);
    let named = named_files(question.task, &own);
    let targets = if named.is_empty() { own.clone() } else { named };
    // Also with the policy `resume`: an instance that does not know of an edit would undo it.
    let others = question.tracker.iter().enumerate().filter(|(number, _)| *number != place);
    let edited = others
        .filter(|(_, entry)| is_active_after(entry, prior))
        .any(|(_, entry)| touched(entry).iter().any(|file| targets.contains(file)));
    if edited {
        return fresh("somebody else changed its files");
    }
    if rule == ResumeTier::Bounded && !targets.iter().any(|file| own.contains(file)) {
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

/// Returns the files a task names: words of `context` and `approach` that look like a path, and those that
/// the instance is known to have touched.
fn named_files<'a>(task: &'a Value, own: &[&'a str]) -> Vec<&'a str> {
    let texts = ["context", "approach"].map(|name| task[name].as_str().unwrap_or_default());
    let mut found: Vec<&str> =
        own.iter().copied().filter(|file| texts.iter().any(|text| text.contains(file))).collect();
    for word in texts.iter().flat_map(|text| text.split_whitespace()) {
        let word =
            word.trim_matches(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '/' | '_'));
        let is_path = word.contains('/')
            || word.rsplit_once('.').is_some_and(|(stem, end)| {
                stem.len() + end.len() > 2
                    && !stem.is_empty()
                    && (1..=5).contains(&end.len())
                    && end.chars().all(|letter| letter.is_ascii_alphanumeric())
                    && end.chars().any(|letter| letter.is_ascii_alphabetic())
            });
        if is_path && !word.contains("://") && !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ask(task: &Value, name: &str, tier: ResumeTier, tracker: &Value) -> Choice {
        let tracker = tracker.as_array().unwrap();
        decide(&Question { task, agent_name: name, tier, tracker, can_reopen: &|id| id != "gone" })
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

    #[test]
    fn words_that_look_like_files_are_found() {
        let task = json!({ "context": "Change src/a.rs, then (docs/b.md). Version 1.5 of e.g. this; see https://x.org/y.",
                           "approach": "edit Cargo.toml" });
        assert_eq!(named_files(&task, &[]), ["src/a.rs", "docs/b.md", "Cargo.toml"]);
    }
}
