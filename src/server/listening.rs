//! Where a process listens: the kernel's tables of its network namespace, joined with the sockets that it has open.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::linux::proc_file;

/// Bytes of a table that are read: a host can have very many sockets, some 150 bytes each.
const TABLE_LIMIT: u64 = 16 << 20;
/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: &[u8] = b"0A";
/// __SO_ACCEPTCON: a unix socket that listens.
const ACCEPTS: u32 = 0x10000;

/// TCP ports that a process listens on with one of these sockets, ascending.
pub fn tcp_ports(proc_root: &Path, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u16> {
    let mut ports = BTreeSet::new();
    for table in ["tcp", "tcp6"] {
        if let Ok(lines) = proc_file::lines(&proc_root.join(format!("{pid}/net/{table}")), TABLE_LIMIT) {
            ports.extend(listening_ports(lines, sockets));
        }
    }
    ports.into_iter().collect()
}

/// The kernel lists all listening sockets before any connection, so reading ends at the first connection, of which a
/// server may have tens of thousands.
fn listening_ports(table: impl Iterator<Item = Vec<u8>>, sockets: &BTreeSet<u64>) -> Vec<u16> {
    table
        .skip(1)
        .map(|line| fields(&line).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .take_while(|fields| fields.get(3).is_some_and(|state| state == LISTEN))
        .filter_map(|fields| {
            let inode: u64 = text(fields.get(9)?)?.parse().ok()?;
            let (_, port) = text(&fields[1])?.rsplit_once(':')?;
            sockets.contains(&inode).then(|| u16::from_str_radix(port, 16).ok()).flatten()
        })
        .collect()
}

/// Paths of the unix sockets that a process listens on with one of these sockets, as it bound them: possibly relative.
/// Sockets without a file (abstract ones) are left out.
pub fn unix_paths(proc_root: &Path, pid: u32, sockets: &BTreeSet<u64>) -> Vec<PathBuf> {
    let Ok(lines) = proc_file::lines(&proc_root.join(format!("{pid}/net/unix")), TABLE_LIMIT) else {
        return Vec::new();
    };
    listening_paths(lines, sockets)
}

fn listening_paths(table: impl Iterator<Item = Vec<u8>>, sockets: &BTreeSet<u64>) -> Vec<PathBuf> {
    table
        .skip(1)
        .filter_map(|line| {
            // Num: RefCount Protocol Flags Type St Inode Path; the path is the rest of the line, spaces included.
            let mut fields = fields(&line);
            let flags = u32::from_str_radix(text(fields.nth(3)?)?, 16).ok()?;
            let inode = fields.nth(2)?;
            let number: u64 = text(inode)?.parse().ok()?;
            let after = inode.as_ptr() as usize - line.as_ptr() as usize + inode.len();
            let path = line.get(after + 1..)?;
            (flags & ACCEPTS != 0 && sockets.contains(&number) && !path.is_empty() && path[0] != b'@')
                .then(|| PathBuf::from(OsStr::from_bytes(path)))
        })
        .collect()
}

fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b' ').filter(|field| !field.is_empty())
}

fn text(field: &[u8]) -> Option<&str> {
    std::str::from_utf8(field).ok()
}

/// The inode of a socket that a link under /proc/PID/fd shows.
pub fn socket_of_link(link: &Path) -> Option<u64> {
    text(link.as_os_str().as_bytes().strip_prefix(b"socket:[")?.strip_suffix(b"]")?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_joined_by_inode_and_connections_are_not_read() {
        let table = b"\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 501 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 502 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000   999        0 503 1 0 20 4 30 10 -1
   3: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 504 1 0 100 0 0 10 0
";
        let sockets = BTreeSet::from([501, 503, 504]);
        assert_eq!(listening_ports(proc_file::lines_of(&table[..]), &sockets), [3306]);
        let v6 = b"head\n 0: 00000000000000000000000000000000:8124 0:0 0A 0:0 0:0 0 0 0 501 1\n";
        assert_eq!(listening_ports(proc_file::lines_of(&v6[..]), &sockets), [33060]);
        assert!(listening_ports(proc_file::lines_of(&b"head\ngarbage\n"[..]), &sockets).is_empty());
    }

    #[test]
    fn unix_sockets_keep_their_path_whole() {
        let table = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
0000000000000000: 00000002 00000000 00010000 0001 01   601 /run/my sql/\xff.sock\n\
0000000000000000: 00000003 00000000 00000000 0001 03   602 /run/connected\n\
0000000000000000: 00000002 00000000 00010000 0001 01   603 @abstract\n\
0000000000000000: 00000002 00000000 00010000 0001 01   604 /run/strangers\n\
0000000000000000: 00000003 00000000 00010000 0001 03   605\n";
        let paths = listening_paths(proc_file::lines_of(&table[..]), &BTreeSet::from([601, 602, 603, 605]));
        assert_eq!(paths, [Path::new(OsStr::from_bytes(b"/run/my sql/\xff.sock"))]);
    }

    #[test]
    fn only_sockets_have_a_socket_number() {
        assert_eq!(socket_of_link(Path::new("socket:[77]")), Some(77));
        assert_eq!(socket_of_link(Path::new("pipe:[77]")), None);
        assert_eq!(socket_of_link(Path::new("/socket:[77]")), None);
    }
}
