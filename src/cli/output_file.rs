//! A file that the user named for the output. Where there is no room for all of it, nothing of it is left
//! there: no half a line behind whole ones, and no half a measurement in place of an older one.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

pub(super) struct OutputFile {
    file: File,
    path: PathBuf,
    append: bool,
}

impl OutputFile {
    /// Opens it at once: that it cannot be written is known before anything is measured.
    pub fn open(path: &Path, append: bool) -> anyhow::Result<OutputFile> {
        let mut options = File::options();
        options.create(true).append(append).write(true);
        let file = options.open(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(OutputFile { file, path: path.to_owned(), append })
    }

    /// Behind what is there, or once in its place. The error names the file.
    pub fn write(&mut self, text: &[u8]) -> anyhow::Result<()> {
        let written = if self.append { append(&mut self.file, text) } else { replace(&mut self.file, text) };
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// What a file on a disk can do.
trait Storage: Write {
    /// None: a device or a pipe, which keeps nothing.
    fn length(&self) -> Option<u64>;
    fn set_length(&mut self, length: u64) -> io::Result<()>;
    /// Makes sure that there is room for so many bytes, where the filesystem can. The length stays.
    fn reserve(&mut self, length: u64) -> io::Result<()>;
}

impl Storage for File {
    fn length(&self) -> Option<u64> {
        self.metadata().ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn reserve(&mut self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&*self, FallocateFlags::KEEP_SIZE, 0, length) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
            // Without this call, whether there is room shows when it is used.
            _ => Ok(()),
        }
    }
}

fn append(storage: &mut impl Storage, text: &[u8]) -> io::Result<()> {
    let before = storage.length();
    let (written, result) = write_all(storage, text);
    // Unless somebody else has written there meanwhile.
    if let (Err(_), Some(before)) = (&result, before)
        && storage.length() == Some(before + written)
    {
        // If that fails too, the first error is the one to tell.
        let _ = storage.set_length(before);
    }
    result
}

fn replace(storage: &mut impl Storage, text: &[u8]) -> io::Result<()> {
    let Some(before) = storage.length() else { return write_all(storage, text).1 };
    let length = text.len() as u64;
    if let Err(error) = storage.reserve(length) {
        // Gives back the part that there was room for.
        let _ = storage.set_length(before);
        return Err(error);
    }
    match write_all(storage, text).1 {
        Ok(()) => storage.set_length(length),
        Err(error) => {
            let _ = storage.set_length(0);
            Err(error)
        }
    }
}

/// As `Write::write_all`, and how much was written.
fn write_all(writer: &mut impl Write, text: &[u8]) -> (u64, io::Result<()>) {
    let mut written = 0;
    while written < text.len() {
        match writer.write(&text[written..]) {
            Ok(0) => return (written as u64, Err(ErrorKind::WriteZero.into())),
            Ok(n) => written += n,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written as u64, Err(error)),
        }
    }
    (written as u64, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filesystem with room for so many bytes.
    struct Disk {
        file: Vec<u8>,
        at: usize,
        room: usize,
        reserves: bool,
    }

    impl Disk {
        fn new(content: &str, room: usize) -> Disk {
            Disk { file: content.into(), at: 0, room, reserves: true }
        }

        fn to_append(content: &str, room: usize) -> Disk {
            Disk { at: content.len(), ..Disk::new(content, room) }
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room - self.at);
            if n == 0 {
                return Err(Errno::NOSPC.into());
            }
            self.file.resize(self.file.len().max(self.at + n), 0);
            self.file[self.at..self.at + n].copy_from_slice(&bytes[..n]);
            self.at += n;
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Storage for Disk {
        fn length(&self) -> Option<u64> {
            Some(self.file.len() as u64)
        }

        fn set_length(&mut self, length: u64) -> io::Result<()> {
            self.file.truncate(length as usize);
            Ok(())
        }

        fn reserve(&mut self, length: u64) -> io::Result<()> {
            if self.reserves && length as usize > self.room { Err(Errno::NOSPC.into()) } else { Ok(()) }
        }
    }

    #[test]
    fn a_line_that_has_no_room_leaves_whole_lines_behind() {
        let mut disk = Disk::to_append("one\n", 9);
        append(&mut disk, b"two\n").unwrap();
        let error = append(&mut disk, b"three\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(disk.file, b"one\ntwo\n");
    }

    #[test]
    fn a_measurement_that_has_no_room_leaves_the_older_one() {
        let mut disk = Disk::new("older\n", 9);
        let error = replace(&mut disk, b"a longer measurement\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(disk.file, b"older\n");
    }

    #[test]
    fn where_room_cannot_be_reserved_nothing_is_left_rather_than_a_half() {
        let mut disk = Disk { reserves: false, ..Disk::new("older\n", 9) };
        replace(&mut disk, b"a longer measurement\n").unwrap_err();
        assert_eq!(disk.file, b"");
    }

    #[test]
    fn a_shorter_measurement_replaces_all_of_a_longer_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("measured");
        for text in ["a longer one\n", "short\n", ""] {
            OutputFile::open(&path, false).unwrap().write(text.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        for text in ["one\n", "two\n"] {
            OutputFile::open(&path, true).unwrap().write(text.as_bytes()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn the_error_names_the_file_and_its_cause() {
        for append in [false, true] {
            let mut full = OutputFile::open(Path::new("/dev/full"), append).unwrap();
            let said = crate::text::causes(full.write(b"text").unwrap_err().chain());
            assert_eq!(said, "cannot write /dev/full: No space left on device (os error 28)");
        }
    }
}
