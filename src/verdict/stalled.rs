//! Whether a log that commits wait for hangs.

use std::time::Duration;

use super::Because;
use crate::model::{InFlight, ServerId};

/// The oldest operation of a server's serial logs, if it has been in flight for so long. Not only what makes
/// durable: a log whose write does not return comes to no sync.
pub(super) fn stalled<'a>(
    in_flight: impl Iterator<Item = &'a InFlight>,
    server: ServerId,
    limit: Duration,
) -> Option<Because> {
    let hangs = |sync: &&InFlight| sync.server == server && sync.role.is_serial() && sync.age >= limit;
    let hanging: Vec<&InFlight> = in_flight.filter(hangs).collect();
    let oldest = hanging.iter().max_by_key(|sync| sync.age)?;
    Some(Because::in_flight(oldest, hanging.len() as u64 - 1))
}
