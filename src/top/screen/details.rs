//! Of the selected row: its latencies over time, and beside them how many syncs of the interval took how long.

use ratatui::layout::Rect;

use super::cells::{clock, latency};
use super::pen::Pen;
use crate::once::histogram::bar;
use crate::once::rows::{max_in_words, p99};
use crate::text::{count, duration_in_words, rate, shorten_path, width};
use crate::top::heatmap::{Map, Span, level, map};
use crate::top::palette::{ASCII_SHADES, Ink, SHADES};
use crate::top::rows::{About, Row};
use crate::top::state::State;

/// `≥ 999ms` and the axis.
const LABEL: u16 = 8;
/// Of the bars beside the picture.
const BARS: std::ops::RangeInclusive<u16> = 14..=60;

pub fn draw(state: &State, area: Rect, pen: &mut Pen) {
    let (Some(row), Some(shown)) = (state.selected(), &state.shown) else { return };
    title(state, row, area, pen);
    let bars = (area.width / 4).clamp(*BARS.start(), *BARS.end());
    let picture = area.width.saturating_sub(LABEL + bars + 1);
    let bands = area.height.saturating_sub(2);
    let span = Span { until: shown.tick, columns: usize::from(picture), each: state.each };
    let points = state.past.trails.points(&row.key);
    let Some(map) = map(points, &row.stats.histogram, span, usize::from(bands)) else {
        let text = "no sync of this row in the time that would be drawn here ([ draws more)";
        pen.put(area.x + LABEL, area.y + 1, area.width - LABEL, text, Ink::Faint);
        return;
    };
    let below = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
    draw_map(state, &map, below, picture, pen);
    draw_bars(state, &map, Rect::new(area.right() - bars, below.y, bars, bands), pen);
    axis(state, &map, span, Rect::new(area.x + LABEL, area.bottom() - 1, picture, 1), pen);
    let what = if state.cumulative { "since then" } else { "this interval" };
    pen.put(area.right() - bars, area.bottom() - 1, bars, what, Ink::Faint);
}

/// `redo fdatasync  4,480 syncs  3,084/s  p50 92 µs  p99 467 µs  max 2.8 ms`.
fn title(state: &State, row: &Row, area: Rect, pen: &mut Pen) {
    let over = state.shown.as_ref().map(|shown| shown.m.duration).unwrap_or_default();
    let stats = &row.stats;
    let mut facts = vec![format!("{} syncs", count(stats.count)), format!("{}/s", rate(stats.count, over))];
    if stats.count > 0 {
        let quantile = |name: &str, ns: Option<u64>| ns.map(|ns| format!("{name} {}", duration_in_words(ns)));
        facts.extend(quantile("p50", stats.quantile_ns(0.5)));
        facts.extend(quantile("p99", p99(stats)));
        facts.push(format!("max {}", max_in_words(stats.max)));
    }
    if let About::File(info) = &row.about {
        let escaped = |text: &str| state.style.name(text.as_bytes());
        match (&info.filesystem, &info.device) {
            (Some(filesystem), Some(device)) => {
                facts.push(format!("{} on {}", escaped(filesystem), escaped(device)));
            }
            (Some(one), None) | (None, Some(one)) => facts.push(escaped(one)),
            (None, None) => {}
        }
    }
    let facts = facts.join("  ");
    let op = row.op.map_or(String::new(), |op| format!(" {}", op.name()));
    let room = usize::from(area.width).saturating_sub(width(&facts) + width(&op) + 4);
    let name = row.name(&state.style);
    let name = if room >= 12 || width(&name) <= room {
        shorten_path(&name, room, state.style.ellipsis())
    } else {
        shorten_path(&name, usize::from(area.width).saturating_sub(width(&op)), state.style.ellipsis())
    };
    pen.put(area.x, area.y, area.width, &"─".repeat(usize::from(area.width)), Ink::Faint);
    let taken = pen.put(area.x, area.y, area.width, &format!("{name}{op} "), Ink::Strong);
    pen.put(area.x + taken, area.y, area.width.saturating_sub(taken), &format!(" {facts} "), Ink::Plain);
}

fn draw_map(state: &State, map: &Map, area: Rect, picture: u16, pen: &mut Pen) {
    let shades = if state.style.unicode { SHADES } else { ASCII_SHADES };
    for (at, band) in map.bands.iter().enumerate() {
        let y = area.y + at as u16;
        pen.put_right(area.x, y, LABEL - 1, &latency(band.from_ns, state.units), Ink::Faint);
        let axis = if state.style.unicode { "│" } else { "|" };
        pen.put(area.x + LABEL - 1, y, 1, axis, Ink::Faint);
        for (column, &n) in band.counts.iter().enumerate().take(usize::from(picture)) {
            if let Some(level) = level(n, map.most) {
                let x = area.x + LABEL + column as u16;
                pen.put(x, y, 1, shades[usize::from(level)], Ink::Level(level));
            }
        }
    }
}

fn draw_bars(state: &State, map: &Map, area: Rect, pen: &mut Pen) {
    let digits = map.bands.iter().map(|band| width(&count(band.now))).max().unwrap_or(1) as u16;
    let room = area.width.saturating_sub(digits + 2);
    for (at, band) in map.bands.iter().enumerate() {
        let y = area.y + at as u16;
        let axis = if state.style.unicode { "│" } else { "|" };
        pen.put(area.x, y, 1, axis, Ink::Faint);
        if band.now > 0 {
            pen.put(area.x + 1, y, room, &bar(band.now, map.most_now, usize::from(room)), Ink::Plain);
            pen.put_right(area.right() - digits, y, digits, &count(band.now), Ink::Plain);
        }
    }
}

/// How far back the picture goes, with a mark wherever something failed.
fn axis(state: &State, map: &Map, span: Span, area: Rect, pen: &mut Pen) {
    let drawn = state.past.until(span.until).take(span.columns * span.each as usize);
    let covered: std::time::Duration = drawn.map(|tick| tick.duration).sum();
    let end = match &state.paused {
        Some(_) => state.past.tick(span.until).map_or(String::new(), |tick| clock(tick.end)),
        None => "now".into(),
    };
    let seconds = covered.as_secs();
    let begin = if seconds >= 120 {
        format!("-{}m{:02}s", seconds / 60, seconds % 60)
    } else {
        format!("-{seconds}s")
    };
    pen.put_right(area.x, area.y, area.width, &end, Ink::Faint);
    // What is not full yet begins further to the right.
    let full = state.past.until(span.until).count() / span.each as usize;
    let first = span.columns.saturating_sub(full) as u16;
    let over = usize::from(first)..usize::from(first) + width(&begin) + 1;
    let is_free = map.failed.get(over).is_some_and(|failed| failed.iter().all(|n| *n == 0));
    if is_free && area.width > first + (width(&begin) + width(&end)) as u16 + 1 {
        pen.put(area.x + first, area.y, area.width - first, &begin, Ink::Faint);
    }
    for (column, _) in map.failed.iter().enumerate().filter(|(_, failed)| **failed > 0) {
        pen.put(area.x + column as u16, area.y, 1, "!", Ink::Alarm);
    }
}
