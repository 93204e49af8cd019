//! Tasks as a drawing: each below what it waits for, with a mark for how it stands.

use std::collections::VecDeque;

use serde_json::Value;

use crate::output;

/// Longest title in a drawing, and the least that is left of one on a narrow terminal.
const MAX_TITLE_LEN: usize = 70;
const MIN_TITLE_LEN: usize = 12;
/// Longest name of an owner.
const MAX_OWNER_LEN: usize = 20;
/// How deep a chain is drawn in a pipe; what comes below begins at the margin again and says what it waits for.
const MAX_DEPTH: usize = 32;
/// Columns that a task stands further right than the one it waits for.
const STEP: usize = 3;
/// What the marks mean.
const LEGEND: &str = "[x] done  [~] in progress  [>] ready  [ ] waiting\n";
/// Why some tasks begin at the margin although they wait for something.
const CIRCLE: &str = "Some tasks wait for each other in a cycle.\n";

struct Drawing<'tasks> {
    tasks: &'tasks [Value],
    ready: &'tasks Value,
    width: Option<usize>,
    /// Which tasks stand in the drawing, by their place in the list: damaged lists hold an id twice.
    drawn: Vec<bool>,
    /// Places of those that were too deep to draw below what they wait for.
    cut: VecDeque<usize>,
    lines: String,
}

/// Returns the drawing, one line for each task. A task that waits for several stands below the first
/// of them that is not done, for that is what holds it up, and names the others. Lines fit into `width`.
pub(super) fn draw(tasks: &[Value], ready: &Value, width: Option<usize>) -> String {
    let drawn = vec![false; tasks.len()];
    let mut drawing = Drawing { tasks, ready, width, drawn, cut: VecDeque::new(), lines: String::new() };
    for place in 0..tasks.len() {
        if parent(tasks, place).is_none() {
            drawing.root(place);
        }
    }
    let circle = drawing.drawn.contains(&false);
    // Tasks that wait for each other in a circle are below nothing.
    for place in 0..tasks.len() {
        drawing.root(place);
    }
    drawing.lines.push('\n');
    drawing.lines.push_str(if circle { CIRCLE } else { "" });
    drawing.lines.push_str(LEGEND);
    drawing.lines
}

