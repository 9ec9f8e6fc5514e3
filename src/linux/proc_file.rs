//! The one reader of files under /proc. Many of them are as long as the process that they describe wants them
//! to be (`prctl(PR_SET_MM_MAP)` stretches `environ` over gigabytes, a mount namespace holds 100,000 mounts),
//! so nothing is read without a limit. The standard library would also ask for a length that there is none
//! of, and then begin with 32 bytes at a time, which shows where every process of a host is looked at each
//! second.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most files fit into it: one system call reads them.
const FIRST: usize = 4096;
/// The longest file that [`read`] returns whole: /proc/PID/status of a process in 65,536 groups has 720 kB.
pub(crate) const WHOLE: u64 = 1 << 20;
/// The longest line that [`lines`] returns: a path has 4,096 bytes, each of which may be escaped with four.
pub(crate) const LINE: usize = 32 << 10;
/// A kernel thread (include/linux/sched.h: PF_KTHREAD), in the flags of /proc/PID/stat: it makes no system
/// calls.
pub(crate) const PF_KTHREAD: u32 = 0x0020_0000;

/// A short file. One that is longer than [`WHOLE`] is an error: half of it could mean something else.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let bytes = read_start(path, WHOLE + 1)?;
    if bytes.len() as u64 > WHOLE {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {WHOLE} bytes")));
    }
    Ok(bytes)
}

/// The first `limit` bytes of a file, or all of it where it is shorter.
pub(crate) fn read_start(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(FIRST);
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the first reading of a file gives, `N` bytes at most, in one system call; what is shorter is whole.
pub(crate) fn read_once<const N: usize>(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = [0; N];
    let length = File::open(path)?.read(&mut bytes)?;
    Ok(bytes[..length].to_vec())
}

/// The lines of a table, without their newlines, as they are read: whoever stops early has the kernel make no
/// more of them. They end at an error and after `limit` bytes, before the line that is cut off there; a line
/// longer than [`LINE`] is left out.
pub fn lines(path: &Path, limit: u64) -> io::Result<impl Iterator<Item = Vec<u8>> + use<>> {
    Ok(lines_of(BufReader::with_capacity(FIRST, File::open(path)?.take(limit))))
}

/// The same of any reader.
pub(crate) fn lines_of(mut reader: impl BufRead) -> impl Iterator<Item = Vec<u8>> {
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            (&mut reader).take(LINE as u64 + 1).read_until(b'\n', &mut line).ok()?;
            match line.pop()? {
                b'\n' if is_too_long => is_too_long = false,
                b'\n' => return Some(line),
                // The kernel ends each line: this one is cut off, or there is more of it.
                _ if line.len() < LINE => return None,
                _ => is_too_long = true,
            }
            line.clear();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_however_long_it_is() {
        let maps = read(Path::new("/proc/self/smaps")).unwrap();
        assert!(maps.len() > FIRST && maps.ends_with(b"\n"), "{}", maps.len());
        assert!(read(Path::new("/proc/self/no-such-file")).is_err());
    }

    #[test]
    fn one_reading_gives_a_short_file_and_the_beginning_of_a_long_one() {
        let comm = std::fs::read("/proc/self/comm").unwrap();
        assert_eq!(read_once::<64>(Path::new("/proc/self/comm")).unwrap(), comm);
        assert_eq!(read_once::<3>(Path::new("/proc/self/comm")).unwrap(), comm[..3]);
    }

    #[test]
    fn what_has_no_end_is_an_error_or_its_start() {
        assert_eq!(read(Path::new("/dev/zero")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_start(Path::new("/dev/zero"), 10).unwrap(), [0; 10]);
        assert_eq!(lines(Path::new("/dev/zero"), 1 << 20).unwrap().count(), 0, "a line without an end");
    }

    #[test]
    fn only_whole_lines_of_a_sane_length_are_returned() {
        let of = |text: &str| lines_of(text.as_bytes()).collect::<Vec<_>>();
        assert_eq!(of("a\n\nbc\n"), [&b"a"[..], b"", b"bc"]);
        assert_eq!(of("a\nbc"), [b"a"], "it is cut off");
        assert!(of("").is_empty());
        let (fits, long) = ("x".repeat(LINE), "x".repeat(LINE + 1));
        assert_eq!(of(&format!("a\n{fits}\nb\n")).len(), 3);
        assert_eq!(of(&format!("a\n{long}\nb\n")), [b"a", b"b"]);
        assert_eq!(of(&format!("a\n{long}{long}{long}\nb\n")), [b"a", b"b"]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "12\n34\n56\n").unwrap();
        assert_eq!(lines(file.path(), 7).unwrap().collect::<Vec<_>>(), [b"12", b"34"]);
    }
}
