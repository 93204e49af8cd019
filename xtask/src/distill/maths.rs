//! The few functions that a standard library leaves to each machine, written out so that they give
//! the same bits everywhere.

/// Returns e to the power of `x`, for the range the model needs.
pub(super) fn exp(x: f64) -> f64 {
    const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
    const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    if x < -700.0 {
        return 0.0;
    }
    let x = x.min(700.0);
    // Rounding by a constant that pushes the fraction out of the mantissa: exact, and without a call.
    const ROUNDER: f64 = 6_755_399_441_055_744.0;
    let whole = (x * std::f64::consts::LOG2_E + ROUNDER) - ROUNDER;
    let rest = (x - whole * LN2_HIGH) - whole * LN2_LOW;
    let mut sum = 1.0;
    for divisor in [12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sum = 1.0 + rest / divisor * sum;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -1010 and 1010 by the limits above")]
    let exponent = whole as i64;
    #[expect(clippy::cast_sign_loss, reason = "positive by the limits above")]
    let scale = f64::from_bits(((exponent + 1023) as u64) << 52);
    sum * scale
}

/// Returns the error function, to seven digits (Abramowitz and Stegun 7.1.26).
pub(super) fn erf(x: f64) -> f64 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.327_591_1 * size);
    let sum = ((((1.061_405_429 * t - 1.453_152_027) * t + 1.421_413_741) * t - 0.284_496_736) * t
        + 0.254_829_592)
        * t;
    let value = 1.0 - sum * exp(-size * size);
    if x < 0.0 { -value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_agree_with_the_standard_library() {
        for step in -4000..4000 {
            let x = f64::from(step) / 100.0;
            assert!((exp(x) - x.exp()).abs() <= x.exp() * 1e-14, "{x}");
        }
        assert!((erf(0.5) - 0.520_499_877_8).abs() < 2e-7);
        assert!((erf(-2.0) + 0.995_322_265_0).abs() < 2e-7);
    }
}
