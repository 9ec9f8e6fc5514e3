//! A local connection on which a whole exchange ends by one deadline, however slowly the other side drips.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags};

/// The kernel applies a time limit to each piece of a message that it has to make room for: so only one at a
/// time.
const PIECE: usize = 16 << 10;

pub(crate) struct WithDeadline<'a> {
    stream: &'a UnixStream,
    end: Instant,
    within: Duration,
}

impl<'a> WithDeadline<'a> {
    pub fn new(stream: &'a UnixStream, within: Duration) -> WithDeadline<'a> {
        WithDeadline { stream, end: Instant::now() + within, within }
    }

    /// None of it: an error.
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(self.late()),
            left => Ok(Some(left)),
        }
    }

    fn late(&self) -> io::Error {
        let text = format!("the other side did not do its part in time ({} s)", self.within.as_secs());
        io::Error::new(ErrorKind::TimedOut, text)
    }

    fn outcome<T>(&self, outcome: rustix::io::Result<T>) -> io::Result<T> {
        outcome.map_err(|errno| match io::Error::from(errno) {
            error if error.kind() == ErrorKind::WouldBlock => self.late(),
            error => error,
        })
    }
}

impl Read for WithDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.outcome(rustix::net::recv(self.stream, buffer, RecvFlags::empty())).map(|(read, _)| read)
    }
}

impl Write for WithDeadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        let piece = &bytes[..bytes.len().min(PIECE)];
        self.outcome(rustix::net::send(self.stream, piece, SendFlags::NOSIGNAL))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_an_answer_byte_by_byte_does_not_get_more_time() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while theirs.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let mut connection = WithDeadline::new(&ours, Duration::from_secs(1));
            let error = connection.write_all(&vec![0; 64 << 20]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            ours.shutdown(std::net::Shutdown::Both).unwrap();
        });
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn nothing_is_read_after_the_deadline_even_if_it_is_there() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"late").unwrap();
        let error = WithDeadline::new(&ours, Duration::ZERO).read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
