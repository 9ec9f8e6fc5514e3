//! The worst moments of a time line, before its rows: what happened when, to which file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::table;
use crate::history::{What, WorstMoment};
use crate::model::{Errors, Interval, Op, Role};
use crate::render::grid::{Align, Cell, Column, layout};
use crate::render::header::{self, clock};
use crate::render::json::split;
use crate::render::{Options, Paint};
use crate::text::{count, duration, errno, percent, rfc3339};
use crate::text::{length, seconds};

const fn column(title: &'static str, drop_at: Option<u8>) -> Column {
    Column { title, align: Align::Left, roomy: 0, drop_at, flexible: false }
}

/// Empty if nothing happened.
pub(super) fn table(worst: &[WorstMoment], m: &Interval, options: &Options) -> String {
    if worst.is_empty() {
        return String::new();
    }
    let several = m.servers.len() > 1;
    let mut columns = vec![column("WORST, UTC", None), column("WHAT", None)];
    columns.extend(several.then_some(column("SERVER", None)));
    columns.extend([column("ROLE", None), column("OP", Some(0))]);
    columns.push(Column { flexible: true, ..column("FILE", None) });
    let row = |moment: &WorstMoment| {
        let mut cells: Vec<Cell> = vec![clock(moment.span.0).into(), what(&moment.what, options)];
        cells.extend(several.then(|| header::name(m, moment.server, &options.style).into()));
        let path = moment.path.as_ref().map(|path| options.style.name(path.as_os_str().as_encoded_bytes()));
        cells.extend([
            moment.role.name().to_owned().into(),
            moment.op.map_or("–", Op::name).to_owned().into(),
            path.unwrap_or_else(|| "–".to_owned()).into(),
        ]);
        cells
    };
    let rows: Vec<Vec<Cell>> = worst.iter().map(row).collect();
    layout(&columns, &rows, &options.style)
}

fn what(what: &What, options: &Options) -> Cell {
    let long = |is_stuck: bool| if is_stuck { Paint::Stuck } else { Paint::Plain };
    let (text, paint) = match what {
        What::Took(max) => {
            let is_stuck = u128::from(max.ns) >= options.stuck_after.as_nanos();
            (format!("took {}", table::maximum(*max)), long(is_stuck))
        }
        What::InFlight(age) => {
            let ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
            (format!("in flight ≥{}", duration(ns)), long(*age >= options.stuck_after))
        }
        What::Failed(errors) => {
            let each = errors.iter().map(|(&number, &n)| format!("{} {}", count(n), errno(number)));
            (format!("failed: {}", each.collect::<Vec<_>>().join(" ")), Paint::Error)
        }
        What::Busy(share) => (format!("{} busy", percent(*share)), Paint::Plain),
    };
    Cell { text, paint, ..Cell::default() }
}

#[derive(Serialize)]
pub(super) struct JsonMoment {
    what: &'static str,
    start: String,
    end: String,
    pid: u32,
    role: Role,
    op: Option<Op>,
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    #[serde(flatten)]
    figure: JsonFigure,
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonFigure {
    Wait { wait_seconds: Option<f64> },
    Failed { errors: BTreeMap<String, u64> },
    Busy { busy: f64 },
}

pub(super) fn json(moment: &WorstMoment) -> JsonMoment {
    let by_name = |errors: &Errors| errors.iter().map(|(&number, &n)| (errno(number), n)).collect();
    let (what, figure) = match &moment.what {
        What::Took(max) => {
            let wait_seconds = (max.ns < u64::MAX).then(|| seconds(max.ns));
            ("longest", JsonFigure::Wait { wait_seconds })
        }
        What::InFlight(age) => ("in_flight", JsonFigure::Wait { wait_seconds: Some(length(*age)) }),
        What::Failed(errors) => ("failed", JsonFigure::Failed { errors: by_name(errors) }),
        What::Busy(busy) => ("saturated", JsonFigure::Busy { busy: *busy }),
    };
    let (path, path_bytes) = split(moment.path.as_deref());
    JsonMoment {
        what,
        start: rfc3339(moment.span.0),
        end: rfc3339(moment.span.1),
        pid: moment.server.pid,
        role: moment.role,
        op: moment.op,
        path,
        path_bytes,
        figure,
    }
}
