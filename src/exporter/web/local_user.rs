//! Which user of this host is at the other end of a connection, by sock_diag(7): one question about one
//! socket, however many there are.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// include/uapi/linux/sock_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// include/uapi/linux/netlink.h
const NLM_F_REQUEST: u16 = 1;
/// include/net/tcp_states.h
const TCP_ESTABLISHED: u8 = 1;
/// Both: struct nlmsghdr (16), then struct inet_diag_req_v2 (56), or struct inet_diag_msg (72).
const REQUEST_BYTES: usize = 72;
const ANSWER_BYTES: usize = 88;

/// A netlink socket, opened once.
#[derive(Debug)]
pub(crate) struct LocalUsers {
    socket: OwnedFd,
    sequence: AtomicU32,
}

impl LocalUsers {
    /// None: this process may not ask (systemd's `RestrictAddressFamilies=` without AF_NETLINK).
    pub fn open() -> Option<LocalUsers> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let protocol = Some(netlink::SOCK_DIAG);
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol).ok()?;
        Some(LocalUsers { socket, sequence: AtomicU32::new(0) })
    }

    /// The owner of the socket at the client's end. None: the client is on another host, or has closed its
    /// socket.
    pub fn of(&self, client: SocketAddr, server: SocketAddr) -> Option<u32> {
        let (client_ip, server_ip) = (client.ip().to_canonical(), server.ip().to_canonical());
        if !client_ip.is_loopback() && client_ip != server_ip {
            return None;
        }
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let request = request(sequence, (client_ip, client.port()), (server_ip, server.port()));
        rustix::net::send(&self.socket, &request, SendFlags::DONTWAIT).ok()?;
        // The kernel has answered by the time that it has taken the question; an older answer may lie before
        // it.
        let mut buffer = [0; 512];
        loop {
            let (answer, _) = rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT).ok()?;
            if number(&buffer, 8) == sequence {
                return owner(&buffer[..answer]);
            }
        }
    }
}

fn request(sequence: u32, client: (IpAddr, u16), server: (IpAddr, u16)) -> [u8; REQUEST_BYTES] {
    let mut request = [0; REQUEST_BYTES];
    let mut put = |at: usize, bytes: &[u8]| request[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(REQUEST_BYTES as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(8, &sequence.to_ne_bytes());
    let family = if client.0.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    put(16, &[family as u8, libc::IPPROTO_TCP as u8]);
    put(20, &u32::MAX.to_ne_bytes()); // in any state
    put(24, &client.1.to_be_bytes());
    put(26, &server.1.to_be_bytes());
    for (at, address) in [(28, client.0), (44, server.0)] {
        match address {
            IpAddr::V4(address) => put(at, &address.octets()),
            IpAddr::V6(address) => put(at, &address.octets()),
        }
    }
    put(64, &[0xff; 8]); // whatever its cookie
    request
}

/// Sockets that nobody has open any more (inode 0) are root's as the kernel tells it.
fn owner(answer: &[u8]) -> Option<u32> {
    let is_answer = answer.len() >= ANSWER_BYTES && answer[4..6] == SOCK_DIAG_BY_FAMILY.to_ne_bytes();
    let is_open = is_answer && answer[17] == TCP_ESTABLISHED && number(answer, 84) != 0;
    is_open.then(|| number(answer, 80))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(number)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_client_of_this_host_is_the_user_who_opened_its_socket() {
        let users = LocalUsers::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let to = if address == "[::1]:0" { "::1" } else { "127.0.0.1" };
            let client = TcpStream::connect((to, port)).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = rustix::process::getuid().as_raw();
            assert_eq!(users.of(peer, server.local_addr().unwrap()), Some(own), "{address}");
            drop(client);
            assert_eq!(users.of(peer, server.local_addr().unwrap()), None, "closed: {address}");
        }
        let elsewhere = "192.0.2.1:80".parse().unwrap();
        assert_eq!(users.of(elsewhere, "192.0.2.2:9871".parse().unwrap()), None);
    }

    #[test]
    fn what_is_no_answer_names_nobody() {
        for length in 0..ANSWER_BYTES {
            assert_eq!(owner(&vec![20; length]), None);
        }
        assert_eq!(owner(&[0xff; 512]), None);
    }
}
