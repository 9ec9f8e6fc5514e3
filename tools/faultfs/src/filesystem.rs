//! Answers the kernel's requests from the tree, and hands every sync to the gate.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::content::Content;
use crate::gate::{Gate, Sync};
use crate::tree::{CONTROL, CONTROL_NAME, Inode, Listing, Node, Owner, ROOT, Result, Tree, new_inode};

/// All changes come through the kernel, so what it has cached is never out of date.
const CACHED: Duration = Duration::from_secs(3600);
const BLOCK: u32 = 4096;
/// What statfs pretends: 64 GiB, all of it free.
const BLOCKS: u64 = (64 << 30) / BLOCK as u64;

pub struct FaultFs {
    tree: Mutex<Tree>,
    gate: Arc<Gate<ReplyEmpty>>,
    listings: Mutex<HashMap<u64, Listing>>,
    next_handle: AtomicU64,
}

impl FaultFs {
    pub fn new(gate: Arc<Gate<ReplyEmpty>>, uid: u32, gid: u32) -> Self {
        let tree = Mutex::new(Tree::new(Owner { mode: 0o755, uid, gid }));
        FaultFs { tree, gate, listings: Mutex::default(), next_handle: AtomicU64::new(1) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn create_node(&self, parent: u64, name: &OsStr, node: Node, owner: &Owner) -> Result<FileAttr> {
        if parent == ROOT && name == CONTROL_NAME {
            return Err(libc::EEXIST);
        }
        let mut tree = self.tree();
        let ino = tree.create(parent, name, node, owner)?;
        Ok(attributes(ino, tree.get(ino)?))
    }

    fn look_up(&self, parent: u64, name: &OsStr) -> Result<FileAttr> {
        if parent == ROOT && name == CONTROL_NAME {
            return Ok(control_attributes());
        }
        let mut tree = self.tree();
        let ino = tree.lookup(parent, name)?;
        Ok(attributes(ino, tree.get(ino)?))
    }

    fn write_at(&self, ino: u64, offset: u64, data: &[u8]) -> Result<u32> {
        if ino == CONTROL {
            let text = str::from_utf8(data).map_err(|_| libc::EINVAL)?;
            self.gate.command(text).map_err(|message| {
                eprintln!("faultfs: {message}");
                libc::EINVAL
            })?;
        } else {
            let mut tree = self.tree();
            let inode = tree.get(ino)?;
            inode.content()?.write(offset, data);
            inode.modified = SystemTime::now();
            inode.changed = inode.modified;
        }
        Ok(data.len() as u32)
    }

    fn allocate(&self, ino: u64, offset: u64, length: u64, mode: i32) -> Result<()> {
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let mut tree = self.tree();
        let content = tree.get(ino)?.content()?;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => {} // there is always room
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => content.punch(offset, length),
            _ => return Err(libc::EOPNOTSUPP),
        }
        if !keep_size && offset + length > content.size() {
            content.resize(offset + length);
        }
        Ok(())
    }

    fn pass(&self, sync: Sync, ino: INodeNo, reply: ReplyEmpty) {
        if ino.0 == CONTROL {
            return reply.ok();
        }
        let name = self.tree().get(ino.0).map(|inode| inode.name.to_string_lossy().into_owned());
        match name {
            Ok(name) => self.gate.pass(sync, &name, reply),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }
}

impl Filesystem for FaultFs {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(self.look_up(parent.0, name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.tree().forget(ino.0, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        if ino.0 == CONTROL {
            return reply.attr(&CACHED, &control_attributes());
        }
        match self.tree().get(ino.0) {
            Ok(inode) => reply.attr(&CACHED, &attributes(ino.0, inode)),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _changed: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _created: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if ino.0 == CONTROL {
            return reply.attr(&CACHED, &control_attributes()); // the truncation of a shell's redirection
        }
        let mut tree = self.tree();
        let change = tree.get(ino.0).and_then(|inode| {
            if let Some(size) = size {
                inode.content()?.resize(size);
                inode.modified = SystemTime::now();
            }
            inode.mode = mode.map_or(inode.mode, |mode| (mode & 0o7777) as u16);
            inode.uid = uid.unwrap_or(inode.uid);
            inode.gid = gid.unwrap_or(inode.gid);
            inode.accessed = accessed.map_or(inode.accessed, at);
            inode.modified = modified.map_or(inode.modified, at);
            inode.changed = SystemTime::now();
            Ok(attributes(ino.0, inode))
        });
        match change {
            Ok(attributes) => reply.attr(&CACHED, &attributes),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.tree().get(ino.0).map(|inode| &inode.node) {
            Ok(Node::Symlink(target)) => reply.data(target.as_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        let node = match mode & libc::S_IFMT {
            libc::S_IFREG => Node::File(Content::default()),
            libc::S_IFIFO => Node::Special(FileType::NamedPipe),
            libc::S_IFSOCK => Node::Special(FileType::Socket),
            _ => return reply.error(Errno::EPERM),
        };
        entry(self.create_node(parent.0, name, node, &owner(request, mode, umask)), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let node = Node::Directory(Default::default());
        entry(self.create_node(parent.0, name, node, &owner(request, mode, umask)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if parent.0 == ROOT && name == CONTROL_NAME {
            return reply.error(Errno::EPERM);
        }
        done(self.tree().unlink(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.tree().rmdir(parent.0, name), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let node = Node::Symlink(target.as_os_str().to_owned());
        entry(self.create_node(parent.0, name, node, &owner(request, 0o777, 0)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let of_control = |parent: INodeNo, name: &OsStr| parent.0 == ROOT && name == CONTROL_NAME;
        if of_control(parent, name) || of_control(new_parent, new_name) {
            return reply.error(Errno::EPERM);
        }
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        // With RENAME_NOREPLACE the kernel itself has made sure that the new name is free.
        done(self.tree().rename(parent.0, name, new_parent.0, new_name), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = self.tree();
        let linked = tree.link(ino.0, parent.0, name);
        entry(linked.and_then(|()| Ok(attributes(ino.0, tree.get(ino.0)?))), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let node = Node::File(Content::default());
        match self.create_node(parent.0, name, node, &owner(request, mode, umask)) {
            Ok(attributes) => {
                reply.created(
                    &CACHED,
                    &attributes,
                    Generation(0),
                    FileHandle(0),
                    FopenFlags::FOPEN_KEEP_CACHE,
                );
            }
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let direct = ino.0 == CONTROL; // its size is not known before it is read
        reply.opened(
            FileHandle(0),
            if direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE },
        );
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if ino.0 == CONTROL {
            let report = self.gate.report().into_bytes();
            let rest = report.get(offset as usize..).unwrap_or_default();
            return reply.data(&rest[..rest.len().min(size as usize)]);
        }
        match self.tree().get(ino.0).and_then(|inode| Ok(inode.content()?.read(offset, size.into()))) {
            Ok(data) => reply.data(&data),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_at(ino.0, offset, data) {
            Ok(written) => reply.written(written),
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn flush(&self, _: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.pass(if datasync { Sync::Fdatasync } else { Sync::Fsync }, ino, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _fh: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        self.pass(Sync::Fsyncdir, ino, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let listing = self.tree().list(ino.0); // the tree's lock is not held while the listings' is taken
        match listing {
            Ok(listing) => {
                let handle = self.next_handle.fetch_add(1, Ordering::Relaxed);
                self.listings.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(handle, listing);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(errno) => reply.error(Errno::from_i32(errno)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut listings = self.listings.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Reading from the start again (rewinddir) shows what is there now.
        if offset == 0
            && let Ok(listing) = self.tree().list(ino.0)
        {
            listings.insert(fh.0, listing);
        }
        let listing = listings.get(&fh.0).map(Vec::as_slice).unwrap_or_default();
        for (index, (ino, kind, name)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), index as u64 + 1, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _ino: INodeNo, fh: FileHandle, _flags: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&fh.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let files = self.tree().count() as u64;
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, files, u32::MAX.into(), BLOCK, 255, BLOCK);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.allocate(ino.0, offset, length, mode), reply);
    }
}

fn entry(result: Result<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&CACHED, &attributes, Generation(0)),
        Err(errno) => reply.error(Errno::from_i32(errno)),
    }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(Errno::from_i32(errno)),
    }
}

fn owner(request: &Request, mode: u32, umask: u32) -> Owner {
    Owner { mode: (mode & !umask & 0o7777) as u16, uid: request.uid(), gid: request.gid() }
}

fn at(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

fn attributes(ino: u64, inode: &Inode) -> FileAttr {
    let (size, allocated) = match &inode.node {
        Node::File(content) => (content.size(), content.allocated()),
        Node::Symlink(target) => (target.len() as u64, 0),
        _ => (0, 0),
    };
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks: allocated / 512,
        atime: inode.accessed,
        mtime: inode.modified,
        ctime: inode.changed,
        crtime: SystemTime::UNIX_EPOCH,
        kind: inode.kind(),
        perm: inode.mode,
        nlink: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn control_attributes() -> FileAttr {
    let owner = Owner { mode: 0o666, uid: 0, gid: 0 };
    attributes(CONTROL, &new_inode(Node::File(Content::default()), OsStr::new(CONTROL_NAME), &owner))
}