impl Drawing<'_> {
    fn root(&mut self, place: usize) {
        self.branch(place, None, "", "", 0);
        while let Some(place) = self.cut.pop_front() {
            self.branch(place, None, "", "", 0);
        }
    }

    fn branch(&mut self, place: usize, above: Option<usize>, stem: &str, below: &str, depth: usize) {
        let tasks = self.tasks;
        let Some(task) = tasks.get(place) else { return };
        if self.drawn.get(place) != Some(&false) {
            return;
        }
        // Half of a line is for what the task says.
        if depth > self.width.map_or(MAX_DEPTH, |width| (width / 2 / STEP).min(MAX_DEPTH)) {
            self.cut.push_back(place);
            return;
        }
        self.drawn[place] = true;
        let most = self.width.map_or(MAX_OWNER_LEN, |width| (width / 4).min(MAX_OWNER_LEN));
        let owner = output::shorten(super::owner(task), most);
        let owner = if owner.is_empty() { owner } else { format!("  @{owner}") };
        let before = format!("{stem}{} {} ", self.mark(task), task["id"]);
        let beside = output::columns(&before) + output::columns(&owner);
        let left = self.width.map_or(usize::MAX, |width| width.saturating_sub(beside + MIN_TITLE_LEN));
        let also = self.also(task, above, left);
        let room =
            self.width.map_or(MAX_TITLE_LEN, |width| width.saturating_sub(beside + output::columns(&also)));
        let title = task["title"].as_str().unwrap_or_default();
        let title = output::shorten(title, room.clamp(MIN_TITLE_LEN, MAX_TITLE_LEN));
        self.lines.push_str(&format!("{before}{title}{owner}{also}\n"));
        let children: Vec<usize> = (0..tasks.len())
            .filter(|child| parent(tasks, *child) == Some(place) && !self.drawn[*child])
            .collect();
        let last = children.len().saturating_sub(1);
        for (child, at) in children.into_iter().zip(0..) {
            let (corner, line) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (stem, below) = (format!("{below}{corner}"), format!("{below}{line}"));
            self.branch(child, Some(place), &stem, &below, depth + 1);
        }
    }

    /// Names what a task waits for besides the one it stands below: all of it, or as many as fit into `room`.
    fn also(&self, task: &Value, above: Option<usize>, room: usize) -> String {
        let above = above.and_then(|place| self.tasks.get(place)).map(|task| &task["id"]);
        let deps = task["deps"].as_array().into_iter().flatten();
        let others: Vec<&Value> = deps.filter(|id| Some(*id) != above).collect();
        if others.is_empty() {
            return String::new();
        }
        let is_there = |id: &&&Value| self.tasks.iter().any(|task| task["id"] == ***id);
        let missing: Vec<&&Value> = others.iter().filter(|id| !is_there(id)).collect();
        let word = if above.is_some() { "also after" } else { "after" };
        let list = |ids: &[&Value]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let gone = match (missing.as_slice(), others.len()) {
            ([], _) => String::new(),
            ([_], 1) => ", which does not exist".to_owned(),
            ([one], _) => format!("; {one} does not exist"),
            (several, all) if several.len() == all => ", which do not exist".to_owned(),
            (several, _) => format!("; {} of them do not exist", several.len()),
        };
        let whole = format!("  ({word} {}{gone})", list(&others));
        if output::columns(&whole) <= room {
            return whole;
        }
        let some = |count: usize| {
            let (named, rest) = (others.get(..count).unwrap_or_default(), others.len() - count);
            format!("  ({word} {} and {rest} more)", list(named))
        };
        let fits = |text: &String| output::columns(text) <= room;
        let shorter = (1..others.len()).rev().map(some).find(fits);
        shorter.unwrap_or_else(|| format!("  ({word} {} tasks)", others.len()))
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

/// Returns the place of the task that another stands below.
fn parent(tasks: &[Value], place: usize) -> Option<usize> {
    let deps = tasks.get(place)?["deps"].as_array().into_iter().flatten();
    let known: Vec<usize> = deps.filter_map(|id| tasks.iter().position(|other| other["id"] == *id)).collect();
    let open =
        known.iter().find(|place| tasks.get(**place).is_some_and(|task| task["status"] != "completed"));
    open.or(known.first()).copied()
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
[ ] 8 Wait  (after 99, which does not exist)
[ ] 5 Round  (after 6)
└─ [ ] 6 About

Some tasks wait for each other in a cycle.
[x] done  [~] in progress  [>] ready  [ ] waiting
";
        assert_eq!(drawing, expected);
        let long = json!([{ "id": 1, "title": "A title that is much too long", "status": "pending", "deps": [], "owner": "x" }]);
        let drawing = draw(long.as_array().unwrap(), &json!([1]), Some(30));
        assert_eq!(drawing.lines().next(), Some("[>] 1 A title that is muc…  @x"));
    }

    fn task(id: usize, deps: &[usize]) -> Value {
        json!({ "id": id, "title": format!("T{id}"), "status": "pending", "deps": deps })
    }

    fn lines(tasks: &[Value], width: Option<usize>) -> Vec<String> {
        let drawing = draw(tasks, &json!([]), width);
        drawing.lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn what_cannot_stand_below_something_says_what_it_waits_for() {
        let circle = lines(&[task(1, &[3]), task(2, &[1]), task(3, &[2])], None);
        assert_eq!(circle, ["[ ] 1 T1  (after 3)", "└─ [ ] 2 T2", "   └─ [ ] 3 T3"]);
        assert_eq!(lines(&[task(1, &[1])], None), ["[ ] 1 T1  (after 1)"]);
        let twice = lines(&[task(1, &[]), task(1, &[]), task(2, &[1])], None);
        assert_eq!(twice, ["[ ] 1 T1", "└─ [ ] 2 T2", "[ ] 1 T1"]);
        // The same chain from both ends of the list.
        let mut chain: Vec<Value> =
            (1..=40).map(|id| task(id, &if id == 1 { Vec::new() } else { vec![id - 1] })).collect();
        for _ in 0..2 {
            let lines = lines(&chain, Some(80));
            assert_eq!(lines.len(), 40);
            let roots: Vec<&String> = lines.iter().filter(|line| line.starts_with('[')).collect();
            assert_eq!(roots, ["[ ] 1 T1", "[ ] 15 T15  (after 14)", "[ ] 29 T29  (after 28)"]);
            chain.reverse();
        }
        let missing = lines(&[task(1, &[8, 9]), task(2, &[1, 9]), task(3, &[1, 8, 9])], None);
        assert_eq!(
            missing,
            [
                "[ ] 1 T1  (after 8, 9, which do not exist)",
                "├─ [ ] 2 T2  (also after 9, which does not exist)",
                "└─ [ ] 3 T3  (also after 8, 9, which do not exist)",
            ]
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut tasks: Vec<Value> = (1..=40).map(|id| task(id, &[])).collect();
        tasks.push(task(41, &(1..=40).collect::<Vec<_>>()));
        tasks.push(json!({
            "id": 42, "title": "計画を立てる".repeat(20), "status": "pending", "deps": [41, 1], "owner": "設計者".repeat(9),
        }));
        for width in [60, 80, 120] {
            let lines = lines(&tasks, Some(width));
            assert!(lines.iter().all(|line| output::columns(line) <= width), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains("also after 2, ") && line.contains(" more)")));
        }
    }
}
