//! The last minutes, in files of a tmpfs beside the history's socket: an exporter that was killed leaves them
//! to the next one. They are opened before the process is confined, and written in turn: the one that is full
//! stays until the next one is, and a third takes over what an earlier exporter has left. Where the socket is
//! not in a tmpfs there are none, because a disk could hang.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::ftruncate;

use super::failures_file::FileError;
use super::log::Seldom;
use super::socket_directory::SocketDirectory;
use crate::linux::clock::monotonic;
use crate::recording::{History, Mark};

const MAGIC: [u8; 8] = *b"fsyncrc1";
/// The boot's identity, as the kernel writes it, without the end of its line.
const BOOT: usize = 36;
const HEADER: usize = MAGIC.len() + BOOT + 8;
/// A file that is longer is none of these.
const MAX_BYTES: u64 = 16 << 20;

const FILES: [&str; 3] = ["recent-0", "recent-1", "recent-2"];

#[derive(Debug)]
pub(crate) struct RecentFile {
    files: [File; 3],
    /// Monotonic times count from it.
    boot: [u8; BOOT],
    /// How many files were begun; the last one is this one modulo three.
    begun: u64,
    written: usize,
    /// A file that is longer is full.
    most: usize,
    mark: Mark,
    /// A write has failed: what follows belongs to names that may not be there.
    is_broken: bool,
}

impl RecentFile {
    /// The files that belong to a history's socket; the history goes on with what the exporter before has
    /// left in them. None: they would be on a disk.
    pub fn open(socket: &Path, history: &mut History) -> Result<Option<RecentFile>, FileError> {
        let open = |extension: &str| {
            let path = socket.with_extension(extension);
            let failed = |source| FileError::Io { path: path.clone(), source };
            let directory = SocketDirectory::open(&path)
                .map_err(|source| FileError::Directory { path: path.clone(), source })?;
            directory
                .is_in_memory()
                .map_err(failed)?
                .then(|| directory.open_file().map_err(failed))
                .transpose()
        };
        let [first, second, third] = FILES.map(open);
        let (Some(first), Some(second), Some(third)) = (first?, second?, third?) else { return Ok(None) };
        let failed = |source| FileError::Io { path: socket.to_owned(), source };
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").map_err(failed)?;
        let boot = *boot.first_chunk::<BOOT>().ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        let mut files = [first, second, third];
        let mut left = Vec::new();
        for (at, file) in files.iter_mut().enumerate() {
            match read(file, &boot) {
                // Each number belongs to one of the files.
                Ok(Some((begun, bytes))) if begun % 3 == at as u64 => left.push((begun, bytes)),
                _ => {}
            }
        }
        left.sort_unstable_by_key(|(begun, _)| *begun);
        left.iter().for_each(|(_, bytes)| history.restore(bytes, monotonic()));
        let begun = left.last().map_or(0, |(begun, _)| *begun);
        let (most, mark) = (history.options().bytes, history.mark());
        let mut file = RecentFile { files, boot, begun, written: 0, most, mark, is_broken: false };
        file.begin_with(history).map_err(failed)?;
        Ok(Some(file))
    }

    /// Writes what the history has taken in since the last time.
    pub fn append(&mut self, history: &History) {
        if let Err(error) = self.write(history) {
            self.is_broken = true;
            static SELDOM: Seldom = Seldom::new();
            SELDOM.warn(format_args!("the last minutes will be forgotten with this process: {error}"));
        }
    }

    fn write(&mut self, history: &History) -> io::Result<()> {
        let appended = history.appended(&mut self.mark);
        if appended.bytes.is_empty() || (self.is_broken && !appended.is_segments_begin) {
            return Ok(());
        }
        // A segment is in one file as a whole.
        if appended.is_segments_begin && (self.is_broken || self.written >= self.most) {
            self.begin()?;
            self.clear(self.begun.wrapping_add(1))?;
            self.is_broken = false;
        }
        self.put(appended.bytes)
    }

    /// All that is left in one file, so that an exporter that is killed again and again leaves it as well. It
    /// is in the others until then.
    fn begin_with(&mut self, history: &History) -> io::Result<()> {
        self.begin()?;
        history.plain_segments().try_for_each(|bytes| self.put(bytes))?;
        [1, 2].into_iter().try_for_each(|more| self.clear(self.begun.wrapping_add(more)))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.files[(self.begun % 3) as usize].write_all(bytes)?;
        self.written += bytes.len();
        Ok(())
    }

    fn clear(&self, number: u64) -> io::Result<()> {
        Ok(ftruncate(&self.files[(number % 3) as usize], 0)?)
    }

    fn begin(&mut self) -> io::Result<()> {
        // A file may claim the greatest number: then counting begins anew.
        self.begun = self.begun.checked_add(1).unwrap_or_default();
        self.clear(self.begun)?;
        let file = &mut self.files[(self.begun % 3) as usize];
        io::Seek::rewind(file)?;
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.extend(self.boot);
        header.extend(self.begun.to_le_bytes());
        file.write_all(&header)?;
        self.written = 0;
        Ok(())
    }
}

