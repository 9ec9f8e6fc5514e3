//! What two or three forms write in the same way.

use super::super::families::{Family, Kind};

/// A name without the suffix that OpenMetrics gives to a counter's sample and not to its family.
pub(super) fn base_name(family: &Family) -> &'static str {
    match family.kind {
        Kind::Counter => family.name.strip_suffix("_total").unwrap_or(family.name),
        Kind::Gauge | Kind::Histogram => family.name,
    }
}

/// The unit where it is a base unit and part of the name, as both OpenMetrics and Prometheus demand.
pub(super) fn unit(family: &Family) -> Option<&'static str> {
    let is_named = |unit: &&str| base_name(family).strip_suffix(unit).is_some_and(|name| name.ends_with('_'));
    ["seconds", "bytes"].into_iter().find(is_named)
}
