//! The text of each cell of a row.

use std::sync::Arc;
use std::time::Duration;

use super::palette::Ink;
use super::view::View;
use crate::model::figures::{Figure, Value, is_told};
use crate::model::histogram::LAST_EXPONENT;
use crate::model::{Errors, Max, SATURATED, Server, ServerId};
use crate::render::Style;
use crate::render::columns::Column;
use crate::render::header::{self, clock};
use crate::render::row::{About, Row};
use crate::text::{count, duration, duration_in_words, errno, rate};

/// The unit of latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Each in the unit that suits it.
    Fitting,
    Micros,
    Millis,
    Seconds,
}

impl Units {
    pub(crate) fn next(self) -> Units {
        match self {
            Units::Fitting => Units::Micros,
            Units::Micros => Units::Millis,
            Units::Millis => Units::Seconds,
            Units::Seconds => Units::Fitting,
        }
    }
}

/// All that the text of a cell depends on, besides its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format<'a> {
    pub view: View,
    pub units: Units,
    pub style: Style,
    /// The length of the time that the figures cover.
    pub over: Duration,
    /// A sync in flight for at least this long is stuck.
    pub stuck_after: Duration,
    pub servers: &'a [Arc<Server>],
}

impl Format<'_> {
    /// As the metrics call it.
    pub(crate) fn server_name(&self, id: ServerId) -> String {
        let server = self.servers.iter().find(|server| server.id == id);
        header::name_of(id, server.map(|server| &**server), &self.style)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub text: String,
    /// Stays when the text is shortened.
    pub suffix: String,
    pub alarm: Option<Alarm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Warning,
    Alarm,
}

impl Cell {
    pub(crate) fn ink(&self, plain: Ink) -> Ink {
        match self.alarm {
            None => plain,
            Some(Alarm::Warning) => Ink::Warning,
            Some(Alarm::Alarm) => Ink::Alarm,
        }
    }
}

fn plain(text: impl Into<String>) -> Cell {
    Cell { text: text.into(), ..Cell::default() }
}

/// The small graphs are drawn, not written.
pub fn cell(format: &Format, row: &Row, column: Column) -> Cell {
    match column {
        Column::Time => plain(row.time().map(|(at, _)| clock(at)).unwrap_or_default()),
        Column::Server => plain(row.server().map_or(String::new(), |id| format.server_name(id))),
        Column::Name => Cell { text: row.name(&format.style), suffix: row.suffix(), alarm: None },
        Column::Tid => plain(row.key.tid().filter(|tid| *tid > 0).map_or("–".into(), |tid| tid.to_string())),
        Column::Device => match &row.about {
            About::Neighbour { device, .. } => plain(format.style.name(device.as_bytes())),
            _ => Cell::default(),
        },
        Column::Shared => plain(if row.shared { "yes" } else { "no" }),
        Column::Role => plain(row.role().map_or("", |role| role.name())),
        Column::Op => plain(row.op().map_or("", |op| op.name())),
        Column::Busy => busy(format, row),
        Column::Figure(figure) => of_figure(format, row, figure),
        Column::Graph | Column::Unsynced => Cell::default(),
    }
}

fn of_figure(format: &Format, row: &Row, figure: Figure) -> Cell {
    let latency = |ns: u64| plain(latency(ns, format.units));
    match (figure, row.figure(figure, format.over)) {
        (Figure::InFlight, _) => flight(format, row),
        (_, Value::Absent) if figure.line().is_optional => Cell::default(),
        // Of what failed beside the syncs no time is known.
        (Figure::Max, _) if row.op().is_some_and(|op| !op.makes_durable()) => plain("–"),
        (_, Value::Absent) => plain("–"),
        (_, Value::Count(n)) => plain(count(n)),
        (_, Value::Rate(n, over)) => plain(rate(n, over)),
        (_, Value::Bytes(n)) => plain(rate(n, format.over)),
        (_, Value::Time(ns)) => latency(ns),
        (_, Value::Mean(sum, n)) => latency(sum / n),
        (_, Value::Quantile(q, ns, n)) if is_told(q, n) => latency(ns),
        (_, Value::Quantile(..)) => plain("–"),
        (_, Value::Max(max)) => plain(maximum(max, format.units)),
        (_, Value::InFlight(mean)) => plain(format!("{mean:.2}")),
        (_, Value::Errors(of) | Value::ErrorNames(of)) => errors(of, format.view == View::Log),
        (_, Value::Flag(flag)) => plain(if flag { "yes" } else { "no" }),
        (_, Value::Word(word)) => plain(word),
    }
}

/// Of an entry of the log beside another table.
pub(crate) fn cell_of_log(format: &Format, row: &Row, column: Column) -> Cell {
    match column {
        Column::Figure(Figure::Errors) => errors(&row.stats.errors, true),
        column => cell(format, row, column),
    }
}

/// The server where there is no room for its name: no two have one pid.
pub(crate) fn short_server(row: &Row) -> Cell {
    plain(row.server().map_or(String::new(), |id| id.pid.to_string()))
}

