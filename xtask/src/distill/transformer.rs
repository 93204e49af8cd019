//! A BERT encoder of six layers, run over sequences of three tokens: start, one entry, end.
//!
//! Each sum is taken in the order of its terms; threads share the entries, never a sum.

use anyhow::Result;

use super::maths;
use super::tensors::Tensors;

/// Numbers per token.
pub(super) const WIDTH: usize = 384;
const INNER: usize = 4 * WIDTH;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const HEAD: usize = WIDTH / HEADS;
/// Tokens around and with the entry.
const LENGTH: usize = 3;
const START: usize = 101;
const END: usize = 102;
/// Entries computed together, so that weights are read from memory once for all of them.
const TOGETHER: usize = 32;
/// Outputs and inputs computed together in registers.
const PANEL: usize = 8;
const ROWS: usize = 4;

/// A linear map, its matrix cut into panels of [`PANEL`] outputs.
struct Linear {
    panels: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
}

struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    joined: Linear,
    attended: Norm,
    wide: Linear,
    narrow: Linear,
    done: Norm,
}

/// The encoder.
pub(super) struct Transformer {
    words: Vec<f32>,
    places: Vec<f32>,
    kind: Vec<f32>,
    embedded: Norm,
    layers: Vec<Layer>,
}

impl Transformer {
    /// Takes the weights by their names.
    pub(super) fn new(tensors: &Tensors) -> Result<Self> {
        let take = |name: &str, length: usize| tensors.get(name, length).map(<[f32]>::to_vec);
        let norm = |name: &str| -> Result<Norm> {
            Ok(Norm {
                weight: take(&format!("{name}.LayerNorm.weight"), WIDTH)?,
                bias: take(&format!("{name}.LayerNorm.bias"), WIDTH)?,
            })
        };
        let linear = |name: &str, inputs: usize, outputs: usize| -> Result<Linear> {
            let matrix = tensors.get(&format!("{name}.weight"), inputs * outputs)?;
            let mut panels = Vec::with_capacity(matrix.len());
            for first in (0..outputs).step_by(PANEL) {
                for input in 0..inputs {
                    panels.extend((first..first + PANEL).map(|output| matrix[output * inputs + input]));
                }
            }
            Ok(Linear { panels, bias: take(&format!("{name}.bias"), outputs)?, inputs })
        };
        let layer = |number: usize| -> Result<Layer> {
            let part = |name: &str| format!("encoder.layer.{number}.{name}");
            Ok(Layer {
                query: linear(&part("attention.self.query"), WIDTH, WIDTH)?,
                key: linear(&part("attention.self.key"), WIDTH, WIDTH)?,
                value: linear(&part("attention.self.value"), WIDTH, WIDTH)?,
                joined: linear(&part("attention.output.dense"), WIDTH, WIDTH)?,
                attended: norm(&part("attention.output"))?,
                wide: linear(&part("intermediate.dense"), WIDTH, INNER)?,
                narrow: linear(&part("output.dense"), INNER, WIDTH)?,
                done: norm(&part("output"))?,
            })
        };
        Ok(Self {
            words: take("embeddings.word_embeddings.weight", 30_522 * WIDTH)?,
            places: take("embeddings.position_embeddings.weight", 512 * WIDTH)?,
            kind: take("embeddings.token_type_embeddings.weight", 2 * WIDTH)?,
            embedded: norm("embeddings")?,
            layers: (0..LAYERS).map(layer).collect::<Result<_>>()?,
        })
    }

    /// Returns the vector of every entry, embedded alone, of length one, row by row.
    pub(super) fn embed_vocabulary(&self, entries: usize) -> Vec<f32> {
        let mut table = vec![0.0; entries * WIDTH];
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let share = entries.div_ceil(threads);
        std::thread::scope(|scope| {
            for (thread, rows) in table.chunks_mut(share * WIDTH).enumerate() {
                scope.spawn(move || {
                    for (batch, rows) in rows.chunks_mut(TOGETHER * WIDTH).enumerate() {
                        self.embed(thread * share + batch * TOGETHER, rows);
                    }
                });
            }
        });
        table
    }

    fn embed(&self, first: usize, rows: &mut [f32]) {
        let count = rows.len() / WIDTH;
        let mut state = Vec::with_capacity(count * LENGTH * WIDTH);
        for entry in first..first + count {
            for (place, token) in [START, entry, END].into_iter().enumerate() {
                state.extend((0..WIDTH).map(|at| {
                    self.words[token * WIDTH + at] + self.places[place * WIDTH + at] + self.kind[at]
                }));
            }
        }
        self.embedded.apply(&mut state);
        for layer in &self.layers {
            layer.apply(&mut state);
        }
        for (row, tokens) in rows.chunks_exact_mut(WIDTH).zip(state.chunks_exact(LENGTH * WIDTH)) {
            for (at, value) in row.iter_mut().enumerate() {
                *value = (tokens[at] + tokens[WIDTH + at] + tokens[2 * WIDTH + at]) / 3.0;
            }
            let squares: f32 = row.iter().map(|value| value * value).sum();
            let length = squares.sqrt();
            row.iter_mut().for_each(|value| *value /= length);
        }
    }
}

