//! The forms in which an exposition is written. All say the same; only [`protobuf`] has a place for native
//! histograms.

pub(super) mod metrics_proto;
mod names;
mod native;
mod openmetrics;
mod protobuf;
mod text;

use super::buckets::Buckets;
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
