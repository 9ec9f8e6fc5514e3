//! The views of the table: what they are called, their columns, and by which of these each is sorted.

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::model::figures::{Figure, Fit};
use crate::render::By;
use crate::render::columns::Column;
use crate::render::row::{Key, Row};
use crate::render::rows;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
    #[default]
    Role,
    File,
    Thread,
    Server,
    Neighbour,
    Log,
    Write,
}

impl View {
    pub const ALL: [View; 7] =
        [View::Role, View::File, View::Thread, View::Server, View::Neighbour, View::Log, View::Write];

    /// The grouping of a measurement that has the same rows. None: only the live view has them.
    pub fn by(self) -> Option<By> {
        By::value_variants().iter().copied().find(|by| View::from(*by) == self)
    }

    pub fn title(self) -> &'static str {
        match self {
            View::Role => "role",
            View::File => "file",
            View::Thread => "thread",
            View::Server => "server",
            View::Neighbour => "neighbour",
            View::Log => "log",
            View::Write => "Write", // each begins with its key
        }
    }

    /// What its rows count, one of them and several.
    pub(crate) fn counts(self) -> (&'static str, &'static str) {
        match self {
            View::Write => ("write", "writes"),
            _ => ("sync", "syncs"),
        }
    }

    /// `servers`: several are shown. `cumulative`: counts are of more use than rates. `bytes`: there are
    /// durable writes.
    pub fn columns(self, servers: bool, cumulative: bool, bytes: bool) -> Vec<Column> {
        use Column::{Device, Graph, Name, Op, Role, Server, Shared, Tid, Time};
        let mut columns = match self {
            View::Log => vec![Time],
            _ => Vec::new(),
        };
        if servers && !matches!(self, View::Server | View::Neighbour) {
            columns.push(Server);
        }
        let figure = Column::Figure;
        columns.extend(match self {
            View::Role => vec![Name, Op],
            View::File | View::Write => vec![Name, Role, Op],
            View::Thread => vec![Name, Tid, Op],
            View::Server => vec![Name],
            View::Neighbour => vec![Name, Device, Shared],
            View::Log => vec![figure(Figure::Max), figure(Figure::Errors), Role, Op, Name],
        });
        if self == View::Log {
            return columns;
        }
        let is_there = |figure: &Figure| match figure {
            Figure::Syncs => cumulative,
            // Of writes it stands beside their number.
            Figure::Bytes => bytes && !matches!(self, View::Neighbour | View::Write),
            // No histogram is kept of a thread.
            figure if self == View::Thread && figure.line().needs_histogram => false,
            figure => figure.line().live != Fit::Never,
        };
        for one in Figure::by_place().into_iter().filter(is_there) {
            if one == Figure::InFlight && matches!(self, View::Role | View::File) {
                columns.push(Column::Busy);
            }
            columns.push(figure(one));
            if one == Figure::Rate && self == View::Write {
                columns.push(figure(Figure::Bytes));
            }
        }
        columns.push(Graph);
        columns
    }

    pub fn sort(self) -> Sort {
        let column = match self {
            View::Role | View::Server => Column::Name,
            View::File | View::Thread | View::Neighbour => Column::Figure(Figure::InFlight),
            View::Log => Column::Time,
            View::Write => Column::Figure(Figure::Bytes),
        };
        Sort { column, reverse: false }
    }
}

impl ValueEnum for View {
    fn value_variants<'a>() -> &'a [View] {
        &View::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            View::Neighbour => {
                Some(PossibleValue::new("neighbour").help("Other processes that sync, by device"))
            }
            View::Log => Some(PossibleValue::new("log").help("Incidents, syncs that failed, and slow ones")),
            grouping => grouping.by()?.to_possible_value(),
        }
    }
}

impl From<By> for View {
    fn from(by: By) -> View {
        match by {
            By::Role => View::Role,
            By::File => View::File,
            By::Thread => View::Thread,
            By::Server => View::Server,
            By::Writes => View::Write,
        }
    }
}

impl From<&Key> for View {
    fn from(key: &Key) -> View {
        match key {
            Key::Role(..) => View::Role,
            Key::File(..) => View::File,
            Key::Write(..) => View::Write,
            Key::Thread(..) => View::Thread,
            Key::Server(..) => View::Server,
            Key::Neighbour(..) => View::Neighbour,
            Key::Log(_) => View::Log,
        }
    }
}

impl Column {
    pub fn title(self, view: View) -> &'static str {
        match (self, view) {
            (Column::Time, _) => "TIME",
            (Column::Server, _) | (Column::Name, View::Server) => "SERVER",
            (Column::Role, _) | (Column::Name, View::Role) => "ROLE",
            (Column::Name, View::File | View::Write | View::Log) => "FILE",
            (Column::Name, View::Thread) => "THREAD",
            (Column::Name, View::Neighbour) => "COMMAND",
            (Column::Tid, _) => "TID",
            (Column::Device, _) => "DEVICE",
            (Column::Shared, _) => "SHARED",
            (Column::Op, _) => "OP",
            (Column::Figure(Figure::Syncs), View::Write) => "WRITES",
            (Column::Figure(Figure::Max), View::Log) => "TOOK",
            (Column::Figure(Figure::Bytes), _) => "BYTES/s",
            (Column::Figure(figure), _) => figure.line().title,
            (Column::Busy, _) => "BUSY",
            (Column::Graph | Column::Unsynced, _) => "",
        }
    }

    pub(crate) fn is_figure(self) -> bool {
        matches!(self, Column::Tid | Column::Figure(_) | Column::Busy)
    }

    pub(crate) fn sorts(self) -> bool {
        self != Column::Graph
    }

    /// Left out when there is no room, the lowest first. None: never. The server becomes short instead.
    pub(crate) fn drop_at(self, view: View) -> Option<u8> {
        match self {
            Column::Figure(Figure::Bytes) if view == View::Write => None,
            Column::Figure(Figure::Errors) if view == View::Log => None,
            Column::Figure(figure) => match figure.line().live {
                Fit::Until(at) => Some(at),
                Fit::Always | Fit::Never => None,
            },
            Column::Op if matches!(view, View::File | View::Write) => Some(3),
            Column::Device | Column::Op => Some(5),
            Column::Graph => Some(6),
            Column::Shared | Column::Role => Some(7),
            Column::Tid => Some(8),
            Column::Server | Column::Busy => Some(9),
            Column::Time | Column::Name | Column::Unsynced => None,
        }
    }

    /// Its least width: figures of several intervals stay in place.
    pub(crate) fn least(self) -> usize {
        match self {
            Column::Figure(figure) => figure.line().width,
            Column::Busy => "100 %".len(),
            Column::Time => "00:00:00".len(),
            _ => 0,
        }
    }
}

/// Figures the greatest first, text in its own order; `reverse`: the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub reverse: bool,
}

impl Sort {
    pub(crate) fn apply(self, rows: &mut [Row]) {
        rows::sort(rows, self.column, self.reverse);
    }
}
