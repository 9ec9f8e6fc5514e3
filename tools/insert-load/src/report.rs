//! Commit latencies, and what is said about them in the end.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// From a microsecond to beyond any patience, to three digits; the longest one exactly.
pub struct CommitLatency {
    histogram: Histogram<u64>,
    max: Duration,
}

impl CommitLatency {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1_000, 3_600_000_000_000, 3);
        CommitLatency { histogram: histogram.expect("the bounds are in order"), max: Duration::ZERO }
    }

    pub fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(latency.as_nanos() as u64);
        self.max = self.max.max(latency);
    }

    pub fn add(&mut self, other: &CommitLatency) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.max = self.max.max(other.max);
    }

    fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(quantile))
    }
}

#[derive(Serialize)]
pub struct Report {
    connections: u32,
    rows: u64,
    seconds: f64,
    rows_per_second: f64,
    commit_latency_seconds: Quantiles,
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Report {
    pub fn new(connections: u32, elapsed: Duration, latency: &CommitLatency) -> Self {
        let seconds = elapsed.as_secs_f64();
        let rows = latency.histogram.len();
        Report {
            connections,
            rows,
            seconds,
            rows_per_second: if seconds > 0.0 { rows as f64 / seconds } else { 0.0 },
            commit_latency_seconds: Quantiles {
                p50: latency.quantile(0.5).as_secs_f64(),
                p99: latency.quantile(0.99).as_secs_f64(),
                max: latency.max.as_secs_f64(),
            },
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Report { connections, rows, seconds, rows_per_second, commit_latency_seconds } = self;
        let Quantiles { p50, p99, max } = commit_latency_seconds;
        let connections =
            if *connections == 1 { "1 connection".into() } else { format!("{connections} connections") };
        writeln!(f, "{rows} rows by {connections} in {seconds:.2} s: {rows_per_second:.0} rows per second")?;
        writeln!(
            f,
            "commit latency: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            p50 * 1e3,
            p99 * 1e3,
            max * 1e3
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_states_rate_and_quantiles_of_all_connections_together() {
        let (mut total, mut other) = (CommitLatency::new(), CommitLatency::new());
        (0..99).for_each(|_| total.record(Duration::from_millis(1)));
        other.record(Duration::from_millis(20));
        total.add(&other);
        let text = Report::new(2, Duration::from_secs(4), &total).to_string();
        assert_eq!(
            text,
            "100 rows by 2 connections in 4.00 s: 25 rows per second\n\
             commit latency: p50 1.00 ms, p99 1.00 ms, max 20.00 ms\n"
        );
    }
}
