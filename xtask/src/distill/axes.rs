//! Centres vectors and keeps the directions in which they differ most.

/// Most sweeps until the matrix counts as diagonal; it takes about ten.
const SWEEPS: usize = 30;

/// Returns the rows of `table`, centred and along their `kept` principal axes.
pub(super) fn project(table: &[f32], width: usize, kept: usize) -> Vec<f64> {
    let mut count = 0.0;
    let mut mean = vec![0.0; width];
    for row in table.chunks_exact(width) {
        count += 1.0;
        mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    mean.iter_mut().for_each(|sum| *sum /= count);
    let centred: Vec<f64> = table
        .chunks_exact(width)
        .flat_map(|row| row.iter().zip(&mean).map(|(value, mean)| f64::from(*value) - mean))
        .collect();
    let mut spread = vec![0.0; width * width];
    for row in centred.chunks_exact(width) {
        for (at, value) in row.iter().enumerate() {
            let line = &mut spread[at * width..(at + 1) * width];
            line.iter_mut().zip(row).for_each(|(sum, other)| *sum += value * other);
        }
    }
    let axes = axes(spread, width, kept);
    let mut projected = Vec::with_capacity(centred.len() / width * kept);
    for row in centred.chunks_exact(width) {
        for axis in axes.chunks_exact(width) {
            projected.push(row.iter().zip(axis).map(|(value, along)| value * along).sum());
        }
    }
    projected
}

/// Returns the eigenvectors of a symmetric matrix with the largest eigenvalues, as rows, by rotating
/// its elements away pair by pair. Signs are fixed by making the largest element positive.
fn axes(mut matrix: Vec<f64>, width: usize, kept: usize) -> Vec<f64> {
    let mut vectors = vec![0.0; width * width];
    for at in 0..width {
        vectors[at * width + at] = 1.0;
    }
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for low in 0..width {
            for high in low + 1..width {
                rotated |= rotate(&mut matrix, &mut vectors, width, low, high);
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: Vec<usize> = (0..width).collect();
    order.sort_by(|left, right| matrix[right * width + right].total_cmp(&matrix[left * width + left]));
    let mut axes = Vec::with_capacity(kept * width);
    for &which in order.iter().take(kept) {
        let axis = &vectors[which * width..(which + 1) * width];
        let largest = axis
            .iter()
            .copied()
            .fold(0.0, |most: f64, value| if value.abs() > most.abs() { value } else { most });
        axes.extend(axis.iter().map(|value| if largest < 0.0 { -value } else { *value }));
    }
    axes
}

/// Makes one element zero; returns whether it was not small enough already. `vectors` holds the
/// eigenvectors as rows.
fn rotate(matrix: &mut [f64], vectors: &mut [f64], width: usize, low: usize, high: usize) -> bool {
    let off = matrix[low * width + high];
    let (first, second) = (matrix[low * width + low], matrix[high * width + high]);
    if off.abs() <= 1e-15 * (first.abs() * second.abs()).sqrt() || off == 0.0 {
        return false;
    }
    let theta = (second - first) / (2.0 * off);
    let sign = if theta < 0.0 { -1.0 } else { 1.0 };
    let tangent = sign / (theta.abs() + (theta * theta + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    for at in 0..width {
        let (left, right) = (matrix[at * width + low], matrix[at * width + high]);
        matrix[at * width + low] = cosine * left - sine * right;
        matrix[at * width + high] = sine * left + cosine * right;
    }
    turn(matrix, width, low, high, cosine, sine);
    turn(vectors, width, low, high, cosine, sine);
    true
}

/// Rotates two rows.
fn turn(matrix: &mut [f64], width: usize, low: usize, high: usize, cosine: f64, sine: f64) {
    let (upper, lower) = matrix.split_at_mut(high * width);
    let one = &mut upper[low * width..(low + 1) * width];
    for (left, right) in one.iter_mut().zip(&mut lower[..width]) {
        (*left, *right) = (cosine * *left - sine * *right, sine * *left + cosine * *right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_on_a_line_lie_along_the_first_axis() {
        let table = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0];
        let projected = project(&table, 2, 1);
        let step = 2.0_f64.sqrt();
        for (found, expected) in projected.iter().zip([-1.5 * step, -0.5 * step, 0.5 * step, 1.5 * step]) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
