//! What was in flight at the end of a recorded interval: as much of the table as was recorded.

use crate::model::{InFlight, Interval};
use crate::render::grid::{Align, Cell, Column, layout};
use crate::render::header;
use crate::render::{Paint, Style};
use crate::text::{absence, duration_in_words, rfc3339};
use crate::threads::MIN_HANG;

const fn column(title: &'static str, drop_at: Option<u8>) -> Column {
    Column { title, align: Align::Left, roomy: 0, drop_at, flexible: false }
}

const COLUMNS: [Column; 6] = [
    Column { align: Align::Right, ..column("FOR", None) },
    column("SERVER", Some(2)),
    column("CALL", Some(1)),
    column("ROLE", None),
    column("WAITS FOR", Some(0)),
    Column { flexible: true, ..column("FILE", None) },
];

fn unknown() -> String {
    "–".to_owned()
}

fn age(sync: &InFlight) -> String {
    let least = if sync.age_is_minimum { "≥ " } else { "" };
    format!("{least}{}", duration_in_words(u64::try_from(sync.age.as_nanos()).unwrap_or(u64::MAX)))
}

/// The table, or a sentence if it would be empty.
pub fn recorded(m: &Interval, style: &Style) -> String {
    let at = rfc3339(m.span.end).get(..19).unwrap_or_default().replace('T', " ");
    let mut stuck: Vec<&InFlight> = m.in_flight.iter().collect();
    stuck.sort_by_key(|sync| std::cmp::Reverse(sync.age));
    let row = |sync: &&InFlight| -> Vec<Cell> {
        let paint = if sync.age >= MIN_HANG { Paint::Stuck } else { Paint::Plain };
        let path = sync.path.as_ref().map(|path| style.name(path.as_os_str().as_encoded_bytes()));
        vec![
            Cell { text: age(sync), paint, ..Cell::default() },
            header::name(m, sync.server, style).into(),
            sync.op.name().to_owned().into(),
            sync.role.name().to_owned().into(),
            sync.waits_for.as_ref().map_or_else(unknown, |wait| style.escaped_name(wait)).into(),
            path.unwrap_or_else(unknown).into(),
        ]
    };
    let mut text = match stuck.is_empty() {
        true => format!("{}.\n", absence::in_flight_then(&m.lost)),
        false => layout(&COLUMNS, &stuck.iter().map(row).collect::<Vec<_>>(), style),
    };
    text.push_str(&format!("As recorded at {at} UTC, the oldest of each role.\n"));
    style.finish(text)
}
