//! Reads the weights of a model from a safetensors file: a length, a table of contents in JSON, and
//! then the numbers.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Tensors by name.
#[derive(Debug)]
pub(super) struct Tensors(BTreeMap<String, Vec<f32>>);

impl Tensors {
    /// Returns a tensor of the size it has to have.
    pub(super) fn get(&self, name: &str, length: usize) -> Result<&[f32]> {
        let tensor = self.0.get(name).with_context(|| format!("the model has no {name}"))?;
        if tensor.len() != length {
            bail!("{name} has {} numbers and not {length}", tensor.len());
        }
        Ok(tensor)
    }
}

/// Reads all tensors of 32-bit numbers.
pub(super) fn read(path: &Path) -> Result<Tensors> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let (head, rest) = bytes.split_at_checked(8).context("the file has no head")?;
    let length = usize::try_from(u64::from_le_bytes(head.try_into()?))?;
    let (contents, numbers) = rest.split_at_checked(length).context("the table of contents is cut off")?;
    let contents: BTreeMap<String, Value> = serde_json::from_slice(contents)?;
    let mut tensors = BTreeMap::new();
    for (name, entry) in contents {
        if entry["dtype"] != "F32" {
            continue;
        }
        let bound = |place: usize| {
            entry["data_offsets"][place].as_u64().and_then(|bound| usize::try_from(bound).ok())
        };
        let range = bound(0).zip(bound(1)).with_context(|| format!("{name} says not where it is"))?;
        let slice = numbers.get(range.0..range.1).with_context(|| format!("{name} is cut off"))?;
        let values =
            slice.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        tensors.insert(name, values.collect());
    }
    Ok(Tensors(tensors))
}