/// Which one it is, and its segments; None where it is of another boot, or of something else.
fn read(file: &mut File, boot: &[u8; BOOT]) -> io::Result<Option<(u64, Vec<u8>)>> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    let found = bytes.split_first_chunk::<HEADER>().and_then(|(header, segments)| {
        let (magic, rest) = header.split_at(MAGIC.len());
        let (of, begun) = rest.split_at(BOOT);
        let begun = u64::from_le_bytes(begun.try_into().ok()?);
        (magic == MAGIC && of == boot).then(|| (begun, segments.to_vec()))
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::model::fixture::busy;
    use crate::model::{Interval, Span};
    use crate::recording::Options;

    /// Ten seconds after each other, the last of them now.
    fn intervals(number: u32) -> Vec<Interval> {
        let ten = std::time::Duration::from_secs(10);
        let first = SystemTime::now() - ten * number;
        let at = |at: u32| {
            let start = first + ten * at;
            let monotonic = monotonic().saturating_sub(ten * (number - 1 - at));
            let span = Span { start, end: start + ten, duration: ten, monotonic, ..busy().span };
            Interval { span, ..busy() }
        };
        (0..number).map(at).collect()
    }

    fn open(socket: &Path, options: Options) -> (RecentFile, History) {
        let mut history = History::new(options);
        let file = RecentFile::open(socket, &mut history).unwrap().expect("/dev/shm is a tmpfs");
        (file, history)
    }

    fn socket() -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let socket = directory.path().join("exporter.sock");
        (directory, socket)
    }

    fn syncs(history: &History) -> u64 {
        history.moments().map(|moment| moment.total().count).sum()
    }

    #[test]
    fn exporters_that_are_killed_again_and_again_leave_all_to_the_next_one() {
        let (_directory, socket) = socket();
        let moments = intervals(40);
        for (killed, few) in moments.chunks(10).enumerate() {
            let (mut file, mut history) = open(&socket, Options::default());
            assert_eq!(syncs(&history), 10 * killed as u64 * busy().total().count);
            for moment in few {
                history.push(moment);
                file.append(&history);
            }
        }
        let (_, history) = open(&socket, Options::default());
        assert_eq!((history.len(), syncs(&history)), (40, 40 * busy().total().count));
        let ends: Vec<SystemTime> = history.moments().map(|moment| moment.span.end).collect();
        assert!(ends.is_sorted());
    }

    #[test]
    fn the_files_stay_small_and_hold_what_the_history_does() {
        let (directory, socket) = socket();
        let options = Options { bytes: 64 << 10, ..Options::default() };
        let (mut file, mut history) = open(&socket, options);
        for moment in intervals(3_000) {
            let moment = Interval { span: Span { monotonic: monotonic(), ..moment.span }, ..moment };
            history.push(&moment);
            file.append(&history);
            let sizes = std::fs::read_dir(directory.path()).unwrap().flatten();
            let size: u64 = sizes.map(|entry| entry.metadata().unwrap().len()).sum();
            assert!(size < 3 * options.bytes as u64, "{size}");
        }
        let (_, after) = open(&socket, options);
        assert_eq!(after.last(options.length), history.last(options.length));
    }

    #[test]
    fn what_is_of_another_boot_or_too_old_or_no_segment_is_passed_over() {
        let (directory, socket) = socket();
        let write = || {
            let (mut file, mut history) = open(&socket, Options::default());
            history.push(&intervals(1)[0]);
            file.append(&history);
        };
        let paths = FILES.map(|extension| socket.with_extension(extension));
        write();
        for path in &paths {
            let mut bytes = std::fs::read(path).unwrap();
            bytes.get_mut(MAGIC.len()).into_iter().for_each(|byte| *byte ^= 1);
            std::fs::write(path, bytes).unwrap();
        }
        assert!(open(&socket, Options::default()).1.is_empty());
        write();
        for path in &paths {
            std::fs::write(path, [7; 100_000]).unwrap();
        }
        assert!(open(&socket, Options::default()).1.is_empty());
        let short = Options { length: std::time::Duration::from_secs(1), ..Options::default() };
        let (mut file, mut history) = open(&socket, short);
        history.push(&intervals(2)[0]);
        file.append(&history);
        assert!(open(&socket, short).1.is_empty());
        drop(directory);
    }

    /// Cut at each byte, what is whole is read, and once; the next exporter goes on in any case.
    #[test]
    fn a_file_that_was_cut_off_is_read_as_far_as_it_is_whole() {
        let (_directory, socket) = socket();
        let moments = intervals(3);
        let (mut file, mut history) = open(&socket, Options::default());
        for moment in &moments {
            history.push(moment);
            file.append(&history);
        }
        let paths = FILES.map(|extension| socket.with_extension(extension));
        let whole = paths.clone().map(|path| std::fs::read(path).unwrap());
        let longest = whole.iter().map(Vec::len).max().unwrap();
        let mut found = std::collections::BTreeSet::new();
        for cut in (0..=longest).step_by(7).chain([longest]) {
            for (path, bytes) in paths.iter().zip(&whole) {
                std::fs::write(path, &bytes[..cut.min(bytes.len())]).unwrap();
            }
            let (mut file, mut history) = open(&socket, Options::default());
            found.insert(history.len());
            history.push(&moments[2]);
            file.append(&history);
            // A copy that was cut off is no second of what is whole.
            for (path, bytes) in paths.iter().zip(&whole).filter(|(_, bytes)| !bytes.is_empty()) {
                std::fs::write(path, bytes).unwrap();
            }
            assert!(open(&socket, Options::default()).1.len() <= 4);
        }
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn on_a_disk_nothing_is_written() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let socket = directory.path().join("exporter.sock");
        assert!(RecentFile::open(&socket, &mut History::new(Options::default())).unwrap().is_none());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
