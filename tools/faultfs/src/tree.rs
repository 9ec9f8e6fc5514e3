//! The inodes and directories of the file system in memory. Errors are errno numbers.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

use fuser::FileType;

use crate::content::Content;

pub const ROOT: u64 = 1;
/// The control file's inode; no directory lists it, so that a database finds only files of its own.
pub const CONTROL: u64 = 2;
pub const CONTROL_NAME: &str = ".control";

/// What a directory holds: inode number, type and name of each entry.
pub type Listing = Vec<(u64, FileType, OsString)>;
pub type Result<T> = std::result::Result<T, i32>;

pub enum Node {
    File(Content),
    Directory(BTreeMap<OsString, u64>),
    Symlink(OsString),
    /// A socket or a FIFO: the kernel does the rest.
    Special(FileType),
}

pub struct Inode {
    pub node: Node,
    /// The name it was last given, which the rules go by; kept when unlinked.
    pub name: OsString,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub accessed: SystemTime,
    pub modified: SystemTime,
    pub changed: SystemTime,
    /// How often the kernel was told of this inode and has not forgotten it; an unlinked one lives as long.
    known: u64,
}

impl Inode {
    pub fn kind(&self) -> FileType {
        match &self.node {
            Node::File(_) => FileType::RegularFile,
            Node::Directory(_) => FileType::Directory,
            Node::Symlink(_) => FileType::Symlink,
            Node::Special(kind) => *kind,
        }
    }

    pub fn content(&mut self) -> Result<&mut Content> {
        match &mut self.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }

    fn entries(&self) -> Result<&BTreeMap<OsString, u64>> {
        match &self.node {
            Node::Directory(entries) => Ok(entries),
            _ => Err(libc::ENOTDIR),
        }
    }
}

pub struct Owner {
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
}

pub struct Tree {
    inodes: HashMap<u64, Inode>,
    next: u64,
}

impl Tree {
    pub fn new(root: Owner) -> Self {
        let mut tree = Tree { inodes: HashMap::new(), next: CONTROL };
        tree.inodes.insert(ROOT, new_inode(Node::Directory(BTreeMap::new()), OsStr::new("/"), &root));
        tree
    }

    pub fn get(&mut self, ino: u64) -> Result<&mut Inode> {
        self.inodes.get_mut(&ino).ok_or(libc::ESTALE)
    }

    pub fn count(&self) -> usize {
        self.inodes.len()
    }

    /// The inode by that name, which the kernel will know from now on (until `forget`).
    pub fn lookup(&mut self, parent: u64, name: &OsStr) -> Result<u64> {
        let ino = self.find(parent, name)?;
        self.get(ino)?.known += 1;
        Ok(ino)
    }

