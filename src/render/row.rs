//! A row of a table: what it stands for, what is known of that, and its figures.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Style;
use crate::linux::mountinfo::format_device;
use crate::model::figures::{Figure, Source, Value};
use crate::model::{
    FileInfo, FileRow, LogEntry, NeighbourRow, Op, Role, RoleRow, Server, ServerId, Stats, Target, ThreadRow,
};
use crate::text::{count, escape};

/// What a row stands for: the same from interval to interval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    Role(ServerId, Role, Op),
    File(ServerId, FileKey, Op),
    /// A file in a table of all writes: durable ones are rows of [`Key::File`], too.
    Write(ServerId, FileKey, Op),
    /// Thread id and the time it began, because ids are used again.
    Thread(ServerId, u32, u32, Op),
    /// None: all operations together.
    Server(ServerId, Option<Op>),
    Neighbour(u32, String),
    /// An entry of the log, by its number.
    Log(u64),
}

/// What tells files apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FileKey {
    /// All files that had one path one after the other.
    Path(Named),
    Target(Target),
}

impl FileKey {
    fn of(target: Target, info: &Arc<FileInfo>) -> FileKey {
        match target {
            Target::File(_) if info.path.is_some() => FileKey::Path(Named(info.clone())),
            target => FileKey::Target(target),
        }
    }
}

/// A path and its role, without a copy of it.
#[derive(Clone, Debug)]
pub(crate) struct Named(Arc<FileInfo>);

impl Named {
    fn name(&self) -> (Option<&Path>, Role) {
        (self.0.path.as_deref(), self.0.role)
    }
}

impl PartialEq for Named {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.name() == other.name()
    }
}

impl Eq for Named {}

impl PartialOrd for Named {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Named {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(&other.name())
    }
}

impl Hash for Named {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Key {
    pub(crate) fn of_file(row: &FileRow) -> Key {
        Key::File(row.server, FileKey::of(row.target, &row.info), row.op)
    }

    pub(crate) fn of_write(row: &FileRow) -> Key {
        Key::Write(row.server, FileKey::of(row.target, &row.info), row.op)
    }

    pub(crate) fn of_role(row: &RoleRow) -> Key {
        Key::Role(row.server, row.role, row.op)
    }

    pub(crate) fn of_thread(row: &ThreadRow) -> Key {
        Key::Thread(row.server, row.tid, row.start, row.op)
    }

    pub(crate) fn of_neighbour(row: &NeighbourRow) -> Key {
        Key::Neighbour(row.device_number, row.comm.clone())
    }

    pub fn server(&self) -> Option<ServerId> {
        match self {
            Key::Role(id, ..)
            | Key::File(id, ..)
            | Key::Write(id, ..)
            | Key::Thread(id, ..)
            | Key::Server(id, _) => Some(*id),
            Key::Neighbour(..) | Key::Log(_) => None,
        }
    }

    pub fn op(&self) -> Option<Op> {
        match self {
            Key::Role(_, _, op) | Key::File(_, _, op) | Key::Write(_, _, op) | Key::Thread(_, _, _, op) => {
                Some(*op)
            }
            Key::Server(_, op) => *op,
            Key::Neighbour(..) | Key::Log(_) => None,
        }
    }

    pub fn tid(&self) -> Option<u32> {
        match self {
            Key::Thread(_, tid, ..) => Some(*tid),
            _ => None,
        }
    }
}

/// What is known of a row's subject.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum About {
    Role(Role),
    File(File),
    Thread(String),
    /// None: only its rows are known.
    Server(Option<Arc<Server>>),
    Neighbour {
        device: String,
        comm: String,
    },
    Log(Arc<LogEntry>),
}

/// A file, or several that had one path one after the other, of which this is one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct File {
    pub target: Target,
    pub info: Arc<FileInfo>,
    pub files: usize,
    /// All of them are unlinked: the path may be another file's now.
    pub is_gone: bool,
}

impl File {
    pub(crate) fn new(target: Target, info: &Arc<FileInfo>) -> File {
        let is_gone = matches!(target, Target::File(_)) && info.unlinked;
        File { target, info: info.clone(), files: 1, is_gone }
    }
}

/// The operations of one subject.
#[derive(Clone, Debug)]
pub struct Row {
    pub(crate) key: Key,
    pub(crate) about: About,
    pub(crate) stats: Stats,
    /// Syncs that have begun and not finished.
    pub(crate) in_flight: u64,
    /// The age of the oldest of them; zero where there is none.
    pub(crate) oldest: Duration,
    /// A neighbour on a device that the servers use.
    pub(crate) shared: bool,
}

impl Row {
    pub(crate) fn new(key: Key, about: About, stats: Stats) -> Row {
        Row { key, about, stats, in_flight: 0, oldest: Duration::ZERO, shared: false }
    }

    pub(crate) fn of_file(row: &FileRow, key: Key) -> Row {
        Row::new(key, About::File(File::new(row.target, &row.info)), row.stats.clone())
    }

    /// Whose it is; None: of a neighbour.
    pub fn server(&self) -> Option<ServerId> {
        match &self.about {
            About::Log(entry) => Some(entry.server),
            _ => self.key.server(),
        }
    }

    pub fn role(&self) -> Option<Role> {
        match &self.about {
            About::Role(role) => Some(*role),
            About::File(file) => Some(file.info.role),
            About::Log(entry) => Some(entry.info.role),
            About::Thread(_) | About::Server(_) | About::Neighbour { .. } => None,
        }
    }

    pub fn op(&self) -> Option<Op> {
        match &self.about {
            About::Log(entry) => Some(entry.op),
            _ => self.key.op(),
        }
    }

