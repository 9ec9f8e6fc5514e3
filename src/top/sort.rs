//! The order of rows.

use std::cmp::{Ordering, Reverse};

use super::rows::{About, Row};
use super::view::{Column, Sort};
use crate::render::rows::p99;

impl Sort {
    /// Rows that are equal in the column keep one order: by what they stand for.
    pub(crate) fn apply(self, rows: &mut [Row]) {
        rows.sort_by(|a, b| a.natural_order(b));
        match self.column {
            Column::Name | Column::Graph => {}
            Column::Time => self.descending(rows, Row::time),
            Column::Server => self.ascending(rows, Row::server),
            Column::Tid => self.ascending(rows, |row| row.key.tid()),
            Column::Role => self.ascending(rows, |row| row.role),
            Column::Op => self.ascending(rows, |row| row.op),
            Column::Device => self.by_device(rows),
            Column::Shared => self.descending(rows, |row| row.shared),
            Column::Syncs | Column::Rate => self.descending(rows, |row| row.stats.all()),
            Column::Mean => self.descending(rows, |row| row.stats.mean_ns()),
            Column::P50 => self.descending(rows, |row| row.stats.quantile_ns(0.5)),
            // As shown: below a hundred syncs there is none.
            Column::P99 => self.descending(rows, |row| p99(&row.stats)),
            Column::Max => self.descending(rows, |row| row.stats.max.ns),
            Column::Busy => {
                let is_serial = |row: &Row| row.role.is_some_and(|role| role.is_serial());
                self.descending(rows, |row| is_serial(row).then_some((row.oldest, row.stats.sum_ns)));
            }
            Column::Flight => self.descending(rows, |row| (row.oldest, row.stats.sum_ns)),
            Column::Errors => self.descending(rows, |row| row.stats.error_count()),
            Column::Bytes => self.descending(rows, |row| row.stats.bytes),
        }
        if self.column == Column::Name && self.reverse {
            rows.reverse();
        }
    }

    fn ascending<K: Ord>(self, rows: &mut [Row], key: impl Fn(&Row) -> K) {
        if self.reverse {
            rows.sort_by_cached_key(|row| Reverse(key(row)));
        } else {
            rows.sort_by_cached_key(key);
        }
    }

    fn descending<K: Ord>(self, rows: &mut [Row], key: impl Fn(&Row) -> K) {
        Sort { reverse: !self.reverse, ..self }.ascending(rows, key);
    }

    fn by_device(self, rows: &mut [Row]) {
        let device = |row: &Row| match &row.about {
            About::Neighbour { device, .. } => device.clone(),
            _ => String::new(),
        };
        self.ascending(rows, device);
    }
}

impl Row {
    /// The newest first; then by name, and by what tells two rows of one name apart.
    fn natural_order(&self, other: &Row) -> Ordering {
        let by_time = other.time().cmp(&self.time());
        if by_time.is_ne() {
            return by_time;
        }
        (self.key.server(), self.name_order())
            .cmp(&(other.key.server(), other.name_order()))
            .then_with(|| self.key.cmp(&other.key))
    }
}
