//! TOML: one table of ours at the end of the file. The person's tables, order and comments stay.

use toml_edit::DocumentMut;

use super::{Draft, Unreadable, newline_of, position};

/// Puts the table in at the end. A text that already holds it with the same values stays as it is.
pub(crate) fn bind(text: &str, path: &[&str], body: &str) -> Result<Draft, Unreadable> {
    let document = parse(text)?;
    let mut draft = Draft::new(text);
    if let Some(found) = table(&document, path) {
        if found.to_string().trim() == body.trim() {
            return Ok(draft);
        }
        let reason = format!("[{}] is there with other values", path.join("."));
        return Err(Unreadable { line: 1, column: 1, reason });
    }
    let newline = newline_of(text);
    let gap = match text {
        "" => String::new(),
        _ if text.ends_with('\n') => newline.to_owned(),
        _ => newline.repeat(2),
    };
    let at = draft.text.len();
    let body = body.trim().replace('\n', newline);
    draft.insert(at, &format!("{gap}[{}]{newline}{body}{newline}", path.join(".")));
    // A table that is there inline cannot be added to this way; nothing is written then.
    parse(&draft.text).map_err(|_| Unreadable {
        line: 1,
        column: 1,
        reason: format!("{} is written inline; add {} there by hand", path[0], path.join(".")),
    })?;
    Ok(draft)
}

/// Takes the table out, with the tables below it and the blank line before it. Line by line, because
/// a comment above our table belongs to the person and an editing parser would take it along.
pub(crate) fn strip(text: &str, path: &[&str]) -> Result<String, Unreadable> {
    if table(&parse(text)?, path).is_none() {
        return Ok(text.to_owned());
    }
    let (header, below) = (format!("[{}]", path.join(".")), format!("[{}.", path.join(".")));
    let mut kept: Vec<&str> = Vec::new();
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            let ours = line.trim_start().starts_with(&header) || line.trim_start().starts_with(&below);
            if ours && !inside && kept.last().is_some_and(|last| last.trim().is_empty()) {
                kept.pop();
            }
            inside = ours;
        }
        if !inside {
            kept.push(line);
        }
    }
    Ok(kept.concat())
}

fn table<'a>(document: &'a DocumentMut, path: &[&str]) -> Option<&'a toml_edit::Table> {
    let mut here = document.as_table();
    for key in path {
        here = here.get(key)?.as_table()?;
    }
    Some(here)
}

fn parse(text: &str) -> Result<DocumentMut, Unreadable> {
    text.parse::<DocumentMut>().map_err(|error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        Unreadable { line, column, reason: error.message().to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::take_back;

    const PATH: [&str; 2] = ["mcp_servers", "nexus"];
    const BODY: &str = "command = \"nexus\"\nargs = [\"mcp\"]\n";

    #[test]
    fn a_table_comes_and_goes_and_nothing_else_does() {
        for file in [
            "",
            "model = \"x\" # mine\n",
            "model = \"x\"",
            "[mcp_servers.other]\ncommand = \"y\"\n",
            "[mcp_servers]\n# none\n",
            "[projects.\"/a\"]\r\ntrust_level = \"trusted\"\r\n",
            "# only a comment\n\n",
        ] {
            let draft = bind(file, &PATH, BODY).unwrap_or_else(|error| panic!("{file}: {error:?}"));
            assert_eq!(take_back(&draft.text, &draft.insertions).as_deref(), Some(file));
            assert_eq!(bind(&draft.text, &PATH, BODY).unwrap().text, draft.text);
            let stripped = strip(&draft.text, &PATH).unwrap();
            assert!(!stripped.contains("nexus"), "{stripped}");
            assert!(
                stripped.replace("\r\n", "\n").trim_end() == file.replace("\r\n", "\n").trim_end(),
                "{stripped:?}"
            );
        }
    }

    #[test]
    fn what_cannot_be_added_to_is_left_alone() {
        assert!(bind("mcp_servers = { a = { command = \"x\" } }\n", &PATH, BODY).is_err());
        assert_eq!(bind("a = \n", &PATH, BODY).unwrap_err().line, 1);
        assert!(bind("[mcp_servers.nexus]\ncommand = \"else\"\n", &PATH, BODY).is_err());
    }
}