    /// When it happened, of an entry of the log.
    pub(crate) fn time(&self) -> Option<(SystemTime, u64)> {
        match (&self.about, &self.key) {
            (About::Log(entry), Key::Log(number)) => Some((entry.at, *number)),
            _ => None,
        }
    }

    pub(crate) fn figure(&self, figure: Figure, over: Duration) -> Value<'_> {
        match (figure, &self.key) {
            // What a neighbour made durable by calls that are not timed counts as well.
            (Figure::Syncs, Key::Neighbour(..)) => Value::Count(self.stats.all()),
            (Figure::Rate, Key::Neighbour(..)) => Value::Rate(self.stats.all(), over),
            // Of all operations together, some of which may write.
            (Figure::Bytes, Key::Server(_, None)) if self.stats.bytes > 0 => Value::Bytes(self.stats.bytes),
            _ => figure.of(&Source { op: self.op(), stats: &self.stats, over }),
        }
    }

    /// What orders rows by name: roles in their own order, files by path, the rest as it is written.
    fn name_order(&self) -> (usize, &[u8], Option<u32>) {
        let bytes: &[u8] = match &self.about {
            About::Role(role) => return (*role as usize, b"", None),
            About::File(file) => file.info.path.as_deref().map_or(b"", path_bytes),
            About::Thread(name) => name.as_bytes(),
            About::Server(server) => server.as_deref().map_or(b"", |server| server.name.as_bytes()),
            About::Neighbour { comm, .. } => comm.as_bytes(),
            About::Log(entry) => entry.info.path.as_deref().map_or(b"", path_bytes),
        };
        (0, bytes, self.key.tid())
    }

    /// The newest first; then by name, and by what tells two rows of one name apart.
    pub(super) fn natural_order(&self, other: &Row) -> Ordering {
        let order = |row: &Row| (row.key.server(), row.op());
        other
            .time()
            .cmp(&self.time())
            .then_with(|| order(self).0.cmp(&order(other).0))
            .then_with(|| self.name_order().cmp(&other.name_order()))
            .then_with(|| order(self).1.cmp(&order(other).1))
            .then_with(|| self.key.cmp(&other.key))
    }
}

pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

impl Row {
    /// Makes it the row of both.
    pub(super) fn take_in(&mut self, other: Row) {
        self.stats.merge(&other.stats);
        if let (About::File(one), About::File(other)) = (&mut self.about, other.about) {
            let files = one.files + other.files;
            let is_gone = one.is_gone && other.is_gone;
            // The one that is there says most.
            if one.is_gone {
                *one = other;
            }
            (one.files, one.is_gone) = (files, is_gone);
        }
    }
}

/// What a file is called, escaped; whole.
pub(crate) fn file_name(target: Target, info: &FileInfo, style: &Style) -> String {
    match (nameless_file(target, info), &info.path) {
        (None, Some(path)) => style.name(path_bytes(path)),
        (nameless, _) => nameless.unwrap_or_default(),
    }
}

/// What is said behind the name of a row of files: ` (gone)`, ` (3 files)`, ` (3 gone)`.
pub(crate) fn suffix(file: &File) -> String {
    match (file.files, file.is_gone) {
        (1, false) => String::new(),
        (1, true) => " (gone)".into(),
        (n, false) => format!(" ({} files)", count(n as u64)),
        (n, true) => format!(" ({} gone)", count(n as u64)),
    }
}

/// What to call a file that has no path of its own; None for one that has. The words in brackets are ours.
pub(crate) fn nameless(row: &FileRow) -> Option<String> {
    nameless_file(row.target, &row.info)
}

pub(crate) fn nameless_file(target: Target, info: &FileInfo) -> Option<String> {
    let device = || info.device.as_deref().map(|device| escape(device.as_bytes()));
    Some(match target {
        Target::File(_) if info.path.is_some() => return None,
        Target::File(id) => match device() {
            Some(device) => format!("(inode {} on {device})", id.inode),
            None => format!("(inode {} on {})", id.inode, format_device(id.device)),
        },
        Target::Filesystem(number) => {
            format!("(whole filesystem {})", device().unwrap_or_else(|| format_device(number)))
        }
        Target::NoFile => "(no file)".into(),
        Target::BadDescriptor => "(bad descriptor)".into(),
        Target::Unattributed => "(unattributed)".into(),
        Target::Gone(_) => "(files gone)".into(),
        Target::Shared(_) => "(shared)".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture;

    #[test]
    fn what_has_no_path_has_a_readable_name() {
        let row = |target, device: Option<&str>| {
            let mut row = fixture::busy().files[0].clone();
            let mut info = (*row.info).clone();
            (info.path, info.device) = (None, device.map(Into::into));
            (row.target, row.info) = (target, info.into());
            nameless(&row).unwrap()
        };
        assert_eq!(row(fixture::file(77), Some("/dev/vda")), "(inode 77 on /dev/vda)");
        assert_eq!(row(fixture::file(77), None), "(inode 77 on 253:0)");
        assert_eq!(row(Target::Filesystem(8 << 20 | 1), Some("/dev/sda1")), "(whole filesystem /dev/sda1)");
        assert_eq!(row(Target::Filesystem(8 << 20 | 1), None), "(whole filesystem 8:1)");
        assert_eq!(row(Target::Filesystem(0), Some("fuse\n\x1b]0;")), "(whole filesystem fuse\\n\\x1b]0;)");
        assert_eq!(row(Target::NoFile, None), "(no file)");
        assert_eq!(row(Target::BadDescriptor, None), "(bad descriptor)");
        assert_eq!(row(Target::Unattributed, None), "(unattributed)");
        assert_eq!(row(Target::Gone(Role::Redo), None), "(files gone)");
    }
}
