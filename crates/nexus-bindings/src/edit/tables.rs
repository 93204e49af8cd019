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
        let header = text.find(&format!("[{}", path.join("."))).unwrap_or_default();
        let (line, column) = position(text, header);
        let reason = "it already exists with other values".to_owned();
        return Err(Unreadable { line, column, reason, entry: Some(path.join(".")) });
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
        entry: None,
    })?;
    Ok(draft)
}

/// Takes the table out, with the tables below it and the blank line before it. Line by line, because
/// a comment above our table belongs to the person and an editing parser would take it along. A table of
/// that name that starts something else, or says more than ours does, is the person's and stays.
pub(crate) fn strip(text: &str, path: &[&str], body: &str) -> Result<String, Unreadable> {
    let wanted = parse(body)?;
    if !table(&parse(text)?, path).is_some_and(|found| is_ours(found, &wanted)) {
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

fn is_ours(found: &toml_edit::Table, wanted: &DocumentMut) -> bool {
    let value = |table: &toml_edit::Table, key| table.get(key).map(|item| item.to_string().trim().to_owned());
    ["command", "args"].into_iter().all(|key| value(found, key) == value(wanted.as_table(), key))
        && found.iter().all(|(key, _)| wanted.contains_key(key))
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
        Unreadable { line, column, reason: error.message().to_owned(), entry: None }
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
            let stripped = strip(&draft.text, &PATH, BODY).unwrap();
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
        for theirs in [
            "[mcp_servers.nexus]\ncommand = \"else\"\n",
            "[mcp_servers]\nnexus.command = \"else\"\n",
            "[mcp_servers.nexus]\ncommand = \"nexus\"\nargs = [\"mcp\", \"--more\"]\n",
        ] {
            let refused = bind(theirs, &PATH, BODY).unwrap_err();
            assert_eq!(refused.entry.as_deref(), Some("mcp_servers.nexus"), "{theirs}");
            assert_eq!(strip(theirs, &PATH, BODY).unwrap(), theirs);
        }
        let added = "[mcp_servers.nexus]\ncommand = \"nexus\"\nargs = [\"mcp\"]\n\n[mcp_servers.nexus.env]\nA = \
            \"1\"\n";
        assert_eq!(bind(added, &PATH, BODY).unwrap().text, added, "ours is there");
        assert_eq!(strip(added, &PATH, BODY).unwrap(), added, "and something of theirs in it");
    }
}
