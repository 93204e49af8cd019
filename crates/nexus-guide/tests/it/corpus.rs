//! How much of what people type is understood, measured on two lists of utterances.
//!
//! `utterances.txt` was used while writing the patterns; `held_out.txt` was not, so its rate is the
//! honest one. Both rates are printed and bounded.

use nexus_guide::Guide;
use nexus_llm::{Content, Message};
use nexus_protocol::framing::Kind;
use serde_json::Value;

use crate::world::{World, check};

struct Utterance<'a> {
    label: &'a str,
    text: String,
    holds: Option<&'a str>,
}

fn read(data: &str) -> Vec<Utterance<'_>> {
    let mut label = "";
    let mut result = Vec::new();
    for line in data.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            label = name;
            continue;
        }
        let (text, holds) = line.split_once(" => ").map_or((line, None), |(text, holds)| (text, Some(holds)));
        result.push(Utterance { label, text: text.replace("\\n", "\n"), holds });
    }
    result
}

/// Says by its visible effect what the guide took an utterance for, and in which words.
fn taken_for(text: &str) -> (&'static str, String) {
    let mut world = World::onboarded();
    let frame = world.frame(Kind::Message);
    world.messages.push(Message::user(format!("{}{text}", frame.render())));
    let conversation = world.conversation();
    let reply = Guide::answer(&conversation);
    check(&conversation, &reply);
    let mut said = String::new();
    for part in &reply.content {
        match part {
            Content::Text { text } => said.push_str(text),
            Content::ToolUse { name, input, .. } => {
                return (label_of_call(name, input), input.to_string().replace("\\\"", "\""));
            }
            Content::Thinking { .. } | Content::ToolResult { .. } => {}
        }
    }
    let starts = [
        ("I am Atlas, an owl", "who_are_you"),
        ("You are Sam", "who_am_i"),
        ("Hello", "greet"),
        ("I am the offline guide and understand", "help"),
        ("No worker of mine", "cancel"),
        ("It is ", "time"),
        ("I am the offline guide, not a language model. To connect", "connect"),
        ("You are welcome", "thanks"),
        ("Goodbye", "bye"),
        ("There is no failed task", "retry"),
        ("What should I run", "run_doubtful"),
        ("I am not sure that", "run_doubtful"),
        ("I am Atlas, run by the offline guide: not a language model, and I did not", "unknown"),
        ("I did not recognise that as a request", "unknown"),
    ];
    let label = starts.iter().find(|(start, _)| said.starts_with(start)).map_or("other", |(_, label)| *label);
    (label, said)
}

fn label_of_call(name: &str, input: &Value) -> &'static str {
    let task = input["text"].as_str().unwrap_or_default();
    match name {
        "remember" => "remember",
        "recall" => "recall",
        "get_agent_status" => "status",
        "write" => "rename",
        _ if task.contains("scan --import") => "import",
        _ if task.contains("credential scan") => "scan",
        _ if task.contains("```file home/notes/") => "note",
        _ if task.contains("```read") => "show",
        _ if task.contains("```list") => "list",
        _ if task.contains("run this command") => "run",
        _ => "other",
    }
}

/// Gives the number of utterances and what was misunderstood.
fn measure(data: &str) -> (usize, Vec<String>) {
    let utterances = read(data);
    let missed = utterances
        .iter()
        .filter_map(|utterance| {
            let (label, words) = taken_for(&utterance.text);
            let holds = utterance.holds.is_none_or(|wanted| words.contains(wanted));
            (label != utterance.label || !holds).then(|| {
                format!("{:?}: wanted {}, got {label}: {:.240}", utterance.text, utterance.label, words)
            })
        })
        .collect();
    (utterances.len(), missed)
}

#[track_caller]
fn check_rate(name: &str, data: &str, at_least: usize, worst_percent: f64) {
    let (count, missed) = measure(data);
    let percent = missed.len() as f64 * 100.0 / count as f64;
    println!("{name}: {} of {count} utterances misunderstood, {percent:.1} %", missed.len());
    for miss in &missed {
        println!("  {miss}");
    }
    assert!(count >= at_least, "only {count} utterances");
    assert!(percent <= worst_percent, "{percent:.1} % misunderstood, at most {worst_percent} % allowed");
}

#[test]
fn known_utterances_are_understood() {
    check_rate("utterances.txt", include_str!("data/utterances.txt"), 150, 1.0);
}

#[test]
fn held_out_utterances_are_mostly_understood() {
    check_rate("held_out.txt", include_str!("data/held_out.txt"), 90, 12.0);
}
