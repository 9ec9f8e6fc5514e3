//! The forms in which an exposition is written. All say the same; only [`protobuf`] has a place for native
//! histograms.

pub(super) mod metrics_proto;
mod native;
mod openmetrics;
mod protobuf;
mod text;

use super::buckets::Buckets;
use super::families::{Family, Kind};
use super::samples::Samples;
use crate::exporter::source::Form;

/// Families without samples are left out. An error says which family it is.
pub fn write(form: Form, families: &[Samples], buckets: &Buckets) -> Result<Vec<u8>, prometheus::Error> {
    let families = families.iter().filter(|family| !family.all.is_empty());
    match form {
        Form::Text => text::write(families, buckets),
        Form::OpenMetrics => Ok(openmetrics::write(families, buckets).into_bytes()),
        Form::Protobuf => Ok(protobuf::write(families, buckets)),
    }
}

/// A name without the suffix that OpenMetrics gives to a counter's sample and not to its family.
fn base_name(family: &Family) -> &'static str {
    match family.kind {
        Kind::Counter => family.name.strip_suffix("_total").unwrap_or(family.name),
        Kind::Gauge | Kind::Histogram => family.name,
    }
}

/// The unit where it is a base unit and part of the name, as both OpenMetrics and Prometheus demand.
fn unit(family: &Family) -> Option<&'static str> {
    let is_named = |unit: &&str| base_name(family).strip_suffix(unit).is_some_and(|name| name.ends_with('_'));
    ["seconds", "bytes"].into_iter().find(is_named)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
