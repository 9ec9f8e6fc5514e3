//! Writes by each way in which they can be durable, or fail: what each call returned, by way. Every way has a
//! file of its own, `way-NAME`.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::Serialize;

use crate::call::{Data, WriteCall, write};
use crate::count::errno_name;
use crate::ring::{How, Request, Ring};

macro_rules! ways {
    ($($name:ident)*) => {
        /// A way to write.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
        #[value(rename_all = "kebab-case")]
        pub enum Way { $($name),* }
    };
}

ways! {
    OdsyncWrite OdsyncPwrite OdsyncWritev OdsyncPwritev OdsyncPwritev2
    OsyncPwrite
    RwfDsync RwfSync RwfBadDescriptor
    OdsyncAppend OdsyncEmpty OdsyncShort OdsyncFault OdsyncReadOnly OdsyncFull
    Inode
    Plain PlainFault PlainReadOnly PlainBadDescriptor PlainFull
    Pipe Directory
    RingFsync RingFdatasync RingSyncFileRange RingOdsync RingRwfDsync RingShort RingFull RingBadDescriptor
    RingPlain RingPlainFault RingPolled RingRegistered RingLinked RingCancelled RingSilent
}

/// What one way did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    path: Option<PathBuf>,
    /// "dsync_write", "write": what a tracer is to call it.
    op: &'static str,
    /// "call", "io_uring".
    via: &'static str,
    calls: u64,
    /// By the error's name.
    errors: BTreeMap<String, u64>,
    /// The sum of what the calls returned.
    bytes: u64,
    /// Requests of which nobody tells how they ended.
    silent: u64,
}

impl Done {
    fn record(&mut self, result: io::Result<u64>) {
        self.calls += 1;
        match result {
            Ok(bytes) => self.bytes += bytes,
            Err(error) => *self.errors.entry(errno_name(&error)).or_default() += 1,
        }
    }
}

impl Way {
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn call(self) -> WriteCall {
        match self {
            Way::OdsyncWrite | Way::OdsyncAppend | Way::OdsyncFault | Way::Plain | Way::Pipe => {
                WriteCall::Write
            }
            Way::OdsyncWritev => WriteCall::Writev,
            Way::OdsyncPwritev | Way::OdsyncShort => WriteCall::Pwritev,
            Way::OdsyncPwritev2 | Way::RwfDsync | Way::RwfSync | Way::RwfBadDescriptor => WriteCall::Pwritev2,
            _ => WriteCall::Pwrite64,
        }
    }

    /// What a tracer is to call it.
    fn op(self) -> &'static str {
        match self {
            Way::RingFsync | Way::RingBadDescriptor | Way::RingPolled | Way::RingRegistered => "fsync",
            Way::RingFdatasync | Way::RingSilent | Way::RingLinked | Way::RingCancelled => "fdatasync",
            Way::RingSyncFileRange => "sync_file_range",
            Way::OsyncPwrite | Way::Inode => "dsync_write",
            way if way.opens_durable() || way.flags() != 0 => "dsync_write",
            _ => "write",
        }
    }

    fn is_in_ring(self) -> bool {
        self.name().starts_with("ring")
    }

    /// With O_DSYNC.
    fn opens_durable(self) -> bool {
        self.name().starts_with("odsync") || matches!(self, Way::RingOdsync | Way::RingShort | Way::RingFull)
    }

    /// Of the one write.
    fn flags(self) -> i32 {
        match self {
            Way::RwfDsync | Way::RwfBadDescriptor | Way::RingRwfDsync => libc::RWF_DSYNC,
            Way::RwfSync => libc::RWF_SYNC,
            _ => 0,
        }
    }

    /// Of the descriptor.
    fn open(self, path: &Path) -> io::Result<File> {
        let mut flags = match self {
            Way::OsyncPwrite => libc::O_SYNC,
            way if way.opens_durable() => libc::O_DSYNC,
            _ => 0,
        };
        if self == Way::OdsyncAppend {
            flags |= libc::O_APPEND;
        }
        let writes = !matches!(self, Way::OdsyncReadOnly | Way::PlainReadOnly);
        OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
    }
}

