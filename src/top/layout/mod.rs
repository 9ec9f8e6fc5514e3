//! Where on the screen everything stands; and what stands at a place, for the mouse.

use ratatui::layout::Rect;

use super::screen::table;
use super::stuck;
use crate::text::width;
use crate::top::state::State;
use crate::top::view::{Column, View};

/// Below this there is room for a message only.
pub const LEAST_COLUMNS: u16 = 40;
pub const LEAST_ROWS: u16 = 10;
/// From so many rows on, a picture leaves enough of the table.
const ROOM_FOR_DETAILS: u16 = 18;
const MOST_DETAILS: u16 = 34;
/// From so many on, the log has a place of its own.
const ROOM_FOR_LOG: u16 = 36;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    pub too_small: bool,
    pub header: Rect,
    pub stuck: Rect,
    /// What stands there, a line each.
    pub stuck_lines: Vec<String>,
    pub readings: Rect,
    pub tabs: Rect,
    pub heading: Rect,
    pub rows: Rect,
    pub details: Option<Rect>,
    pub log: Option<Rect>,
    pub footer: Rect,
}

impl Areas {
    /// Rows of the table that are seen at a time.
    pub fn page(&self) -> usize {
        usize::from(self.rows.height).max(1)
    }
}

pub fn areas(state: &State) -> Areas {
    let (columns, rows) = state.size;
    if columns < LEAST_COLUMNS || rows < LEAST_ROWS {
        return Areas { too_small: true, ..Areas::default() };
    }
    let mut y = 0;
    let mut take = |height: u16| {
        let area = Rect::new(0, y, columns, height);
        y += height;
        area
    };
    let header = take(if rows < ROOM_FOR_DETAILS { 2 } else { 3 });
    let stuck_lines = stuck::all(state, usize::from(columns), usize::from(rows / 8).max(1));
    let stuck = take(stuck_lines.len() as u16);
    let readings = take(match rows {
        ..24 => 1,
        24..45 => 2,
        _ => 4,
    });
    let tabs = take(1);
    let heading = take(1);
    let left = rows - 1 - heading.bottom();
    let has_picture = state.details && !matches!(state.view, View::Log | View::Thread);
    let log = if rows >= ROOM_FOR_LOG && state.view != View::Log { left / 5 } else { 0 };
    let has_picture = has_picture && rows >= ROOM_FOR_DETAILS;
    // A short table leaves its room to the picture; in steps, so that one row more does not move everything.
    let table = (state.rows.len() as u16 + 1).next_multiple_of(8).min((left - log) / 2);
    let details = if has_picture { (left - log - table).min(MOST_DETAILS) } else { 0 };
    let rows_area = take(left - log - details);
    let details = (details > 0).then(|| take(details));
    let log = (log > 0).then(|| take(log));
    let footer = take(1);
    let rows = rows_area;
    Areas {
        too_small: false,
        header,
        stuck,
        stuck_lines,
        readings,
        tabs,
        heading,
        rows,
        details,
        log,
        footer,
    }
}

/// What the mouse points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// A row, by its index.
    Row(usize),
    Column(Column),
    View(View),
}

pub fn hit(state: &State, x: u16, y: u16) -> Option<Hit> {
    let areas = areas(state);
    let inside = |area: Rect| area.contains((x, y).into());
    if inside(areas.rows) {
        let at = state.table().selection.offset + usize::from(y - areas.rows.y);
        return (at < state.rows.len()).then_some(Hit::Row(at));
    }
    if inside(areas.heading) {
        let plan = table::plan(state, &areas);
        // The gap belongs to the column on its left.
        let column = plan.columns.iter().rev().find(|column| column.x <= x);
        return column.map(|column| Hit::Column(column.column));
    }
    if inside(areas.tabs) {
        let tab = tabs().into_iter().find(|(_, from, columns)| (*from..from + columns).contains(&x));
        return tab.map(|(view, ..)| Hit::View(view));
    }
    None
}

/// The groupings, from which column on and how wide each is written.
pub fn tabs() -> Vec<(View, u16, u16)> {
    let mut x = 0;
    let tab = |view: View| {
        let columns = width(view.title()) as u16 + 2;
        x += columns;
        (view, x - columns, columns)
    };
    View::ALL.into_iter().map(tab).collect()
}
