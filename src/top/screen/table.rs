//! Draws the table: only the rows that are seen.

use ratatui::layout::Rect;

use super::pen::Pen;
use crate::render::columns::Column;
use crate::render::row::Row;
use crate::text::{end_of_path, shorten_middle, width};
use crate::top::cells::Cell;
use crate::top::heatmap::{Scale, Span, heights};
use crate::top::layout::{Areas, Placed};
use crate::top::palette::Ink;
use crate::top::state::{Graph, State};
use crate::top::trail::Point;
use crate::top::view::View;

const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_BARS: [&str; 8] = ["_", ".", ":", "-", "=", "+", "*", "#"];

pub fn draw(state: &State, areas: &Areas, pen: &mut Pen) {
    let plan = state.plan();
    let sort = state.choice.table().sort;
    for (placed, title) in plan.columns.iter().zip(&plan.titles) {
        let is_sorted = sort.column == placed.column;
        let ink = if is_sorted { Ink::Chosen } else { Ink::Heading };
        let y = areas.heading.y;
        let title = match placed.column {
            Column::Graph => graph_title(state, placed.columns),
            _ => title.clone(),
        };
        if placed.column.is_figure() {
            pen.put_right(placed.x, y, placed.columns, &title, ink);
        } else {
            pen.put(placed.x, y, placed.columns, &title, ink);
        }
    }
    let graph = plan.columns.iter().find(|placed| placed.column == Column::Graph);
    let rows = || plan.cells.iter().enumerate().map(|(at, _)| &state.shown.rows[plan.first + at]);
    let graphs: Vec<Graphed> = graph
        .map(|placed| rows().map(|row| Graphed::of(state, row, placed.columns)).collect())
        .unwrap_or_default();
    // One scale for all rows that are seen: a bar says the same in each.
    let known = || graphs.iter().flat_map(|graphed| graphed.values.iter().flatten().copied());
    let range = (known().min().unwrap_or(0), known().max().unwrap_or(0));
    for (at, cells) in plan.cells.iter().enumerate() {
        let y = areas.rows.y + at as u16;
        let row = &state.shown.rows[plan.first + at];
        let is_idle = row.stats.all() == 0 && row.in_flight == 0;
        let ink = if is_idle { Ink::Faint } else { Ink::Plain };
        for (placed, cell) in plan.columns.iter().zip(cells) {
            match (placed.column, graphs.get(at)) {
                (Column::Graph, Some(graphed)) => graphed.draw(state, range, *placed, y, ink, pen),
                _ => put(state, cell, *placed, y, ink, pen),
            }
        }
        if plan.first + at == state.choice.table().selection.index {
            pen.select(Rect::new(areas.rows.x, y, areas.rows.width, 1));
        }
    }
}

fn put(state: &State, cell: &Cell, placed: Placed, y: u16, plain: Ink, pen: &mut Pen) {
    let ink = cell.ink(plain);
    if placed.column.is_figure() {
        return pen.put_right(placed.x, y, placed.columns, &cell.text, ink);
    }
    let room = usize::from(placed.columns).saturating_sub(width(&cell.suffix));
    // Our own words in brackets are no path.
    let is_path = placed.column == Column::Name
        && matches!(state.choice.view, View::File | View::Log)
        && !cell.text.starts_with('(');
    let shorten = if is_path { end_of_path } else { shorten_middle };
    let text = shorten(&cell.text, room, state.style.ellipsis()) + &cell.suffix;
    pen.put(placed.x, y, placed.columns, &text, ink);
}

fn graph_title(state: &State, columns: u16) -> String {
    let name = match state.choice.graph {
        Graph::P99 => "p99",
        Graph::Max => "max",
        Graph::Rate => "/s",
    };
    let long = format!("{name}, {columns} intervals");
    if long.len() <= usize::from(columns) { long } else { name.to_owned() }
}

/// What is drawn of a row.
struct Graphed {
    values: Vec<Option<u64>>,
    failed: Vec<bool>,
}

impl Graphed {
    fn of(state: &State, row: &Row, columns: u16) -> Graphed {
        let tick = state.shown.figures.as_ref().map_or(0, |figures| figures.tick);
        let span = Span { until: tick, columns: usize::from(columns), each: 1 };
        let mut values: Vec<Option<u64>> = vec![None; span.columns];
        let mut failed = vec![false; span.columns];
        let value = |point: &Point| match state.choice.graph {
            Graph::P99 => point.p99_ns,
            Graph::Max => point.max.ns,
            Graph::Rate => {
                let over = state.record.past.tick(point.tick).map_or(1.0, |tick| tick.duration.as_secs_f64());
                (point.count as f64 / over.max(1e-3)) as u64
            }
        };
        let points = state.record.past.trails.points(&row.key).rev();
        // Newest first: what lies before the first column is not looked at.
        for point in points.skip_while(|point| point.tick > span.until) {
            let Some(column) = span.column(point.tick) else { break };
            values[column] = (point.count > 0).then(|| value(point));
            failed[column] = point.errors > 0;
        }
        Graphed { values, failed }
    }

    fn draw(&self, state: &State, range: (u64, u64), placed: Placed, y: u16, ink: Ink, pen: &mut Pen) {
        let scale = if state.choice.graph == Graph::Rate { Scale::Linear } else { Scale::Logarithmic };
        let bars = if state.style.unicode { BARS } else { ASCII_BARS };
        for (column, height) in heights(&self.values, range, scale).into_iter().enumerate() {
            let x = placed.x + column as u16;
            if self.failed[column] {
                pen.put(x, y, 1, "!", Ink::Alarm);
            } else if let Some(height) = height {
                pen.put(x, y, 1, bars[usize::from(height).min(7)], ink);
            }
        }
    }
}
