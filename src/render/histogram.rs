//! The latencies of each role and operation, drawn twice: in even steps, as one reads them in an article, and
//! in powers of two, where a tail of seconds and a body of microseconds fit one picture.

use std::fmt::Write as _;

use super::style::{Paint, Style};
use super::{header, rows};
use crate::model::histogram::{FIRST_EXPONENT, Histogram, LAST_EXPONENT, midpoint};
use crate::model::{Interval, RoleRow, ServerId, Stats};
use crate::text::{count, duration, width};

/// Even steps before "and above".
const STEPS: u64 = 15;
const DEFAULT_STEP_NS: u64 = 100_000;
/// With fewer syncs than this a picture shows less than the table does.
const FEW: u64 = 20;
const BAR_COLUMNS: std::ops::RangeInclusive<usize> = 10..=60;
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// One line of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bar {
    label: String,
    count: u64,
}

/// Draws every role and operation of these servers; those with few syncs are only named, unless all have few.
pub(crate) fn draw(out: &mut String, m: &Interval, servers: &[ServerId], style: &Style) {
    let drawable = |row: &&RoleRow| servers.contains(&row.server) && !row.stats.histogram.is_empty();
    let all_few = m.roles.iter().filter(drawable).all(|row| row.stats.count < FEW);
    let (few, drawn): (Vec<_>, Vec<_>) =
        m.roles.iter().filter(drawable).partition(|row| row.stats.count < FEW && !all_few);
    for row in drawn {
        let whose =
            if servers.len() > 1 { header::name(m, row.server, style) + " · " } else { String::new() };
        let step = step_for(&row.stats);
        for (bars, scale) in [
            (linear(&row.stats.histogram, step), format!("steps of {}", duration(step))),
            (logarithmic(&row.stats.histogram), "each step twice the one before".into()),
        ] {
            let title = format!("{whose}{} · {scale}", name(row));
            let lines = style.wrap_at(&title, " · ", 2);
            let lines = lines.iter().map(|line| style.paint(Paint::Heading, line));
            let _ = writeln!(out, "{}", lines.collect::<Vec<_>>().join("\n"));
            picture(out, &bars, style);
            out.push('\n');
        }
    }
    if !few.is_empty() {
        let short = |row: &RoleRow| format!("{} {} ({})", row.role.name(), row.op.name(), row.stats.count);
        let names: Vec<_> = few.into_iter().map(short).collect();
        let line = format!("Too few to draw: {}", names.join(" · "));
        for part in style.wrap_at(&line, " · ", 2) {
            let _ = writeln!(out, "{part}");
        }
        out.push('\n');
    }
}

fn name(row: &RoleRow) -> String {
    let syncs = if row.stats.count == 1 { "sync" } else { "syncs" };
    format!("{} {} · {} {syncs}", row.role.name(), row.op.name(), count(row.stats.count))
}

/// The even step: 100 µs, unless the 99th percentile would lie beyond the last step or within the first two;
/// then the smallest of 1, 2, 5, 10, … that holds it.
fn step_for(stats: &Stats) -> u64 {
    let holds = rows::p99(stats).or_else(|| stats.quantile_ns(1.0)).unwrap_or(0);
    if (2 * DEFAULT_STEP_NS + 1..=STEPS * DEFAULT_STEP_NS).contains(&holds) {
        return DEFAULT_STEP_NS;
    }
    let mut steps = (1..).flat_map(|decade| [1, 2, 5].map(|n| n * 10_u64.pow(decade)));
    steps.find(|step| STEPS * step >= holds).unwrap_or(DEFAULT_STEP_NS)
}

