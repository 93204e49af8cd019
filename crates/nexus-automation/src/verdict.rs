//! What an automation gives back, read with care: it may be any program's output.

use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Longest name of a piece of enrichment.
const MAX_NAME_LEN: usize = 40;
/// Longest piece of enrichment and longest reply, in bytes.
const MAX_PIECE_LEN: usize = 8 * 1024;
/// Most pieces one automation may add.
const MAX_PIECES: usize = 16;

/// What one run of an automation came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// It did something.
    pub fired: bool,
    /// Pieces of context by name, for the model.
    pub enrich: Vec<(String, String)>,
    /// It dealt with the event; no agent is asked.
    pub handled: bool,
    /// What the person is told when it did.
    pub reply: Option<String>,
    /// It wants to be switched off.
    pub disable: bool,
    /// Session the event should go to instead.
    pub session: Option<String>,
    /// What it made use of, for its invocation's row.
    pub cost: Cost,
    /// What it says about itself, for its invocation's row.
    pub note: Option<Value>,
}

/// What a run made use of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Model calls.
    pub llm_calls: u64,
    /// Tokens sent.
    pub tokens_in: u64,
    /// Tokens received.
    pub tokens_out: u64,
    /// Searches in memory.
    pub searches: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    fire: Option<bool>,
    #[serde(default)]
    enrich: Map<String, Value>,
    #[serde(default)]
    handled: bool,
    reply: Option<String>,
    #[serde(default)]
    disable: bool,
    routing_override: Option<Routing>,
    context: Option<Context>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Routing {
    session: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Context {
    prompt: Option<String>,
    #[serde(default)]
    data: Value,
}

impl Verdict {
    /// Reads what a program printed. Nothing at all means that there was nothing to do.
    ///
    /// # Errors
    /// It is not a result; the text says why.
    pub fn read(name: &str, printed: &str) -> Result<Self, String> {
        if printed.trim().is_empty() {
            return Ok(Self::default());
        }
        let printed: Printed = serde_json::from_str(printed.trim())
            .map_err(|error| format!("its output is not a valid result: {error}"))?;
        let mut enrich = Vec::new();
        for (piece, value) in printed.enrich {
            enrich.push((checked_name(&piece)?, text_of(&value)));
        }
        if let Some(context) = printed.context {
            // A prompt of its own and the data for it are one more piece, under the automation's name.
            let data = (!context.data.is_null()).then(|| text_of(&context.data));
            let whole: Vec<String> = context.prompt.into_iter().chain(data).collect();
            if !whole.is_empty() {
                enrich.push((checked_name(&name.replace(['.', ' '], "-"))?, whole.join("\n")));
            }
        }
        if enrich.len() > MAX_PIECES {
            return Err(format!(
                "it adds {} pieces of context; at most {MAX_PIECES} are allowed",
                enrich.len()
            ));
        }
        let acted =
            !enrich.is_empty() || printed.handled || printed.disable || printed.routing_override.is_some();
        Ok(Self {
            fired: printed.fire.unwrap_or(acted),
            enrich: enrich.into_iter().map(|(piece, text)| (piece, shortened(text))).collect(),
            handled: printed.handled,
            reply: printed.reply.map(shortened).filter(|text| !text.trim().is_empty()),
            disable: printed.disable,
            session: printed.routing_override.map(|routing| routing.session),
            ..Self::default()
        })
    }

    /// Returns all of it, for whoever tries an automation out.
    pub fn to_json(&self) -> Value {
        let enrich: Map<String, Value> =
            self.enrich.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
        json!({
            "fire": self.fired,
            "enrich": enrich,
            "handled": self.handled,
            "reply": self.reply,
            "disable": self.disable,
            "session": self.session,
            "note": self.note,
        })
    }

    /// Returns what is kept of it in the invocation's row.
    pub(crate) fn to_row(&self) -> Value {
        let mut row = Map::new();
        row.insert("fire".to_owned(), json!(self.fired));
        if !self.enrich.is_empty() {
            let pieces: Map<String, Value> =
                self.enrich.iter().map(|(name, text)| (name.clone(), json!(text.len()))).collect();
            row.insert("enrich_bytes".to_owned(), Value::Object(pieces));
        }
        for (name, flag) in [("handled", self.handled), ("disable", self.disable)] {
            if flag {
                row.insert(name.to_owned(), json!(true));
            }
        }
        if let Some(session) = &self.session {
            row.insert("session".to_owned(), json!(session));
        }
        if let Some(note) = &self.note {
            row.insert("note".to_owned(), note.clone());
        }
        Value::Object(row)
    }
}

/// A piece's name stands between angle brackets in a prompt, so it may hold nothing that ends them.
fn checked_name(name: &str) -> Result<String, String> {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let starts_well = name.starts_with(|character: char| character.is_ascii_alphabetic());
    if name.len() > MAX_NAME_LEN || !starts_well || !name.chars().all(is_plain) {
        return Err(format!(
            "{name:?} is not a valid name for a piece of context: use up to {MAX_NAME_LEN} letters, digits, _ and -, \
             starting with a letter"
        ));
    }
    Ok(name.to_owned())
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn shortened(mut text: String) -> String {
    if text.len() > MAX_PIECE_LEN {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(MAX_PIECE_LEN));
        text.push_str(&format!("\n[cut: {MAX_PIECE_LEN} of {whole} bytes are shown]"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_result_is_read() {
        let read = Verdict::read(
            "mood.music",
            r#"{"enrich": {"weather": "rain", "count": 3}, "context": {"prompt": "be kind", "data": [1]},
                "routing_override": {"session": "chat:rain"}, "handled": true, "reply": "wet"}"#,
        )
        .unwrap();
        let piece = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(
            read,
            Verdict {
                fired: true,
                enrich: vec![
                    piece("weather", "rain"),
                    piece("count", "3"),
                    piece("mood-music", "be kind\n[1]")
                ],
                handled: true,
                reply: Some("wet".to_owned()),
                session: Some("chat:rain".to_owned()),
                ..Verdict::default()
            }
        );
    }

    #[test]
    fn silence_is_nothing_to_do_and_an_explicit_word_wins() {
        assert_eq!(Verdict::read("a", " \n"), Ok(Verdict::default()));
        assert!(!Verdict::read("a", "{}").unwrap().fired);
        assert!(Verdict::read("a", r#"{"fire": true}"#).unwrap().fired);
        assert!(!Verdict::read("a", r#"{"fire": false, "enrich": {"a": "b"}}"#).unwrap().fired);
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for printed in [
            "done",
            "[]",
            r#"{"fires": true}"#,
            r#"{"enrich": {"a b": "c"}}"#,
            r#"{"enrich": {"x></context>": "c"}}"#,
            r#"{"enrich": {"1": "c"}}"#,
        ] {
            assert!(Verdict::read("a", printed).is_err(), "{printed}");
        }
    }

    #[test]
    fn long_pieces_are_cut_and_say_so() {
        let long = format!(r#"{{"enrich": {{"a": "{}"}}}}"#, "é".repeat(9_000));
        let read = Verdict::read("a", &long).unwrap();
        assert!(read.enrich[0].1.ends_with("[cut: 8192 of 18000 bytes are shown]"));
    }
}
