//! The table: columns fitted to the screen, and only the rows that are seen.

use ratatui::layout::Rect;

use super::cells::{Cell, cell};
use super::pen::Pen;
use crate::text::{end_of_path, shorten_middle, width};
use crate::top::heatmap::{Scale, Span, heights};
use crate::top::layout::Areas;
use crate::top::palette::Ink;
use crate::top::rows::Row;
use crate::top::state::{Graph, State};
use crate::top::trail::Point;
use crate::top::view::{Column, View};

/// Names get at least so much, if they are that long.
const NAME_AT_LEAST: usize = 24;
const GRAPH: std::ops::RangeInclusive<usize> = 7..=60;
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_BARS: [&str; 8] = ["_", ".", ":", "-", "=", "+", "*", "#"];

/// Which columns there are room for, and where.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub columns: Vec<Placed>,
    /// Of the rows that are seen: a cell for each column.
    cells: Vec<Vec<Cell>>,
    /// The index of the first of them.
    first: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub column: Column,
    pub x: u16,
    pub columns: u16,
}

/// All that this grouping has.
pub fn columns(state: &State) -> Vec<Column> {
    state.view.columns(state.servers().len() > 1, state.cumulative)
}

pub fn plan(state: &State, areas: &Areas) -> Plan {
    let first = state.table().selection.offset.min(state.rows.len());
    let seen: Vec<&Row> = state.rows[first..].iter().take(areas.page()).collect();
    let columns = columns(state);
    let cells: Vec<Vec<Cell>> =
        seen.iter().map(|row| columns.iter().map(|column| cell(state, row, *column)).collect()).collect();
    let mut natural: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let widest = cells.iter().map(|row| width(&row[at].text) + width(row[at].suffix)).max();
            widest.unwrap_or(0).max(least(*column)).max(width(&heading(state, *column)))
        })
        .collect();
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let room = usize::from(areas.rows.width);
    let mut name_at_least = NAME_AT_LEAST;
    let needs = |kept: &[usize], natural: &[usize], name: usize| -> usize {
        let column = |at: usize| match columns[at] {
            Column::Graph => *GRAPH.start(),
            Column::Name => natural[at].min(name),
            _ => natural[at],
        };
        kept.iter().map(|&at| column(at) + 1).sum::<usize>().saturating_sub(1)
    };
    while needs(&kept, &natural, name_at_least) > room {
        let goes = kept.iter().copied().filter_map(|at| Some((columns[at].drop_at(state.view)?, at))).min();
        let Some((_, goes)) = goes else { break };
        kept.retain(|&at| at != goes);
    }
    // What is left over goes to the names, then to the graphs.
    let needed = needs(&kept, &natural, name_at_least);
    name_at_least = name_at_least.saturating_sub(needed.saturating_sub(room));
    let mut spare = room.saturating_sub(needed);
    for &at in &kept {
        match columns[at] {
            Column::Name => {
                let more = natural[at].saturating_sub(name_at_least).min(spare);
                natural[at] = natural[at].min(name_at_least) + more;
                spare -= more;
            }
            Column::Graph => natural[at] = (*GRAPH.start() + spare).min(*GRAPH.end()),
            _ => {}
        }
    }
    let mut x = areas.rows.x;
    let placed = kept.iter().map(|&at| {
        let columns_wide = natural[at] as u16;
        x += columns_wide + 1;
        Placed { column: columns[at], x: x - columns_wide - 1, columns: columns_wide }
    });
    let placed = placed.collect();
    let cells = cells.into_iter().map(|row| kept.iter().map(|&at| row[at].clone()).collect()).collect();
    Plan { columns: placed, cells, first }
}

/// Figures of several intervals stay in place.
fn least(column: Column) -> usize {
    match column {
        Column::Rate => 6,
        Column::Mean | Column::P50 | Column::P99 => 5,
        Column::Max => 6,
        Column::Flight => "100 % busy".len(),
        Column::Errors => 6,
        Column::Time => 8,
        _ => 0,
    }
}

