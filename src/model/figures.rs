//! The figures of a row of operations: one table. The columns of tables, of the live view and of CSV, the
//! fields of JSON and their schema, and the words of `--sort` and `--columns` are made from it. A new figure
//! is a line here and its source.

use std::time::Duration;

use super::{Errors, Max, Op, Stats};

/// What figures are computed from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a> {
    /// None: several operations together.
    pub op: Option<Op>,
    pub stats: &'a Stats,
    /// The length of the interval.
    pub over: Duration,
}

/// The value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// The figure does not exist, such as the latency of an operation that did not happen.
    Absent,
    Count(u64),
    /// How many in how long.
    Rate(u64, Duration),
    /// Nanoseconds.
    Time(u64),
    /// A sum of nanoseconds and how many they are of.
    Mean(u64, u64),
    /// A quantile, its latency in nanoseconds, and how many operations there were.
    Quantile(f64, u64, u64),
    Max(Max),
    /// The mean number in flight.
    InFlight(f64),
    Errors(&'a Errors),
    ErrorNames(&'a Errors),
    Bytes(u64),
    Flag(bool),
    Word(&'static str),
}

impl Value<'_> {
    /// Orders rows by this figure; None comes last.
    pub fn rank(&self) -> Option<u64> {
        Some(match *self {
            Value::Count(n) | Value::Rate(n, _) | Value::Time(n) | Value::Bytes(n) => n,
            Value::Mean(sum, n) => sum.checked_div(n)?,
            // A quantile that is not shown does not order rows either.
            Value::Quantile(q, ns, n) if is_told(q, n) => ns,
            Value::Max(max) => max.ns,
            Value::Errors(errors) => errors.total(),
            Value::Absent
            | Value::Quantile(..)
            // Sorted by the time that it is made of.
            | Value::InFlight(_)
            | Value::ErrorNames(_)
            | Value::Flag(_)
            | Value::Word(_) => return None,
        })
    }
}

/// Whether there are enough operations for a high quantile to be another figure than the maximum: a hundred
/// for the 99th percentile.
pub(crate) fn is_told(q: f64, operations: u64) -> bool {
    q <= 0.5 || operations as f64 * (1.0 - q) >= 1.0 - 1e-9
}

/// Whether a table has the figure without being asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    Never,
    /// Where there is room: where there is none, the lowest goes first.
    Until(u8),
    Always,
}

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    /// For `--sort` and `--columns`; empty: for neither.
    pub word: &'static str,
    /// The column of CSV; empty: none.
    pub csv: &'static str,
    /// The field of JSON, behind the object that it is in; empty: none.
    pub json: &'static str,
    /// Where it does not exist, it is left out of JSON instead of null, and its cell is empty instead of "–".
    pub is_optional: bool,
    /// The heading of its column; empty: it is in no table.
    pub title: &'static str,
    /// Its place among the columns of a table.
    pub place: u8,
    /// In the table of `once`.
    pub once: Fit,
    /// In the live view.
    pub live: Fit,
    /// Its least width in the live view, where columns should not move.
    pub width: usize,
    /// Only of rows with a histogram.
    pub needs_histogram: bool,
    pub sorts: bool,
    /// For the help of `--sort` and `--columns`; empty: its name says it.
    pub help: &'static str,
    /// For the schema of JSON; empty: its name says it.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test writes docs/json.schema.json"))]
    pub schema: &'static str,
    pub get: for<'a> fn(&Source<'a>) -> Value<'a>,
}

impl Line {
    const NONE: Line = Line {
        word: "",
        csv: "",
        json: "",
        is_optional: false,
        title: "",
        place: 0,
        once: Fit::Never,
        live: Fit::Never,
        width: 5,
        needs_histogram: false,
        sorts: false,
        help: "",
        schema: "",
        get: |_| Value::Absent,
    };

    const QUANTILE: Line = Line { needs_histogram: true, ..Line::NONE };
}

