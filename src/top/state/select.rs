//! What keys and mouse select.

use super::State;
use crate::render::row::Row;
use crate::top::event::{Mouse, MouseKind};
use crate::top::layout::{Hit, hit};

/// Rows that one notch of the wheel scrolls.
const WHEEL: isize = 3;

impl State {
    pub fn selected(&self) -> Option<&Row> {
        self.shown.rows.get(self.choice.table().selection.index)
    }

    pub(super) fn place(&mut self) {
        let page = self.areas().page();
        self.choice.table_mut().selection.place(&self.shown.rows, page);
    }

    pub(super) fn select(&mut self, index: usize) {
        self.choice.table_mut().selection.select(index, &self.shown.rows);
        self.place();
    }

    pub(super) fn move_by(&mut self, rows: isize) {
        self.select(self.choice.table().selection.index.saturating_add_signed(rows));
    }

    pub(super) fn move_by_pages(&mut self, pages: isize) {
        let page = self.areas().page().saturating_sub(1).max(1);
        self.move_by(pages * page as isize);
    }

    fn hit(&self, x: u16, y: u16) -> Option<Hit> {
        let (offset, rows) = (self.choice.table().selection.offset, self.shown.rows.len());
        hit(&self.areas(), &self.plan().columns, offset, rows, (x, y))
    }

    pub(super) fn mouse_at(&mut self, mouse: Mouse) {
        if self.choice.edit.is_some() {
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
