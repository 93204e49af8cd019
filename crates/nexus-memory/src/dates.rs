//! The time a question names: a year, a month, a day, "last week", "three days ago".

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, ToSpan};
use nexus_base::clock::Timestamp;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [(&str, Weekday); 7] = [
    ("monday", Weekday::Monday),
    ("tuesday", Weekday::Tuesday),
    ("wednesday", Weekday::Wednesday),
    ("thursday", Weekday::Thursday),
    ("friday", Weekday::Friday),
    ("saturday", Weekday::Saturday),
    ("sunday", Weekday::Sunday),
];
/// Words that make "may" a month and not a verb.
const BEFORE_MAY: [&str; 10] = ["in", "of", "on", "by", "during", "early", "late", "mid", "since", "last"];

/// Days around a named stretch in which people still talk about it.
const NEAR: i64 = 31;

/// The time a question names.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NamedTime {
    years: Vec<i16>,
    months: Vec<i8>,
    days: Vec<i8>,
    stretch: Option<(Date, Date)>,
}

impl NamedTime {
    /// Reads a question; `now` is what "yesterday" counts from.
    pub(crate) fn of(text: &str, now: Timestamp) -> Self {
        let lowered = text.to_lowercase();
        let words: Vec<&str> = lowered
            .split(|character: char| !character.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let years: Vec<i16> = words
            .iter()
            .filter_map(|word| word.parse().ok())
            .filter(|year| (1900..=2100).contains(year))
            .collect();
        let mut months = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let Some(month) = month(word) else { continue };
            let is_verb = *word == "may" && !names_month(&words, at);
            if !is_verb && !months.contains(&month) {
                months.push(month);
            }
        }
        let mut days = Vec::new();
        if !months.is_empty() {
            days = words.iter().filter_map(|word| day_of_month(word)).collect();
        }
        Self { years, months, days, stretch: civil(now).and_then(|today| stretch(&words, today)) }
    }

    /// Tells whether no time was named.
    pub(crate) fn is_empty(&self) -> bool {
        self.years.is_empty() && self.months.is_empty() && self.stretch.is_none()
    }

    /// Says how well a moment fits: 1 inside, less nearby, 0 elsewhere.
    pub(crate) fn fit(&self, moment: Timestamp) -> f64 {
        let Some(date) = civil(moment) else { return 0.0 };
        if let Some((first, last)) = self.stretch {
            return if date >= first && date <= last {
                1.0
            } else if (date > last && days_between(last, date) <= NEAR / 4)
                || (date < first && days_between(date, first) <= NEAR / 4)
            {
                0.4
            } else {
                0.0
            };
        }
        if !self.years.is_empty() && !self.years.contains(&date.year()) {
            return 0.0;
        }
        if self.months.is_empty() {
            return if self.years.is_empty() { 0.0 } else { 0.5 };
        }
        let next = date.month() % 12 + 1;
        let previous = (date.month() + 10) % 12 + 1;
        if !self.months.contains(&date.month()) {
            let is_near = self.months.contains(&next) || self.months.contains(&previous);
            return if is_near { 0.4 } else { 0.0 };
        }
        match self.days.iter().map(|day| (date.day() - day).abs()).min() {
            None | Some(0 | 1) => 1.0,
            Some(2..=7) => 0.8,
            Some(_) => 0.5,
        }
    }
}

/// Returns the local date of a moment.
pub(crate) fn civil(moment: Timestamp) -> Option<Date> {
    let moment = jiff::Timestamp::from_millisecond(moment.as_millis()).ok()?;
    Some(moment.to_zoned(TimeZone::system()).date())
}

/// Returns a month by its name.
pub(crate) fn month(word: &str) -> Option<i8> {
    (1..).zip(MONTHS).find(|(_, name)| *name == word).map(|(number, _)| number)
}

