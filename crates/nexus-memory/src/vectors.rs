//! Vectors of one kind in memory: rows of signed bytes in aligned chunks, and beside them arrays of
//! what decides whether a row may be seen and how it is ranked. A scan reads all of them in order;
//! what a viewer may not see is passed over before anything is ranked.

use nexus_store::embeddings::VectorView;

use nexus_embedder::{DIMENSIONS, STORED_BYTES, Vector, dot};

/// Rows in a chunk. A chunk is filled before the next is made, so nothing is ever moved.
const CHUNK: usize = 1024;
/// Audience of a row that was forgotten; no viewer has it.
const FORGOTTEN: i64 = i64::MIN;

/// A row of numbers where wide instructions like it.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Numbers([i8; DIMENSIONS]);

#[derive(Debug, Default)]
struct Chunk {
    numbers: Vec<Numbers>,
    scales: Vec<f32>,
    rows: Vec<i64>,
    audiences: Vec<i64>,
    times: Vec<i64>,
    speakers: Vec<u32>,
}

/// What a row is besides its vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowInfo {
    pub(crate) row: i64,
    pub(crate) audience: i64,
    pub(crate) at: i64,
    pub(crate) speaker: u32,
}

/// Which rows a scan looks at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Only these audiences, sorted; all when none.
    pub(crate) audiences: Option<Vec<i64>>,
    /// Only these rows, sorted; all when none.
    pub(crate) rows: Option<Vec<i64>>,
    /// At this time or later.
    pub(crate) after: Option<i64>,
    /// Before this time.
    pub(crate) before: Option<i64>,
    /// Speakers that get `boost` while the nearest are chosen.
    pub(crate) favoured: Vec<u32>,
}

/// What favoured speakers get while the nearest are chosen.
const FAVOUR: f32 = 0.1;

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// The nearest rows, nearest first.
    pub(crate) nearest: Vec<i64>,
    /// Mean similarity of the rows that were looked at.
    pub(crate) mean: f32,
    /// Highest similarity.
    pub(crate) highest: f32,
    rows: Vec<i64>,
    similarities: Vec<f32>,
}

impl Scan {
    /// Returns how near a row is, if it was looked at.
    pub(crate) fn similarity(&self, row: i64) -> Option<f32> {
        let at = self.rows.binary_search(&row).ok()?;
        self.similarities.get(at).copied()
    }

    /// Returns the nearest rows that are near by themselves, and not just nearer than the rest.
    pub(crate) fn near(&self, floor: f32) -> impl Iterator<Item = i64> {
        self.nearest
            .iter()
            .copied()
            .filter(move |row| self.similarity(*row).is_some_and(|value| value >= floor))
    }

    /// Returns how a similarity stands between the mean (0) and the highest (1) of this scan.
    pub(crate) fn standing(&self, row: i64) -> f64 {
        let Some(similarity) = self.similarity(row) else { return 0.0 };
        let range = self.highest - self.mean;
        if range <= f32::EPSILON {
            return 0.0;
        }
        f64::from(((similarity - self.mean) / range).clamp(0.0, 1.0))
    }
}

/// All vectors of one kind.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    chunks: Vec<Chunk>,
}

impl Vectors {
    /// Adds a vector behind the others, or puts it in the place of one of the same row. Rows come in
    /// ascending order; one that is too late and unknown is left out.
    pub(crate) fn put(&mut self, info: RowInfo, vector: &Vector) {
        if self.last_row().is_some_and(|last| last >= info.row) {
            if let Some((chunk, at)) = self.place(info.row) {
                let chunk = &mut self.chunks[chunk];
                chunk.numbers[at] = Numbers(vector.values);
                chunk.scales[at] = vector.scale;
                (chunk.audiences[at], chunk.times[at], chunk.speakers[at]) =
                    (info.audience, info.at, info.speaker);
            }
            return;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.rows.len() == CHUNK) {
            // A second chunk will be filled like the first was; a first one may stay small.
            self.chunks.push(if self.chunks.is_empty() { Chunk::default() } else { Chunk::roomy() });
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.numbers.push(Numbers(vector.values));
            chunk.scales.push(vector.scale);
            chunk.rows.push(info.row);
            chunk.audiences.push(info.audience);
            chunk.times.push(info.at);
            chunk.speakers.push(info.speaker);
        }
    }

