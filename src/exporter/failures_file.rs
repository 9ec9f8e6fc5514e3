//! The failures that are not over, in a small file beside the history's socket: an exporter that is restarted
//! or upgraded goes on with them. It is opened before the process is confined, and written by a thread of its
//! own, since it may lie on a disk that hangs.
//!
//! The file has two slots, written in turn: whenever the writer is killed, one of them is whole.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::log::Seldom;
use super::socket_directory::{DirectoryError, SocketDirectory};
use crate::linux::PROC;
use crate::linux::blocking::Mailbox;
use crate::server::who::processes;
use crate::verdict::remembered::{MAX_PATH, MAX_SERVERS, Remembered};

const MAGIC: [u8; 8] = *b"fsyncfl2";
const HEADER: usize = MAGIC.len() + 8 + 4 + 4;
/// Room for the most that is remembered: the file is as long as what was written.
const SLOT: u64 = 8 << 20;
const _: () = assert!(MAX_SERVERS * 17 * (MAX_PATH + 64) + HEADER < SLOT as usize);

#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{}: {source}", .path.display())]
    Directory { path: PathBuf, source: DirectoryError },
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// What a slot holds.
#[derive(Debug, Serialize, Deserialize)]
struct Content {
    /// Start times of processes count from the boot.
    boot: String,
    failures: Remembered,
}

/// Where failures are kept from one exporter to the next.
#[derive(Debug)]
pub(crate) struct FailuresFile {
    file: File,
    boot: String,
    sequence: u64,
}

impl FailuresFile {
    /// The file that belongs to a history's socket, and what the exporter before has left there of processes
    /// that still run.
    pub fn open(socket: &Path) -> Result<(FailuresFile, Remembered), FileError> {
        let path = socket.with_extension("failures");
        let failed = |source| FileError::Io { path: path.clone(), source };
        let directory = SocketDirectory::open(&path)
            .map_err(|source| FileError::Directory { path: path.clone(), source })?;
        let mut file = directory.open_file().map_err(failed)?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(failed)?;
        let slots = [0, SLOT].map(|at| read_slot(&mut file, at));
        let newest = slots.into_iter().flatten().max_by_key(|(sequence, _)| *sequence);
        let (sequence, bytes) = newest.unwrap_or_default();
        let content = postcard::from_bytes::<Content>(&bytes).ok().filter(|content| content.boot == boot);
        let mut remembered = content.map(|content| content.failures).unwrap_or_default();
        remembered.servers.retain(|one| {
            let process = processes::find(Path::new(PROC), one.server.pid);
            process.is_some_and(|process| process.start_ticks == processes::start_tick(one.server.start_ns))
        });
        Ok((FailuresFile { file, boot, sequence }, remembered))
    }

    fn write(&mut self, failures: Remembered) -> io::Result<()> {
        let content = Content { boot: self.boot.clone(), failures };
        let body = postcard::to_stdvec(&content).map_err(io::Error::other)?;
        self.sequence += 1;
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&checksum(self.sequence, &body).to_le_bytes());
        bytes.extend_from_slice(&body);
        self.file.seek(SeekFrom::Start(self.sequence % 2 * SLOT))?;
        self.file.write_all(&bytes)
    }

    /// A thread that writes whatever is newest.
    pub fn keep(mut self) -> io::Result<Mailbox<Remembered>> {
        Mailbox::start("failures", move |failures| {
            if let Err(error) = self.write(failures) {
                static SELDOM: Seldom = Seldom::new();
                SELDOM.warn(format_args!("failures will be forgotten with this process: {error}"));
            }
        })
    }
}

