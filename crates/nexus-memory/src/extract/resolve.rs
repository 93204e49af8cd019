//! Dates that depend on when they were said, written out.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};
use nexus_base::clock::Timestamp;

use crate::dates::{civil, day_of_month, month, weekday};

/// Tells whether a sentence in lower case names a day, a month or a relative time.
pub(super) fn names_day(lowered: &str) -> bool {
    let words: Vec<&str> = words(lowered);
    let relative = ["yesterday", "today", "tomorrow", "tonight"].iter().any(|word| words.contains(word));
    let paired = words.windows(2).any(|pair| {
        matches!(pair[0], "last" | "next")
            && (weekday(pair[1]).is_some() || matches!(pair[1], "week" | "month" | "year"))
            || pair[1] == "ago"
            || pair[0] == "on" && weekday(pair[1]).is_some()
            || month(pair[0]).is_some() && pair[1].parse::<i16>().is_ok()
            || month(pair[1]).is_some() && (day_of_month(pair[0]).is_some() || matches!(pair[0], "in" | "on"))
            || month(pair[0]).is_some() && pair[0] != "may" && day_of_month(pair[1]).is_some()
    });
    relative || paired || words.iter().any(|word| word.parse::<Date>().is_ok())
}

/// Writes relative dates out; returns the text and the moment it is about, if it names a day.
pub(super) fn dates(text: &str, at: Timestamp) -> (String, Option<Timestamp>) {
    let Some(today) = civil(at) else { return (text.to_owned(), None) };
    let tokens: Vec<&str> = text.split(' ').collect();
    let mut written: Vec<String> = Vec::with_capacity(tokens.len());
    let mut moment = None;
    let mut place = 0;
    while place < tokens.len() {
        match phrase(&tokens[place..], today) {
            Some(Phrase { length, text, day }) => {
                let last = tokens[place + length - 1];
                let end = last.trim_end_matches(['.', ',', '!', ';']).len();
                written.push(format!("{text}{}", &last[end..]));
                // "on next Friday" already has its "on".
                if written.len() > 1 && text.starts_with("on ") && written[written.len() - 2] == "on" {
                    written.remove(written.len() - 2);
                }
                moment = moment.or(day.and_then(noon));
                place += length;
            }
            None => {
                written.push(tokens[place].to_owned());
                place += 1;
            }
        }
    }
    (written.join(" "), moment)
}

struct Phrase {
    length: usize,
    text: String,
    day: Option<Date>,
}

/// Reads a relative date at the beginning of the words.
fn phrase(tokens: &[&str], today: Date) -> Option<Phrase> {
    let word = |at: usize| tokens.get(at).map(|token| bare(token)).unwrap_or_default();
    let on = |length: usize, day: Date| Phrase { length, text: format!("on {day}"), day: Some(day) };
    let moved = |span: Span| today.checked_add(span).ok();
    match word(0).as_str() {
        "yesterday" => return Some(on(1, moved((-1).day())?)),
        "today" | "tonight" => return Some(on(1, today)),
        "tomorrow" => return Some(on(1, moved(1.day())?)),
        _ => {}
    }
    let direction = match word(0).as_str() {
        "last" => -1,
        "next" => 1,
        "on" => 0,
        _ => return ago(tokens, today),
    };
    if let Some(day) = weekday(&word(1)) {
        let step = if direction < 0 { -1 } else { 1 };
        let found =
            (1..=7).filter_map(|days: i64| moved((days * step).days())).find(|date| date.weekday() == day)?;
        return Some(on(2, found));
    }
    let text = match (direction, word(1).as_str()) {
        (-1, "week") => format!("in the week before {today}"),
        (1, "week") => format!("in the week after {today}"),
        (-1 | 1, "month") => moved(direction.months())?.strftime("in %B %Y").to_string(),
        (-1 | 1, "year") => moved(direction.years())?.strftime("in %Y").to_string(),
        _ => return None,
    };
    Some(Phrase { length: 2, text, day: None })
}

/// Reads "three weeks ago" and "in two days".
fn ago(tokens: &[&str], today: Date) -> Option<Phrase> {
    let word = |at: usize| tokens.get(at).map(|token| bare(token)).unwrap_or_default();
    let is_ahead = word(0) == "in";
    let from = usize::from(is_ahead);
    if !is_ahead && word(2) != "ago" {
        return None;
    }
    let count = count(&word(from))? * if is_ahead { 1 } else { -1 };
    let span = match word(from + 1).trim_end_matches('s') {
        "day" => count.days(),
        "week" => count.weeks(),
        "month" => count.months(),
        "year" => count.years(),
        _ => return None,
    };
    let day = today.checked_add(span).ok()?;
    match word(from + 1).trim_end_matches('s') {
        "day" | "week" => Some(Phrase { length: 3, text: format!("on {day}"), day: Some(day) }),
        "month" => Some(Phrase { length: 3, text: day.strftime("in %B %Y").to_string(), day: None }),
        _ => Some(Phrase { length: 3, text: day.strftime("in %Y").to_string(), day: None }),
    }
}

fn count(word: &str) -> Option<i64> {
    let words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    if matches!(word, "a" | "an") {
        return Some(1);
    }
    let spelled = || (1..).zip(words).find(|(_, name)| *name == word).map(|(number, _)| number);
    word.parse().ok().or_else(spelled).filter(|count| (1..=1000).contains(count))
}

fn bare(token: &str) -> String {
    token.trim_matches(|character: char| !character.is_alphanumeric()).to_lowercase()
}

fn words(lowered: &str) -> Vec<&str> {
    lowered
        .split(|character: char| !character.is_alphanumeric() && character != '-')
        .filter(|word| !word.is_empty())
        .collect()
}

fn noon(day: Date) -> Option<Timestamp> {
    let moment = day.at(12, 0, 0, 0).to_zoned(TimeZone::system()).ok()?;
    Some(Timestamp(moment.timestamp().as_millisecond()))
}
