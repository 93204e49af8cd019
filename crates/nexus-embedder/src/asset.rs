//! The embedder's asset, read where it lies in the program: nothing is built or copied at start, and
//! only the pages that are used come into memory.

/// First bytes of the asset.
const MARK: &[u8; 8] = b"NXEMBED1";
/// Bytes before the tables.
const HEAD: usize = 32;
/// Places in the hash table of entries.
const PLACES: usize = 65_536;
/// Number of an empty place.
const EMPTY: u16 = u16::MAX;

/// The asset that ships.
static SHIPPED: &[u8] = include_bytes!("../assets/minilm-256.bin");

/// Why bytes are no asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AssetError {
    /// They begin otherwise, or end too early.
    #[error("the bytes are not an embedder of this version")]
    Foreign,
}

/// Vocabulary and vectors.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    entries: usize,
    fingerprint: u64,
    begins: &'static [u8],
    text: &'static [u8],
    places: &'static [u8],
    scales: &'static [u8],
    rows: &'static [u8],
}

impl Asset {
    /// Opens the asset that ships with the program.
    ///
    /// # Errors
    /// It is none; a test keeps that from happening.
    pub fn shipped() -> Result<Self, AssetError> {
        Self::over(SHIPPED)
    }

    /// Opens an asset.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn over(bytes: &'static [u8]) -> Result<Self, AssetError> {
        let parse = || {
            let (head, rest) = bytes.split_at_checked(HEAD)?;
            let number = |at: usize| usize::try_from(u32_at(head, at)?).ok();
            if !head.starts_with(MARK) || number(12)? != super::DIMENSIONS {
                return None;
            }
            let (entries, characters) = (number(8)?, number(16)?);
            let fingerprint = u64::from_le_bytes(head.get(24..32)?.try_into().ok()?);
            let (begins, rest) = rest.split_at_checked((entries + 1) * 4)?;
            let (text, rest) = rest.split_at_checked(characters)?;
            let (places, rest) = rest.split_at_checked(PLACES * 2)?;
            let (scales, rows) = rest.split_at_checked(entries * 4)?;
            let whole = rows.len() == entries * super::DIMENSIONS && entries < usize::from(EMPTY);
            whole.then_some(Self { entries, fingerprint, begins, text, places, scales, rows })
        };
        parse().ok_or(AssetError::Foreign)
    }

    /// Returns the name of what makes the vectors; another asset has another name.
    pub fn model(&self) -> String {
        format!("minilm-256-{:016x}", self.fingerprint)
    }

    /// Returns how many entries the vocabulary has.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Tells whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns an entry's text.
    pub fn entry(&self, number: u16) -> Option<&'static [u8]> {
        let at = usize::from(number) * 4;
        let begin = usize::try_from(u32_at(self.begins, at)?).ok()?;
        let end = usize::try_from(u32_at(self.begins, at + 4)?).ok()?;
        self.text.get(begin..end)
    }

    /// Finds an entry given in two parts, which saves joining the mark of a continued word to it.
    pub(super) fn find(&self, mark: &[u8], rest: &[u8]) -> Option<u16> {
        let hash = mark.iter().chain(rest).fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut place = usize::try_from(hash % 65_536).ok()?;
        loop {
            let bytes = self.places.get(place * 2..place * 2 + 2)?;
            let number = u16::from_le_bytes([bytes[0], bytes[1]]);
            if number == EMPTY {
                return None;
            }
            if self.entry(number)?.strip_prefix(mark) == Some(rest) {
                return Some(number);
            }
            place = (place + 1) % PLACES;
        }
    }

    /// Returns an entry's scale and vector; none for entries that say nothing.
    pub(super) fn row(&self, number: u16) -> Option<(f32, &'static [u8])> {
        let number = usize::from(number);
        let scale = f32::from_bits(u32_at(self.scales, number * 4)?);
        let row = self.rows.get(number * super::DIMENSIONS..(number + 1) * super::DIMENSIONS)?;
        (scale > 0.0).then_some((scale, row))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}
