//! The cells of a row for programs: the columns of CSV, and of tables that are exported. Names are escaped as
//! in the table for people, so that every record is one line.

use std::fmt;
use std::time::SystemTime;

use super::By;
use super::row::{About, File, Row, nameless_file, path_bytes};
use super::rows::max_ns;
use crate::model::figures::{Figure, Value};
use crate::model::{Interval, Op, Server, ServerId, Target};
use crate::text::{errno, escape, length, rfc3339, seconds};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// The row has no such figure or name.
    Absent,
    Text(String),
    Count(u64),
    Number(f64),
    Flag(bool),
    Time(SystemTime),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Absent => Ok(()),
            Cell::Text(text) => f.write_str(text),
            Cell::Count(n) => n.fmt(f),
            Cell::Number(number) => number.fmt(f),
            Cell::Flag(flag) => flag.fmt(f),
            Cell::Time(time) => f.write_str(&rfc3339(*time)),
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Start,
    End,
    Duration,
    Pid,
    Comm,
    Role,
    File,
    Open,
    Device,
    Filesystem,
    Inode,
    Generation,
    Thread,
    Tid,
    Op,
    Figure(Figure),
    Via,
    Host,
    ServerName,
    Engine,
}

fn subject(by: By) -> &'static [Field] {
    use Field::*;
    match by {
        By::Role => &[Role],
        By::File | By::Writes => &[Role, File, Open, Device, Filesystem, Inode, Generation],
        By::Thread => &[Thread, Tid],
        By::Server => &[],
    }
}

/// In the order in which they were introduced, since some read columns by their number.
pub(crate) fn fields(by: By) -> Vec<Field> {
    let mut fields = vec![Field::Start, Field::End, Field::Duration, Field::Pid, Field::Comm];
    fields.extend(subject(by));
    fields.push(Field::Op);
    for &figure in Figure::ALL.iter().filter(|figure| !figure.line().csv.is_empty()) {
        match figure {
            Figure::Completion => {
                fields.extend([Field::Via, Field::Figure(figure), Field::Host, Field::ServerName]);
            }
            _ => fields.push(Field::Figure(figure)),
        }
    }
    fields
}

impl Field {
    /// `operations`: what the rows count.
    pub(crate) fn name(self, operations: &str) -> String {
        let name = match self {
            Field::Start => "start",
            Field::End => "end",
            Field::Duration => "duration_seconds",
            Field::Pid => "pid",
            Field::Comm => "comm",
            Field::Role => "role",
            Field::File => "file",
            Field::Open => "open",
            Field::Device => "device",
            Field::Filesystem => "filesystem",
            Field::Inode => "inode",
            Field::Generation => "generation",
            Field::Thread => "thread",
            Field::Tid => "tid",
            Field::Op => "op",
            Field::Figure(figure) => return figure.line().csv.replace("syncs", operations),
            Field::Via => "via",
            Field::Host => "host",
            Field::ServerName => "server_name",
            Field::Engine => "engine",
        };
        name.into()
    }

    pub(crate) fn cell(self, row: &Row, m: &Interval) -> Cell {
        let server = || row.server().and_then(|id| m.server(id));
        let of_server = |text: fn(&Server) -> Option<&str>| {
            server().and_then(|server| text(server)).map_or(Cell::Absent, |text| name(text.as_bytes()))
        };
        match self {
            Field::Start => Cell::Time(m.span.start),
            Field::End => Cell::Time(m.span.end),
            Field::Duration => Cell::Number(length(m.span.duration)),
            Field::Pid => Cell::Count(row.server().unwrap_or(ServerId::NONE).pid.into()),
            Field::Comm => of_server(|server| Some(&server.comm)),
            Field::Role => row.role().map_or(Cell::Absent, |role| Cell::Text(role.name().into())),
            Field::Thread => match &row.about {
                About::Thread(thread) => name(thread.as_bytes()),
                _ => Cell::Absent,
            },
            Field::Tid => row.key.tid().map_or(Cell::Absent, |tid| Cell::Count(tid.into())),
            Field::Op => Cell::Text(row.op().map_or("", Op::what).into()),
            Field::Figure(figure) => figure_cell(row.figure(figure, m.span.duration)),
            Field::Via => Cell::Text(row.op().map_or("", |op| op.via().name()).into()),
            Field::Host => name(m.setup.host.as_bytes()),
            // It is plain text already.
            Field::ServerName => server().map_or(Cell::Absent, |server| Cell::Text(no_formula(&server.name))),
            Field::Engine => of_server(|server| Some(server.engine.as_deref()?.name.as_str())),
            Field::File
            | Field::Open
            | Field::Device
            | Field::Filesystem
            | Field::Inode
            | Field::Generation => {
                match &row.about {
                    About::File(file) => self.of_file(file),
                    // Of a role whose files are not kept apart.
                    _ if self == Field::File => Cell::Text("(other files)".into()),
                    _ => Cell::Absent,
                }
            }
        }
    }

    fn of_file(self, File { target, info, .. }: &File) -> Cell {
        let id = if let Target::File(id) = target { Some(id) } else { None };
        let optional = |text: Option<&str>| text.map_or(Cell::Absent, |text| name(text.as_bytes()));
        match self {
            Field::File => match (nameless_file(*target, info), &info.path) {
                (Some(nameless), _) => Cell::Text(nameless),
                (None, path) => path.as_deref().map_or(Cell::Absent, |path| name(path_bytes(path))),
            },
            Field::Open => Cell::Flag(info.open),
            Field::Device => optional(info.device.as_deref()),
            Field::Filesystem => optional(info.filesystem.as_deref()),
            Field::Inode => id.map_or(Cell::Absent, |id| Cell::Count(id.inode)),
            Field::Generation => id.map_or(Cell::Absent, |id| Cell::Count(id.generation.into())),
            _ => Cell::Absent,
        }
    }
}

fn figure_cell(value: Value) -> Cell {
    match value {
        Value::Absent => Cell::Absent,
        Value::Count(n) | Value::Bytes(n) => Cell::Count(n),
        Value::Rate(_, over) if over.is_zero() => Cell::Absent,
        Value::Rate(n, over) => Cell::Number(n as f64 / over.as_secs_f64()),
        Value::Time(ns) | Value::Quantile(_, ns, _) => Cell::Number(seconds(ns)),
        Value::Mean(sum, n) => Cell::Number(seconds(sum / n)),
        Value::Max(max) => max_ns(max).map_or(Cell::Absent, |ns| Cell::Number(seconds(ns))),
        Value::InFlight(mean) => Cell::Number(mean),
        Value::Errors(errors) => Cell::Count(errors.total()),
        Value::ErrorNames(errors) => {
            let each: Vec<String> =
                errors.iter().map(|(&number, n)| format!("{}={n}", errno(number))).collect();
            Cell::Text(each.join(" "))
        }
        Value::Flag(flag) => Cell::Flag(flag),
        Value::Word(word) => Cell::Text(word.into()),
    }
}

/// An escaped name, which a spreadsheet does not take for a formula.
fn name(bytes: &[u8]) -> Cell {
    Cell::Text(no_formula(&escape(bytes)))
}

fn no_formula(escaped: &str) -> String {
    match escaped.bytes().next() {
        Some(first @ (b'=' | b'+' | b'-' | b'@')) => format!("\\x{first:02x}{}", &escaped[1..]),
        _ => escaped.to_owned(),
    }
}
