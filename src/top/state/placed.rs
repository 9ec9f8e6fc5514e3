//! Where what the state holds is on the screen.

use super::State;
use crate::model::Op;
use crate::render::columns::Column;
use crate::top::cells::Format;
use crate::top::layout::{self, Areas, Geometry, Plan, max_stuck_lines};
use crate::top::overlay::{self, Topic};
use crate::top::palette::Ink;
use crate::top::stuck::{self, Stuck};

impl State {
    pub(crate) fn areas(&self) -> Areas {
        layout::areas(&Geometry {
            size: self.size,
            view: self.choice.view,
            details: self.choice.details,
            rows: self.shown.rows.len(),
            stuck_lines: self.stuck_lines().len(),
        })
    }

    /// All columns of this view, those for which there is no room as well.
    pub fn columns(&self) -> Vec<Column> {
        // Kept for a row that has written before: a column that comes and goes with each interval cannot be
        // read.
        let is_written =
            self.shown.rows.iter().any(|row| row.op().is_some_and(Op::writes) || row.stats.bytes > 0);
        self.choice.view.columns(self.servers().len() > 1, self.choice.cumulative, is_written)
    }

    pub fn format(&self) -> Format<'_> {
        let figures = self.shown.figures.as_ref();
        Format {
            view: self.choice.view,
            units: self.choice.units,
            style: self.style,
            over: figures.map(|figures| figures.m.span.duration).unwrap_or_default(),
            stuck_after: self.options.stuck_after,
            servers: self.shown.servers(),
        }
    }

    /// The columns and cells that are seen.
    pub fn plan(&self) -> Plan {
        let areas = self.areas();
        let (table, rows) = (self.choice.table(), &self.shown.rows);
        let first = table.selection.offset.min(rows.len());
        let end = (first + areas.page()).min(rows.len());
        let room = usize::from(areas.rows.width);
        layout::plan(&self.format(), &self.columns(), &rows[first..end], first, table.sort, room)
    }

    /// Stuck syncs with all that is known of each.
    pub(crate) fn stuck_in_detail(&self) -> Vec<Stuck> {
        let several = self.servers().len() > 1;
        let stuck = self.stuck().into_iter().map(|sync| Stuck {
            waiting: self.waits.of(sync.tid).cloned(),
            server: several.then(|| self.server_name(sync.server)),
            sync,
        });
        stuck.collect()
    }

    /// The lines about stuck syncs above the table.
    pub(crate) fn stuck_lines(&self) -> Vec<String> {
        let columns = usize::from(self.size.0);
        stuck::all(&self.stuck_in_detail(), &self.style, columns, max_stuck_lines(self.size))
    }

    /// The lines that cover the table; none if nothing does.
    pub(crate) fn overlay_lines(&self) -> Vec<(String, Ink)> {
        let columns = usize::from(self.size.0);
        match self.overlay.map(|overlay| overlay.topic) {
            None => Vec::new(),
            Some(Topic::Help) => overlay::help(&self.style, columns),
            Some(Topic::Stacks) => {
                let of_anybody = self.record.latest.as_ref().is_some_and(|latest| latest.setup.of_anybody);
                overlay::stacks(&self.stuck_in_detail(), of_anybody, &self.style, columns)
            }
        }
    }
}
