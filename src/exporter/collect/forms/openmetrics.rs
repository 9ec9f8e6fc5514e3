//! OpenMetrics, version 1.0.0. Written here because the crate that knows it, prometheus-client, makes the
//! names of families and their suffixes itself, and they must be those of the other forms.
//!
//! There is no `_created`: Prometheus takes it for a series of its own, three more for each histogram, and
//! a counter of a server begins at zero when the exporter attaches, which
//! `fsynctop_server_start_time_seconds` and `process_start_time_seconds` already tell.

use std::fmt::{Display, Write};

use super::super::buckets::Buckets;
use super::super::families::Family;
use super::super::samples::{Sample, Samples, Value};
use super::names::{base_name, unit};
use crate::text::seconds;

pub fn write<'a>(families: impl Iterator<Item = &'a Samples>, buckets: &Buckets) -> String {
    let mut out = String::new();
    for samples in families {
        let (family, name) = (samples.family, base_name(samples.family));
        line(&mut out, format_args!("# TYPE {name} {}", family.kind.name()));
        if let Some(unit) = unit(family) {
            line(&mut out, format_args!("# UNIT {name} {unit}"));
        }
        line(&mut out, format_args!("# HELP {name} {}", escaped(family.help)));
        for sample in &samples.all {
            write_sample(&mut out, family, sample, buckets);
        }
    }
    out.push_str("# EOF\n");
    out
}

fn write_sample(out: &mut String, family: &Family, sample: &Sample, buckets: &Buckets) {
    let name = family.name;
    let labels: Vec<_> = family
        .labels
        .iter()
        .zip(&sample.labels)
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    let labels = labels.join(",");
    match &sample.value {
        Value::Number(value) => {
            out.push_str(name);
            braced(out, &labels);
            line(out, format_args!(" {value}"));
        }
        Value::Latencies { counts, sum_ns } => {
            let comma = if labels.is_empty() { "" } else { "," };
            let mut bucket = |bound: &dyn Display, count: u64| {
                line(out, format_args!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}"));
            };
            for (bound, count) in buckets.cumulative(counts) {
                // As in the text format, so that a series is the same in both.
                bucket(&bound, count);
            }
            let count = counts.count();
            bucket(&"+Inf", count);
            let _ = write!(out, "{name}_sum");
            braced(out, &labels);
            line(out, format_args!(" {}", seconds(*sum_ns)));
            let _ = write!(out, "{name}_count");
            braced(out, &labels);
            line(out, format_args!(" {count}"));
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // A string takes whatever is written to it.
    let _ = writeln!(out, "{text}");
}

fn braced(out: &mut String, labels: &str) {
    if !labels.is_empty() {
        let _ = write!(out, "{{{labels}}}");
    }
}

/// For a label's value and for a help text alike.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}
