//! systemd's journal, by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram of fields for
//! each entry. It never waits: a journal that is too slow loses lines, and they are counted.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::Line;

const SOCKET: &str = "/run/systemd/journal/socket";

pub(crate) struct Journal {
    socket: UnixDatagram,
    /// Each entry names it: the journal may be restarted, and then has another socket of that name.
    path: PathBuf,
}

impl Journal {
    pub fn open() -> io::Result<Journal> {
        Journal::at(Path::new(SOCKET))
    }

    fn at(path: &Path) -> io::Result<Journal> {
        // Whether there is one.
        UnixDatagram::unbound()?.connect(path)?;
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Journal { socket, path: path.to_owned() })
    }

    /// `json`: the whole line.
    pub fn send(&self, line: &Line, json: &str) -> io::Result<()> {
        let message = match &line.server {
            Some(server) => format!("{server}: {}", line.sentence),
            None => line.sentence.clone(),
        };
        let mut entry = Vec::new();
        push(&mut entry, "MESSAGE", &message);
        push(&mut entry, "PRIORITY", &line.priority.to_string());
        push(&mut entry, "SYSLOG_IDENTIFIER", "fsynctop");
        push(&mut entry, "FSYNCTOP_EVENT", line.event);
        if let Some(server) = &line.server {
            push(&mut entry, "FSYNCTOP_SERVER", server);
        }
        if let Some(verdict) = &line.verdict {
            push(&mut entry, "FSYNCTOP_STATE", verdict.state.name());
        }
        push(&mut entry, "FSYNCTOP_JSON", json);
        self.socket.send_to(&entry, &self.path).map(|_| ())
    }
}

/// A value with a line's end in it is sent with its length.
fn push(entry: &mut Vec<u8>, field: &str, value: &str) {
    entry.extend_from_slice(field.as_bytes());
    if value.contains('\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value.as_bytes());
    entry.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_one_datagram_of_fields() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let server = UnixDatagram::bind(&path).unwrap();
        let journal = Journal::at(&path).unwrap();
        let line = Line {
            event: "slow",
            server: Some("3306".into()),
            sentence: "An fdatasync took 2.0 s.".into(),
            priority: 4,
            ..Line::default()
        };
        journal.send(&line, "{}").unwrap();
        let mut buffer = [0; 1_024];
        let length = server.recv(&mut buffer).unwrap();
        let expected = "MESSAGE=3306: An fdatasync took 2.0 s.\nPRIORITY=4\nSYSLOG_IDENTIFIER=fsynctop\nFSYNCTOP_EVENT=slow\n\
                        FSYNCTOP_SERVER=3306\nFSYNCTOP_JSON={}\n";
        assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), expected);
        // Nobody reads: it does not wait for whoever should.
        let full = (0..100_000).any(|_| journal.send(&line, "{}").is_err());
        assert!(full, "the socket is never full");
    }

    #[test]
    fn a_value_of_several_lines_has_its_length() {
        let mut entry = Vec::new();
        push(&mut entry, "A", "x\ny");
        assert_eq!(entry, b"A\n\x03\0\0\0\0\0\0\0x\ny\n");
    }
}
