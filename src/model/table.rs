//! The rows of one kind of an interval, and what can be done with rows of any kind.

use std::ops::{Deref, DerefMut};

/// A row that says something of a span of time, about what its key names.
pub trait Row: Clone {
    type Key: Ord;

    fn key(&self) -> Self::Key;

    /// Takes in a row of the same time.
    fn add(&mut self, other: Self);

    /// Takes in the row of the time that follows.
    fn append(&mut self, later: Self) {
        self.add(later);
    }

    /// Makes this the row of a longer time, at whose end there was nothing to say of its key.
    fn close(&mut self) {}
}

/// Rows in the order of their keys, one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<R>(Vec<R>);

impl<R: Row> Table<R> {
    /// Adds the row to that of its key.
    pub fn push(&mut self, row: R) {
        match self.0.binary_search_by_key(&row.key(), R::key) {
            Ok(at) => self.0[at].add(row),
            Err(at) => self.0.insert(at, row),
        }
    }

    /// Takes in the rows of the time that follows.
    pub fn append(&mut self, later: Table<R>) {
        let mut earlier = std::mem::take(&mut self.0).into_iter().peekable();
        let closed = |mut row: R| {
            row.close();
            row
        };
        for row in later.0 {
            let key = row.key();
            while let Some(before) = earlier.next_if(|before| before.key() < key) {
                self.0.push(closed(before));
            }
            match earlier.next_if(|before| before.key() == key) {
                Some(mut both) => {
                    both.append(row);
                    self.0.push(both);
                }
                None => self.0.push(row),
            }
        }
        self.0.extend(earlier.map(closed));
    }

    /// Keeps the rows at the indexes `kept`. The others are added up in rows that stand for many: `rest`
    /// makes the one that a row becomes a part of. No sum over all rows changes.
    #[must_use]
    pub fn limit(&self, kept: &[usize], rest: impl Fn(&R) -> R) -> Table<R> {
        let mut is_kept = vec![false; self.0.len()];
        kept.iter().for_each(|&at| is_kept[at] = true);
        self.0.iter().zip(is_kept).map(|(row, kept)| if kept { row.clone() } else { rest(row) }).collect()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[cfg(test)]
    pub fn truncate(&mut self, most: usize) {
        self.0.truncate(most);
    }

    pub fn retain(&mut self, wanted: impl FnMut(&R) -> bool) {
        self.0.retain(wanted);
    }
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Table(Vec::new())
    }
}

/// In any order, and with several rows of one key.
impl<R: Row> FromIterator<R> for Table<R> {
    fn from_iter<T: IntoIterator<Item = R>>(rows: T) -> Self {
        let mut all = Vec::from_iter(rows);
        all.sort_by_key(R::key);
        let mut table: Vec<R> = Vec::with_capacity(all.len());
        for row in all {
            match table.last_mut() {
                Some(last) if last.key() == row.key() => last.add(row),
                _ => table.push(row),
            }
        }
        Table(table)
    }
}

impl<R: Row> From<Vec<R>> for Table<R> {
    fn from(rows: Vec<R>) -> Self {
        rows.into_iter().collect()
    }
}

impl<R> From<Table<R>> for Vec<R> {
    fn from(table: Table<R>) -> Vec<R> {
        table.0
    }
}

impl<R: Row> Extend<R> for Table<R> {
    fn extend<T: IntoIterator<Item = R>>(&mut self, rows: T) {
        rows.into_iter().for_each(|row| self.push(row));
    }
}

impl<R> Deref for Table<R> {
    type Target = [R];

    fn deref(&self) -> &[R] {
        &self.0
    }
}

/// For what is no part of a row's key.
impl<R> DerefMut for Table<R> {
    fn deref_mut(&mut self) -> &mut [R] {
        &mut self.0
    }
}

impl<R> IntoIterator for Table<R> {
    type Item = R;
    type IntoIter = std::vec::IntoIter<R>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, R> IntoIterator for &'a Table<R> {
    type Item = &'a R;
    type IntoIter = std::slice::Iter<'a, R>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, R> IntoIterator for &'a mut Table<R> {
    type Item = &'a mut R;
    type IntoIter = std::slice::IterMut<'a, R>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

impl<R: PartialEq, const N: usize> PartialEq<[R; N]> for Table<R> {
    fn eq(&self, other: &[R; N]) -> bool {
        self.0 == other
    }
}