/// Counts in even steps, the last line being all above. Each of our buckets counts at its midpoint.
fn linear(histogram: &Histogram, step: u64) -> Vec<Bar> {
    let Some(scratch) = scratch(histogram) else { return Vec::new() };
    let mut counts: Vec<u64> = scratch.iter_linear(step).map(|at| at.count_since_last_iteration()).collect();
    let above: u64 = counts.split_off(counts.len().min(STEPS as usize)).iter().sum();
    let unit = Unit::of(step);
    let label = |ns: u64| count(ns / unit.ns);
    let mut bars: Vec<Bar> = (0u64..)
        .zip(counts)
        .map(|(at, count)| Bar {
            label: format!("{} – {} {}", label(at * step), label((at + 1) * step), unit.name),
            count,
        })
        .collect();
    if above > 0 {
        bars.push(Bar { label: format!("≥ {} {}", label(STEPS * step), unit.name), count: above });
    }
    bars
}

/// A histogram of the hdrhistogram crate, which knows how to step through latencies; one at a time, see the
/// design.
fn scratch(histogram: &Histogram) -> Option<hdrhistogram::Histogram<u64>> {
    let mut scratch = hdrhistogram::Histogram::new_with_bounds(1, 1 << (LAST_EXPONENT + 1), 3).ok()?;
    for (bucket, n) in histogram.iter() {
        scratch.record_n(midpoint(bucket).max(1), n).ok()?;
    }
    Some(scratch)
}

/// Counts in powers of two, which our buckets never straddle: exact. From the lowest in use to the highest.
fn logarithmic(histogram: &Histogram) -> Vec<Bar> {
    let mut counts: Vec<(u32, u64)> = Vec::new();
    for (bucket, n) in histogram.iter() {
        let exponent = midpoint(bucket).ilog2().clamp(FIRST_EXPONENT - 1, LAST_EXPONENT);
        match counts.last_mut() {
            Some((last, sum)) if *last == exponent => *sum += n,
            last => {
                let next = last.map_or(exponent, |(last, _)| *last + 1);
                counts.extend((next..exponent).map(|empty| (empty, 0)));
                counts.push((exponent, n));
            }
        }
    }
    let label = |exponent: u32| match exponent {
        e if e < FIRST_EXPONENT => format!("< {}", duration(1 << FIRST_EXPONENT)),
        LAST_EXPONENT => format!("≥ {}", duration(1 << LAST_EXPONENT)),
        e => format!("{} – {}", duration(1 << e), duration(1 << (e + 1))),
    };
    counts.into_iter().map(|(exponent, count)| Bar { label: label(exponent), count }).collect()
}

/// What the labels of even steps count in: the greatest unit of which every step is a whole number.
struct Unit {
    ns: u64,
    name: &'static str,
}

impl Unit {
    fn of(step: u64) -> Unit {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")];
        let (ns, name) = units.into_iter().find(|(ns, _)| step.is_multiple_of(*ns)).unwrap_or((1, "ns"));
        Unit { ns, name }
    }
}

fn picture(out: &mut String, bars: &[Bar], style: &Style) {
    let total: u64 = bars.iter().map(|bar| bar.count).sum();
    let greatest = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
    let widest = |of: &dyn Fn(&Bar) -> usize| bars.iter().map(of).max().unwrap_or(0);
    let label_columns = widest(&|bar| width(&bar.label));
    let count_columns = widest(&|bar| width(&count(bar.count)));
    // label, count, percentage and the gaps between them
    let taken = label_columns + 2 + count_columns + 2 + "100.0 %".len() + 2;
    let room = style.width.unwrap_or(80).saturating_sub(taken);
    let bar_columns = room.clamp(*BAR_COLUMNS.start(), *BAR_COLUMNS.end());
    for line in bars {
        let label = " ".repeat(label_columns - width(&line.label)) + &line.label;
        let count = format!("{:>count_columns$}", count(line.count));
        let share = if total == 0 { 0.0 } else { line.count as f64 / total as f64 };
        let percent = format!("{:>5.1} %", share * 100.0);
        let text = format!("{label}  {count}  {percent}  {}", bar(line.count, greatest, bar_columns));
        let _ = writeln!(out, "{}", text.trim_end());
    }
}