/// Returns a weekday by its name.
pub(crate) fn weekday(word: &str) -> Option<Weekday> {
    DAYS.iter().find(|(name, _)| *name == word).map(|(_, day)| *day)
}

/// Reads 7, 7th, 22nd.
pub(crate) fn day_of_month(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

fn names_month(words: &[&str], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| words.get(before));
    let after = words.get(at + 1);
    before.is_some_and(|word| BEFORE_MAY.contains(word) || day_of_month(word).is_some())
        || after.is_some_and(|word| word.parse::<i16>().is_ok() || day_of_month(word).is_some())
}

/// Returns the first and last day of the stretch that words like "last week" name.
fn stretch(words: &[&str], today: Date) -> Option<(Date, Date)> {
    let pair = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
    let back = |span: Span| today.checked_sub(span).ok();
    if words.contains(&"yesterday") {
        let day = back(1.day())?;
        return Some((day, day));
    }
    if words.contains(&"today") || words.contains(&"tonight") {
        return Some((today, today));
    }
    for (unit, days) in [("week", 7), ("month", 31), ("year", 365)] {
        if pair("last", unit) || pair("past", unit) || pair("previous", unit) {
            return Some((back((2 * days).days())?, back(1.day())?));
        }
        if pair("this", unit) {
            return Some((back(days.days())?, today));
        }
    }
    for place in words.windows(3).filter(|three| three[2] == "ago") {
        let count = number(place[0])?;
        let (days, slack) = match place[1].trim_end_matches('s') {
            "day" => (count, 0),
            "week" => (count * 7, 3),
            "month" => (count * 30, 15),
            "year" => (count * 365, 90),
            _ => continue,
        };
        return Some((back((days + slack).days())?, back((days - slack).max(0).days())?));
    }
    let last = words
        .windows(2)
        .find_map(|pair| weekday(pair[1]).filter(|_| matches!(pair[0], "last" | "on" | "this")))?;
    let day = (1..=7).filter_map(|days: i64| back(days.days())).find(|day| day.weekday() == last)?;
    Some((day, day))
}

fn number(word: &str) -> Option<i64> {
    const WORDS: [&str; 13] = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    if word == "a" || word == "an" {
        return Some(1);
    }
    let spelled = || (0..).zip(WORDS).find(|(_, name)| *name == word).map(|(number, _)| number);
    word.parse().ok().or_else(spelled).filter(|count| (0..=1000).contains(count))
}

fn days_between(earlier: Date, later: Date) -> i64 {
    earlier.until(later).map_or(i64::MAX, |span| i64::from(span.get_days()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(date: &str) -> Timestamp {
        let date: Date = date.parse().unwrap();
        Timestamp(date.at(12, 0, 0, 0).to_zoned(TimeZone::system()).unwrap().timestamp().as_millisecond())
    }

    #[test]
    fn a_time_in_a_question_fits_the_days_it_names() {
        let now = at("2026-03-18");
        let fit = |question: &str, day: &str| NamedTime::of(question, now).fit(at(day));
        let check = |question: &str, day: &str, expected: f64| {
            assert!((fit(question, day) - expected).abs() < 1e-9, "{question} {day}: {}", fit(question, day));
        };
        check("What happened on 7 May 2023?", "2023-05-08", 1.0);
        check("What happened on 7 May 2023?", "2022-05-08", 0.0);
        check("What did she do in May?", "2024-06-02", 0.4);
        check("What may she like?", "2023-05-08", 0.0);
        check("What happened in 2023?", "2023-01-01", 0.5);
        check("What did I say yesterday?", "2026-03-17", 1.0);
        check("Where was I last week?", "2026-03-10", 1.0);
        check("Where was I two weeks ago?", "2026-03-05", 1.0);
        check("What about last Friday?", "2026-03-13", 1.0);
        check("What about last Friday?", "2025-03-13", 0.0);
        assert!(NamedTime::of("What does Ada like?", now).is_empty());
    }
}
