//! Where in a JSON text with comments something can be inserted or taken out, without touching a
//! byte of what stands around it.

/// A list of things between brackets: an object's members or an array's elements.
#[derive(Debug, Clone)]
pub(super) struct Listing {
    /// From the opening bracket to behind the closing one.
    pub(super) start: usize,
    pub(super) end: usize,
    /// What it holds, each from its first byte to behind its last.
    pub(super) items: Vec<(usize, usize)>,
}

/// One place where text goes in.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) at: usize,
    pub(super) before: String,
    pub(super) after: String,
}

/// Returns where a new last item goes: places to insert at, the later one first. The item's own text
/// belongs between `before` and `after` of the first place.
pub(super) fn at_the_end(
    text: &str,
    listing: &Listing,
    indent: &str,
    outer: &str,
    newline: &str,
) -> Vec<Place> {
    let closing = listing.end - 1;
    let own_line = format!("{newline}{indent}");
    let Some(&(_, last)) = listing.items.last() else {
        let at = end_of_trivia(text, listing.start + 1, closing);
        let after =
            if text[at..closing].contains('\n') { String::new() } else { format!("{newline}{outer}") };
        return vec![Place { at, before: own_line, after }];
    };
    let comma = comma_after(text, last, closing);
    let from = comma.map_or(last, |comma| comma + 1);
    let at = end_of_line_trivia(text, from, closing);
    let mut after = if comma.is_some() { ",".to_owned() } else { String::new() };
    if !text[at..closing].contains('\n') {
        after.push_str(&format!("{newline}{outer}"));
    }
    if comma.is_some() {
        return vec![Place { at, before: own_line, after }];
    }
    if at == last {
        return vec![Place { at, before: format!(",{own_line}"), after }];
    }
    vec![
        Place { at, before: own_line, after },
        Place { at: last, before: ",".to_owned(), after: String::new() },
    ]
}

/// Returns what to take out so that one item is gone: ranges, the later one first.
pub(super) fn of_item(text: &str, listing: &Listing, index: usize) -> Vec<(usize, usize)> {
    let (start, end) = listing.items[index];
    let closing = listing.end - 1;
    let floor = if index == 0 { listing.start + 1 } else { listing.items[index - 1].1 };
    let start = start_of_blank(text, floor, start);
    if let Some(comma) = comma_after(text, end, closing) {
        return vec![(start, comma + 1)];
    }
    // The last item without a comma behind it: the comma before it goes too.
    let before = (index > 0).then(|| comma_after(text, floor, listing.items[index].0)).flatten();
    match before {
        Some(comma) if comma >= start => vec![(comma.min(start), end)],
        Some(comma) => vec![(start, end), (comma, comma + 1)],
        None => vec![(start, end)],
    }
}

/// Returns how a line that holds this byte is indented.
pub(super) fn indent_at(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let blank = text[line..].len() - text[line..].trim_start_matches([' ', '\t']).len();
    &text[line..line + blank]
}

/// Finds the comma that follows, over blanks and comments.
fn comma_after(text: &str, from: usize, until: usize) -> Option<usize> {
    let at = end_of_trivia_to_token(text, from, until);
    text[at..until].starts_with(',').then_some(at)
}

/// Returns the end of the last comment between two places, or the first place.
fn end_of_trivia(text: &str, from: usize, until: usize) -> usize {
    let mut end = from;
    let mut at = from;
    while at < until {
        let rest = &text[at..until];
        if let Some(comment) = comment_length(rest) {
            at += comment;
            end = at;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    end
}

/// Skips blanks and comments up to a token.
fn end_of_trivia_to_token(text: &str, from: usize, until: usize) -> usize {
    let mut at = from;
    while at < until {
        let rest = &text[at..until];
        if let Some(comment) = comment_length(rest) {
            at += comment;
        } else if let Some(blank) = rest.chars().next().filter(|character| character.is_whitespace()) {
            at += blank.len_utf8();
        } else {
            break;
        }
    }
    at
}

/// Returns the end of a comment that stands behind something on the same line, or `from`.
fn end_of_line_trivia(text: &str, from: usize, until: usize) -> usize {
    let mut at = from;
    let mut end = from;
    while at < until {
        let rest = &text[at..until];
        if let Some(comment) = comment_length(rest) {
            at += comment;
            end = at;
        } else if rest.starts_with([' ', '\t']) {
            at += 1;
        } else {
            break;
        }
    }
    end
}

/// Length of the comment a text begins with; a line comment ends before its newline.
fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find(['\n', '\r']).unwrap_or(text.len()));
    }
    text.starts_with("/*").then(|| text.find("*/").map_or(text.len(), |end| end + 2))
}

/// Walks back over blanks.
fn start_of_blank(text: &str, floor: usize, at: usize) -> usize {
    floor + text[floor..at].trim_end_matches([' ', '\t', '\r', '\n']).len()
}