macro_rules! figures {
    ($($(#[$doc:meta])* $figure:ident = $line:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Figure {
            $($(#[$doc])* $figure,)*
        }

        impl Figure {
            /// In the order of CSV and JSON, where what came later comes last.
            pub(crate) const ALL: &[Figure] = &[$(Figure::$figure),*];

            pub(crate) fn line(self) -> &'static Line {
                const LINES: &[Line] = &[$($line),*];
                &LINES[self as usize]
            }
        }
    };
}

figures! {
    Syncs = Line {
        word: "syncs", csv: "syncs", json: "count", title: "SYNCS", place: 1,
        once: Fit::Always, live: Fit::Until(4), width: 0, sorts: true,
        help: "How many syncs",
        get: |of| Value::Count(of.stats.count),
        ..Line::NONE
    };
    Rate = Line {
        word: "rate", csv: "syncs_per_second", title: "/s", place: 2,
        once: Fit::Until(3), live: Fit::Until(8), width: 6, sorts: true,
        help: "Syncs per second",
        get: |of| Value::Rate(of.stats.count, of.over),
        ..Line::NONE
    };
    Errors = Line {
        word: "errors", csv: "errors", json: "errors", title: "ERRORS", place: 21,
        once: Fit::Always, live: Fit::Until(11), width: 6, sorts: true,
        schema: "Those of count that failed",
        get: |of| Value::Errors(&of.stats.errors),
        ..Line::NONE
    };
    ErrorNames = Line {
        csv: "errors_by_name",
        get: |of| Value::ErrorNames(&of.stats.errors),
        ..Line::NONE
    };
    Time = Line {
        word: "time", csv: "total_seconds", json: "total_seconds", place: 16, sorts: true,
        schema: "The sum of the latencies",
        get: |of| Value::Time(of.stats.sum_ns),
        ..Line::NONE
    };
    InFlight = Line {
        word: "in-flight", csv: "in_flight_mean", json: "in_flight_mean", title: "IN FLIGHT", place: 20,
        once: Fit::Until(4), live: Fit::Until(10), width: "1 STUCK".len(),
        help: "How many at a time on average, or how busy the log is",
        schema: "The sum of the latencies divided by the time",
        get: |of| Value::InFlight(of.stats.in_flight_mean(of.over)),
        ..Line::NONE
    };
    Min = Line {
        csv: "min_seconds", json: "latency_seconds.min",
        schema: "The lower edge of the lowest bucket in use",
        get: |of| of.stats.min_ns().map_or(Value::Absent, Value::Time),
        ..Line::QUANTILE
    };
    Mean = Line {
        word: "mean", csv: "mean_seconds", json: "latency_seconds.mean", title: "MEAN", place: 10,
        once: Fit::Until(2), live: Fit::Until(1), sorts: true,
        get: |of| match of.stats.count {
            0 => Value::Absent,
            n => Value::Mean(of.stats.sum_ns, n),
        },
        ..Line::NONE
    };
    P50 = Line {
        word: "p50", csv: "p50_seconds", json: "latency_seconds.p50", title: "P50", place: 11,
        once: Fit::Until(1), live: Fit::Until(2), sorts: true,
        get: |of| quantile(of, 0.5),
        ..Line::QUANTILE
    };
    P90 = Line {
        csv: "p90_seconds", json: "latency_seconds.p90",
        get: |of| quantile(of, 0.9),
        ..Line::QUANTILE
    };
    P99 = Line {
        word: "p99", csv: "p99_seconds", json: "latency_seconds.p99", title: "P99", place: 13,
        once: Fit::Always, live: Fit::Always, sorts: true,
        get: |of| quantile(of, 0.99),
        ..Line::QUANTILE
    };
    P999 = Line {
        csv: "p999_seconds", json: "latency_seconds.p999",
        get: |of| quantile(of, 0.999),
        ..Line::QUANTILE
    };
    Max = Line {
        word: "max", csv: "max_seconds", json: "latency_seconds.max", title: "MAX", place: 15,
        once: Fit::Always, live: Fit::Always, width: 6, sorts: true,
        schema: "Null as well in the bucket without an upper edge, above 18 minutes",
        get: |of| match of.stats.count {
            0 => Value::Absent,
            _ => Value::Max(of.stats.max),
        },
        ..Line::NONE
    };
    MaxExact = Line {
        csv: "max_exact", json: "latency_seconds.max_exact",
        schema: "False: max is the upper edge of the highest bucket in use",
        get: |of| match of.stats.count {
            0 => Value::Absent,
            _ => Value::Flag(of.stats.max.exact),
        },
        ..Line::NONE
    };
    Bytes = Line {
        word: "bytes", csv: "bytes", json: "bytes", is_optional: true, title: "BYTES",
        place: 22, once: Fit::Until(4), live: Fit::Until(2), width: 9, sorts: true,
        help: "What was written",
        schema: "What was written. Only of writes.",
        get: |of| match of.op {
            Some(op) if op.writes() => Value::Bytes(of.stats.bytes),
            _ => Value::Absent,
        },
        ..Line::NONE
    };
    Completion = Line {
        csv: "completion", json: "completion",
        is_optional: true,
        schema: "Only of requests",
        get: |of| match of.op.and_then(|op| of.stats.completions.name(op)) {
            Some(name) => Value::Word(name),
            None => Value::Absent,
        },
        ..Line::NONE
    };
}

fn quantile<'a>(of: &Source<'a>, q: f64) -> Value<'a> {
    of.stats.quantile_ns(q).map_or(Value::Absent, |ns| Value::Quantile(q, ns, of.stats.count))
}

impl Figure {
    pub(crate) fn of<'a>(self, source: &Source<'a>) -> Value<'a> {
        (self.line().get)(source)
    }

    /// In the order of the columns of tables.
    pub(crate) fn by_place() -> Vec<Figure> {
        let mut figures = Figure::ALL.to_vec();
        figures.sort_by_key(|figure| figure.line().place);
        figures
    }
}
