//! The forms of a text that are compared when cycles are searched.

/// Returns text without the difference of cases. Letter by letter, so that a part of a text always
/// folds to a part of the folded text.
pub(super) fn folded(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns the text of a cycle without the space between its values, if that is indentation and one space after each name;
/// of any other text something else.
pub(super) fn without_indentation(text: &str) -> String {
    let mut compact = String::with_capacity(text.len());
    for line in text.split('\n') {
        let line = line.trim_start_matches([' ', '\t']);
        // A string holds no line break: where a line begins with one, it is a name or a value of a list.
        match after_string(line)
            .and_then(|after| Some((line.get(..=after)?, line.get(after..)?.strip_prefix(": ")?)))
        {
            Some((name, value)) => compact.extend([name, value]),
            None => compact.push_str(line),
        }
    }
    compact
}

/// Returns where the string ends that the text begins with.
fn after_string(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('"')?;
    let mut escaped = false;
    let end = inside.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(end + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indented_text_becomes_compact_text() {
        let value = serde_json::json!({
            "a\": \\": ["b\": c", "d: e", { "": "\\\": " }], "f": [], "g": { "h": [1, [2.5, true]] }, "i": ", \n: ",
        });
        for indented in [
            serde_json::to_string_pretty(&value).unwrap(),
            serde_json::to_string_pretty(&value).unwrap().replace('\n', "\n    "),
            serde_json::to_string_pretty(&value).unwrap().replace("\n  ", "\n\t"),
            value.to_string(),
        ] {
            assert_eq!(without_indentation(&indented), value.to_string());
        }
    }
}
