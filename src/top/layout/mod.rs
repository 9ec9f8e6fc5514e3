//! Where everything is on the screen: functions of a few numbers, for the drawing and for what keys and mouse
//! select.

mod columns;
mod hit;

use ratatui::layout::Rect;

use super::view::View;

pub(crate) use columns::Placed;
pub use columns::{Plan, plan};
pub(crate) use hit::{Hit, hit, tabs};

/// Below this there is room for a message only.
pub(crate) const LEAST_COLUMNS: u16 = 40;
pub(crate) const LEAST_ROWS: u16 = 10;
/// From so many rows on, a picture leaves enough of the table.
const ROOM_FOR_DETAILS: u16 = 18;
const MOST_DETAILS: u16 = 34;
/// From so many on, the log has a place of its own.
const ROOM_FOR_LOG: u16 = 36;

/// What the areas depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Columns and rows of the screen.
    pub size: (u16, u16),
    pub view: View,
    /// The latencies of the selected row are wanted below the table.
    pub details: bool,
    /// Rows of the table.
    pub rows: usize,
    /// Lines about stuck syncs.
    pub stuck_lines: usize,
}

/// So many lines about stuck syncs leave enough of the rest.
pub(crate) fn max_stuck_lines((_, rows): (u16, u16)) -> usize {
    usize::from(rows / 8).max(1)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Areas {
    pub too_small: bool,
    pub header: Rect,
    pub stuck: Rect,
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

pub(crate) fn areas(geometry: &Geometry) -> Areas {
    let Geometry { size: (columns, rows), view, .. } = *geometry;
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
    let stuck = take(geometry.stuck_lines.min(max_stuck_lines(geometry.size)) as u16);
    let readings = take(match rows {
        ..24 => 1,
        24..45 => 2,
        _ => 4,
    });
    let tabs = take(1);
    let heading = take(1);
    let left = rows - 1 - heading.bottom();
    let has_picture = geometry.details && !matches!(view, View::Log | View::Thread);
    let log = if rows >= ROOM_FOR_LOG && view != View::Log { left / 5 } else { 0 };
    let has_picture = has_picture && rows >= ROOM_FOR_DETAILS;
    // A short table leaves its room to the picture; in steps, so that one row more does not move everything.
    let table = (geometry.rows.min(usize::from(rows)) as u16 + 1).next_multiple_of(8).min((left - log) / 2);
    let details = if has_picture { (left - log - table).min(MOST_DETAILS) } else { 0 };
    let rows_area = take(left - log - details);
    let details = (details > 0).then(|| take(details));
    let log = (log > 0).then(|| take(log));
    let footer = take(1);
    let rows = rows_area;
    Areas { too_small: false, header, stuck, readings, tabs, heading, rows, details, log, footer }
}
