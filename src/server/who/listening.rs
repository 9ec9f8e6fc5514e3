//! Where a process listens: the kernel's tables of its network namespace, joined with the sockets that it has
//! open.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::linux::{open_files, proc_file};

/// Descriptors that are looked at: a server opens its sockets early.
const DESCRIPTOR_LIMIT: usize = 4_096;
/// Bytes of a table that are read: a host can have very many sockets, some 150 bytes each.
const TABLE_LIMIT: u64 = 16 << 20;
/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: &[u8] = b"0A";
/// __SO_ACCEPTCON: a unix socket that listens.
const ACCEPTS: u32 = 0x10000;

/// TCP ports that a process listens on with one of these sockets, ascending.
pub(crate) fn tcp_ports(proc_root: &Path, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u16> {
    let listeners = tcp_listeners(proc_root, pid);
    let theirs = listeners.iter().filter(|listener| sockets.contains(&listener.inode));
    theirs.map(|listener| listener.address.port()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Where a process listens for TCP connections, as far as nobody else can be the one who answers there. A
/// socket of `[::]` takes connections over IPv4 as well unless it was told not to, which the tables do not
/// show: so it stands for `0.0.0.0` too where no other process listens on that port over IPv4.
pub(crate) fn tcp_addresses(proc_root: &Path, pid: u32) -> Vec<SocketAddr> {
    let links = open_files::descriptors(proc_root, pid).take(DESCRIPTOR_LIMIT);
    let link = |fd| std::fs::read_link(proc_root.join(format!("{pid}/fd/{fd}"))).ok();
    let sockets: BTreeSet<u64> = links.filter_map(|fd| socket_of_link(&link(fd)?)).collect();
    addresses(&tcp_listeners(proc_root, pid), &sockets)
}

fn addresses(listeners: &[Listener], sockets: &BTreeSet<u64>) -> Vec<SocketAddr> {
    let (theirs, others): (Vec<_>, Vec<_>) =
        listeners.iter().partition(|listener| sockets.contains(&listener.inode));
    let is_taken = |port| others.iter().any(|other| other.address.is_ipv4() && other.address.port() == port);
    let of = |listener: &&Listener| {
        let address = listener.address;
        let everywhere = address.ip() == Ipv6Addr::UNSPECIFIED && !is_taken(address.port());
        let over_ipv4 = everywhere.then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())));
        [Some(address), over_ipv4].into_iter().flatten()
    };
    theirs.iter().flat_map(of).collect()
}

struct Listener {
    address: SocketAddr,
    inode: u64,
}

fn tcp_listeners(proc_root: &Path, pid: u32) -> Vec<Listener> {
    let table = |name| proc_file::lines(&proc_root.join(format!("{pid}/net/{name}")), TABLE_LIMIT);
    ["tcp", "tcp6"].into_iter().filter_map(|name| table(name).ok()).flat_map(listeners_in).collect()
}

/// The kernel lists all listening sockets before any connection, so reading ends at the first connection, of
/// which a server may have tens of thousands.
fn listeners_in(table: impl Iterator<Item = Vec<u8>>) -> impl Iterator<Item = Listener> {
    table
        .skip(1)
        .map(|line| fields(&line).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .take_while(|fields| fields.get(3).is_some_and(|state| state == LISTEN))
        .filter_map(|fields| {
            let inode = text(fields.get(9)?)?.parse().ok()?;
            Some(Listener { address: socket_address(text(&fields[1])?)?, inode })
        })
}

/// `0100007F:0CEA`: the words of the address as they lie in memory (net/ipv4/tcp_ipv4.c: get_openreq4), then
/// the port.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words: Vec<[u8; 4]> = address
        .as_bytes()
        .chunks(8)
        .map(|word| Some(u32::from_str_radix(self::text(word)?, 16).ok()?.to_ne_bytes()))
        .collect::<Option<_>>()?;
    let ip = match words[..] {
        [word] => IpAddr::from(word),
        [a, b, c, d] => {
            let mut bytes = [0; 16];
            [a, b, c, d]
                .iter()
                .zip(bytes.chunks_exact_mut(4))
                .for_each(|(from, to)| to.copy_from_slice(from));
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Paths of the unix sockets that a process listens on with one of these sockets, as it bound them: possibly
/// relative. Sockets without a file (abstract ones) are left out.
pub(crate) fn unix_paths(proc_root: &Path, pid: u32, sockets: &BTreeSet<u64>) -> Vec<PathBuf> {
    let Ok(lines) = proc_file::lines(&proc_root.join(format!("{pid}/net/unix")), TABLE_LIMIT) else {
        return Vec::new();
    };
    listening_paths(lines, sockets)
}

fn listening_paths(table: impl Iterator<Item = Vec<u8>>, sockets: &BTreeSet<u64>) -> Vec<PathBuf> {
    table
        .skip(1)
        .filter_map(|line| {
            // Num: RefCount Protocol Flags Type St Inode Path; the path is the rest of the line, spaces
            // included.
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
pub(crate) fn socket_of_link(link: &Path) -> Option<u64> {
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
        let listening = |table: &[u8]| {
            let lines: Vec<Vec<u8>> = proc_file::lines_of(table).collect();
            addresses(&listeners_in(lines.into_iter()).collect::<Vec<_>>(), &sockets)
        };
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(listening(table), [address("127.0.0.1:3306")]);
        let v6 = b"head\n 0: 00000000000000000000000001000000:8124 0:0 0A 0:0 0:0 0 0 0 501 1\n";
        assert_eq!(listening(v6), [address("[::1]:33060")]);
        assert!(listening(b"head\ngarbage\n").is_empty());
    }

    #[test]
    fn a_socket_of_both_families_stands_for_both_unless_somebody_else_has_the_port() {
        let listener = |address: &str, inode| Listener { address: address.parse().unwrap(), inode };
        let of = |listeners: &[Listener]| {
            let addresses = addresses(listeners, &BTreeSet::from([501]));
            addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of(&[listener("[::]:3306", 501)]), ["[::]:3306", "0.0.0.0:3306"]);
        assert_eq!(of(&[listener("[::]:3306", 501), listener("127.0.0.1:3306", 666)]), ["[::]:3306"]);
        let another_port = [listener("[::]:3306", 501), listener("127.0.0.1:3307", 666)];
        assert_eq!(of(&another_port), ["[::]:3306", "0.0.0.0:3306"]);
        assert_eq!(of(&[listener("0.0.0.0:3306", 501), listener("[::1]:3306", 666)]), ["0.0.0.0:3306"]);
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
