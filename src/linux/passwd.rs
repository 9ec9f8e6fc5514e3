//! The users of a host or of a server's root, by /etc/passwd (passwd(5)).

use std::path::Path;

use super::rooted::Root;

const PATH: &str = "/etc/passwd";

/// A line of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub uid: u32,
    pub gid: u32,
    pub home: &'a str,
}

/// The file's text, at most `limit` bytes; None if it cannot be read, or is not text. Reads a file of that
/// root, so it may wait.
pub(crate) fn read(root: &Root, limit: u64) -> Option<String> {
    String::from_utf8(root.read(Path::new(PATH), limit).ok()?).ok()
}

/// Its entries, without lines that are none.
pub(crate) fn entries(passwd: &str) -> impl Iterator<Item = Entry<'_>> {
    passwd.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        let (name, home) = (*fields.first()?, fields.get(5).copied().unwrap_or_default());
        Some(Entry { name, uid: number(2)?, gid: number(3)?, home })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_no_entries_are_passed_over() {
        let text =
            "root:x:0:0:root:/root:/bin/sh\n\nbroken\nnis:x:many:1::/:\npostgres:x:26:27:::\nlate:x:5:6";
        let found: Vec<_> =
            entries(text).map(|Entry { name, uid, gid, home }| (name, uid, gid, home)).collect();
        assert_eq!(found, [("root", 0, 0, "/root"), ("postgres", 26, 27, ""), ("late", 5, 6, "")]);
    }

    #[test]
    fn the_hosts_own_file_has_root() {
        let text = read(&Root::at(Path::new("/")).unwrap(), 1 << 20).unwrap();
        assert!(entries(&text).any(|entry| entry.name == "root" && entry.uid == 0));
    }
}
