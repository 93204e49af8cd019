//! `nexus trace --prompt`: every part of what the model was sent, with its size.

use nexus_base::id::RequestId;
use nexus_protocol::control::PromptOf;
use nexus_protocol::methods::Method;
use nexus_protocol::trace::PromptView;

use crate::context::Context;
use crate::control;
use crate::failure::Outcome;
use crate::output::{self, Format, single_line};

/// Shows what a request's model was sent.
pub(super) fn run(context: &Context, id: &RequestId, format: Format, full: bool) -> Outcome {
    let of = PromptOf { id: id.to_string(), full };
    let view: PromptView = control::look(context, Method::RequestsPrompt, &of)
        .map_err(|failure| failure.hint_if_missing("nexus trace shows how far the request got"))?;
    match format {
        Format::Json => output::json(&view),
        Format::Text if full => {
            for part in &view.parts {
                let head =
                    format!("── {} · {} · {} bytes", part.section, single_line(&part.name), part.bytes);
                let words = part.text.as_deref().unwrap_or("[its text is not kept]");
                output::text(&format!("{head}\n{}\n", output::harmless(words.trim_end())))?;
            }
            Ok(())
        }
        Format::Text => {
            output::table(&["SECTION", "PART", "BYTES", "NOTE"], rows(&view))?;
            for fact in &view.memory {
                output::line(&format!("remembered ({:.2}): {}", fact.score, single_line(&fact.text)))?;
            }
            for compaction in &view.compactions {
                output::line(&format!("compacted during the turn: {}", single_line(compaction)))?;
            }
            Ok(())
        }
    }
}

fn rows(view: &PromptView) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = view
        .parts
        .iter()
        .map(|part| {
            let note = part.cut_from.map(|whole| format!("cut from {whole}")).unwrap_or_default();
            vec![part.section.clone(), single_line(&part.name), part.bytes.to_string(), note]
        })
        .collect();
    let model = view.model.as_deref().map(single_line).unwrap_or_default();
    rows.push(vec!["total".to_owned(), String::new(), view.total_bytes.to_string(), model]);
    rows
}
