//! What a server counted itself, as a part of an interval's payload, and back.

use std::sync::Arc;
use std::time::Duration;

use super::frame::ns;
use super::names::{Names, Numbers};
use super::wire::{self, Inconsistent};
use crate::model::{OwnCounters, OwnReading, Texts};

/// Counters of one reading, and settings. A server that is told by this program has fewer.
const MAX_TEXTS: usize = 1_024;
/// Of a row, in names and values. What a server says beyond that is left out, so that it takes no interval
/// with it.
const MAX_BYTES: usize = 128 << 10;

pub(super) fn pack(row: &OwnCounters, numbers: &mut Numbers) -> wire::OwnCounters {
    let settings = Some(&*row.settings).filter(|settings| bytes(settings) <= MAX_BYTES / 4);
    let mut left = MAX_BYTES - settings.map_or(0, bytes);
    let mut readings = Vec::new();
    for reading in &row.readings {
        let Some(rest) = left.checked_sub(bytes(&reading.counters)) else { continue };
        left = rest;
        readings.push(wire::OwnReading {
            began_ns: ns(reading.began),
            ended_ns: ns(reading.ended),
            counters: texts(&reading.counters),
            follows: reading.follows,
        });
    }
    wire::OwnCounters {
        server: numbers.server(row.server),
        readings,
        settings: settings.map(texts).unwrap_or_default(),
    }
}

fn bytes(all: &Texts) -> usize {
    all.iter().map(|(name, value)| name.len() + value.len()).sum()
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
            follows: reading.follows,
            counters: texts(reading.counters),
        })
    });
    Ok(OwnCounters {
        server: names.server_id(row.server),
        readings: readings.collect(),
        settings: Arc::new(texts(row.settings)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::MYSQL;

    #[test]
    fn a_server_that_says_too_much_loses_its_own_counters_and_no_interval() {
        let reading = |name: String| {
            let counters = Texts::from([(name, "1".to_owned())]);
            Arc::new(OwnReading { counters, ..OwnReading::default() })
        };
        let row = OwnCounters {
            server: MYSQL,
            readings: vec![reading("a".into()), reading("x".repeat(1 << 20)), reading("b".into())],
            settings: Arc::new(Texts::from([("y".repeat(1 << 20), String::new())])),
        };
        let packed = pack(&row, &mut Numbers::default());
        let names: Vec<&str> = packed.readings.iter().map(|reading| &*reading.counters[0].name).collect();
        assert_eq!((names, packed.settings.len()), (vec!["a", "b"], 0));
    }
}
