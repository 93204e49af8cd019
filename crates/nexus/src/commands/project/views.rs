//! How plan, tasks and history of a project are shown to people.

use nexus_base::clock::Timestamp;
use nexus_project::{Project, Tool};
use serde_json::{Value, json};

use super::{ask, graph, owner, text};
use super::{paragraph, room};
use crate::failure::Outcome;
use crate::output::{self, Format};

/// Most tasks or issues named on one line of the overview.
const MAX_NAMED: usize = 4;
/// Longest summary of research that is shown.
const MAX_RESEARCH_LEN: usize = 600;
/// Longest name of an owner or a branch beside other words.
const MAX_OWNER_LEN: usize = 20;
const MAX_BRANCH_LEN: usize = 30;
/// How lines below an entry of a list begin.
const INDENT: &str = "      ";

pub(super) fn status(project: &Project, format: Format) -> Outcome {
    let plan = ask(project, Tool::PlanStatus, json!({}))?;
    let tasks = ask(project, Tool::TaskList, json!({}))?;
    let history = ask(project, Tool::HistorySearch, json!({ "last_n": 1 }))?;
    let branch = project.branch();
    if format == Format::Json {
        return output::json(&json!({
            "project": project.root().to_string_lossy(), "branch": branch,
            "plan": { "active": plan["active"], "id": plan["plan_id"], "topic": plan["topic"], "summary": plan["summary"] },
            "tasks": { "goal": tasks["goal"], "summary": tasks["summary"] },
            "cycles": history["total"],
        }));
    }
    output::line(&format!("project  {}", project.root().display()))?;
    output::line(&format!("branch   {}", output::shorten(&branch, room(200, 9))))?;
    if plan["active"] == true {
        let summary = &plan["summary"];
        let topic = output::shorten(text(&plan["topic"]), room(60, 30));
        output::line(&format!("plan     {topic}: {} of {} decided", summary["decided"], summary["total"]))?;
        named("open", &entries(&plan["issues"], |issue| issue["status"] != "decided"))?;
    } else {
        output::line("plan     none open")?;
    }
    let summary = &tasks["summary"];
    if summary.is_object() {
        let ready = summary["ready"].as_array().map_or(0, Vec::len);
        output::line(&format!(
            "tasks    {} of {} completed, {} in progress, {ready} ready",
            summary["completed"], summary["total"], summary["blocked"]
        ))?;
        named("in progress", &entries(&tasks["tasks"], |task| task["status"] == "in_progress"))?;
        named("ready", &entries(&tasks["tasks"], |task| is_ready(&tasks, task)))?;
    } else {
        output::line("tasks    none")?;
    }
    let cycles = &history["total"];
    let noun = if *cycles == 1 { "cycle" } else { "cycles" };
    let last = &history["cycles"][0];
    let latest = match last["completed_at"].as_str() {
        Some(at) => format!(", most recently on {}", moment(at)),
        None => String::new(),
    };
    output::line(&format!("history  {cycles} finished {noun}{latest}"))?;
    if summary["total"].as_u64().is_some_and(|total| total > 0) && summary["completed"] == summary["total"] {
        output::remark("hint: all tasks are completed; nexus project close archives the cycle");
    }
    Ok(())
}

pub(super) fn plan(project: &Project, format: Format) -> Outcome {
    let plan = ask(project, Tool::PlanStatus, json!({}))?;
    if format == Format::Json {
        return output::json(&plan);
    }
    if plan["active"] != true {
        return output::line("no plan is open");
    }
    let summary = &plan["summary"];
    let head = format!("{} ({} of {} decided)", text(&plan["topic"]), summary["decided"], summary["total"]);
    paragraph(&format!("plan {}: ", plan["plan_id"]), INDENT, &head)?;
    if let Some(research) = plan["research_summary"].as_str().filter(|research| !research.trim().is_empty()) {
        output::line("")?;
        paragraph("", "", &output::shorten(research, MAX_RESEARCH_LEN))?;
    }
    output::line("")?;
    for issue in plan["issues"].as_array().into_iter().flatten() {
        let mark = if issue["status"] == "decided" { "[x]" } else { "[ ]" };
        paragraph(&format!("{mark} {} ", issue["id"]), INDENT, text(&issue["title"]))?;
        if let Some(decision) = issue["decision"].as_str() {
            paragraph(INDENT, INDENT, decision)?;
        }
        for (role, position) in issue["how_summary"].as_object().into_iter().flatten() {
            paragraph(INDENT, INDENT, &format!("{role}: {}", text(position)))?;
        }
    }
    Ok(())
}

