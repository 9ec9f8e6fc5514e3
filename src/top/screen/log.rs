//! The newest of the log, where there is room for it beside another table.

use ratatui::layout::Rect;

use super::pen::Pen;
use crate::model::figures::Figure;
use crate::render::Paint;
use crate::render::columns::Column;
use crate::render::row::Row;
use crate::text::{count, duration_in_words, shorten_end, width};
use crate::top::cells::{Cell, Format, cell_of_log, short_server};
use crate::top::palette::Ink;
use crate::top::state::State;
use crate::top::view::Sort;

const TIME: u16 = 8;
/// At least; so seldom that the columns move.
const LATENCY: u16 = 8;
const ERRORS: u16 = 12;
const ROLE: u16 = 18;
const OP: u16 = 10;
/// What the names of files must have left before servers are written with their names.
const NAME_AT_LEAST: u16 = 24;

pub fn draw(state: &State, area: Rect, pen: &mut Pen) {
    let (mut rows, all) = state.log_beside();
    title(state, rows.len(), all, area, pen);
    let area = incidents(state, area, pen);
    if rows.is_empty() && all > 0 {
        pen.put(area.x, area.y + 1, area.width, "no entry for what is shown of the table", Ink::Faint);
    }
    Sort { column: Column::Time, reverse: false }.apply(&mut rows);
    rows.truncate(usize::from(area.height).saturating_sub(1));
    let format = state.format();
    let widest = |column: Column| {
        rows.iter().map(|row| width(&cell_of_log(&format, row, column).text) as u16).max().unwrap_or(0)
    };
    let latency = widest(Column::Figure(Figure::Max)).max(LATENCY);
    let several = state.servers().len() > 1;
    let others = [TIME, latency, ERRORS, ROLE, OP].iter().map(|columns| columns + 1).sum::<u16>();
    let long = widest(Column::Server);
    let short = rows.iter().map(|row| width(&short_server(row).text) as u16).max().unwrap_or(0);
    let has_room = area.width >= others + long + 1 + NAME_AT_LEAST;
    let server = if has_room { long } else { short };
    for (at, row) in rows.iter().enumerate() {
        let y = area.y + 1 + at as u16;
        let mut x = area.x;
        let servers = several.then_some((Column::Server, server));
        let figures = [
            (Column::Figure(Figure::Max), latency),
            (Column::Figure(Figure::Errors), ERRORS),
            (Column::Role, ROLE),
            (Column::Op, OP),
        ];
        let columns = std::iter::once((Column::Time, TIME)).chain(servers).chain(figures);
        for (column, columns) in columns.chain([(Column::Name, u16::MAX)]) {
            let cell = cell(&format, row, column, has_room);
            let room = columns.min(area.right().saturating_sub(x));
            let ink = cell.ink(Ink::Plain);
            if column == Column::Figure(Figure::Max) {
                pen.put_right(x, y, room, &cell.text, ink);
            } else {
                pen.put_fitted(x, y, room, &cell.text, ink);
            }
            x = x.saturating_add(room + 1);
        }
    }
}

/// Incidents first, a line each, in half of the room at most. Returns what is left, with the title's line.
fn incidents(state: &State, area: Rect, pen: &mut Pen) -> Rect {
    let room = usize::from(area.height.saturating_sub(1)).div_ceil(2);
    let told = state.shown.incidents.iter().take(room);
    let mut left = area;
    for incident in told {
        let ink = if incident.paint == Paint::Plain { Ink::Warning } else { Ink::Alarm };
        // Its end is what can be done without.
        let text = shorten_end(&incident.text, usize::from(left.width), state.style.ellipsis());
        pen.put(left.x, left.y + 1, left.width, &text, ink);
        (left.y, left.height) = (left.y + 1, left.height - 1);
    }
    left
}

fn title(state: &State, shown: usize, all: usize, area: Rect, pen: &mut Pen) {
    let line = "─".repeat(usize::from(area.width));
    pen.put(area.x, area.y, area.width, &line, Ink::Faint);
    let of = match shown == all {
        true => String::new(),
        false => format!(", {} of {}", count(shown as u64), count(all as u64)),
    };
    let text = format!(
        "Incidents, failed syncs, and those of {} or more, newest first{of} (l: more) ",
        duration_in_words(state.options.slow_from.as_nanos() as u64)
    );
    pen.put(area.x, area.y, area.width, &text, Ink::Heading);
}

fn cell(format: &Format, row: &Row, column: Column, has_room: bool) -> Cell {
    match column {
        Column::Server if !has_room => short_server(row),
        column => cell_of_log(format, row, column),
    }
}
