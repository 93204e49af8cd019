//! Tasks as a drawing: each below what it waits for, with a mark for how it stands.

use std::collections::HashSet;

use serde_json::Value;

use crate::output;

/// Longest title in a drawing, and the least that is left of one on a narrow terminal.
const LONGEST_TITLE: usize = 70;
const SHORTEST_TITLE: usize = 16;
/// How deep a chain is drawn; beyond it the ids alone say what waits for what.
const DEEPEST: usize = 32;
/// What the marks mean.
const LEGEND: &str = "[x] done  [~] in progress  [>] ready  [ ] waits\n";

struct Drawing<'tasks> {
    tasks: &'tasks [Value],
    ready: &'tasks Value,
    width: Option<usize>,
    drawn: HashSet<String>,
    lines: String,
}

/// Returns the drawing, one line for each task. A task that waits for several stands below the first
/// of them that is not done, for that is what holds it up, and names the others. Titles are cut so that lines fit into
/// `width`.
pub(super) fn draw(tasks: &[Value], ready: &Value, width: Option<usize>) -> String {
    let mut drawing = Drawing { tasks, ready, width, drawn: HashSet::new(), lines: String::new() };
    for task in tasks.iter().filter(|task| parent(tasks, task).is_none()) {
        drawing.branch(task, "", "", 0);
    }
    // Tasks that wait for each other in a circle are below nothing.
    for task in tasks {
        drawing.branch(task, "", "", 0);
    }
    drawing.lines.push('\n');
    drawing.lines.push_str(LEGEND);
    drawing.lines
}

impl Drawing<'_> {
    fn branch(&mut self, task: &Value, stem: &str, below: &str, depth: usize) {
        let id = task["id"].to_string();
        if depth > DEEPEST || !self.drawn.insert(id.clone()) {
            return;
        }
        let owner = super::owner(task);
        let owner =
            if owner.is_empty() { String::new() } else { format!("  @{}", output::single_line(owner)) };
        let above = parent(self.tasks, task);
        let others: Vec<String> =
            numbers(&task["deps"]).into_iter().filter(|other| Some(other) != above.as_ref()).collect();
        let also = match (others.is_empty(), above.is_some()) {
            (true, _) => String::new(),
            (false, true) => format!("  (also after {})", others.join(", ")),
            (false, false) => format!("  (after {}, which is not there)", others.join(", ")),
        };
        let before = format!("{stem}{} {id} ", self.mark(task));
        let beside = [&before, &owner, &also].map(|part| part.chars().count()).iter().sum::<usize>();
        let room = self.width.map_or(LONGEST_TITLE, |width| width.saturating_sub(beside));
        let title = task["title"].as_str().unwrap_or_default();
        let title = output::shorten(title, room.clamp(SHORTEST_TITLE, LONGEST_TITLE));
        self.lines.push_str(&format!("{before}{title}{owner}{also}\n"));
        let tasks = self.tasks;
        let children: Vec<&Value> = tasks
            .iter()
            .filter(|child| parent(tasks, child).as_ref() == Some(&id))
            .filter(|child| !self.drawn.contains(&child["id"].to_string()))
            .collect();
        let last = children.len().saturating_sub(1);
        for (child, at) in children.into_iter().zip(0..) {
            let (corner, line) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            self.branch(child, &format!("{below}{corner}"), &format!("{below}{line}"), depth + 1);
        }
    }

    fn mark(&self, task: &Value) -> &'static str {
        let is_ready = self.ready.as_array().is_some_and(|ready| ready.contains(&task["id"]));
        match task["status"].as_str() {
            Some("completed") => "[x]",
            Some("in_progress") => "[~]",
            _ if is_ready => "[>]",
            _ => "[ ]",
        }
    }
}

fn parent(tasks: &[Value], task: &Value) -> Option<String> {
    let deps = task["deps"].as_array().into_iter().flatten();
    let known: Vec<&Value> = deps.filter_map(|id| tasks.iter().find(|other| other["id"] == *id)).collect();
    let open = known.iter().find(|other| other["status"] != "completed");
    open.or(known.first()).map(|other| other["id"].to_string())
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
            { "id": 3, "title": "Look", "status": "pending", "deps": [1, 2, 4] },
            { "id": 4, "title": "Ask", "status": "pending", "deps": [] },
            { "id": 5, "title": "Round", "status": "pending", "deps": [6] },
            { "id": 6, "title": "About", "status": "pending", "deps": [5] },
            { "id": 7, "title": "Plant", "status": "pending", "deps": [1] },
            { "id": 8, "title": "Wait", "status": "pending", "deps": [99] },
        ]);
        let drawing = draw(tasks.as_array().unwrap(), &json!([4, 7]), None);
        let expected = "\
[x] 1 Dig  @engineer
├─ [~] 2 Pour
│  └─ [ ] 3 Look  (also after 1, 4)
└─ [>] 7 Plant
[>] 4 Ask
[ ] 8 Wait  (after 99, which is not there)
[ ] 5 Round
└─ [ ] 6 About

[x] done  [~] in progress  [>] ready  [ ] waits
";
        assert_eq!(drawing, expected);
        let long = json!([{ "id": 1, "title": "A title that is much too long", "status": "pending", "deps": [], "owner": "x" }]);
        let drawing = draw(long.as_array().unwrap(), &json!([1]), Some(30));
        assert_eq!(drawing.lines().next(), Some("[>] 1 A title that is muc…  @x"));
    }
}
