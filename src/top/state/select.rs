//! Which row is selected: it stays selected while its place changes.

use super::State;
use crate::render::rows::{Key, Row};
use crate::top::event::{Mouse, MouseKind};
use crate::top::layout::{Hit, hit};

/// Rows that one notch of the wheel scrolls.
const WHEEL: isize = 3;

#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// None: whatever comes first.
    pub(super) key: Option<Key>,
    /// Where it is, or was last.
    pub index: usize,
    /// Rows above the screen.
    pub offset: usize,
}

impl State {
    pub fn selected(&self) -> Option<&Row> {
        self.rows.get(self.table().selection.index)
    }

    /// Finds the selected row at its new place and brings it on the screen.
    pub(super) fn place(&mut self) {
        let key = self.table().selection.key.as_ref();
        let index = match key {
            None => Some(0),
            Some(key) => self.rows.iter().position(|row| row.key == *key),
        };
        let last = self.rows.len().saturating_sub(1);
        let page = self.areas().page();
        let rows = self.rows.len();
        let selection = &mut self.table_mut().selection;
        // A row that has gone is expected back; until then what has its place is selected.
        selection.index = index.unwrap_or(selection.index).min(last);
        let first = (selection.index + 1).saturating_sub(page);
        selection.offset =
            selection.offset.clamp(first, selection.index).min(rows.saturating_sub(page).max(first));
    }

    pub(super) fn select(&mut self, index: usize) {
        let index = index.min(self.rows.len().saturating_sub(1));
        let key = self.rows.get(index).map(|row| row.key.clone());
        let selection = &mut self.table_mut().selection;
        (selection.key, selection.index) = (key, index);
        self.place();
    }

    pub(super) fn move_by(&mut self, rows: isize) {
        self.select(self.table().selection.index.saturating_add_signed(rows));
    }

    pub(super) fn move_by_pages(&mut self, pages: isize) {
        let page = self.areas().page().saturating_sub(1).max(1);
        self.move_by(pages * page as isize);
    }

    fn hit(&self, x: u16, y: u16) -> Option<Hit> {
        hit(&self.areas(), &self.plan().columns, self.table().selection.offset, self.rows.len(), (x, y))
    }

    pub(super) fn mouse_at(&mut self, mouse: Mouse) {
        if self.edit.is_some() {
            return;
        }
        if self.overlay.is_some() {
            return match mouse.kind {
                MouseKind::WheelUp => self.scroll_overlay(-WHEEL),
                MouseKind::WheelDown => self.scroll_overlay(WHEEL),
                MouseKind::Press => {}
            };
        }
        match mouse.kind {
            MouseKind::WheelUp => self.move_by(-WHEEL),
            MouseKind::WheelDown => self.move_by(WHEEL),
            MouseKind::Press => match self.hit(mouse.column, mouse.row) {
                Some(Hit::Row(at)) => self.select(at),
                Some(Hit::Column(column)) => self.sort_by(column),
                Some(Hit::View(view)) => self.show_view(view),
                None => {}
            },
        }
    }
}
