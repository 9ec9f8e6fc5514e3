//! One question, and the rows of its answer as text (a simple query).

use std::time::Instant;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, Message};
use postgres_protocol::message::frontend;

use super::messages::{Error, Messages, Rows};

/// The widest that is asked for has two.
const COLUMNS: usize = 16;
/// A version has some hundred counters.
const ROWS: usize = 4_096;
/// What a server may say beside rows.
const OTHERS: usize = 256;

pub(super) fn query(
    messages: &mut Messages,
    question: &str,
    until: Instant,
    limit: u64,
) -> Result<Rows, Error> {
    messages.allow(until, limit);
    let mut request = BytesMut::new();
    frontend::query(question, &mut request)?;
    messages.send(&request)?;
    let mut rows = Rows::new();
    let mut refusal = None;
    let mut others = 0;
    loop {
        match messages.next()? {
            Message::DataRow(_) if rows.len() == ROWS => {
                return Err(Error::Broken(format!(
                    "the server sent more than {ROWS} rows where none has as many"
                )));
            }
            Message::DataRow(body) => {
                rows.push(row(&body)?);
                continue;
            }
            Message::ReadyForQuery(_) => return refusal.map_or(Ok(rows), Err),
            // The server goes on until it is ready for another question.
            Message::ErrorResponse(body) => refusal = Some(Error::of_server(body.fields())),
            Message::RowDescription(_)
            | Message::CommandComplete(_)
            | Message::NoticeResponse(_)
            | Message::ParameterStatus(_) => {}
            _ => return Err(Error::broken("the server answered a question with something else")),
        }
        others += 1;
        if others == OTHERS {
            return Err(Error::broken("the server says everything but its answer"));
        }
    }
}

fn row(body: &DataRowBody) -> Result<Vec<String>, Error> {
    let text = |range: Option<std::ops::Range<usize>>| {
        let bytes = range.and_then(|range| body.buffer().get(range)).unwrap_or_default();
        Ok(String::from_utf8_lossy(bytes).into_owned())
    };
    let mut values = Vec::new();
    let mut ranges = body.ranges().map(text);
    let bad = |_| Error::broken("the server sent a row that does not end with its last value");
    while let Some(value) = ranges.next().map_err(bad)? {
        if values.len() == COLUMNS {
            return Err(Error::Broken(format!("the server's answer has more than {COLUMNS} columns")));
        }
        values.push(value);
    }
    Ok(values)
}