/// The title, with an arrow at the column that is sorted by.
fn heading(state: &State, column: Column) -> String {
    let title = column.title(state.view);
    let sort = state.table().sort;
    if sort.column != column {
        return title.to_owned();
    }
    // Figures come the greatest first, text in its own order.
    let descends = (column.is_figure() && column != Column::Tid
        || matches!(column, Column::Time | Column::Shared))
        != sort.reverse;
    let arrow = match (state.style.unicode, descends) {
        (true, true) => "▼",
        (true, false) => "▲",
        (false, true) => "v",
        (false, false) => "^",
    };
    format!("{title}{arrow}")
}

pub fn draw(state: &State, areas: &Areas, pen: &mut Pen) {
    let plan = plan(state, areas);
    for placed in &plan.columns {
        let is_sorted = state.table().sort.column == placed.column;
        let ink = if is_sorted { Ink::Chosen } else { Ink::Heading };
        let y = areas.heading.y;
        let title = match placed.column {
            Column::Graph => graph_title(state, placed.columns),
            column => heading(state, column),
        };
        if placed.column.is_figure() {
            pen.put_right(placed.x, y, placed.columns, &title, ink);
        } else {
            pen.put(placed.x, y, placed.columns, &title, ink);
        }
    }
    for (at, cells) in plan.cells.iter().enumerate() {
        let y = areas.rows.y + at as u16;
        let row = &state.rows[plan.first + at];
        for (placed, cell) in plan.columns.iter().zip(cells) {
            if placed.column == Column::Graph {
                graph(state, row, *placed, y, pen);
            } else {
                put(state, cell, *placed, y, pen);
            }
        }
        if plan.first + at == state.table().selection.index {
            pen.select(Rect::new(areas.rows.x, y, areas.rows.width, 1));
        }
    }
}

fn put(state: &State, cell: &Cell, placed: Placed, y: u16, pen: &mut Pen) {
    let ink = cell.ink(Ink::Plain);
    if placed.column.is_figure() {
        return pen.put_right(placed.x, y, placed.columns, &cell.text, ink);
    }
    let room = usize::from(placed.columns).saturating_sub(width(cell.suffix));
    // Our own words in brackets are no path.
    let is_path = placed.column == Column::Name
        && matches!(state.view, View::File | View::Log)
        && !cell.text.starts_with('(');
    let shorten = if is_path { end_of_path } else { shorten_middle };
    let text = shorten(&cell.text, room, state.style.ellipsis()) + cell.suffix;
    pen.put(placed.x, y, placed.columns, &text, ink);
}

fn graph_title(state: &State, columns: u16) -> String {
    let name = match state.graph {
        Graph::P99 => "p99",
        Graph::Max => "max",
        Graph::Rate => "/s",
    };
    let long = format!("{name}, {columns} intervals");
    if long.len() <= usize::from(columns) { long } else { name.to_owned() }
}

fn graph(state: &State, row: &Row, placed: Placed, y: u16, pen: &mut Pen) {
    let Some(shown) = &state.shown else { return };
    let span = Span { until: shown.tick, columns: usize::from(placed.columns), each: 1 };
    let mut values: Vec<Option<u64>> = vec![None; span.columns];
    let mut failed = vec![false; span.columns];
    let value = |point: &Point| match state.graph {
        Graph::P99 => point.p99_ns,
        Graph::Max => point.max.ns,
        Graph::Rate => {
            let over = state.past.tick(point.tick).map_or(1.0, |tick| tick.duration.as_secs_f64());
            (point.count as f64 / over.max(1e-3)) as u64
        }
    };
    // Newest first: what lies before the first column is not looked at.
    for point in state.past.trails.points(&row.key).rev().skip_while(|point| point.tick > span.until) {
        let Some(column) = span.column(point.tick) else { break };
        values[column] = Some(value(point));
        failed[column] = point.errors > 0;
    }
    let scale = if state.graph == Graph::Rate { Scale::Linear } else { Scale::Logarithmic };
    let bars = if state.style.unicode { BARS } else { ASCII_BARS };
    for (column, height) in heights(&values, scale).into_iter().enumerate() {
        let x = placed.x + column as u16;
        if failed[column] {
            pen.put(x, y, 1, "!", Ink::Alarm);
        } else if let Some(height) = height {
            pen.put(x, y, 1, bars[usize::from(height).min(7)], Ink::Plain);
        }
    }
}
