//! Medians, trimmed means and their uncertainty. Nothing is assumed of how the values are distributed.

use serde::{Deserialize, Serialize};

/// Resamplings of an interval.
const RESAMPLINGS: usize = 2_000;

/// A median or mean, and the interval that holds it with 95 % confidence (percentile bootstrap).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

/// Of an even number of values the lower of the two in the middle. NaN of none.
pub fn median(values: &mut [f64]) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    *values.select_nth_unstable_by(last / 2, f64::total_cmp).1
}

/// Of a number of values that is not divisible the lower one. NaN of none.
pub fn lower_quartile(values: &mut [f64]) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    *values.select_nth_unstable_by(last / 4, f64::total_cmp).1
}

fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    median(&mut values.collect::<Vec<_>>())
}

/// Of the values without the tenth at either end.
fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 10;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

impl Estimate {
    /// The mean without the tenth at either end: of values that scatter as many small causes make them, it is
    /// held more narrowly than the median. Reported in the median's place.
    pub fn trimmed_mean(values: &[f64]) -> Estimate {
        Estimate::resampled(values.len(), |indices| {
            trimmed_mean(&mut indices.iter().map(|&i| values[i]).collect::<Vec<_>>())
        })
    }

    pub fn of(values: &[f64]) -> Estimate {
        Estimate::resampled(values.len(), |indices| median_of(indices.iter().map(|&i| values[i])))
    }

    /// Of what is computed from measurements that were made in cycles. Reported in the median's place.
    pub fn of_cycles(cycles: usize, statistic: impl Fn(&[usize]) -> f64) -> Estimate {
        Estimate::resampled(cycles, statistic)
    }

    fn resampled(count: usize, statistic: impl Fn(&[usize]) -> f64) -> Estimate {
        // The same numbers give the same interval.
        let mut random = fastrand::Rng::with_seed(1);
        let mut all: Vec<f64> = (0..RESAMPLINGS)
            .map(|_| statistic(&(0..count).map(|_| random.usize(..count)).collect::<Vec<_>>()))
            .collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[(share * (RESAMPLINGS - 1) as f64).round() as usize];
        Estimate { median: statistic(&(0..count).collect::<Vec<_>>()), low: at(0.025), high: at(0.975) }
    }

    /// `rises`: a function that rises everywhere.
    pub fn map(self, rises: impl Fn(f64) -> f64) -> Estimate {
        Estimate { median: rises(self.median), low: rises(self.low), high: rises(self.high) }
    }

    /// "303 (298 to 309)".
    pub fn show(&self, digits: usize) -> String {
        format!("{:.digits$} ({:.digits$} to {:.digits$})", self.median, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median(&mut [5.0, 1.0, 9.0]), 5.0);
        assert_eq!(median(&mut [5.0, 1.0, 9.0, 2.0]), 2.0);
        assert!(median(&mut []).is_nan());
    }

    #[test]
    fn the_interval_holds_the_median_and_outliers_do_not_move_it() {
        let values: Vec<f64> = (0..40).map(|i| 100.0 + f64::from(i % 5)).chain([9_000.0]).collect();
        let estimate = Estimate::of(&values);
        assert_eq!(estimate.median, 102.0);
        assert!(estimate.low >= 100.0 && estimate.low <= 102.0, "{estimate:?}");
        assert!(estimate.high >= 102.0 && estimate.high <= 104.0, "{estimate:?}");
        assert_eq!(estimate, Estimate::of(&values));
    }

    #[test]
    fn a_trimmed_mean_leaves_out_the_outermost_tenths() {
        let values: Vec<f64> = (1..=8).map(f64::from).chain([-5_000.0, 9_000.0]).collect();
        assert_eq!(Estimate::trimmed_mean(&values).median, 4.5);
    }

    #[test]
    fn the_interval_of_a_mean_shrinks_with_the_root_of_the_number() {
        let width = |count: usize| {
            let estimate =
                Estimate::trimmed_mean(&(0..count).map(|i| (i * 7919 % 1000) as f64).collect::<Vec<_>>());
            estimate.high - estimate.low
        };
        let ratio = width(25) / width(400);
        assert!((2.5..6.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_quarter_of_the_values_is_not_above_the_lower_quartile() {
        assert_eq!(lower_quartile(&mut [8.0, 2.0, 4.0, 6.0, 10.0]), 4.0);
        assert_eq!(lower_quartile(&mut [8.0, 2.0]), 2.0);
        assert!(lower_quartile(&mut []).is_nan());
    }

    #[test]
    fn cycles_are_drawn_as_a_whole() {
        let (above, below) = ([20.0, 40.0, 60.0], [10.0, 20.0, 30.0]);
        let sum = |values: &[f64], cycles: &[usize]| cycles.iter().map(|&cycle| values[cycle]).sum::<f64>();
        let ratio = Estimate::of_cycles(3, |cycles| sum(&above, cycles) / sum(&below, cycles));
        assert_eq!((ratio.median, ratio.low, ratio.high), (2.0, 2.0, 2.0));
    }
}
