//! `cargo xtask count-tokens`: how often each entry of the embedder's vocabulary is met in English
//! conversation, from a list of words with their counts.
//!
//! Every word is cut as the embedder cuts it and each piece gets the word's count. What is kept is the
//! share of all pieces as a negative logarithm to base two, in eighths, rounded; 255 means never.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use nexus_base::file::{Durability, replace};
use nexus_embedder::{Asset, pieces};

/// Most pieces a word is cut into.
const MAX_PIECES: usize = 64;
/// Stands for an entry that is never met.
const NEVER: u8 = u8::MAX;

/// Where the words are and where the counts go.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The word list: a JSON object of words and counts, `spellchecker/resources/en.json` unpacked.
    #[arg(long)]
    from: PathBuf,
    /// File to write instead of the committed one.
    #[arg(long, default_value = "xtask/assets/english-token-frequency.bin")]
    to: PathBuf,
}

/// Counts and writes.
pub(crate) fn run(options: &Options) -> Result<()> {
    let text = std::fs::read_to_string(&options.from)
        .with_context(|| format!("reading {}", options.from.display()))?;
    let words: BTreeMap<String, u64> = serde_json::from_str(&text).context("reading words and counts")?;
    ensure!(!words.is_empty(), "there are no words in {}", options.from.display());
    let bytes = count(&words)?;
    replace(&options.to, &bytes, 0o644, Durability::Crash)?;
    println!("wrote {} ({} entries)", options.to.display(), bytes.len());
    Ok(())
}

fn count(words: &BTreeMap<String, u64>) -> Result<Vec<u8>> {
    let asset = Asset::shipped().context("opening the vocabulary")?;
    let mut counts = vec![0u64; asset.len()];
    let mut total = 0u64;
    for (word, times) in words {
        for piece in pieces(&asset, word, MAX_PIECES) {
            counts[usize::from(piece)] += times;
            total += times;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "shares for rounding to an eighth of a bit")]
    let share = |count: u64| count as f64 / total as f64;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held between 0 and 254")]
    let eighths = |count: u64| (-share(count).log2() * 8.0).round().clamp(0.0, 254.0) as u8;
    Ok(counts.into_iter().map(|count| if count == 0 { NEVER } else { eighths(count) }).collect())
}

#[cfg(test)]
mod tests {
    use nexus_base::id::to_hex;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_committed_counts_are_the_ones_described() {
        let committed = include_bytes!("../../assets/english-token-frequency.bin");
        assert_eq!(
            to_hex(Sha256::digest(committed).as_slice()),
            "6997d3ee3714a059ddcb32304f217f535a769fabb2734cb119336eb70f01cac0"
        );
        assert_eq!(committed.len(), Asset::shipped().unwrap().len());
    }

    #[test]
    fn a_piece_counts_as_often_as_the_words_it_is_in() {
        let words = BTreeMap::from([("the".to_owned(), 6), ("cat".to_owned(), 1), ("cat's".to_owned(), 1)]);
        let counted = count(&words).unwrap();
        let asset = Asset::shipped().unwrap();
        let of = |word: &str| counted[usize::from(pieces(&asset, word, 1)[0])];
        // Ten pieces: six of the, two of cat, an apostrophe, an s.
        assert_eq!((of("the"), of("cat"), of("s"), of("dog")), (6, 19, 27, NEVER));
    }
}
