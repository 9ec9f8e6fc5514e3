//! What is exposed, before it has a form: families, and their samples.

use super::families::{Family, Kind};
use super::totals::RoleTotals;
use crate::model::histogram::Histogram;

/// A family with its samples.
pub(crate) struct Samples {
    pub family: &'static Family,
    pub all: Vec<Sample>,
}

pub(crate) struct Sample {
    /// In the order of the family's.
    pub labels: Vec<String>,
    pub value: Value,
}

pub(crate) enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// As the kernel counted them.
    Latencies { counts: Histogram, sum_ns: u64 },
}

impl Samples {
    pub fn of(family: &'static Family) -> Samples {
        Samples { family, all: Vec::new() }
    }

    fn push(&mut self, labels: &[&str], value: Value) {
        debug_assert_eq!(self.family.labels.len(), labels.len(), "{}", self.family.name);
        let is_histogram = matches!(value, Value::Latencies { .. });
        debug_assert_eq!(self.family.kind == Kind::Histogram, is_histogram, "{}", self.family.name);
        self.all.push(Sample { labels: labels.iter().map(|&label| label.to_owned()).collect(), value });
    }

    /// A sample of a counter or a gauge. Whole numbers are exact up to 2^53.
    pub fn add(&mut self, labels: &[&str], value: f64) {
        self.push(labels, Value::Number(value));
    }

    /// Nothing where there is no histogram yet.
    pub fn add_histogram(&mut self, labels: &[&str], totals: &RoleTotals) {
        if let Some(counts) = totals.latencies.clone() {
            self.push(labels, Value::Latencies { counts, sum_ns: totals.sum_ns });
        }
    }

    /// As lines of text.
    pub fn number(&self, buckets: usize) -> usize {
        let each = match self.family.kind {
            // The infinite bucket, the sum and the count.
            Kind::Histogram => buckets + 3,
            Kind::Counter | Kind::Gauge => 1,
        };
        self.all.len() * each
    }
}
