//! The selection: a row that stays selected while its place changes.

use crate::render::row::{Key, Row};

#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    /// The row's key. None: whatever comes first.
    pub(super) key: Option<Key>,
    /// The place where it is, or was last.
    pub index: usize,
    /// The number of rows above the screen.
    pub offset: usize,
}

impl Selection {
    /// Finds the selected row at its new place and brings it on the screen, which has so many rows.
    pub(super) fn place(&mut self, rows: &[Row], page: usize) {
        let index = match &self.key {
            None => Some(0),
            Some(key) => rows.iter().position(|row| row.key == *key),
        };
        // A row that has gone is expected back; until then what has its place is selected.
        self.index = index.unwrap_or(self.index).min(rows.len().saturating_sub(1));
        let first = (self.index + 1).saturating_sub(page);
        self.offset = self.offset.clamp(first, self.index).min(rows.len().saturating_sub(page).max(first));
    }

    pub(super) fn select(&mut self, index: usize, rows: &[Row]) {
        self.index = index.min(rows.len().saturating_sub(1));
        self.key = rows.get(self.index).map(|row| row.key.clone());
    }
}
