//! The views of the table, their columns, and by which of them each is sorted.

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum View {
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
        use Column::*;
        let mut columns = match self {
            View::Log => vec![Time],
            _ => Vec::new(),
        };
        if servers && !matches!(self, View::Server | View::Neighbour) {
            columns.push(Server);
        }
        columns.extend(match self {
            View::Role => &[Name, Op][..],
            View::File | View::Write => &[Name, Role, Op],
            View::Thread => &[Name, Tid, Op],
            View::Server => &[Name],
            View::Neighbour => &[Name, Device, Shared],
            View::Log => &[Max, Errors, Role, Op, Name],
        });
        if self == View::Log {
            return columns;
        }
        if cumulative {
            columns.push(Syncs);
        }
        columns.push(Rate);
        columns.extend((self == View::Write).then_some(Bytes));
        columns.push(Mean);
        if self != View::Thread {
            // No histogram is kept of a thread.
            columns.extend([P50, P99]);
        }
        columns.push(Max);
        if matches!(self, View::Role | View::File) {
            columns.push(Busy);
        }
        columns.extend([Flight, Errors]);
        columns.extend((bytes && !matches!(self, View::Neighbour | View::Write)).then_some(Bytes));
        columns.push(Graph);
        columns
    }

    pub fn sort(self) -> Sort {
        let column = match self {
            View::Role | View::Server => Column::Name,
            View::File | View::Thread | View::Neighbour => Column::Flight,
            View::Log => Column::Time,
            View::Write => Column::Bytes,
        };
        Sort { column, reverse: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    Time,
    Server,
    Name,
    Tid,
    Device,
    Shared,
    Role,
    Op,
    Syncs,
    Rate,
    Mean,
    P50,
    P99,
    Max,
    /// Of a log that the server syncs one call at a time: the share of the time.
    Busy,
    /// The mean number of syncs, or of writes.
    Flight,
    Errors,
    /// What was written: by durable writes, or by all.
    Bytes,
    Graph,
}

impl Column {
    pub fn title(self, view: View) -> &'static str {
        match (self, view) {
            (Column::Time, _) => "TIME",
            (Column::Server, _) => "SERVER",
            (Column::Name, View::Role) => "ROLE",
            (Column::Name, View::File | View::Write | View::Log) => "FILE",
            (Column::Name, View::Thread) => "THREAD",
            (Column::Name, View::Server) => "SERVER",
            (Column::Name, View::Neighbour) => "COMMAND",
            (Column::Tid, _) => "TID",
            (Column::Device, _) => "DEVICE",
            (Column::Shared, _) => "SHARED",
            (Column::Role, _) => "ROLE",
            (Column::Op, _) => "OP",
            (Column::Syncs, View::Write) => "WRITES",
            (Column::Syncs, _) => "SYNCS",
            (Column::Rate, _) => "/s",
            (Column::Mean, _) => "MEAN",
            (Column::P50, _) => "P50",
            (Column::P99, _) => "P99",
            (Column::Max, View::Log) => "TOOK",
            (Column::Max, _) => "MAX",
            (Column::Busy, _) => "BUSY",
            (Column::Flight, _) => "IN FLIGHT",
            (Column::Errors, _) => "ERRORS",
            (Column::Bytes, _) => "BYTES/s",
            (Column::Graph, _) => "",
        }
    }

    pub(crate) fn is_figure(self) -> bool {
        use Column::*;
        matches!(self, Tid | Syncs | Rate | Mean | P50 | P99 | Max | Busy | Flight | Errors | Bytes)
    }

    pub(crate) fn sorts(self) -> bool {
        self != Column::Graph
    }

    /// Left out when there is no room, the lowest first. None: never. The server becomes short instead.
    pub(crate) fn drop_at(self, view: View) -> Option<u8> {
        match self {
            Column::Mean => Some(1),
            Column::Bytes if view == View::Write => None,
            Column::P50 | Column::Bytes => Some(2),
            Column::Op if matches!(view, View::File | View::Write) => Some(3),
            Column::Syncs => Some(4),
            Column::Device | Column::Op => Some(5),
            Column::Graph => Some(6),
            Column::Shared | Column::Role => Some(7),
            Column::Tid | Column::Rate => Some(8),
            Column::Server | Column::Busy => Some(9),
            Column::Flight => Some(10),
            Column::Errors if view != View::Log => Some(11),
            _ => None,
        }
    }
}

/// Figures the greatest first, text in its own order; `reverse`: the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    pub column: Column,
    pub reverse: bool,
}