fn checksum(sequence: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&sequence.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// The sequence number and the body; None where nothing whole was written.
fn read_slot(file: &mut File, at: u64) -> Option<(u64, Vec<u8>)> {
    file.seek(SeekFrom::Start(at)).ok()?;
    let mut header = [0; HEADER];
    file.read_exact(&mut header).ok()?;
    let (magic, rest) = header.split_first_chunk::<8>()?;
    let (sequence, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (sum, _) = rest.split_first_chunk::<4>()?;
    let (sequence, length) = (u64::from_le_bytes(*sequence), u32::from_le_bytes(*length));
    if *magic != MAGIC || u64::from(length) > SLOT - HEADER as u64 {
        return None;
    }
    let mut body = vec![0; length as usize];
    file.read_exact(&mut body).ok()?;
    (checksum(sequence, &body) == u32::from_le_bytes(*sum)).then_some((sequence, body))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::SystemTime;

    use super::*;
    use crate::model::{Op, Role, ServerId, Target};
    use crate::verdict::remembered::{OfFile, OfServer};

    /// Of this process, which runs.
    fn failing(files: usize) -> Remembered {
        let own = processes::find(Path::new(PROC), std::process::id()).unwrap();
        let start_ns = own.start_ticks * (1_000_000_000 / procfs::ticks_per_second());
        let file = OfFile {
            target: Target::NoFile,
            role: Role::Binlog,
            path: Some(b"/d/binlog.\xff".to_vec()),
            op: Op::Fsync,
            errno: libc::EIO,
            at: SystemTime::UNIX_EPOCH,
        };
        let server = ServerId { pid: own.pid, start_ns };
        let failures = vec![file; files];
        Remembered { servers: vec![OfServer { server, since: SystemTime::UNIX_EPOCH, failures }] }
    }

    fn socket() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("exporter.sock");
        (directory, socket)
    }

    #[test]
    fn the_next_exporter_reads_what_was_written_last() {
        let (directory, socket) = socket();
        let (mut file, before) = FailuresFile::open(&socket).unwrap();
        assert_eq!(before, Remembered::default());
        for files in [1, 9, 3] {
            file.write(failing(files)).unwrap();
        }
        let (mut file, before) = FailuresFile::open(&socket).unwrap();
        assert_eq!(before, failing(3));
        file.write(failing(2)).unwrap();
        assert_eq!(FailuresFile::open(&socket).unwrap().1, failing(2));
        let mode =
            std::fs::metadata(directory.path().join("exporter.failures")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn wherever_a_writer_is_killed_one_of_the_last_two_is_read() {
        let (directory, socket) = socket();
        let path = directory.path().join("exporter.failures");
        let (mut file, _) = FailuresFile::open(&socket).unwrap();
        file.write(failing(5)).unwrap();
        file.write(failing(6)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        // The third goes into the slot of the first, and is cut at each of its bytes.
        file.write(failing(7)).unwrap();
        let third = std::fs::read(&path).unwrap();
        let at = SLOT as usize;
        let end = (at..third.len()).rev().find(|&byte| third[byte] != whole.get(byte).copied().unwrap_or(0));
        let length = end.unwrap() + 1 - at;
        for cut in (0..length).step_by(7) {
            let mut torn = whole.clone();
            torn[at..].iter_mut().zip(&third[at..at + cut]).for_each(|(byte, new)| *byte = *new);
            std::fs::write(&path, &torn).unwrap();
            let found = FailuresFile::open(&socket).unwrap().1;
            assert!([failing(5), failing(6)].contains(&found), "{cut}: {found:?}");
        }
    }

    #[test]
    fn nothing_is_believed_of_another_boot_or_of_a_process_that_has_ended() {
        let (_directory, socket) = socket();
        let (mut file, _) = FailuresFile::open(&socket).unwrap();
        let mut ended = failing(1);
        ended.servers[0].server.start_ns += 1_000_000_000;
        file.write(ended).unwrap();
        assert_eq!(FailuresFile::open(&socket).unwrap().1, Remembered::default());
        file.boot = "another".into();
        file.write(failing(1)).unwrap();
        assert_eq!(FailuresFile::open(&socket).unwrap().1, Remembered::default());
    }

    #[test]
    fn whatever_else_stands_there_is_nothing_and_a_link_is_not_followed() {
        let (directory, socket) = socket();
        let path = directory.path().join("exporter.failures");
        let lengthy = [&MAGIC[..], &[7; 8], &u32::MAX.to_le_bytes(), &[0; 4]].concat();
        for bytes in [&b""[..], b"short", &[0xff; 4_096], &lengthy] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(FailuresFile::open(&socket).unwrap().1, Remembered::default());
        }
        std::fs::remove_file(&path).unwrap();
        let precious = directory.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        symlink(&precious, &path).unwrap();
        assert!(FailuresFile::open(&socket).is_err());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(FailuresFile::open(&socket).is_err(), "a pipe, at once");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }
}
