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
use memmap2::MmapMut;
use serde::Serialize;

use crate::aio::{self, Block, Reap};
use crate::call::{Data, NOWHERE, Op, WriteCall, sync, write};
use crate::count::errno_name;
use crate::fill::{self, Fill};
use crate::ring::{Another, How, MANY, Request, Ring};

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
    Sendfile CopyFileRange Splice Fallocate
    RingFsync RingFdatasync RingSyncFileRange RingOdsync RingRwfDsync RingShort RingFull RingBadDescriptor
    RingPlain RingPlainFault RingPolled RingRegistered RingLinked RingCancelled RingSilent
    RingDeferred RingIopoll RingIopollFsync RingThreads RingForked RingMany
    Written RingWritten RingWrittenRange AioWritten
    AioFsync AioFdatasync AioPgetevents AioBatch AioPartial AioNoRoom AioBadDescriptor
    AioOdsync AioOdsyncVector AioOdsyncDirect AioRwfDsync AioShort AioFault AioFull AioReadOnly
    AioPlain AioPlainFault AioPlainReadOnly
    AioDestroyed AioSelfReaped AioAbandoned AioHuge
}

/// What one way did.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    path: Option<PathBuf>,
    /// "dsync_write", "write": what a tracer is to call it.
    op: &'static str,
    /// "call", "io_uring", "aio".
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
            Way::RingDeferred | Way::RingIopollFsync | Way::RingThreads | Way::RingForked | Way::RingMany => {
                "fsync"
            }
            Way::Written | Way::RingWritten | Way::RingWrittenRange | Way::AioWritten => "fsync",
            Way::RingFdatasync | Way::RingSilent | Way::RingLinked | Way::RingCancelled => "fdatasync",
            Way::AioFdatasync => "fdatasync",
            Way::AioFsync | Way::AioPgetevents | Way::AioBatch | Way::AioPartial | Way::AioNoRoom => "fsync",
            Way::AioBadDescriptor | Way::AioDestroyed | Way::AioSelfReaped => "fsync",
            Way::AioAbandoned | Way::AioHuge => "fsync",
            Way::RingSyncFileRange => "sync_file_range",
            Way::OsyncPwrite | Way::Inode => "dsync_write",
            Way::Fallocate => "fallocate",
            way if way.opens_durable() || way.flags() != 0 => "dsync_write",
            _ => "write",
        }
    }

    fn is_in_ring(self) -> bool {
        self.name().starts_with("ring")
    }

    fn is_of_libaio(self) -> bool {
        self.name().starts_with("aio")
    }

    /// With O_DSYNC.
    fn opens_durable(self) -> bool {
        let name = self.name();
        name.starts_with("odsync")
            || name.starts_with("aio-odsync")
            || matches!(self, Way::RingOdsync | Way::RingShort | Way::RingFull | Way::RingIopoll)
            || matches!(self, Way::AioShort | Way::AioFault | Way::AioFull | Way::AioReadOnly)
    }

    /// Of the one write.
    fn flags(self) -> i32 {
        match self {
            Way::RwfDsync | Way::RwfBadDescriptor | Way::RingRwfDsync | Way::AioRwfDsync => libc::RWF_DSYNC,
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
        if matches!(self, Way::AioOdsyncDirect | Way::RingIopoll) {
            flags |= libc::O_DIRECT;
        }
        let writes = !self.name().ends_with("read-only");
        OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
    }
}

