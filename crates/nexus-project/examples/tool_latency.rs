//! Prints how long each tool takes, in an empty project and with ten thousand archived cycles.
//! `cargo run --profile release-fast -p nexus-project --example tool_latency [CYCLES]`

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measurement for people")]

use std::time::Instant;

use nexus_base::file::{Durability, replace};
use nexus_project::{Project, Tool, call};
use serde_json::{Value, json};

const ROUNDS: usize = 200;

fn main() {
    let cycles = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    for count in [0, cycles] {
        let folder = tempfile::tempdir_in(".").unwrap();
        let project = Project::open(folder.path()).unwrap();
        if count > 0 {
            plant(&project, count);
        }
        let begun = Instant::now();
        call(&project, Tool::HistorySearch, json!({}).as_object().unwrap()).unwrap();
        println!("{count} cycles; the first search took {:.1} ms", begun.elapsed().as_secs_f64() * 1e3);
        measure(&project);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

fn plant(project: &Project, count: usize) {
    let filler =
        "The change keeps the surface as it is and says why the other ways were dropped. ".repeat(50);
    let cycle = |number: usize| {
        json!({
            "schema_version": "0.5", "completed_at": "2026-04-13T00:00:00.000Z", "branch": "main",
            "plan": { "id": number, "topic": format!("Topic {number}"), "issues": [], "created_at": "2026-04-13T00:00:00.000Z",
                      "research_summary": if number % 1000 == 7 { format!("{filler} zq-needle") } else { filler.clone() } },
            "tasks": [{ "id": 1, "title": format!("Task of {number}"), "context": "c", "status": "completed", "deps": [] }],
        })
    };
    let cycles: Vec<Value> = (1..=count).map(cycle).collect();
    let text = serde_json::to_vec_pretty(&json!({ "cycles": cycles })).unwrap();
    std::fs::create_dir_all(project.root().join(".nexus")).unwrap();
    replace(&project.root().join(".nexus/history.json"), &text, 0o644, Durability::Crash).unwrap();
    println!("history of {} bytes", text.len());
}

fn measure(project: &Project) {
    let round = [
        (Tool::PlanStart, json!({ "topic": "t", "issues": ["a", "b"], "research_summary": "r" })),
        (Tool::PlanStatus, json!({})),
        (Tool::PlanUpdate, json!({ "action": "add", "title": "c" })),
        (Tool::PlanDecide, json!({ "issue_id": 1, "decision": "d" })),
        (Tool::TaskAdd, json!({ "title": "t", "context": "c", "goal": "g" })),
        (Tool::TaskList, json!({})),
        (Tool::TaskUpdate, json!({ "id": 1, "status": "completed" })),
        (Tool::HistorySearch, json!({ "query": "zq-needle" })),
        (Tool::HistorySearch, json!({})),
        (Tool::Context, json!({})),
        (Tool::ArtifactWrite, json!({ "filename": "a.md", "content": "x" })),
        (Tool::TaskClose, json!({})),
    ];
    let mut times = vec![Vec::with_capacity(ROUNDS); round.len()];
    for _ in 0..ROUNDS {
        for ((tool, parameters), times) in round.iter().zip(&mut times) {
            let begun = Instant::now();
            call(project, *tool, parameters.as_object().unwrap()).unwrap();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
    }
    for ((tool, parameters), times) in round.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let (middle, late) = (times[ROUNDS / 2], times[ROUNDS * 99 / 100]);
        let query = parameters["query"].as_str().unwrap_or_default();
        println!("  {:<16}{query:<10} p50 {middle:.3} ms  p99 {late:.3} ms", tool.name());
    }
}