    pub fn forget(&mut self, ino: u64, times: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.known = inode.known.saturating_sub(times);
        }
        self.drop_if_gone(ino);
    }

    /// Creates an inode under a free name; the kernel knows it from now on.
    pub fn create(&mut self, parent: u64, name: &OsStr, node: Node, owner: &Owner) -> Result<u64> {
        if self.entries(parent)?.contains_key(name) {
            return Err(libc::EEXIST);
        }
        self.next += 1; // numbers are never reused: no two files ever share one
        let ino = self.next;
        let mut inode = new_inode(node, name, owner);
        inode.known = 1;
        if inode.kind() == FileType::Directory {
            self.get(parent)?.links += 1;
        }
        self.inodes.insert(ino, inode);
        self.entries(parent)?.insert(name.to_owned(), ino);
        Ok(ino)
    }

    pub fn link(&mut self, ino: u64, parent: u64, name: &OsStr) -> Result<()> {
        if self.entries(parent)?.contains_key(name) {
            return Err(libc::EEXIST);
        }
        let inode = self.get(ino)?;
        inode.links += 1;
        inode.known += 1;
        inode.name = name.to_owned();
        inode.changed = SystemTime::now();
        self.entries(parent)?.insert(name.to_owned(), ino);
        Ok(())
    }

    pub fn unlink(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        let ino = self.find(parent, name)?;
        if self.get(ino)?.kind() == FileType::Directory {
            return Err(libc::EISDIR);
        }
        self.entries(parent)?.remove(name);
        self.lose_link(ino)
    }

    pub fn rmdir(&mut self, parent: u64, name: &OsStr) -> Result<()> {
        let ino = self.find(parent, name)?;
        if !self.get(ino)?.entries()?.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        self.entries(parent)?.remove(name);
        self.get(parent)?.links -= 1;
        self.get(ino)?.links = 0;
        self.drop_if_gone(ino);
        Ok(())
    }

    /// Replaces what stands under the new name, as rename(2) does. The kernel has already refused to move a
    /// directory into itself.
    pub fn rename(&mut self, parent: u64, name: &OsStr, new_parent: u64, new_name: &OsStr) -> Result<()> {
        let ino = self.find(parent, name)?;
        let is_directory = self.get(ino)?.kind() == FileType::Directory;
        match self.find(new_parent, new_name) {
            Ok(replaced) if replaced == ino => return Ok(()),
            Ok(replaced) => match (is_directory, self.get(replaced)?.kind() == FileType::Directory) {
                (true, true) => self.rmdir(new_parent, new_name)?,
                (false, false) => self.unlink(new_parent, new_name)?,
                (true, false) => return Err(libc::ENOTDIR),
                (false, true) => return Err(libc::EISDIR),
            },
            Err(libc::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
        self.entries(parent)?.remove(name);
        self.entries(new_parent)?.insert(new_name.to_owned(), ino);
        if is_directory {
            self.get(parent)?.links -= 1;
            self.get(new_parent)?.links += 1;
        }
        let inode = self.get(ino)?;
        inode.name = new_name.to_owned();
        inode.changed = SystemTime::now();
        Ok(())
    }

    /// Everything in a directory, for one reader: what happens to it afterwards does not shift the reader's
    /// position.
    pub fn list(&mut self, ino: u64) -> Result<Listing> {
        let entries: Vec<_> =
            self.get(ino)?.entries()?.iter().map(|(name, ino)| (*ino, name.clone())).collect();
        let itself = [(ino, FileType::Directory, ".".into()), (ino, FileType::Directory, "..".into())];
        let children = entries.into_iter().filter_map(|(ino, name)| {
            let kind = self.inodes.get(&ino)?.kind();
            Some((ino, kind, name))
        });
        Ok(itself.into_iter().chain(children).collect())
    }

    fn find(&mut self, parent: u64, name: &OsStr) -> Result<u64> {
        self.get(parent)?.entries()?.get(name).copied().ok_or(libc::ENOENT)
    }

    /// A directory's entries, to be changed: its times change with them.
    fn entries(&mut self, ino: u64) -> Result<&mut BTreeMap<OsString, u64>> {
        let inode = self.get(ino)?;
        inode.modified = SystemTime::now();
        inode.changed = inode.modified;
        match &mut inode.node {
            Node::Directory(entries) => Ok(entries),
            _ => Err(libc::ENOTDIR),
        }
    }

    fn lose_link(&mut self, ino: u64) -> Result<()> {
        let inode = self.get(ino)?;
        inode.links -= 1;
        inode.changed = SystemTime::now();
        self.drop_if_gone(ino);
        Ok(())
    }

    fn drop_if_gone(&mut self, ino: u64) {
        if self.inodes.get(&ino).is_some_and(|inode| inode.links == 0 && inode.known == 0) {
            self.inodes.remove(&ino);
        }
    }
}

pub fn new_inode(node: Node, name: &OsStr, owner: &Owner) -> Inode {
    let links = if matches!(node, Node::Directory(_)) { 2 } else { 1 };
    let now = SystemTime::now();
    let Owner { mode, uid, gid } = *owner;
    let name = name.to_owned();
    Inode { node, name, mode, uid, gid, links, accessed: now, modified: now, changed: now, known: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner { mode: 0o644, uid: 0, gid: 0 };

    fn file(tree: &mut Tree, name: &str) -> u64 {
        tree.create(ROOT, OsStr::new(name), Node::File(Content::default()), &OWNER).expect("a free name")
    }

    #[test]
    fn an_unlinked_file_lives_until_the_kernel_forgets_it() {
        let mut tree = Tree::new(OWNER);
        let ino = file(&mut tree, "a");
        tree.unlink(ROOT, OsStr::new("a")).expect("it is there");
        assert_eq!(tree.lookup(ROOT, OsStr::new("a")), Err(libc::ENOENT));
        tree.get(ino).expect("still known").content().expect("a file").write(0, b"x");
        tree.forget(ino, 1);
        assert!(tree.get(ino).is_err());
        assert_eq!(tree.count(), 1, "the root is left");
    }

    #[test]
    fn rename_replaces_a_file_but_no_directory_that_is_in_use() {
        let mut tree = Tree::new(OWNER);
        let (a, b) = (file(&mut tree, "a"), file(&mut tree, "b"));
        tree.rename(ROOT, OsStr::new("a"), ROOT, OsStr::new("b")).expect("files replace files");
        assert_eq!(tree.lookup(ROOT, OsStr::new("b")), Ok(a));
        assert_eq!(tree.get(b).map(|inode| inode.links), Ok(0));
        let directory = tree.create(ROOT, OsStr::new("d"), Node::Directory(BTreeMap::new()), &OWNER);
        let directory = directory.expect("a free name");
        tree.create(directory, OsStr::new("c"), Node::Symlink("b".into()), &OWNER).expect("a free name");
        assert_eq!(tree.rename(ROOT, OsStr::new("b"), ROOT, OsStr::new("d")), Err(libc::EISDIR));
        assert_eq!(tree.rmdir(ROOT, OsStr::new("d")), Err(libc::ENOTEMPTY));
        assert_eq!(tree.list(ROOT).map(|entries| entries.len()), Ok(4));
    }
}
