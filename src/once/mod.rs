//! `fsynctop once`: one measurement as a table with a reading, a histogram, JSON or CSV. Everything here is
//! made from a [`Measurement`] alone, so a recording renders as a live interval does.

use std::io::{self, Write};

use crate::model::Measurement;
use crate::render::{Options, Output, json};

mod csv;
mod table;
pub(crate) mod timeline;
mod worst;

/// Writes one measurement. Call it once per interval, with [`Options::interval`] counting up.
pub fn render(measurement: &Measurement, options: &Options, out: &mut impl Write) -> io::Result<()> {
    match options.output {
        Output::Table => out.write_all(options.style.finish(table::table(measurement, options)).as_bytes()),
        Output::Json => match options.limit {
            None => json::write(measurement, out),
            Some(limit) => json::write_visible(&json::limited(measurement, options, limit), out),
        },
        Output::Csv => csv::write(measurement, options, out),
    }
}
