//! Text to vector: the mean of its word pieces' vectors, of length one, rounded to signed bytes.
//!
//! A vector depends on its text and the asset alone. Sums are taken in the order of the words.

mod asset;
mod wordpiece;

pub use asset::{Asset, AssetError};
pub use wordpiece::pieces;

/// Numbers in a vector.
pub const DIMENSIONS: usize = 256;
/// Bytes of a stored vector: its scale, then its numbers.
pub const STORED_BYTES: usize = 4 + DIMENSIONS;
/// Bytes a stored vector takes, without its row.
pub const BYTES_PER_VECTOR: u64 = STORED_BYTES as u64;
/// Most pieces of one text that are looked at; a longer text is about many things anyway.
const MAX_PIECES: usize = 512;

/// A text's place among meanings.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// What one step of `values` stands for.
    pub scale: f32,
    /// The numbers.
    pub values: [i8; DIMENSIONS],
}

impl Vector {
    /// Returns how near two meanings are: 1 for the same, 0 for nothing in common.
    pub fn similarity(&self, other: &Self) -> f32 {
        dot(&self.values, &other.values) * self.scale * other.scale
    }

    /// Returns the vector as it is stored.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STORED_BYTES);
        bytes.extend(self.scale.to_le_bytes());
        bytes.extend(self.values.map(i8::cast_unsigned));
        bytes
    }
}

/// Multiplies two rows. The sum of 256 products of signed bytes fits 32 bits with room to spare, so
/// the order does not matter, and the compiler makes wide instructions of it.
pub fn dot(left: &[i8; DIMENSIONS], right: &[i8; DIMENSIONS]) -> f32 {
    let mut sum = 0i32;
    for (left, right) in left.iter().zip(right) {
        sum += i32::from(*left) * i32::from(*right);
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 256 · 127², which a float holds exactly")]
    let sum = sum as f32;
    sum
}

/// Returns the vector of a text; none when no word of it says anything.
pub fn embed(asset: &Asset, text: &str) -> Option<Vector> {
    let mut sums = [0.0f32; DIMENSIONS];
    for piece in pieces(asset, text, MAX_PIECES) {
        let Some((scale, row)) = asset.row(piece) else { continue };
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += scale * f32::from(value.cast_signed());
        }
    }
    let length = sums.iter().map(|sum| sum * sum).sum::<f32>().sqrt();
    let largest = sums.iter().fold(0.0f32, |most, sum| most.max(sum.abs()));
    if !(length > f32::MIN_POSITIVE && largest > 0.0) {
        return None;
    }
    let step = largest / 127.0;
    #[expect(clippy::cast_possible_truncation, reason = "the largest is 127 by construction")]
    let values = sums.map(|sum| (sum / step).round() as i8);
    Some(Vector { scale: step / length, values })
}
