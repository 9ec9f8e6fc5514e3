//! What is at a place on the screen, for the mouse.

use ratatui::layout::Rect;

use super::{Areas, Placed};
use crate::render::columns::Column;
use crate::text::width;
use crate::top::view::View;

/// What the mouse points at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hit {
    /// A row, by its index.
    Row(usize),
    Column(Column),
    View(View),
}

/// `offset`: rows above the screen, of `rows` in all.
pub(crate) fn hit(
    areas: &Areas,
    columns: &[Placed],
    offset: usize,
    rows: usize,
    (x, y): (u16, u16),
) -> Option<Hit> {
    let inside = |area: Rect| area.contains((x, y).into());
    if inside(areas.rows) {
        let at = offset + usize::from(y - areas.rows.y);
        return (at < rows).then_some(Hit::Row(at));
    }
    if inside(areas.heading) {
        // The gap belongs to the column on its left.
        let column = columns.iter().rev().find(|column| column.x <= x);
        return column.map(|column| Hit::Column(column.column));
    }
    if inside(areas.tabs) {
        let tab = tabs().into_iter().find(|(_, from, columns)| (*from..from + columns).contains(&x));
        return tab.map(|(view, ..)| Hit::View(view));
    }
    None
}

/// The groupings, from which column on and how wide each is written: with a column for a bracket on either
/// side, which it shares with its neighbours.
pub(crate) fn tabs() -> Vec<(View, u16, u16)> {
    let mut x = 0;
    let tab = |view: View| {
        let columns = width(view.title()) as u16 + 2;
        x += columns - 1;
        (view, x + 1 - columns, columns)
    };
    View::ALL.into_iter().map(tab).collect()
}
