//! Which words occur in which cycles, exactly. A query that is part of one word is answered from here alone, however many
//! cycles it is in: it occurs where a word occurs that holds it. What does not fit is left out, and its cycle is told to
//! be unsure.

use super::checksum;

/// Longest word that is kept, in bytes; longer ones are no words of a language, or of one that does not part them.
const MAX_LEN: usize = 64;
/// Most bytes of all words together, and of where they occur.
const MAX_TEXT: usize = 2 * 1024 * 1024;
const MAX_RUNS: usize = 8 * 1024 * 1024;

#[derive(Debug, Default, Clone)]
pub(super) struct Words {
    /// Every word once, each with a line break after it.
    text: String,
    /// Where in the text each begins.
    starts: Vec<u32>,
    runs: Vec<Runs>,
    /// Bytes that all runs but the last ones take.
    runs_size: usize,
    /// Numbers of words plus one, at the places their hashes give them; empty until a word is added.
    slots: Vec<u32>,
}

/// The cycles a word is in: those of the last run, and before them distances and lengths of the earlier ones.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Runs {
    earlier: Vec<u8>,
    earlier_end: u32,
    start: u32,
    end: u32,
}

/// Two memories are the same when they know the same; where words are looked up is no knowledge.
impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, &self.runs) == (&other.text, &other.runs)
    }
}

impl Words {
    /// Takes in a cycle's folded text; false when not all of its words are known now.
    pub(super) fn add(&mut self, cycle: usize, folded: &str) -> bool {
        let Ok(cycle) = u32::try_from(cycle) else { return false };
        let words = folded.split(|character: char| !is_of_a_word(character)).filter(|word| !word.is_empty());
        let mut is_sure = true;
        for word in words {
            is_sure &= self.add_word(cycle, word);
        }
        is_sure
    }

    fn add_word(&mut self, cycle: u32, word: &str) -> bool {
        if word.len() > MAX_LEN {
            return false;
        }
        if self.slots.len() < (self.runs.len() + 1) * 2 {
            self.make_room();
        }
        let slot = self.slot(word);
        let Some(found) = self.slots.get(slot).copied() else { return false };
        if found == 0 {
            let Ok(start) = u32::try_from(self.text.len()) else { return false };
            if self.text.len() + word.len() >= MAX_TEXT {
                return false;
            }
            self.text.push_str(word);
            self.text.push('\n');
            self.starts.push(start);
            self.runs.push(Runs { start: cycle, end: cycle + 1, ..Runs::default() });
            if let (Some(slot), Ok(number)) = (self.slots.get_mut(slot), u32::try_from(self.runs.len())) {
                *slot = number;
            }
            return true;
        }
        let Some(runs) = self.runs.get_mut(found as usize - 1) else { return false };
        if runs.end > cycle {
            return true;
        }
        if runs.end < cycle {
            if self.runs_size >= MAX_RUNS {
                return false;
            }
            let before = runs.earlier.len();
            runs.close();
            self.runs_size += runs.earlier.len() - before;
            runs.start = cycle;
        }
        runs.end = cycle + 1;
        true
    }

    /// Tells for each cycle whether it certainly holds `query`; nothing for a query that is not part of one word.
    pub(super) fn holding(&self, query: &str, count: usize) -> Option<Vec<bool>> {
        if query.is_empty() || !query.chars().all(is_of_a_word) {
            return None;
        }
        let mut holding = vec![false; count];
        // Telling that it is nowhere is faster by far than finding where it is.
        if query.len() > MAX_LEN || !self.text.contains(query) {
            return Some(holding);
        }
        let mut missing = count;
        let mut from = 0;
        while let Some(at) = self.text.get(from..).and_then(|text| text.find(query)) {
            let word = self.starts.partition_point(|start| *start as usize <= from + at);
            self.runs.get(word.checked_sub(1)?)?.each(|start, end| {
                let run = holding.get_mut(start as usize..end as usize).unwrap_or_default();
                missing -= run.iter().filter(|holds| !**holds).count();
                run.fill(true);
            });
            if missing == 0 {
                break;
            }
            // One occurrence in a word is enough.
            from = self.starts.get(word).map_or(self.text.len(), |start| *start as usize);
        }
        Some(holding)
    }

