use async_trait::async_trait;
use nexus_llm::{Content, Conversation, ModelError, ModelName, ModelReply, ReplySink, StopReason};
use nexus_protocol::framing::{Frame, Kind, key};
use serde_json::json;

use super::*;
use crate::history::{PastCall, to_messages};

/// A model that sums up, or does not.
#[derive(Debug)]
struct Summarizer(Result<&'static str, ModelError>);

#[async_trait]
impl Model for Summarizer {
    fn name(&self) -> ModelName {
        ModelName { provider: "test".into(), model: "short".into() }
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        _sink: ReplySink<'_>,
        _cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        assert!(conversation.tools.is_empty());
        let text = self.0.clone()?.to_owned();
        let usage = Usage { input: 900, output: 20, ..Usage::default() };
        Ok(ModelReply {
            content: vec![Content::Text { text }],
            stop: StopReason::EndTurn,
            usage,
            model: None,
        })
    }
}

fn words(number: usize, bytes: usize) -> PastTurn {
    let frame = Frame::new(Kind::Message).with(key::TIME, "2026-01-02T03:04:05Z").render();
    PastTurn {
        id: Some(TurnId::new(format!("t{number}"))),
        messages: vec![
            PastMessage::User { frame, text: format!("question {number} {}", "x".repeat(bytes)) },
            PastMessage::Assistant { text: format!("answer {number}"), calls: Vec::new() },
        ],
    }
}

fn worked(number: usize, result: usize) -> PastTurn {
    let call = PastCall {
        id: ToolCallId::new(format!("c{number}")),
        model_call_id: format!("m{number}"),
        tool: "read".into(),
        arguments: json!({"path": "big"}),
        result: Some((format!("begin {} end", "r".repeat(result)), false)),
    };
    let mut turn = words(number, 10);
    turn.messages.push(PastMessage::Assistant { text: String::new(), calls: vec![call] });
    turn
}

struct Case {
    past: Past,
    current: PastTurn,
    window: Window,
    model: Arc<dyn Model>,
}

impl Case {
    fn new(turns: Vec<PastTurn>, limit: Option<u64>, answer: Result<&'static str, ModelError>) -> Self {
        let past = Past { turns: turns.into_iter().map(Arc::new).collect(), ..Past::default() };
        let window = Window { limit, ..Window::default() };
        Self { past, current: words(99, 10), window, model: Arc::new(Summarizer(answer)) }
    }

    fn bytes(&self) -> usize {
        crate::estimate::messages_bytes(&to_messages(&self.past, &self.current))
    }

    async fn compact(&mut self, cause: Cause) -> Option<Compacted> {
        let work = Work {
            window: &self.window,
            model: &self.model,
            bytes: self.bytes(),
            cause,
            artifacts: None,
            cancel: &CancellationToken::new(),
        };
        compact(&work, &mut self.past, &mut self.current).await
    }
}

#[tokio::test]
async fn from_85_percent_to_60_by_the_model_and_the_last_three_turns_stay() {
    // Room of 24,000 tokens at 3.5 bytes: 84,000 bytes; 85 % are 71,400, 60 % are 50,400.
    let mut case = Case::new((0..8).map(|n| words(n, 9_000)).collect(), Some(40_000), Ok("They talked."));
    assert_eq!(case.window.wants(71_300, 8), None);
    assert_eq!(case.window.wants(case.bytes(), 8), Some(Cause::ContextLimit));
    let done = case.compact(Cause::ContextLimit).await.expect("it can be made shorter");
    assert!(case.bytes() <= 50_400, "{}", case.bytes());
    assert_eq!((done.author.as_str(), done.summary.as_deref()), ("test/short", Some("They talked.")));
    assert_eq!(done.usage.total(), 920);
    assert!(done.tokens.1 < done.tokens.0 && case.past.turns.len() >= KEPT_TURNS);
    assert_eq!(done.through, Some(TurnId::new(format!("t{}", done.turns - 1))));
    let first = to_messages(&case.past, &case.current).remove(0).text();
    assert!(
        first.contains("summary of the earlier conversation") && first.contains("They talked."),
        "{first}"
    );
    // The next one takes the summary in.
    let again = case.compact(Cause::Overflow).await.expect("there is more to leave out");
    assert_eq!(case.past.turns.len(), KEPT_TURNS, "{again:?}");
}

#[tokio::test]
async fn without_a_model_or_without_its_answer_the_words_themselves_are_shortened() {
    let unavailable =
        ModelError::Unavailable { provider: "test".into(), reason: "down".into(), retry_after: None };
    for (limit, answer) in [(None, Ok("unused")), (Some(40_000), Err(unavailable)), (Some(40_000), Ok(" "))] {
        let mut case = Case::new((0..8).map(|n| words(n, 9_000)).collect(), limit, answer);
        let done = case.compact(Cause::Overflow).await.expect("it can be made shorter");
        let summary = done.summary.unwrap();
        assert_eq!(done.author, "extract");
        assert!(summary.starts_with("- 2026-01-02 they said: question 0 xxx"), "{summary}");
        assert!(summary.contains("- you said: answer 1"), "{summary}");
    }
}

#[tokio::test]
async fn results_that_are_too_long_keep_head_and_tail_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let layout = nexus_workspace::Layout::new(folder.path());
    nexus_base::file::create_folder(layout.state(), 0o700).unwrap();
    let artifacts = Artifacts::at(&layout).unwrap();
    let turns = vec![worked(0, 30_000), words(1, 10), worked(2, 3_000)];
    let mut case = Case::new(turns, Some(32_000), Ok("unused"));
    case.current = worked(3, 60_000);
    let work = Work {
        window: &case.window,
        model: &case.model,
        bytes: case.bytes(),
        cause: Cause::ContextLimit,
        artifacts: Some(&artifacts),
        cancel: &CancellationToken::new(),
    };
    let done = compact(&work, &mut case.past, &mut case.current).await.expect("it can be made shorter");
    let trimmed: Vec<&str> = done.trims.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((done.turns, done.summary, trimmed), (0, None, vec!["c3", "c0"]));
    let text = &done.trims[0].1;
    assert!(text.starts_with("begin rrr") && text.ends_with("rrr end") && text.len() < 2_300, "{text}");
    let id = text.split(Artifacts::SCHEME).nth(1).unwrap().split(';').next().unwrap();
    let kept =
        std::fs::read_to_string(folder.path().join(format!("state/artifacts/{id}.untrusted.txt"))).unwrap();
    assert_eq!(kept.len(), 60_010);
    // A result that is shortened once more still names the same whole.
    let again = whereabouts(Some(&artifacts), text);
    assert!(again.contains(id), "{again}");
}

#[tokio::test]
async fn many_turns_are_summed_up_in_one_go_and_nothing_happens_when_nothing_can() {
    let mut case = Case::new((0..201).map(|n| words(n, 10)).collect(), None, Ok("unused"));
    assert_eq!(case.window.wants(1_000_000, 200), None);
    assert_eq!(case.window.wants(1, 201), Some(Cause::Length));
    let done = case.compact(Cause::Length).await.unwrap();
    assert_eq!((done.turns, case.past.turns.len()), (101, 100));
    assert!(done.summary.unwrap().len() < 20_000);
    let mut short = Case::new(vec![words(0, 90_000)], Some(20_000), Ok("unused"));
    assert!(short.compact(Cause::Overflow).await.is_none());
}
