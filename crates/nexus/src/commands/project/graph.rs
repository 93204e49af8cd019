//! Tasks as a drawing: each below what it waits for, with a mark for how it stands.

use std::collections::HashSet;

use serde_json::Value;

use crate::output;

/// How deep a chain is drawn; beyond it the ids alone say what waits for what.
const DEEPEST: usize = 32;

/// Returns the drawing, one line for each task. A task that waits for several stands below the first
/// of them and names the others.
pub(super) fn draw(tasks: &[Value], ready: &Value) -> String {
    let mut lines = String::new();
    let mut drawn = HashSet::new();
    let known: HashSet<String> = tasks.iter().map(|task| task["id"].to_string()).collect();
    let parent = |task: &Value| numbers(&task["deps"]).into_iter().find(|id| known.contains(id));
    for task in tasks.iter().filter(|task| parent(task).is_none()) {
        branch(task, tasks, ready, 0, &parent, &mut drawn, &mut lines);
    }
    // Tasks that wait for each other in a circle are below nothing.
    for task in tasks {
        branch(task, tasks, ready, 0, &parent, &mut drawn, &mut lines);
    }
    lines
}

fn branch(
    task: &Value,
    tasks: &[Value],
    ready: &Value,
    depth: usize,
    parent: &dyn Fn(&Value) -> Option<String>,
    drawn: &mut HashSet<String>,
    lines: &mut String,
) {
    let id = task["id"].to_string();
    if depth > DEEPEST || !drawn.insert(id.clone()) {
        return;
    }
    let is_ready = ready.as_array().is_some_and(|ready| ready.contains(&task["id"]));
    let mark = match task["status"].as_str() {
        Some("completed") => "[x]",
        Some("in_progress") => "[~]",
        _ if is_ready => "[>]",
        _ => "[ ]",
    };
    let title = output::shorten(task["title"].as_str().unwrap_or_default(), 70);
    let owner = super::owner(task);
    let owner = if owner.is_empty() { String::new() } else { format!("  @{}", output::single_line(owner)) };
    let above = parent(task);
    let others: Vec<String> =
        numbers(&task["deps"]).into_iter().filter(|other| Some(other) != above.as_ref()).collect();
    let also =
        if others.is_empty() { String::new() } else { format!("  (also after {})", others.join(", ")) };
    let stem = if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
    lines.push_str(&format!("{stem}{mark} {id} {title}{owner}{also}\n"));
    for child in tasks.iter().filter(|child| parent(child).as_ref() == Some(&id)) {
        branch(child, tasks, ready, depth + 1, parent, drawn, lines);
    }
}

/// Returns the numbers of a list as text.
pub(super) fn numbers(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tasks_stand_below_what_they_wait_for() {
        let tasks = json!([
            { "id": 1, "title": "Dig", "status": "completed", "deps": [], "owner": "engineer" },
            { "id": 2, "title": "Pour", "status": "in_progress", "deps": [1] },
            { "id": 3, "title": "Look", "status": "pending", "deps": [2, 4] },
            { "id": 4, "title": "Ask", "status": "pending", "deps": [] },
            { "id": 5, "title": "Round", "status": "pending", "deps": [6] },
            { "id": 6, "title": "About", "status": "pending", "deps": [5] },
        ]);
        let drawing = draw(tasks.as_array().unwrap(), &json!([4]));
        let expected = "\
[x] 1 Dig  @engineer
└ [~] 2 Pour
  └ [ ] 3 Look  (also after 4)
[>] 4 Ask
[ ] 5 Round
└ [ ] 6 About
";
        assert_eq!(drawing, expected);
    }
}
