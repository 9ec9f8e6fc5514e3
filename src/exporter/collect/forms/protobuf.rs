//! Prometheus' protobuf format: each family a message with its length in front. A histogram is there twice,
//! with the classic buckets and as a native one; Prometheus takes either or both.

use prost::Message;

use super::super::buckets::Buckets;
use super::super::families::{Family, Kind};
use super::super::samples::{Sample, Samples, Value};
use super::metrics_proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType, Number};
use super::names::unit;
use super::native;
use crate::model::histogram::Histogram as Counts;
use crate::text::seconds;

pub fn write<'a>(families: impl Iterator<Item = &'a Samples>, buckets: &Buckets) -> Vec<u8> {
    let mut out = Vec::new();
    for samples in families {
        // A vector has room for whatever is written to it.
        let _ = of_family(samples, buckets).encode_length_delimited(&mut out);
    }
    out
}

fn of_family(samples: &Samples, buckets: &Buckets) -> MetricFamily {
    let family = samples.family;
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    MetricFamily {
        name: family.name.to_owned(),
        help: family.help.to_owned(),
        r#type: kind.into(),
        metric: samples.all.iter().map(|sample| of_sample(family, sample, buckets)).collect(),
        unit: unit(family).unwrap_or_default().to_owned(),
    }
}

fn of_sample(family: &Family, sample: &Sample, buckets: &Buckets) -> Metric {
    let pair = |(name, value): (&&str, &String)| LabelPair { name: (*name).to_owned(), value: value.clone() };
    let mut metric =
        Metric { label: family.labels.iter().zip(&sample.labels).map(pair).collect(), ..Metric::default() };
    match &sample.value {
        Value::Number(value) if family.kind == Kind::Counter => {
            metric.counter = Some(Number { value: *value });
        }
        Value::Number(value) => metric.gauge = Some(Number { value: *value }),
        Value::Latencies { counts, sum_ns } => {
            metric.histogram = Some(of_latencies(counts, *sum_ns, buckets));
        }
    }
    metric
}

fn of_latencies(counts: &Counts, sum_ns: u64, buckets: &Buckets) -> Histogram {
    let bucket = |(upper_bound, cumulative_count)| Bucket { cumulative_count, upper_bound };
    let native = native::Native::of(counts);
    Histogram {
        sample_count: counts.count(),
        sample_sum: seconds(sum_ns),
        bucket: buckets.cumulative(counts).map(bucket).collect(),
        schema: native::SCHEMA,
        zero_threshold: native::zero_threshold(),
        zero_count: native.zero_count,
        positive_span: native.spans,
        positive_delta: native.deltas,
    }
}
