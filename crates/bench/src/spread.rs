//! Median and range: what a figure is worth that was measured a few times.

use std::fmt;

/// Median and range of a few figures.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Spread {
    /// The least of the figures.
    pub min: f64,
    /// The one in the middle; of an even number the upper of the two.
    pub median: f64,
    /// The greatest of the figures.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of `figures`; all zero when there are none.
    pub fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut all: Vec<f64> = figures.collect();
        all.sort_by(f64::total_cmp);
        let at = |n: usize| all.get(n).copied().unwrap_or_default();
        Self { min: at(0), median: at(all.len() / 2), max: at(all.len().saturating_sub(1)) }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals_n = usize::from(self.median < 100.0) * 2;
        let Self { min, median, max } = self;
        write!(f, "{median:.decimals_n$} [{min:.decimals_n$}..{max:.decimals_n$}]")
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn the_middle_one_is_the_median() {
        #[track_caller]
        fn check(figures: &[f64], want: &str) {
            assert_eq!(Spread::of(figures.iter().copied()).to_string(), want);
        }
        check(&[], "0.00 [0.00..0.00]");
        check(&[3.0, 1.0, 2.0], "2.00 [1.00..3.00]");
        check(&[4.0, 1.0], "4.00 [1.00..4.00]");
        check(&[40_000.4, 100.0], "40000 [100..40000]");
    }
}