pub(super) fn tasks(project: &Project, draw: bool, format: Format) -> Outcome {
    let list = ask(project, Tool::TaskList, json!({}))?;
    if format == Format::Json {
        return output::json(&list);
    }
    let Some(tasks) = list["tasks"].as_array().filter(|tasks| !tasks.is_empty()) else {
        return output::line("no tasks");
    };
    if let Some(goal) = list["goal"].as_str().filter(|goal| !goal.trim().is_empty()) {
        paragraph("goal: ", INDENT, goal)?;
        output::line("")?;
    }
    if draw {
        let width = output::terminal_width().map(usize::from);
        return output::text(&graph::draw(tasks, &list["summary"]["ready"], width));
    }
    let rows = tasks
        .iter()
        .map(|task| {
            let status = match task["status"].as_str() {
                _ if is_ready(&list, task) => "ready",
                Some("in_progress") => "in progress",
                Some("pending") => "waits",
                other => other.unwrap_or_default(),
            };
            vec![
                task["id"].to_string(),
                status.to_owned(),
                owner(task).to_owned(),
                graph::numbers(&task["deps"]).join(", "),
                output::shorten(text(&task["title"]), 70),
            ]
        })
        .collect();
    output::table(&["ID", "STATUS", "OWNER", "AFTER", "TASK"], rows)
}

pub(super) fn history(project: &Project, query: Option<&str>, last: u32, format: Format) -> Outcome {
    let found = ask(project, Tool::HistorySearch, json!({ "query": query, "last_n": last }))?;
    if format == Format::Json {
        return output::json(&found);
    }
    let cycles = found["cycles"].as_array().map(Vec::as_slice).unwrap_or_default();
    if cycles.is_empty() {
        return output::line(if query.is_some() { "no cycle matches" } else { "no finished cycles yet" });
    }
    if query.is_some() {
        // Who looks for something wants to know what was decided.
        for cycle in cycles {
            let tasks = cycle["task_count"].as_u64().unwrap_or(0);
            let noun = if tasks == 1 { "task" } else { "tasks" };
            let at = moment(text(&cycle["completed_at"]));
            let branch = output::shorten(text(&cycle["branch"]), MAX_BRANCH_LEN);
            let (before, after) = (format!("{at}  {branch}  "), format!(" ({tasks} {noun})"));
            let beside = output::columns(&before) + output::columns(&after);
            output::line(&format!("{before}{}{after}", topic(cycle, room(60, beside))))?;
            for decision in cycle["decisions"].as_array().into_iter().flatten() {
                let (title, decided) = (text(&decision["title"]), text(&decision["decision"]));
                // A question ends in its own mark.
                let after = if title.trim_end().ends_with(['?', '.', '!', ':']) { "" } else { ":" };
                paragraph(INDENT, INDENT, &format!("{}{after} {decided}", title.trim_end()))?;
            }
        }
    } else {
        let row = |cycle: &Value| {
            let decisions = cycle["decisions"].as_array().map_or(0, Vec::len);
            vec![
                moment(text(&cycle["completed_at"])),
                output::single_line(text(&cycle["branch"])),
                decisions.to_string(),
                cycle["task_count"].to_string(),
                topic(cycle, 60),
            ]
        };
        let rows = cycles.iter().map(row).collect();
        output::table(&["COMPLETED", "BRANCH", "DECISIONS", "TASKS", "TOPIC"], rows)?;
    }
    if found["total"] != found["showing"] {
        output::remark(&format!("{} of {} shown; -n N shows more", found["showing"], found["total"]));
    }
    Ok(())
}

fn topic(cycle: &Value, most: usize) -> String {
    let topic = output::shorten(text(&cycle["topic"]), most);
    if topic.is_empty() { "(without a plan)".to_owned() } else { topic }
}

fn is_ready(list: &Value, task: &Value) -> bool {
    list["summary"]["ready"].as_array().is_some_and(|ready| ready.contains(&task["id"]))
}

/// Returns number, title and owner of those that are wanted.
fn entries(list: &Value, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    let all = list.as_array().into_iter().flatten();
    all.filter(|entry| wanted(entry))
        .map(|entry| {
            let owner = output::shorten(owner(entry), MAX_OWNER_LEN);
            let owner = if owner.is_empty() { owner } else { format!(" @{owner}") };
            let title = output::shorten(text(&entry["title"]), room(50, 28 + output::columns(&owner)));
            format!("{} {title}{owner}", entry["id"])
        })
        .collect()
}

/// Names some of what a line above counted.
fn named(what: &str, entries: &[String]) -> Outcome {
    for (entry, number) in entries.iter().take(MAX_NAMED).zip(0..) {
        let what = if number == 0 { what } else { "" };
        output::line(&format!("         {what:<11}  {entry}"))?;
    }
    if entries.len() > MAX_NAMED {
        output::line(&format!("         {:<11}  … and {} more", "", entries.len() - MAX_NAMED))?;
    }
    Ok(())
}

/// A moment of the contract as people read it: to the minute, in their own time.
fn moment(at: &str) -> String {
    match Timestamp::parse(at) {
        Some(at) => at.to_local_rfc3339().chars().take(16).collect::<String>().replace('T', " "),
        None => output::single_line(at),
    }
}