/// So many calls by one way, in a directory.
pub fn run(way: Way, directory: &Path, calls: u64) -> Result<Done> {
    let path = directory.join(format!("way-{}", way.name()));
    let via = if way.is_in_ring() { "io_uring" } else { "call" };
    let mut done = Done { op: way.op(), via, ..Done::default() };
    let bytes = [b'w'; 700];
    let data = Data {
        bytes: if way == Way::OdsyncEmpty { &[] } else { &bytes },
        then_fault: matches!(
            way,
            Way::OdsyncShort | Way::OdsyncFault | Way::PlainFault | Way::RingPlainFault | Way::RingShort
        ),
        offset: 0,
        flags: way.flags(),
    };
    let mut repeat = |fd: RawFd| (0..calls).for_each(|_| done.record(write(way.call(), fd, data)));
    match way {
        Way::RingBadDescriptor => in_ring(&mut done, way, -1, data, calls)?,
        way if way.is_in_ring() => {
            create(&path)?;
            let file = way.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            in_ring(&mut done, way, file.as_raw_fd(), data, calls)
                .with_context(|| format!("{} by io_uring", path.display()))?;
            file.set_len(0).or_else(|_| std::fs::remove_file(&path)).context("cannot make room again")?;
            done.path = Some(path);
        }
        Way::RwfBadDescriptor | Way::PlainBadDescriptor => repeat(-1),
        Way::Pipe => {
            let (_reader, writer) = io::pipe().context("cannot make a pipe")?;
            rustix::io::ioctl_fionbio(&writer, true).context("cannot make a pipe not block")?;
            repeat(writer.as_raw_fd());
        }
        Way::Directory => repeat(File::open(directory).context("cannot open the directory")?.as_raw_fd()),
        Way::OdsyncFull | Way::PlainFull => {
            create(&path)?;
            let file = way.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            fill(&mut done, &file, way, calls);
            // Others need the room.
            file.set_len(0).or_else(|_| std::fs::remove_file(&path)).context("cannot make room again")?;
            done.path = Some(path);
        }
        _ => {
            create(&path)?;
            if way == Way::Inode {
                let chattr = Command::new("chattr").arg("+S").arg(&path).status();
                ensure!(chattr.context("cannot run chattr")?.success(), "chattr +S failed");
            }
            let file = way.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            repeat(file.as_raw_fd());
            done.path = Some(path);
        }
    }
    Ok(done)
}

/// Without a durable write of its own.
fn create(path: &Path) -> Result<()> {
    File::create(path).map(drop).with_context(|| format!("cannot create {}", path.display()))
}

/// Writes until there is no room any more, and then so many times again.
fn fill(done: &mut Done, file: &File, way: Way, again: u64) {
    let block = vec![b'f'; 1 << 20];
    let mut failed = 0;
    while failed < again {
        let offset = done.bytes as i64;
        let result =
            write(way.call(), file.as_raw_fd(), Data { bytes: &block, then_fault: false, offset, flags: 0 });
        failed += u64::from(result.is_err());
        done.record(result);
    }
}

/// The same requests again and again; of several that are linked, the last is the one that is counted.
fn in_ring(done: &mut Done, way: Way, fd: RawFd, data: Data, times: u64) -> Result<()> {
    let how = How {
        polled: way == Way::RingPolled,
        registered: way == Way::RingRegistered,
        linked: matches!(way, Way::RingLinked | Way::RingCancelled),
        silent: way == Way::RingSilent,
    };
    let mut ring = Ring::new(how, fd)?;
    let block = vec![b'f'; 1 << 20];
    let mut failed = 0;
    // A write that fails cancels what is linked to it.
    let faulty = Data { bytes: &[], then_fault: true, ..data };
    for _ in 0.. {
        let request = match (way, done.op) {
            (Way::RingFull, _) => Request::Write(Data { bytes: &block, offset: done.bytes as i64, ..data }),
            (_, "fsync") => Request::Fsync,
            (_, "fdatasync") => Request::Fdatasync,
            (_, "sync_file_range") => Request::SyncFileRange,
            _ => Request::Write(data),
        };
        let first = Request::Write(if way == Way::RingCancelled { faulty } else { data });
        let requests: &[Request] = if how.linked { &[first, request] } else { &[request] };
        let mut ends = ring.make(fd, requests)?;
        match ends.pop() {
            Some(end) => {
                failed += u64::from(end.is_err());
                done.record(end);
            }
            None => done.silent += 1,
        }
        let made = if way == Way::RingFull { failed } else { done.calls + done.silent };
        if made >= times {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_says_what_its_calls_returned() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let done = |way| {
            let done = run(way, directory.path(), 3).expect("it can be written");
            (done.op, done.calls, done.bytes, done.errors.into_iter().collect::<Vec<_>>())
        };
        let error = |name: &str, n| vec![(name.to_owned(), n)];
        assert_eq!(done(Way::OdsyncWrite), ("dsync_write", 3, 2_100, vec![]));
        assert_eq!(done(Way::OdsyncAppend), ("dsync_write", 3, 2_100, vec![]));
        assert_eq!(done(Way::OdsyncEmpty), ("dsync_write", 3, 0, vec![]));
        assert_eq!(done(Way::OdsyncShort), ("dsync_write", 3, 2_100, vec![]));
        assert_eq!(done(Way::OdsyncFault), ("dsync_write", 3, 0, error("EFAULT", 3)));
        assert_eq!(done(Way::RwfBadDescriptor), ("dsync_write", 3, 0, error("EBADF", 3)));
        assert_eq!(done(Way::Plain), ("write", 3, 2_100, vec![]));
        assert_eq!(done(Way::PlainReadOnly), ("write", 3, 0, error("EBADF", 3)));
        assert_eq!(done(Way::RingFdatasync), ("fdatasync", 3, 0, vec![]));
        assert_eq!(done(Way::RingLinked), ("fdatasync", 3, 0, vec![]));
        assert_eq!(done(Way::RingCancelled), ("fdatasync", 3, 0, error("ECANCELED", 3)));
        assert_eq!(done(Way::RingShort), ("dsync_write", 3, 2_100, vec![]));
        assert_eq!(done(Way::RingSilent), ("fdatasync", 0, 0, vec![]));
    }
}
