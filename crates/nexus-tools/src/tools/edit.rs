//! `edit`: exact replacement of a piece of text in a file.

use super::Trail;
use super::access::{FileAccess, Rights};
use super::arguments::{Arguments, cut};
use super::read::explain;
use super::write::store;

pub(super) const NAME: &str = "edit";

/// The longest file edited.
const FILE_LIMIT: u64 = 4 * 1024 * 1024;
/// The most line numbers named in an answer.
const NAMED_LINES: usize = 8;
/// The most lines shown in a hint.
const HINT_LINES: usize = 8;
/// The most bytes shown of a line in a hint.
const HINT_LIMIT: usize = 160;

pub(super) fn call(access: &FileAccess, arguments: &Arguments, trail: &Trail) -> Result<String, String> {
    let path = arguments.text("path")?;
    let (old, new) = (arguments.text("old")?, arguments.text("new")?);
    let everywhere = arguments.switch("replace_all")?;
    if old.is_empty() {
        return Err("\"old\" is empty; give the text to replace, or use write for a whole file".to_owned());
    }
    if old == new {
        return Err("\"old\" and \"new\" are the same; nothing to do".to_owned());
    }
    let allowed = access.resolve(path, Rights::ReadWrite)?;
    let shown = &allowed.shown;
    let bytes = allowed.jail.read(&allowed.inside, FILE_LIMIT).map_err(|error| explain(shown, &error))?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8 text and cannot be edited"))?;

    let places: Vec<usize> = text.match_indices(old).map(|(place, _)| place).collect();
    let lines = line_numbers(&text, &places);
    match places.len() {
        0 => return Err(format!("\"old\" does not occur in {shown}. {}", hint(&text, old))),
        1 => {}
        many if !everywhere => {
            return Err(format!(
                "\"old\" occurs {many} times in {shown} ({lines}); add surrounding lines until it is unique, or set \
                 replace_all"
            ));
        }
        _ => {}
    }
    let result = text.replace(old, new);
    if result.len() as u64 > FILE_LIMIT {
        return Err(format!("{shown} would grow past the allowed {FILE_LIMIT} bytes"));
    }
    store(&allowed, &result, NAME, trail)?;
    Ok(format!("replaced {} in {shown} ({lines})", times(places.len())))
}

fn times(count: usize) -> String {
    if count == 1 { "1 occurrence".to_owned() } else { format!("{count} occurrences") }
}

fn line_numbers(text: &str, places: &[usize]) -> String {
    let numbers: Vec<String> = places
        .iter()
        .take(NAMED_LINES)
        .map(|place| (text[..*place].matches('\n').count() + 1).to_string())
        .collect();
    let more = if places.len() > NAMED_LINES { ", …" } else { "" };
    format!("line {}{more}", numbers.join(", "))
}

/// Points at the lines most like the text that was looked for.
fn hint(text: &str, old: &str) -> String {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return "It is only white space; include some surrounding text.".to_owned();
    };
    let lines: Vec<&str> = text.lines().collect();
    let begins = lines.iter().position(|line| line.trim() == wanted);
    if let Some(index) = begins {
        return format!(
            "Line {} starts like it, but what follows or the white space differs:\n{}",
            index + 1,
            around(&lines, index, old.lines().count())
        );
    }
    let best = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (likeness(line.trim(), wanted), index))
        .max_by(|left, right| left.0.total_cmp(&right.0).then(right.1.cmp(&left.1)));
    match best {
        Some((likeness, index)) if likeness > 0.4 => {
            format!("The nearest lines are:\n{}", around(&lines, index, old.lines().count()))
        }
        Some(_) | None => "Nothing similar was found; read the file again.".to_owned(),
    }
}

/// Shows lines from `start` as they are, as many as were looked for and one more.
fn around(lines: &[&str], start: usize, count: usize) -> String {
    let shown = lines.iter().enumerate().skip(start).take((count + 1).min(HINT_LINES));
    let shown: Vec<String> =
        shown.map(|(index, line)| format!("{:>6}\t{}", index + 1, cut(line, HINT_LIMIT).0)).collect();
    shown.join("\n")
}

/// Share of three-letter pieces two lines have in common, from 0 to 1.
fn likeness(left: &str, right: &str) -> f64 {
    use std::collections::BTreeSet;
    let pieces = |text: &str| -> BTreeSet<[char; 3]> {
        let characters: Vec<char> = text.chars().take(HINT_LIMIT).collect();
        characters.windows(3).filter_map(|window| window.try_into().ok()).collect()
    };
    let (left, right) = (pieces(left), pieces(right));
    let together = left.union(&right).count();
    if together == 0 {
        return 0.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts of at most a few hundred")]
    let share = left.intersection(&right).count() as f64 / together as f64;
    share
}
