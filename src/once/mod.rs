//! `fsynctop once`: one measurement as a table with a reading, a histogram, JSON or CSV. Everything here is
//! made from a [`Interval`] alone, so a recording renders as a live interval does.

use std::io::{self, Write};

use crate::model::Interval;
use crate::recording::Troubles;
use crate::render::{Options, Output, json};

mod csv;
mod incidents;
mod table;
pub(crate) mod timeline;

/// What went wrong in all of a series, below its tables. `last`: the last measurement of it.
pub(crate) fn series(session: &Troubles, last: &Interval, options: &Options) -> String {
    let mut text = String::from("\n");
    table::session(&mut text, session, last, options);
    options.style.finish(text)
}

/// Writes one measurement. Call it once per interval, with [`Options::interval`] counting up.
pub fn render(measurement: &Interval, options: &Options, out: &mut impl Write) -> io::Result<()> {
    match options.output {
        Output::Table => out.write_all(options.style.finish(table::table(measurement, options)).as_bytes()),
        Output::Json => {
            let mut object = match options.limit {
                None => json::of(measurement),
                Some(limit) => json::limited(measurement, options, limit),
            };
            object.verdicts.clone_from(&options.verdicts);
            json::write_visible(&object, out)
        }
        Output::Csv => csv::write(measurement, options, out),
    }
}