    /// Returns everything that is known, to be kept.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.text.len() + self.runs_size + self.runs.len() * 8);
        number_into(&mut bytes, self.text.len());
        bytes.extend_from_slice(self.text.as_bytes());
        for runs in &self.runs {
            let mut all = runs.clone();
            all.close();
            number_into(&mut bytes, all.earlier.len());
            bytes.extend_from_slice(&all.earlier);
        }
        bytes
    }

    /// Reads what was kept about `count` cycles.
    pub(super) fn decode(mut bytes: &[u8], count: usize) -> Option<Self> {
        let length = number_of(&mut bytes)?;
        let (text, mut bytes) = bytes.split_at_checked(length)?;
        let mut words = Self { text: String::from_utf8(text.to_vec()).ok()?, ..Self::default() };
        let mut start = 0;
        for word in words.text.split_inclusive('\n') {
            words.starts.push(u32::try_from(start).ok()?);
            start += word.len();
            let length = number_of(&mut bytes)?;
            let (all, rest) = bytes.split_at_checked(length)?;
            bytes = rest;
            let runs = Runs::decode(all).filter(|runs| runs.end as usize <= count)?;
            words.runs_size += runs.earlier.len();
            words.runs.push(runs);
        }
        Some(words)
    }

    /// Doubles the places to look words up.
    fn make_room(&mut self) {
        self.slots = vec![0; ((self.runs.len() + 1) * 4).next_power_of_two().max(1024)];
        let mut number = 0;
        for word in self.text.split_terminator('\n') {
            number += 1;
            let slot = self.slot(word);
            if let Some(slot) = self.slots.get_mut(slot) {
                *slot = number;
            }
        }
    }

    /// Returns the place of a word: the one where it is, or a free one.
    fn slot(&self, word: &str) -> usize {
        let (parts, rest) = word.as_bytes().as_chunks::<8>();
        let rest = rest.iter().fold(1, |rest, byte| (rest << 8) | u64::from(*byte));
        let hash = checksum(parts.iter().map(|part| u64::from_le_bytes(*part)).chain([rest]));
        let mask = self.slots.len().wrapping_sub(1);
        // The upper half is the better mixed one.
        let mut slot = usize::try_from(hash >> 32).unwrap_or(0) & mask;
        while let Some(number) = self.slots.get(slot).filter(|number| **number > 0) {
            if self.is_word(*number as usize - 1, word) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn is_word(&self, number: usize, word: &str) -> bool {
        let text = self.starts.get(number).and_then(|start| self.text.as_bytes().get(*start as usize..));
        text.and_then(|text| text.strip_prefix(word.as_bytes())).is_some_and(|rest| rest.starts_with(b"\n"))
    }
}

impl Runs {
    /// Counts the last run among the earlier ones.
    fn close(&mut self) {
        number_into(&mut self.earlier, (self.start - self.earlier_end) as usize);
        number_into(&mut self.earlier, (self.end - self.start) as usize);
        self.earlier_end = self.end;
    }

    fn each(&self, mut run: impl FnMut(u32, u32)) {
        let (mut bytes, mut end) = (self.earlier.as_slice(), 0);
        while let Some((start, after, _)) = next_run(&mut bytes, end) {
            run(start, after);
            end = after;
        }
        run(self.start, self.end);
    }

    fn decode(all: &[u8]) -> Option<Self> {
        let (mut bytes, mut end) = (all, 0);
        loop {
            let at = all.len() - bytes.len();
            let (start, after, is_last) = next_run(&mut bytes, end)?;
            if is_last {
                return Some(Self { earlier: all.get(..at)?.to_vec(), earlier_end: end, start, end: after });
            }
            end = after;
        }
    }
}

/// Takes a run that begins somewhere after `end` off the bytes: its start, its end, and whether it is the last.
fn next_run(bytes: &mut &[u8], end: u32) -> Option<(u32, u32, bool)> {
    let start = end.checked_add(u32::try_from(number_of(bytes)?).ok()?)?;
    let after = start.checked_add(u32::try_from(number_of(bytes)?).ok()?)?;
    Some((start, after, bytes.is_empty()))
}

fn is_of_a_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-') || !character.is_ascii()
}

/// Seven bits a byte, the lowest first.
fn number_into(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7F) as u8);
}

fn number_of(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0_usize;
    for shift in (0..35).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= usize::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(words: &Words, query: &str, count: usize) -> Vec<usize> {
        let holding = words.holding(query, count).unwrap();
        holding.iter().enumerate().filter(|(_, holds)| **holds).map(|(at, _)| at).collect()
    }

    #[test]
    fn a_part_of_a_word_is_found_where_the_word_is() {
        let mut words = Words::default();
        for (at, text) in
            ["a stable", "unstable x-1", "", "the table", "über_all", "stable"].iter().enumerate()
        {
            assert!(words.add(at, text));
        }
        for words in [&words, &Words::decode(&words.encode(), 6).unwrap()] {
            assert_eq!(holding(words, "table", 6), [0, 1, 3, 5]);
            assert_eq!(holding(words, "stable", 6), [0, 1, 5]);
            assert_eq!(holding(words, "x-1", 6), [1]);
            assert_eq!(holding(words, "r_a", 6), [4]);
            assert_eq!(holding(words, "e", 6), [0, 1, 3, 4, 5].map(|at| at));
            assert_eq!(holding(words, "zz", 6), [0; 0]);
            assert!(words.holding("a stable", 6).is_none() && words.holding("", 6).is_none());
        }
    }

    #[test]
    fn many_words_in_many_cycles_and_on_after_reading() {
        let text = |cycle: usize| -> String {
            (0..60)
                .filter(|word| (cycle * 7 + word * word) % 5 < 2)
                .map(|word| format!("w{word}x "))
                .collect()
        };
        let mut words = Words::default();
        for cycle in 0..700 {
            assert!(words.add(cycle, &format!("{}only{cycle}.", text(cycle))));
            if cycle == 400 {
                words = Words::decode(&words.encode(), 401).unwrap();
            }
        }
        assert_eq!(words, Words::decode(&words.encode(), 700).unwrap());
        for word in 0..60 {
            let query = format!("w{word}x");
            let expected: Vec<usize> = (0..700).filter(|cycle| text(*cycle).contains(&query)).collect();
            assert_eq!(holding(&words, &query, 700), expected, "{query}");
        }
        assert_eq!(holding(&words, "only699", 700), [699]);
        assert_eq!(holding(&words, "only", 700).len(), 700);
        assert!(Words::decode(&words.encode(), 699).is_none(), "a run past the last cycle");
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let mut words = Words::default();
        assert!(!words.add(0, &format!("small {}", "x".repeat(MAX_LEN + 1))));
        assert_eq!(holding(&words, "small", 1), [0]);
        let each = (0..MAX_TEXT / 8).map(|number| format!("{number:07} ")).collect::<String>();
        assert!(!words.add(1, &each), "one more than there is room for");
        assert_eq!(holding(&words, "0000007", 2), [1]);
        assert!(words.add(2, "small 0000007"));
        assert!(!words.add(3, "new"));
    }
}