    /// Adds a vector as it was stored; one of another size is left out.
    pub(crate) fn put_stored(&mut self, view: VectorView<'_>) {
        let Ok(bytes) = <&[u8; STORED_BYTES]>::try_from(view.bytes) else { return };
        let (scale, numbers) = bytes.split_at(4);
        let mut values = [0i8; DIMENSIONS];
        values.iter_mut().zip(numbers).for_each(|(value, byte)| *value = byte.cast_signed());
        let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]);
        let info = RowInfo { row: view.row, audience: view.audience, at: view.at, speaker: view.speaker };
        self.put(info, &Vector { scale, values });
    }

    /// Makes a row invisible and wipes its numbers.
    pub(crate) fn forget(&mut self, row: i64) {
        if let Some((chunk, at)) = self.place(row) {
            let chunk = &mut self.chunks[chunk];
            chunk.numbers[at] = Numbers([0; DIMENSIONS]);
            chunk.audiences[at] = FORGOTTEN;
        }
    }

    /// Returns the newest row.
    pub(crate) fn last_row(&self) -> Option<i64> {
        self.chunks.last()?.rows.last().copied()
    }

    /// Compares a vector with every row that may be seen.
    pub(crate) fn scan(&self, query: &Vector, seen: &Seen, count: usize) -> Scan {
        let mut scan = Scan { highest: f32::MIN, ..Scan::default() };
        let mut sum = 0.0f64;
        let mut best: Vec<(f32, i64)> = Vec::with_capacity(count * 2 + 1);
        let mut bar = f32::MIN;
        for chunk in &self.chunks {
            for at in 0..chunk.rows.len() {
                if !chunk.is_visible(at, seen) {
                    continue;
                }
                let similarity = dot(&chunk.numbers[at].0, &query.values) * chunk.scales[at] * query.scale;
                let row = chunk.rows[at];
                scan.rows.push(row);
                scan.similarities.push(similarity);
                scan.highest = scan.highest.max(similarity);
                sum += f64::from(similarity);
                let favour = if seen.favoured.contains(&chunk.speakers[at]) { FAVOUR } else { 0.0 };
                if similarity + favour > bar {
                    best.push((similarity + favour, row));
                    if best.len() > count * 2 {
                        cut(&mut best, count);
                        bar = best.last().map_or(f32::MIN, |(similarity, _)| *similarity);
                    }
                }
            }
        }
        cut(&mut best, count);
        scan.nearest = best.into_iter().map(|(_, row)| row).collect();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a mean for ranking"
        )]
        let mean = (sum / scan.rows.len().max(1) as f64) as f32;
        scan.mean = mean;
        scan
    }

    fn place(&self, row: i64) -> Option<(usize, usize)> {
        let chunk = self.chunks.partition_point(|chunk| chunk.rows.last().is_some_and(|last| *last < row));
        let at = self.chunks.get(chunk)?.rows.binary_search(&row).ok()?;
        Some((chunk, at))
    }
}

impl Chunk {
    fn roomy() -> Self {
        Self {
            numbers: Vec::with_capacity(CHUNK),
            scales: Vec::with_capacity(CHUNK),
            rows: Vec::with_capacity(CHUNK),
            audiences: Vec::with_capacity(CHUNK),
            times: Vec::with_capacity(CHUNK),
            speakers: Vec::with_capacity(CHUNK),
        }
    }

    fn is_visible(&self, at: usize, seen: &Seen) -> bool {
        let audience = self.audiences[at];
        audience != FORGOTTEN
            && seen.audiences.as_ref().is_none_or(|known| known.binary_search(&audience).is_ok())
            && seen.rows.as_ref().is_none_or(|known| known.binary_search(&self.rows[at]).is_ok())
            && seen.after.is_none_or(|after| self.times[at] >= after)
            && seen.before.is_none_or(|before| self.times[at] < before)
    }
}

/// Keeps the best, in order; ties go to the newer row.
fn cut(best: &mut Vec<(f32, i64)>, count: usize) {
    best.sort_unstable_by(|left, right| right.0.total_cmp(&left.0).then(right.1.cmp(&left.1)));
    best.truncate(count);
}

/// Returns the number that stands for a speaker; 0 stands for nobody.
pub(crate) fn speaker_number(sender: &str) -> u32 {
    let hash = sender
        .to_lowercase()
        .bytes()
        .fold(0x811c_9dc5u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(first: i8, second: i8) -> Vector {
        let mut values = [0; DIMENSIONS];
        (values[0], values[1]) = (first, second);
        Vector { scale: 0.01, values }
    }

    fn filled(count: i64) -> Vectors {
        let mut vectors = Vectors::default();
        for row in 1..=count {
            let info = RowInfo { row, audience: row % 2, at: row * 10, speaker: 7 };
            vectors.put(info, &vector(i8::try_from(row % 100).unwrap(), 1));
        }
        vectors
    }

    #[test]
    fn what_may_not_be_seen_takes_no_place_among_the_nearest() {
        let vectors = filled(3000);
        let seen = Seen { audiences: Some(vec![0]), ..Seen::default() };
        let scan = vectors.scan(&vector(100, 0), &seen, 5);
        assert_eq!(scan.nearest.len(), 5);
        assert!(scan.nearest.iter().all(|row| row % 2 == 0), "{:?}", scan.nearest);
        assert_eq!(scan.similarity(1), None, "nor is it compared at all");
        assert_eq!(scan.rows.len(), 1500);
        let seen = Seen { rows: Some(vec![3, 4]), ..Seen::default() };
        assert_eq!(vectors.scan(&vector(100, 0), &seen, 5).nearest, [4, 3]);
        let seen = Seen { after: Some(20), before: Some(40), ..Seen::default() };
        assert_eq!(vectors.scan(&vector(100, 0), &seen, 5).nearest, [3, 2]);
    }

    #[test]
    fn rows_are_replaced_forgotten_and_never_doubled() {
        let mut vectors = filled(CHUNK as i64 + 1);
        vectors.put(RowInfo { row: 2, audience: 0, at: 0, speaker: 0 }, &vector(127, 0));
        assert_eq!(vectors.scan(&vector(100, 0), &Seen::default(), 1).nearest, [2]);
        vectors.forget(2);
        assert_ne!(vectors.scan(&vector(100, 0), &Seen::default(), 1).nearest, [2]);
        assert_eq!(vectors.last_row(), Some(1025));
        let standing = vectors.scan(&vector(100, 0), &Seen::default(), 1).standing(99);
        assert!((standing - 1.0).abs() < 1e-6, "{standing}");
    }
}