/// How busy a log is that the server syncs one call at a time; nothing in other rows.
fn busy(format: &Format, row: &Row) -> Cell {
    match row.busy(format.over) {
        _ if format.over.is_zero() => plain("–"),
        None => Cell::default(),
        Some(busy) => {
            let alarm = (busy >= SATURATED).then_some(Alarm::Warning);
            Cell { text: format!("{:.0} %", busy * 100.0), alarm, ..Cell::default() }
        }
    }
}

/// The mean number of syncs in flight. A sync that hangs comes first: then it is how many are in flight now.
fn flight(format: &Format, row: &Row) -> Cell {
    if row.in_flight > 0 && row.oldest >= format.stuck_after {
        let text = format!("{} STUCK", row.in_flight);
        return Cell { text, alarm: Some(Alarm::Alarm), ..Cell::default() };
    }
    match row.busy(format.over) {
        _ if format.over.is_zero() => plain("–"),
        // A log has at most one at a time: how busy it is says the same.
        Some(_) => Cell::default(),
        None => plain(format!("{:.2}", row.stats.in_flight_mean(format.over))),
    }
}

/// `0`, `2 EIO`, `1 EIO 4 ENOSPC`; in the log, nothing where nothing failed.
fn errors(errors: &Errors, in_log: bool) -> Cell {
    let each: Vec<String> =
        errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number))).collect();
    match each.len() {
        0 => plain(if in_log { "" } else { "0" }),
        1 | 2 => Cell { text: each.join(" "), alarm: Some(Alarm::Alarm), ..Cell::default() },
        _ => Cell { text: count(errors.total()), alarm: Some(Alarm::Alarm), ..Cell::default() },
    }
}

/// `≤` where only the bucket of the greatest latency is known, whose upper edge this is.
fn maximum(max: Max, units: Units) -> String {
    match max {
        Max { ns: u64::MAX, .. } => format!("≥{}", latency(1 << LAST_EXPONENT, units)),
        Max { ns, exact: true } => latency(ns, units),
        Max { ns, exact: false } => format!("≤{}", latency(ns, units)),
    }
}

pub fn latency(ns: u64, units: Units) -> String {
    let fixed = |each: f64, unit: &str| {
        let value = ns as f64 / each;
        let digits = match value {
            v if v >= 99.95 => return count(v.round() as u64) + unit,
            v if v >= 9.995 => 1,
            v if v >= 0.9995 => 2,
            // Two digits that count: what is short must not look like nothing.
            v if v > 0.0 => (1 - v.log10().floor() as i32) as usize,
            _ => 0,
        };
        format!("{value:.digits$}{unit}")
    };
    match units {
        Units::Fitting => duration(ns),
        Units::Micros => fixed(1e3, "µs"),
        Units::Millis => fixed(1e6, "ms"),
        Units::Seconds => fixed(1e9, "s"),
    }
}

/// The same for a sentence: `0.092 ms`.
pub(crate) fn latency_in_words(ns: u64, units: Units) -> String {
    if units == Units::Fitting {
        return duration_in_words(ns);
    }
    let text = latency(ns, units);
    let unit = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    format!("{} {}", &text[..unit], &text[unit..])
}

/// `2.8 ms`, `up to 3.1 s`, `18m20s or more`.
pub(crate) fn maximum_in_words(max: Max, units: Units) -> String {
    match max {
        Max { ns: u64::MAX, .. } => format!("{} or more", latency_in_words(1 << LAST_EXPONENT, units)),
        Max { ns, exact: true } => latency_in_words(ns, units),
        Max { ns, exact: false } => format!("up to {}", latency_in_words(ns, units)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_in_one_unit_keep_two_digits_or_more() {
        assert_eq!(latency(1_700_000, Units::Fitting), "1.7ms");
        assert_eq!(latency(1_700_000, Units::Micros), "1,700µs");
        assert_eq!(latency(1_700_000, Units::Millis), "1.70ms");
        assert_eq!(latency(1_700_000, Units::Seconds), "0.0017s");
        assert_eq!(latency(256, Units::Seconds), "0.00000026s");
        assert_eq!(latency(92_000, Units::Millis), "0.092ms");
        assert_eq!(latency(0, Units::Millis), "0ms");
        assert_eq!(latency(12_345_000_000, Units::Seconds), "12.3s");
        assert_eq!(latency(123_456_000_000, Units::Millis), "123,456ms");
    }

    #[test]
    fn sentences_follow_the_unit_too() {
        assert_eq!(latency_in_words(92_000, Units::Fitting), "92 µs");
        assert_eq!(latency_in_words(92_000, Units::Millis), "0.092 ms");
        assert_eq!(maximum_in_words(Max { ns: 2_800_000, exact: true }, Units::Micros), "2,800 µs");
        assert_eq!(maximum_in_words(Max { ns: 3_100_000_000, exact: false }, Units::Seconds), "up to 3.10 s");
        let beyond = Max { ns: u64::MAX, exact: false };
        assert_eq!(maximum_in_words(beyond, Units::Seconds), "1,100 s or more");
    }
}
