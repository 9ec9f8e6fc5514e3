//! A connection to an untrusted peer: it has a deadline and a limit of bytes, whatever the peer does. It
//! knows no protocol.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername,
    getsockname, recv, send, socket_with, sockopt,
};

/// The kernel tells nobody when a listener's full queue has room again.
const QUEUE_LOOKED_AT: Duration = Duration::from_millis(20);

/// A connected socket, closed when this is dropped.
#[derive(Debug)]
pub struct Bounded {
    socket: OwnedFd,
    until: Instant,
    limit: u64,
    left: u64,
}

impl Bounded {
    pub(crate) fn to_socket(path: &Path, until: Instant, limit: u64) -> io::Result<Bounded> {
        let address = SocketAddrUnix::new(path)?;
        let new = Bounded { socket: socket_of(AddressFamily::UNIX)?, until, limit, left: limit };
        loop {
            match connect(&new.socket, &address) {
                Ok(()) => return Ok(new),
                Err(Errno::AGAIN) => std::thread::sleep(QUEUE_LOOKED_AT.min(new.time_left()?)),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(crate) fn to_address(address: SocketAddr, until: Instant, limit: u64) -> io::Result<Bounded> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let new = Bounded { socket: socket_of(family)?, until, limit, left: limit };
        match connect(&new.socket, &address) {
            Ok(()) => {}
            Err(Errno::INPROGRESS | Errno::INTR) => {
                new.wait(PollFlags::OUT)?;
                sockopt::socket_error(&new.socket)??;
            }
            Err(error) => return Err(error.into()),
        }
        sockopt::set_tcp_nodelay(&new.socket, true)?;
        Ok(new)
    }

    /// The process that listens at the other end of a local socket, as the kernel says; 0: one of another PID
    /// namespace.
    pub(crate) fn peer(&self) -> io::Result<i32> {
        Ok(getsockopt(&self.socket, PeerCredentials)?.pid())
    }

    /// Our address and the other's, of a TCP connection.
    pub(crate) fn addresses(&self) -> io::Result<[SocketAddr; 2]> {
        let theirs = getpeername(&self.socket)?.ok_or(Errno::AFNOSUPPORT)?;
        Ok([getsockname(&self.socket)?.try_into()?, theirs.try_into()?])
    }

    /// From now on: until that moment, and that many bytes of the peer's.
    pub fn allow(&mut self, until: Instant, limit: u64) {
        (self.until, self.limit, self.left) = (until, limit, limit);
    }

    fn time_left(&self) -> io::Result<Duration> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }

    fn wait(&self, what: PollFlags) -> io::Result<()> {
        loop {
            let left = self.time_left()?;
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut [PollFd::new(&self.socket, what)], Some(&timeout)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn socket_of(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::STREAM, flags, None)?)
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if room == 0 && !buffer.is_empty() {
            let text = format!("it sends more than {} bytes where none sends as many", self.limit);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
        }
        loop {
            self.wait(PollFlags::IN)?;
            match recv(&self.socket, &mut buffer[..room], RecvFlags::empty()) {
                Ok((count, _)) => {
                    self.left -= count as u64;
                    return Ok(count);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait(PollFlags::OUT)?;
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(100)
    }

    #[test]
    fn a_peer_that_never_stops_is_cut_off_after_the_bytes_that_were_allowed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(&[7; 1000]).is_ok() {}
        });
        let late = Instant::now() + Duration::from_secs(60);
        let mut stream = Bounded::to_address(address, late, 1_500).unwrap();
        let [ours, theirs] = stream.addresses().unwrap();
        assert_eq!((ours.ip(), theirs), (address.ip(), address));
        let mut all = Vec::new();
        let error = stream.read_to_end(&mut all).unwrap_err();
        assert_eq!((all.len(), error.kind()), (1_500, io::ErrorKind::FileTooLarge));
        stream.allow(late, 10);
        assert_eq!(stream.read(&mut [0; 100]).unwrap(), 10);
        drop(stream);
        peer.join().unwrap(); // its connection is closed
    }

    #[test]
    fn the_peer_of_a_local_socket_is_who_listens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let stream = Bounded::to_socket(&path, soon(), 10).unwrap();
        assert_eq!(stream.peer().unwrap(), rustix::process::getpid().as_raw_pid());
    }

    #[test]
    fn nothing_lasts_beyond_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = Bounded::to_address(listener.local_addr().unwrap(), soon(), 1 << 40).unwrap();
        let error = stream.read(&mut [0; 100]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Nor where there is always something to do.
        let _peer = listener.accept().unwrap();
        stream.allow(soon(), 1 << 40);
        let error = loop {
            if let Err(error) = stream.write(&[0; 1 << 16]) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
