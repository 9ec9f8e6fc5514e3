//! What a server counted itself, as a part of an interval's payload, and back.

use std::sync::Arc;
use std::time::Duration;

use super::frame::ns;
use super::names::{Names, Numbers};
use super::wire::{self, Inconsistent};
use crate::model::{OwnCounters, OwnReading, Texts};

/// Counters of one reading, and settings. A server that is told by this program has fewer.
const MAX_TEXTS: usize = 1_024;

pub(super) fn pack(row: &OwnCounters, numbers: &mut Numbers) -> wire::OwnCounters {
    let reading = |reading: &Arc<OwnReading>| wire::OwnReading {
        began_ns: ns(reading.began),
        ended_ns: ns(reading.ended),
        counters: texts(&reading.counters),
    };
    wire::OwnCounters {
        server: numbers.server(row.server),
        readings: row.readings.iter().map(reading).collect(),
        settings: texts(&row.settings),
    }
}

fn texts(all: &Texts) -> Vec<wire::Text> {
    let text = |(name, value): (&String, &String)| wire::Text { name: name.clone(), value: value.clone() };
    all.iter().take(MAX_TEXTS).map(text).collect()
}

pub(super) fn unpack(row: wire::OwnCounters, names: &Names) -> Result<OwnCounters, Inconsistent> {
    let are_too_many = row.readings.len() > OwnCounters::MAX_READINGS
        || row.settings.len() > MAX_TEXTS
        || row.readings.iter().any(|reading| reading.counters.len() > MAX_TEXTS);
    if are_too_many {
        return Err(Inconsistent);
    }
    let texts = |all: Vec<wire::Text>| all.into_iter().map(|text| (text.name, text.value)).collect();
    let readings = row.readings.into_iter().map(|reading| {
        Arc::new(OwnReading {
            began: Duration::from_nanos(reading.began_ns),
            ended: Duration::from_nanos(reading.ended_ns),
            counters: texts(reading.counters),
        })
    });
    Ok(OwnCounters {
        server: names.server_id(row.server),
        readings: readings.collect(),
        settings: Arc::new(texts(row.settings)),
    })
}
