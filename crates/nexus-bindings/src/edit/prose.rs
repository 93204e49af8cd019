//! Instruction files in prose: one block of ours at the end, between two marks; everything outside
//! it is the person's.

use super::{Draft, newline_of};

const BEGIN: &str = "<!-- nexus:begin -->";
const END: &str = "<!-- nexus:end -->";

/// Returns the text between the marks, if both are there in order.
fn block_of(text: &str) -> Option<&str> {
    let (start, end) = range(text)?;
    Some(text[start + BEGIN.len()..end - END.len()].trim())
}

/// Puts the block in at the end. A text that holds this very block stays as it is.
pub(crate) fn bind(text: &str, block: &str) -> Draft {
    let mut draft = Draft::new(text);
    let newline = newline_of(text);
    if block_of(text).is_some_and(|found| same(found, block)) {
        return draft;
    }
    let gap = match text {
        "" => String::new(),
        _ if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    let block = block.trim().replace('\n', newline);
    let at = draft.text.len();
    draft.insert(at, &format!("{gap}{BEGIN}{newline}{block}{newline}{END}{newline}"));
    draft
}

/// Takes the block out, with the blank line before it.
pub(crate) fn strip(text: &str) -> String {
    let Some((start, end)) = range(text) else { return text.to_owned() };
    let tail =
        text[end..].strip_prefix("\r\n").or_else(|| text[end..].strip_prefix('\n')).unwrap_or(&text[end..]);
    let head = &text[..start];
    let shorter = head.strip_suffix("\r\n").or_else(|| head.strip_suffix('\n')).unwrap_or(head);
    // Only a blank line goes with the block; the end of the person's last line stays.
    let head = if shorter.ends_with('\n') || shorter.is_empty() { shorter } else { head };
    format!("{head}{tail}")
}

fn same(found: &str, block: &str) -> bool {
    found.replace("\r\n", "\n").trim() == block.trim()
}

fn range(text: &str) -> Option<(usize, usize)> {
    let start = text.find(BEGIN)?;
    let end = text[start..].find(END)? + start + END.len();
    Some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::take_back;

    #[test]
    fn a_block_comes_and_goes_and_nothing_else_does() {
        for file in ["", "# Mine\n", "# Mine", "# Mine\r\n\r\ntext\r\n", "\n\n", "a\n\nb"] {
            let draft = bind(file, "one\ntwo");
            assert_eq!(take_back(&draft.text, &draft.insertions).as_deref(), Some(file));
            assert_eq!(
                block_of(&draft.text).map(|block| block.replace("\r\n", "\n")).as_deref(),
                Some("one\ntwo")
            );
            assert_eq!(bind(&draft.text, "one\ntwo").text, draft.text);
            if file.ends_with('\n') || file.is_empty() {
                assert_eq!(strip(&draft.text), file);
            }
        }
        let edited = format!("{}below\n", bind("above\n", "x").text);
        assert_eq!(strip(&edited), "above\nbelow\n");
    }
}