impl Layer {
    fn apply(&self, state: &mut [f32]) {
        let (query, key, value) = (self.query.apply(state), self.key.apply(state), self.value.apply(state));
        let mut mixed = vec![0.0; state.len()];
        let sequence = LENGTH * WIDTH;
        for from in (0..state.len()).step_by(sequence) {
            for head in (0..WIDTH).step_by(HEAD) {
                for token in 0..LENGTH {
                    let at = |other: usize| from + other * WIDTH + head;
                    let own = &query[at(token)..at(token) + HEAD];
                    let mut weights = [0.0; LENGTH];
                    for (other, weight) in weights.iter_mut().enumerate() {
                        let theirs = &key[at(other)..at(other) + HEAD];
                        let product: f32 = own.iter().zip(theirs).map(|(left, right)| left * right).sum();
                        *weight = f64::from(product) / 32.0_f64.sqrt();
                    }
                    let highest = weights.iter().copied().fold(f64::MIN, f64::max);
                    let weights = weights.map(|weight| maths::exp(weight - highest));
                    let sum: f64 = weights.iter().sum();
                    for lane in 0..HEAD {
                        let total: f64 = (0..LENGTH)
                            .map(|other| weights[other] / sum * f64::from(value[at(other) + lane]))
                            .sum();
                        #[expect(
                            clippy::cast_possible_truncation,
                            reason = "the model works in this precision"
                        )]
                        let total = total as f32;
                        mixed[at(token) + lane] = total;
                    }
                }
            }
        }
        add(state, &self.joined.apply(&mixed));
        self.attended.apply(state);
        let mut wide = self.wide.apply(state);
        for value in &mut wide {
            let exact = f64::from(*value);
            let gelu = exact * 0.5 * (1.0 + maths::erf(exact * std::f64::consts::FRAC_1_SQRT_2));
            #[expect(clippy::cast_possible_truncation, reason = "the model works in this precision")]
            let gelu = gelu as f32;
            *value = gelu;
        }
        add(state, &self.narrow.apply(&wide));
        self.done.apply(state);
    }
}

fn add(state: &mut [f32], other: &[f32]) {
    state.iter_mut().zip(other).for_each(|(value, more)| *value += more);
}

impl Norm {
    fn apply(&self, state: &mut [f32]) {
        for token in state.chunks_exact_mut(WIDTH) {
            let mean = token.iter().map(|value| f64::from(*value)).sum::<f64>() / 384.0;
            let spread = token
                .iter()
                .map(|value| {
                    let apart = f64::from(*value) - mean;
                    apart * apart
                })
                .sum::<f64>()
                / 384.0;
            let scale = 1.0 / (spread + 1e-12).sqrt();
            for (at, value) in token.iter_mut().enumerate() {
                let normal = (f64::from(*value) - mean) * scale;
                #[expect(clippy::cast_possible_truncation, reason = "the model works in this precision")]
                let normal = normal as f32;
                *value = normal * self.weight[at] + self.bias[at];
            }
        }
    }
}

impl Linear {
    /// Applies the map to each row. Every output is one sum over the inputs, in their order.
    fn apply(&self, state: &[f32]) -> Vec<f32> {
        let (inputs, outputs) = (self.inputs, self.bias.len());
        let rows = state.len() / inputs;
        let mut result = vec![0.0; rows * outputs];
        for (number, panel) in self.panels.chunks_exact(inputs * PANEL).enumerate() {
            let first = number * PANEL;
            for row in (0..rows).step_by(ROWS) {
                // A last group that is short computes its first row more than once.
                let chosen: [usize; ROWS] =
                    std::array::from_fn(|at| if row + at < rows { row + at } else { row });
                let sources = chosen.map(|row| &state[row * inputs..(row + 1) * inputs]);
                let mut sums = [[0.0f32; PANEL]; ROWS];
                for (input, weights) in panel.chunks_exact(PANEL).enumerate() {
                    for (sum, source) in sums.iter_mut().zip(sources) {
                        let value = source[input];
                        for (lane, weight) in sum.iter_mut().zip(weights) {
                            *lane += value * weight;
                        }
                    }
                }
                for (sum, row) in sums.iter().zip(chosen) {
                    for (lane, value) in sum.iter().enumerate() {
                        result[row * outputs + first + lane] = value + self.bias[first + lane];
                    }
                }
            }
        }
        result
    }
}
