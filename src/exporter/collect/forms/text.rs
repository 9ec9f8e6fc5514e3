//! Prometheus' text format, version 0.0.4.

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use super::super::buckets::Buckets;
use super::super::families::Kind;
use super::super::samples::{Sample, Samples, Value};
use crate::text::seconds;

pub fn write<'a>(
    families: impl Iterator<Item = &'a Samples>,
    buckets: &Buckets,
) -> Result<Vec<u8>, prometheus::Error> {
    let families: Vec<_> = families.map(|family| of_family(family, buckets)).collect();
    let mut text = String::new();
    TextEncoder::new().encode_utf8(&families, &mut text)?;
    Ok(text.into_bytes())
}

fn of_family(samples: &Samples, buckets: &Buckets) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(samples.family.name.to_owned());
    family.set_help(samples.family.help.to_owned());
    family.set_field_type(match samples.family.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
        Kind::Histogram => MetricType::HISTOGRAM,
    });
    let one = |sample: &Sample| of_sample(samples.family.labels, samples.family.kind, sample, buckets);
    family.set_metric(samples.all.iter().map(one).collect());
    family
}

fn of_sample(names: &[&str], kind: Kind, sample: &Sample, buckets: &Buckets) -> Metric {
    let pair = |(name, value): (&&str, &String)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value(value.clone());
        pair
    };
    let mut metric = Metric::from_label(names.iter().zip(&sample.labels).map(pair).collect());
    match &sample.value {
        Value::Number(value) if kind == Kind::Counter => {
            let mut counter = Counter::default();
            counter.set_value(*value);
            metric.set_counter(counter);
        }
        Value::Number(value) => {
            let mut gauge = Gauge::default();
            gauge.set_value(*value);
            metric.set_gauge(gauge);
        }
        Value::Latencies { counts, sum_ns } => {
            let bucket = |(bound, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(bound);
                bucket.set_cumulative_count(count);
                bucket
            };
            let mut histogram = Histogram::default();
            histogram.set_bucket(buckets.cumulative(counts).map(bucket).collect());
            histogram.set_sample_count(counts.count());
            histogram.set_sample_sum(seconds(*sum_ns));
            metric.set_histogram(histogram);
        }
    }
    metric
}
