//! What a measurement is drawn as.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use super::Style;
use super::columns::{Shown, Sort};
use crate::recording::Troubles;
use crate::verdict::OfServer;

/// What a row of the table stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    #[default]
    Role,
    File,
    /// Each thread that syncs
    Thread,
    Server,
    /// Each file that is written, with the bytes; watches all writes (--writes all)
    Writes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    #[default]
    Table,
    /// One object per interval, on one line; docs/json.md.
    Json,
    Csv,
}

/// How to render. The default is a table by role for a pipe.
#[derive(Clone, Debug)]
pub struct Options {
    pub by: By,
    /// None: roles in their own order, servers by pid, files and threads by the time spent in syncs.
    pub sort: Option<Sort>,
    /// The columns of a table, in this order. Empty: all, as far as there is room.
    pub columns: Vec<Shown>,
    pub output: Output,
    /// Draw the latencies, per role and operation; in a table only.
    pub histogram: bool,
    pub style: Style,
    /// At most so many rows of a table or an interval of a CSV, and so many files and threads in JSON. What a
    /// table or JSON leave out is said there. None: all of them.
    pub limit: Option<usize>,
    /// A sync in flight for at least this long is shown as stuck.
    pub stuck_after: Duration,
    /// Which interval of a series this is, from 0; None for a single one. The first of a CSV brings the
    /// column names.
    pub interval: Option<usize>,
    /// Of all of the session of which this is the last part: judged in the end instead of this measurement
    /// alone.
    pub session: Option<Arc<Troubles>>,
    /// A path in a sentence has at most so many columns. None: all of it.
    pub longest_path: Option<usize>,
    /// Processes that an exporter knows to be failing, whatever is measured now.
    pub failing: Vec<u32>,
    /// For JSON, where verdicts were asked for.
    pub verdicts: Option<Vec<OfServer>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            by: By::Role,
            sort: None,
            columns: Vec::new(),
            output: Output::Table,
            histogram: false,
            style: Style::default(),
            limit: None,
            stuck_after: Duration::from_secs(1),
            interval: None,
            session: None,
            longest_path: None,
            failing: Vec::new(),
            verdicts: None,
        }
    }
}
