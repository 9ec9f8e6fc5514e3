//! One question, and the rows of its answer as text (COM_QUERY). Numbers that the server says are compared
//! with limits before anything is done with them.

use std::time::Instant;

use mysql_common::constants::Command;
use mysql_common::io::ParseBuf;

use super::packets::{Error, Packets, Rows};

/// The widest that is asked for has three.
const COLUMNS: u64 = 16;
/// Servers have between five hundred and two thousand variables.
const ROWS: usize = 20_000;
/// An end of rows is a short packet; one of a row that begins with this byte is long.
const END_BYTES: usize = 9;

pub fn query(packets: &mut Packets, question: &str, until: Instant, limit: u64) -> Result<Rows, Error> {
    packets.0.get_mut().allow(until, limit);
    let codec = packets.0.codec_mut();
    codec.reset_seq_id();
    codec.max_allowed_packet = usize::try_from(limit).unwrap_or(usize::MAX);
    packets.send(&[&[Command::COM_QUERY as u8], question.as_bytes()].concat())?;

    let first = packets.next()?;
    match first[0] {
        0x00 => return Ok(Rows::new()),
        0xff => return Err(Error::of_server(&first)),
        0xfb => return Err(Error::broken("the server asks for a file of this host, which it does not get")),
        _ => {}
    }
    let columns = ParseBuf(&first).checked_eat_lenenc_int().unwrap_or_default();
    if !(1..=COLUMNS).contains(&columns) {
        return Err(Error::Broken(format!(
            "the server's answer has {columns} columns, where at most {COLUMNS} can be"
        )));
    }
    // Their names and types; and an end.
    for _ in 0..=columns {
        let packet = packets.next()?;
        if packet[0] == 0xff {
            return Err(Error::of_server(&packet));
        }
    }
    let mut rows = Rows::new();
    loop {
        let packet = packets.next()?;
        match packet[0] {
            0xff => return Err(Error::of_server(&packet)),
            0xfe if packet.len() < END_BYTES => return Ok(rows),
            _ if rows.len() == ROWS => {
                return Err(Error::Broken(format!(
                    "the server sent more than {ROWS} rows where none has as many"
                )));
            }
            _ => rows.push(row(&packet, columns)?),
        }
    }
}

fn row(packet: &[u8], columns: u64) -> Result<Vec<String>, Error> {
    let mut rest = ParseBuf(packet);
    let mut value = || {
        match rest.0.first()? {
            0xfb => rest.checked_eat(1).map(|_| String::new()), // NULL
            0xff => None,                                       // no length begins so
            _ => Some(String::from_utf8_lossy(rest.checked_eat_lenenc_str()?).into_owned()),
        }
    };
    let values: Option<Vec<_>> = (0..columns).map(|_| value()).collect();
    values.ok_or_else(|| Error::broken("the server sent a row that ends inside a value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_values_as_text_and_null_is_nothing() {
        assert_eq!(row(b"\x01a\xfb\x00\x02bc", 4).unwrap(), ["a", "", "", "bc"]);
        for cut in [&b"\x01a"[..], b"\x01a\x05bc", b"\x01a\xfd\xff\xff\xff", b"\x01a\xff"] {
            assert!(row(cut, 2).is_err(), "{cut:?}");
        }
    }
}
