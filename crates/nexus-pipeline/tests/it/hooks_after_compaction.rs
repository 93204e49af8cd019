//! Whoever stands around a turn may add to what stands for the earlier conversation, and that is kept with it.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_agent::Window;
use nexus_agent::ports::{Enrichment, Hooks};
use nexus_base::id::SessionLabel;
use nexus_store::agents::ItemMode;
use nexus_tools::ports::TurnFacts;

use crate::support::{Act, Extras, Room, Script, limits};

#[derive(Debug)]
struct Plan;

#[async_trait]
impl Hooks for Plan {
    async fn compacted(&self, _turn: &TurnFacts) -> Vec<Enrichment> {
        vec![Enrichment { source: "project".to_owned(), text: "Active skill: nx-run.\n".to_owned() }]
    }
}

#[tokio::test]
async fn what_must_not_be_forgotten_goes_with_the_summary() {
    let model = Script::new(vec![
        ("ASSISTANT: ", vec![Act::Say("They asked long questions.")]),
        ("qq-long", vec![Act::Say("Noted.")]),
    ]);
    let window = Window { limit: Some(40_000), ..Window::default() };
    let room = Room::with(model, limits(), Extras { window, hooks: Arc::new(Plan), ..Extras::default() });
    for number in 0..9 {
        let question = format!("qq-long question {number} {}", "word ".repeat(1_800));
        let request = room.say(&question, ItemMode::Followup).await;
        assert_eq!(room.texts(&request).await, ["Noted."], "question {number}");
    }
    let session = SessionLabel::new("dm:owner");
    let kept = room.store.agents().compactions(Some(&session), 10).await.unwrap();
    let summary = kept[0].new.summary.as_deref();
    assert_eq!(summary, Some("They asked long questions.\n\n<project>\nActive skill: nx-run.\n</project>"));
    let seen = room.model.seen.lock().unwrap();
    let told: String = seen.last().unwrap().messages.iter().map(nexus_llm::Message::text).collect();
    assert!(told.contains("Active skill: nx-run."));
}
