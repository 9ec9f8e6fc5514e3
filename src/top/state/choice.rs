//! What is looked at, and how: what keys and mouse choose.

use super::selection::Selection;
use crate::render::columns::Column;
use crate::render::row::Key;
use crate::top::cells::Units;
use crate::top::filter::Filter;
use crate::top::keys::{EditAction, Press, edit_action};
use crate::top::rows::Scope;
use crate::top::view::{Sort, View};

/// The numbers of intervals in a column of the picture that one can choose.
const EACH: [u32; 5] = [1, 2, 5, 10, 20];
/// A filter is no longer than this.
const LONGEST_FILTER: usize = 200;

/// What the small graphs show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Graph {
    P99,
    Max,
    Rate,
}

impl Graph {
    pub(super) fn next(self) -> Graph {
        match self {
            Graph::P99 => Graph::Max,
            Graph::Max => Graph::Rate,
            Graph::Rate => Graph::P99,
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Graph::P99 => "the 99th percentile",
            Graph::Max => "the maximum",
            Graph::Rate => "syncs per second",
        }
    }
}

/// The filter while it is typed.
#[derive(Clone, Debug)]
pub(crate) struct Edit {
    pub text: String,
    pub is_regex: bool,
    /// The filter as it was before.
    before: Filter,
}

/// What belongs to a grouping.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub sort: Sort,
    pub selection: Selection,
}

#[derive(Debug)]
pub(crate) struct Choice {
    pub view: View,
    tables: [Table; View::ALL.len()],
    pub scope: Scope,
    pub filter: Filter,
    pub edit: Option<Edit>,
    pub units: Units,
    pub graph: Graph,
    /// The number of intervals in a column of the picture.
    pub each: u32,
    pub details: bool,
    /// Figures are those since the start, not those of an interval.
    pub cumulative: bool,
}

impl Choice {
    pub(super) fn new(view: View) -> Choice {
        let table = |view: View| Table { sort: view.sort(), selection: Selection::default() };
        Choice {
            view,
            tables: View::ALL.map(table),
            scope: Scope::default(),
            filter: Filter::default(),
            edit: None,
            units: Units::Fitting,
            graph: Graph::P99,
            each: 1,
            details: true,
            cumulative: false,
        }
    }

    pub fn table(&self) -> &Table {
        &self.tables[self.view as usize]
    }

    pub(super) fn table_mut(&mut self) -> &mut Table {
        &mut self.tables[self.view as usize]
    }

    pub(super) fn show(&mut self, view: View) {
        self.view = view;
        self.scope.role = None;
    }

    /// Shows what is below a row. False: nothing is.
    pub(super) fn open(&mut self, key: &Key) -> bool {
        let (view, server, role) = match *key {
            Key::Server(id, _) => (View::Role, id, None),
            Key::Role(id, role, _) => (View::File, id, Some(role)),
            _ => return false,
        };
        self.view = view;
        self.scope = Scope { server: Some(server), role };
        true
    }

    /// Chosen again, a column sorts the other way round.
    pub(super) fn sort_by(&mut self, column: Column) {
        let sort = &mut self.table_mut().sort;
        sort.reverse = sort.column == column && !sort.reverse;
        sort.column = column;
    }

    /// Draws more time in a column of the picture, or less.
    pub(super) fn change_each(&mut self, step: isize) {
        let at = EACH.iter().position(|each| *each == self.each).unwrap_or(0);
        self.each = EACH[at.saturating_add_signed(step).min(EACH.len() - 1)];
    }

    pub(super) fn edit_filter(&mut self) {
        let before = self.filter.clone();
        self.edit = Some(Edit { text: before.text.clone(), is_regex: before.is_regex, before });
    }

    /// The filter is used as it is typed; Esc brings back what was before.
    pub(super) fn type_filter(&mut self, press: Press) {
        let Some(edit) = &mut self.edit else { return };
        match (edit_action(press), press) {
            (Some(EditAction::Toggle), _) => edit.is_regex = !edit.is_regex,
            (Some(EditAction::Erase), _) => drop(edit.text.pop()),
            (Some(EditAction::Clear), _) => edit.text.clear(),
            (Some(EditAction::Keep), _) => return self.edit = None,
            (Some(EditAction::Undo), _) => {
                self.filter = edit.before.clone();
                return self.edit = None;
            }
            (None, Press::Char(c)) if edit.text.len() < LONGEST_FILTER => edit.text.push(c),
            (None, _) => return,
        }
        self.filter.set(edit.text.clone(), edit.is_regex);
    }
}