/// A bar in eighths of a column; what is not zero is at least one eighth long.
pub(crate) fn bar(count: u64, greatest: u64, columns: usize) -> String {
    if count == 0 || greatest == 0 {
        return String::new();
    }
    let eighths = (count as f64 / greatest as f64 * (columns * 8) as f64).round().max(1.0) as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    fn sums(bars: &[Bar]) -> u64 {
        bars.iter().map(|bar| bar.count).sum()
    }

    #[test]
    fn both_pictures_show_every_sync_once() {
        for row in fixture::busy().roles {
            let step = step_for(&row.stats);
            assert_eq!(sums(&linear(&row.stats.histogram, step)), row.stats.count, "{}", row.role.name());
            assert_eq!(sums(&logarithmic(&row.stats.histogram)), row.stats.count, "{}", row.role.name());
        }
    }

    #[test]
    fn the_step_is_100_microseconds_unless_the_99th_percentile_does_not_fit() {
        let step = |ns: u64| step_for(&fixture::stats(&[(500, ns)]));
        assert_eq!(step(675_000), 100_000);
        assert_eq!(step(1_400_000), 100_000);
        assert_eq!(step(1_700_000), 200_000);
        assert_eq!(step(90_000_000), 10_000_000);
        assert_eq!(step(3_100_000_000), 500_000_000);
        assert_eq!(step(14_000), 1_000);
        assert_eq!(step(300), 20);
        assert_eq!(step(10), 10);
    }

    #[test]
    fn every_sync_falls_into_its_own_step_and_the_rest_is_above() {
        let stats = fixture::stats(&[(3, 50_000), (200, 250_000), (5, 1_450_000), (2, 9_000_000_000)]);
        let bars = linear(&stats.histogram, 100_000);
        let filled: Vec<(&str, u64)> =
            bars.iter().filter(|bar| bar.count > 0).map(|bar| (bar.label.as_str(), bar.count)).collect();
        let expected = [("0 – 100 µs", 3), ("200 – 300 µs", 200), ("1,400 – 1,500 µs", 5), ("≥ 1,500 µs", 2)];
        assert_eq!(filled, expected);
        assert_eq!(bars.len(), 16);
    }

    #[test]
    fn powers_of_two_have_no_gap_and_honest_ends() {
        let stats = fixture::stats(&[(4, 100), (1, 1_500), (2, 1 << 41)]);
        let bars = logarithmic(&stats.histogram);
        assert_eq!(bars.len(), (LAST_EXPONENT - FIRST_EXPONENT + 2) as usize);
        assert_eq!(bars[0], Bar { label: "< 256ns".into(), count: 4 });
        assert_eq!(bars[3], Bar { label: "1.0µs – 2.0µs".into(), count: 1 });
        assert_eq!(bars.last(), Some(&Bar { label: "≥ 18m20s".into(), count: 2 }));
    }

    #[test]
    fn bars_are_drawn_in_eighths_and_never_vanish() {
        assert_eq!(bar(8, 8, 2), "██");
        assert_eq!(bar(3, 8, 2), "▊");
        assert_eq!(bar(1, 1_000_000, 10), "▏");
        assert_eq!(bar(0, 8, 2), "");
    }

    #[test]
    fn pictures_fit_the_terminal_and_look_as_expected() {
        let m = fixture::busy();
        for (columns, unicode, file) in [
            (60, true, "histogram_60.txt"),
            (120, true, "histogram_120.txt"),
            (80, false, "histogram_80_ascii.txt"),
        ] {
            let style = Style { color: false, unicode, width: Some(columns) };
            let mut out = String::new();
            draw(&mut out, &m, &[fixture::MYSQL], &style);
            let out = style.finish(out);
            assert!(out.lines().all(|line| width(line) <= columns));
            assert!(unicode || out.is_ascii());
            fixture::assert_expected(&format!("src/once/expected/{file}"), &out);
        }
    }
}