/// So many calls by one way, in a directory.
pub fn run(way: Way, directory: &Path, calls: u64) -> Result<Done> {
    let path = directory.join(format!("way-{}", way.name()));
    let via = match way {
        way if way.is_in_ring() => "io_uring",
        way if way.is_of_libaio() => "aio",
        _ => "call",
    };
    let mut done = Done { op: way.op(), via, ..Done::default() };
    let bytes = [b'w'; 700];
    let data = Data {
        bytes: if way == Way::OdsyncEmpty { &[] } else { &bytes },
        then_fault: matches!(
            way,
            Way::OdsyncShort | Way::OdsyncFault | Way::PlainFault | Way::RingPlainFault | Way::RingShort
        ) || matches!(way, Way::AioShort | Way::AioFault | Way::AioPlainFault),
        offset: 0,
        flags: way.flags(),
    };
    let mut repeat = |fd: RawFd| (0..calls).for_each(|_| done.record(write(way.call(), fd, data)));
    match way {
        Way::RingBadDescriptor => in_ring(&mut done, way, -1, data, calls)?,
        Way::AioBadDescriptor => by_libaio(&mut done, way, -1, data, calls)?,
        way if way.is_in_ring() || way.is_of_libaio() => {
            create(&path)?;
            let file = way.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            let make = if way.is_in_ring() { in_ring } else { by_libaio };
            make(&mut done, way, file.as_raw_fd(), data, calls)
                .with_context(|| format!("{} by {via}", path.display()))?;
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
        Way::Sendfile | Way::CopyFileRange | Way::Splice | Way::Fallocate => {
            create(&path)?;
            let source = path.with_extension("source");
            std::fs::write(&source, [b's'; fill::BYTES]).context("cannot write what is copied")?;
            let source = File::open(&source).context("cannot open what is copied")?;
            let file = way.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            let call = match way {
                Way::Sendfile => Fill::Sendfile,
                Way::CopyFileRange => Fill::CopyFileRange,
                Way::Splice => Fill::Splice,
                _ => Fill::Fallocate,
            };
            (0..calls).for_each(|_| done.record(fill::fill(call, &file, &source)));
            done.path = Some(path);
        }
        Way::Written => {
            create(&path)?;
            let file = way.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
            for _ in 0..calls {
                write(WriteCall::Pwrite64, file.as_raw_fd(), data).context("cannot write")?;
                done.record(sync(Op::Fsync, file.as_raw_fd(), None).map(|()| 0));
            }
            done.path = Some(path);
        }
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
        many: way == Way::RingMany,
        deferred: way == Way::RingDeferred,
        polled_for: matches!(way, Way::RingIopoll | Way::RingIopollFsync),
        by_another: match way {
            Way::RingThreads => Some(Another::Thread),
            Way::RingForked => Some(Another::Process),
            _ => None,
        },
    };
    let mut ring = Ring::new(how, fd)?;
    let block = vec![b'f'; 1 << 20];
    // Aligned, as direct writes have to be.
    let page = MmapMut::map_anon(4096).context("memory")?;
    let data = if way == Way::RingIopoll { Data { bytes: &page, ..data } } else { data };
    let mut failed = 0;
    // A write that fails cancels what is linked to it.
    let faulty = Data { bytes: &[], then_fault: true, ..data };
    for _ in 0.. {
        let request = match (way, done.op) {
            (Way::RingFull, _) => Request::Write(Data { bytes: &block, offset: done.bytes as i64, ..data }),
            (Way::RingWrittenRange, _) => Request::FsyncRange,
            (_, "fsync") => Request::Fsync,
            (_, "fdatasync") => Request::Fdatasync,
            (_, "sync_file_range") => Request::SyncFileRange,
            _ => Request::Write(data),
        };
        let first = Request::Write(if way == Way::RingCancelled { faulty } else { data });
        let requests = match how {
            How { linked: true, .. } => vec![first, request],
            How { many: true, .. } => vec![request; MANY],
            _ => vec![request],
        };
        if matches!(way, Way::RingWritten | Way::RingWrittenRange) {
            write(WriteCall::Pwrite64, fd, data)?;
        }
        let mut ends = ring.make(fd, &requests)?;
        if how.many {
            ends.drain(1..).for_each(|end| done.record(end));
        }
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

/// More than a tracer follows of one call.
const HUGE: usize = 4_500;
const BATCH: usize = 7;

/// The same request again and again, with one block, or the same batch of them.
fn by_libaio(done: &mut Done, way: Way, fd: RawFd, data: Data, times: u64) -> Result<()> {
    match way {
        Way::AioDestroyed => return never_reaped(done, fd, times).map(drop),
        // The process' end destroys it.
        Way::AioAbandoned => return never_reaped(done, fd, times).map(std::mem::forget),
        Way::AioNoRoom => return without_room(done, fd, times),
        _ => {}
    }
    let size = match way {
        Way::AioBatch => BATCH,
        Way::AioPartial => 3,
        Way::AioHuge => HUGE,
        _ => 1,
    };
    let by = match way {
        Way::AioPgetevents => Reap::Pgetevents,
        Way::AioSelfReaped => Reap::Oneself,
        _ => Reap::Getevents,
    };
    // Aligned, as direct writes have to be.
    let mut pages = MmapMut::map_anon(1 << 20).context("memory")?;
    pages.fill(b'a');
    let whole = match way {
        Way::AioOdsyncDirect => &pages[..4096],
        Way::AioFull => &pages[..],
        _ => data.bytes,
    };
    let (base, bytes) = (whole.as_ptr().cast_mut().cast(), whole.len());
    let vector =
        [libc::iovec { iov_base: base, iov_len: bytes }, libc::iovec { iov_base: NOWHERE, iov_len: 4096 }];
    let context = aio::Context::new(size as u32)?;
    let mut blocks = vec![Block::default(); size];
    let mut failed = 0;
    for round in 0.. {
        let data =
            Data { bytes: whole, offset: if way == Way::AioFull { done.bytes as i64 } else { 0 }, ..data };
        blocks.fill(match (way, done.op) {
            (_, "fsync") => Block::fsync(fd),
            (_, "fdatasync") => Block::fdatasync(fd),
            (Way::AioShort, _) => Block::write_vector(fd, data, &vector),
            (Way::AioOdsyncVector, _) => Block::write_vector(fd, data, &vector[..1]),
            _ => Block::write(fd, data),
        });
        let mut places: Vec<*mut Block> = blocks.iter_mut().map(std::ptr::from_mut).collect();
        match way {
            // The one in the middle is refused.
            Way::AioPartial if round % 2 == 0 => places[1] = NOWHERE.cast(),
            Way::AioPartial => blocks[1] = Block::fsync(-1),
            _ => {}
        }
        if way == Way::AioWritten {
            write(WriteCall::Pwrite64, fd, data)?;
        }
        match context.submit(&places) {
            Ok(taken) => {
                ensure!(taken == if way == Way::AioPartial { 1 } else { size }, "{taken} were taken");
                let ends = context.reap(taken, by)?;
                done.silent += (taken - ends.len()) as u64;
                failed += ends.iter().filter(|end| end.is_err()).count() as u64;
                ends.into_iter().for_each(|end| done.record(end));
            }
            Err(error) => {
                failed += 1;
                done.record(Err(error));
            }
        }
        let made = if way == Way::AioFull { failed } else { done.calls + done.silent };
        if made >= times {
            break;
        }
    }
    Ok(())
}

/// In flight all at once; the context with them.
fn never_reaped(done: &mut Done, fd: RawFd, times: u64) -> Result<aio::Context> {
    let context = aio::Context::new(times as u32)?;
    let mut blocks = vec![Block::fsync(fd); times as usize];
    let places: Vec<*mut Block> = blocks.iter_mut().map(std::ptr::from_mut).collect();
    ensure!(context.submit(&places)? == places.len(), "not all were taken");
    done.silent = times;
    Ok(context)
}

/// Until the context is full and refuses some, and again when it has been emptied.
fn without_room(done: &mut Done, fd: RawFd, times: u64) -> Result<()> {
    let context = aio::Context::new(1)?;
    while done.calls < times {
        // Without number: a context has more room than was asked for.
        let mut in_flight: Vec<Box<Block>> = Vec::new();
        let refused = loop {
            in_flight.push(Box::new(Block::fsync(fd)));
            let place = in_flight.last_mut().map(|block| std::ptr::from_mut(&mut **block));
            if let Err(error) = context.submit(place.as_slice()) {
                break error;
            }
        };
        ensure!(refused.raw_os_error() == Some(libc::EAGAIN), "{refused}");
        let ends = context.reap(in_flight.len() - 1, Reap::Getevents)?;
        ends.into_iter().for_each(|end| done.record(end));
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
        assert_eq!(done(Way::Sendfile), ("write", 3, 2_100, vec![]));
        assert_eq!(done(Way::CopyFileRange), ("write", 3, 2_100, vec![]));
        assert_eq!(done(Way::Splice), ("write", 3, 2_100, vec![]));
        assert_eq!(done(Way::Fallocate), ("fallocate", 3, 0, vec![]));
        assert_eq!(done(Way::PlainReadOnly), ("write", 3, 0, error("EBADF", 3)));
        assert_eq!(done(Way::RingFdatasync), ("fdatasync", 3, 0, vec![]));
        assert_eq!(done(Way::RingLinked), ("fdatasync", 3, 0, vec![]));
        assert_eq!(done(Way::RingCancelled), ("fdatasync", 3, 0, error("ECANCELED", 3)));
        assert_eq!(done(Way::RingShort), ("dsync_write", 3, 2_100, vec![]));
        assert_eq!(done(Way::RingDeferred), ("fsync", 3, 0, vec![]));
        assert_eq!(done(Way::RingIopollFsync), ("fsync", 3, 0, error("EINVAL", 3)));
        assert_eq!(done(Way::RingThreads), ("fsync", 3, 0, vec![]));
        assert_eq!(done(Way::RingForked), ("fsync", 3, 0, vec![]));
        assert_eq!(done(Way::Written), ("fsync", 3, 0, vec![]));
        assert_eq!(done(Way::RingWrittenRange), ("fsync", 3, 0, vec![]));
        assert_eq!(done(Way::RingSilent), ("fdatasync", 0, 0, vec![]));
        assert_eq!(done(Way::AioFdatasync), ("fdatasync", 3, 0, vec![]));
        assert_eq!(done(Way::AioBatch), ("fsync", 7, 0, vec![]));
        assert_eq!(done(Way::AioPartial), ("fsync", 3, 0, vec![]));
        assert_eq!(done(Way::AioBadDescriptor), ("fsync", 3, 0, error("EBADF", 3)));
        assert_eq!(done(Way::AioShort), ("dsync_write", 3, 2_100, vec![]));
        assert_eq!(done(Way::AioFault), ("dsync_write", 3, 0, error("EFAULT", 3)));
        assert_eq!(done(Way::AioPlainReadOnly), ("write", 3, 0, error("EBADF", 3)));
        assert_eq!(done(Way::AioDestroyed), ("fsync", 0, 0, vec![]));
        assert_eq!(done(Way::AioSelfReaped), ("fsync", 0, 0, vec![]));
    }
}
