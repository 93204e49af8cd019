//! The layout of the asset. `nexus-memory` reads it where it lies, without building anything.
//!
//! Mark, entries, dimensions, bytes of text, fingerprint; then where each entry's text begins, the
//! texts, a hash table of entry numbers, a scale per row and the rows. Integers and scales have
//! their little end first.

/// First bytes of the file.
const MARK: &[u8; 8] = b"NXEMBED1";
/// Places in the hash table: a power of two, less than half full.
const PLACES: usize = 65_536;
/// Number of an empty place.
const EMPTY: u16 = u16::MAX;

/// Returns the bytes of the asset.
pub(super) fn write(vocabulary: &[&str], table: &[f64], dimensions: usize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut begin = 0;
    for entry in vocabulary {
        body.extend(number(begin).to_le_bytes());
        begin += entry.len();
    }
    body.extend(number(begin).to_le_bytes());
    for entry in vocabulary {
        body.extend(entry.as_bytes());
    }
    for place in places(vocabulary) {
        body.extend(place.to_le_bytes());
    }
    let (scales, rows) = quantised(table, dimensions);
    for scale in scales {
        body.extend(scale.to_le_bytes());
    }
    body.extend(rows.into_iter().map(i8::cast_unsigned));
    let mut bytes = MARK.to_vec();
    bytes.extend(number(vocabulary.len()).to_le_bytes());
    bytes.extend(number(dimensions).to_le_bytes());
    bytes.extend(number(begin).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(fingerprint(&body).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn number(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn places(vocabulary: &[&str]) -> Vec<u16> {
    let mut places = vec![EMPTY; PLACES];
    for (entry, number) in vocabulary.iter().zip(0u16..) {
        let mut place = usize::try_from(fingerprint(entry.as_bytes()) % 65_536).unwrap_or(0);
        while places[place] != EMPTY {
            place = (place + 1) % PLACES;
        }
        places[place] = number;
    }
    places
}

fn quantised(table: &[f64], dimensions: usize) -> (Vec<f32>, Vec<i8>) {
    let mut scales = Vec::new();
    let mut rows = Vec::with_capacity(table.len());
    for row in table.chunks_exact(dimensions) {
        let largest = row.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        #[expect(clippy::cast_possible_truncation, reason = "scales are stored in this precision")]
        let scale = (largest / 127.0) as f32;
        scales.push(scale);
        rows.extend(row.iter().map(|value| {
            let steps =
                if scale > 0.0 { (value / f64::from(scale)).round().clamp(-127.0, 127.0) } else { 0.0 };
            #[expect(clippy::cast_possible_truncation, reason = "clamped to the range of a signed byte")]
            let steps = steps as i8;
            steps
        }));
    }
    (scales, rows)
}

/// FNV-1a, which the reader computes too.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
