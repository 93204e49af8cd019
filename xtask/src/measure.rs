//! Samples, their percentiles and the printed rows.

use std::fmt::Write as _;
use std::time::Duration;

/// Times of one thing, measured again and again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    sorted: Vec<Duration>,
}

impl Samples {
    /// Adds one measurement.
    pub(crate) fn push(&mut self, sample: Duration) {
        let at = self.sorted.partition_point(|other| *other <= sample);
        self.sorted.insert(at, sample);
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Returns the sample below which `percent` of all lie; zero when there is none.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        // Nearest rank, so that a p99 of few samples is the worst of them and not a guess.
        let rank = (self.sorted.len() * percent).div_ceil(100).saturating_sub(1).min(last);
        self.sorted.get(rank).copied().unwrap_or_default()
    }

    /// Returns the median.
    pub(crate) fn p50(&self) -> Duration {
        self.percentile(50)
    }

    /// Returns the 99th percentile.
    pub(crate) fn p99(&self) -> Duration {
        self.percentile(99)
    }
}

/// Renders a time with the unit that suits it.
pub(crate) fn show(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1_000.0 {
        format!("{micros:.0} µs")
    } else if micros < 1_000_000.0 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

/// A table of measured rows beside the bars they should reach.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<[String; 4]>,
}

impl Report {
    /// Adds a row of text.
    pub(crate) fn row(&mut self, what: &str, bar: &str, measured: String, verdict: Verdict) {
        self.rows.push([what.to_owned(), bar.to_owned(), measured, verdict.text().to_owned()]);
    }

    /// Adds a row of times, judged by its median against `limit`.
    pub(crate) fn times(&mut self, what: &str, bar: &str, samples: &Samples, limit: Option<Duration>) {
        let measured =
            format!("p50 {}  p99 {}  (n={})", show(samples.p50()), show(samples.p99()), samples.count());
        let verdict = match limit {
            Some(limit) => Verdict::of(samples.p50() <= limit),
            None => Verdict::Note,
        };
        self.row(what, bar, measured, verdict);
    }

    /// Renders the table.
    pub(crate) fn render(&self) -> String {
        let headings = ["what", "bar", "measured", ""].map(str::to_owned);
        let mut widths = [0; 4];
        for row in std::iter::once(&headings).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                // Writing to a String cannot fail.
                let _ = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// How a row stands to its bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Reached.
    Reached,
    /// Missed.
    Missed,
    /// There is no bar.
    Note,
}

impl Verdict {
    /// Judges a comparison.
    pub(crate) fn of(reached: bool) -> Self {
        if reached { Self::Reached } else { Self::Missed }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Reached => "ok",
            Self::Missed => "MISSED",
            Self::Note => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_were_taken() {
        let mut samples = Samples::default();
        for millis in (1..=100).rev() {
            samples.push(Duration::from_millis(millis));
        }
        assert_eq!(samples.p50(), Duration::from_millis(50));
        assert_eq!(samples.p99(), Duration::from_millis(99));
        assert_eq!(samples.percentile(100), Duration::from_millis(100));
        assert_eq!(Samples::default().p50(), Duration::ZERO);
    }
}
