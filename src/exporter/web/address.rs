//! Where the exporter listens: addresses, and sockets that systemd has opened.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::str::FromStr;

use rustix::net::sockopt;

use super::limits::{RECEIVE_BUFFER, SEND_BUFFER};

pub(crate) const DEFAULT: ListenAddress =
    ListenAddress { host: Host::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 9871 };

/// `127.0.0.1:9871`, `[::1]:9871`, `:9871` for all addresses, `localhost:9871`. Other names are not looked
/// up: where the exporter listens must not hang on a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    host: Host,
    port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    Address(IpAddr),
    /// All of this host, IPv6 and IPv4.
    Any,
    Localhost,
}

/// The text is no address to listen on.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("write 127.0.0.1:9871, [::1]:9871, or :9871 for all addresses")]
pub struct ListenAddressError;

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(ListenAddress { host: Host::Address(address.ip()), port: address.port() });
        }
        let (host, port) = text.rsplit_once(':').ok_or(ListenAddressError)?;
        let port = port.parse().map_err(|_| ListenAddressError)?;
        let host = match host {
            "" | "*" => Host::Any,
            "localhost" => Host::Localhost,
            _ => return Err(ListenAddressError),
        };
        Ok(ListenAddress { host, port })
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Host::Address(address) => SocketAddr::new(address, self.port).fmt(f),
            Host::Any => write!(f, ":{}", self.port),
            Host::Localhost => write!(f, "localhost:{}", self.port),
        }
    }
}

/// One that only this host reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopbackAddress(ListenAddress);

impl FromStr for LoopbackAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<LoopbackAddress, String> {
        let address: ListenAddress = text.parse().map_err(|error: ListenAddressError| error.to_string())?;
        match address.host {
            Host::Localhost => Ok(LoopbackAddress(address)),
            Host::Address(one) if one.is_loopback() => Ok(LoopbackAddress(address)),
            _ => Err("nobody is asked for a password there: only a loopback address is taken, as 127.0.0.1:9872 or [::1]:9872".into()),
        }
    }
}

impl From<LoopbackAddress> for ListenAddress {
    fn from(address: LoopbackAddress) -> ListenAddress {
        address.0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}: {source}{hint}", hint = hint(source))]
    Address { address: String, source: io::Error },
    #[error("cannot take over socket {number} from systemd: {source}; ListenStream= must name a TCP port")]
    Activated { number: usize, source: io::Error },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::AddrInUse => "; is another exporter running? `ss -ltnp` shows who listens there",
        ErrorKind::AddrNotAvailable => "; it is no address of this host",
        ErrorKind::PermissionDenied => "; ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

/// The sockets that systemd has opened, and those addresses that they do not cover; the default if there is
/// neither.
pub fn open(
    addresses: &[ListenAddress],
    activated: Vec<TcpListener>,
) -> Result<Vec<TcpListener>, ListenError> {
    if addresses.is_empty() && activated.is_empty() {
        return listen(&[DEFAULT]);
    }
    let covered: Vec<_> = activated.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let is_covered = |address: &ListenAddress| match address.host {
        Host::Address(one) => covered.contains(&SocketAddr::new(one, address.port)),
        Host::Any => covered.iter().any(|own| own.ip().is_unspecified() && own.port() == address.port),
        Host::Localhost => covered.iter().any(|own| own.ip().is_loopback() && own.port() == address.port),
    };
    let rest: Vec<_> = addresses.iter().filter(|address| !is_covered(address)).copied().collect();
    let mut listeners = activated;
    listeners.extend(listen(&rest)?);
    Ok(listeners)
}

/// Opens all of them, or none.
pub fn listen(addresses: &[ListenAddress]) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    for address in addresses {
        let all = match address.host {
            Host::Address(one) => vec![one],
            Host::Any => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED)],
            Host::Localhost => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        };
        for one in all {
            let bound = match TcpListener::bind((one, address.port)) {
                // a kernel without IPv6
                Err(error) if lacks_ipv6(&error) && address.host == Host::Any => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port))
                }
                Err(error) if lacks_ipv6(&error) && address.host == Host::Localhost => continue,
                other => other,
            };
            let prepared = bound.and_then(|listener| prepare(&listener).map(|()| listener));
            let failed = |source| ListenError::Address { address: address.to_string(), source };
            listeners.push(prepared.map_err(failed)?);
        }
    }
    Ok(listeners)
}

fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

/// The sockets that systemd has opened for this process; none if it has not. To be called before there are
/// threads: it takes the variables out of the environment.
pub(crate) fn activated() -> Result<Vec<TcpListener>, ListenError> {
    let mut given = listenfd::ListenFd::from_env();
    let mut listeners = Vec::new();
    for number in 0..given.len() {
        let taken = given.take_tcp_listener(number).and_then(|listener| {
            let listener = listener.ok_or(ErrorKind::NotFound)?;
            prepare(&listener)?;
            Ok(listener)
        });
        listeners.push(taken.map_err(|source| ListenError::Activated { number, source })?);
    }
    Ok(listeners)
}

/// Connections that may wait in the kernel's queue, where the host allows as many (net.core.somaxconn).
const WAITING: i32 = 4_096;

/// Connections inherit the sizes of the listener's buffers.
fn prepare(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    // A longer queue than it was opened with: a listener may be told again.
    rustix::net::listen(listener, WAITING)?;
    sockopt::set_socket_send_buffer_size(listener, SEND_BUFFER)?;
    sockopt::set_socket_recv_buffer_size(listener, RECEIVE_BUFFER)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in ["127.0.0.1:9871", "[::1]:9871", "[::]:80", ":9871", "localhost:1"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        assert_eq!("*:9871".parse::<ListenAddress>().unwrap().to_string(), ":9871");
        for text in ["9871", "example.org:9871", "127.0.0.1", "127.0.0.1:99999", "::1:9871", ""] {
            let error = text.parse::<ListenAddress>().unwrap_err();
            assert!(error.to_string().contains("127.0.0.1:9871"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_open_to_everybody_is_open_on_this_host_only() {
        for text in ["127.0.0.1:9872", "127.1.2.3:0", "[::1]:9872", "localhost:9872"] {
            assert_eq!(ListenAddress::from(text.parse::<LoopbackAddress>().unwrap()).to_string(), text);
        }
        for text in [":9872", "*:9872", "0.0.0.0:9872", "[::]:9872", "192.0.2.1:9872", "[::ffff:10.0.0.1]:1"]
        {
            assert!(text.parse::<LoopbackAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_in_use_is_named_with_what_to_do() {
        let first = listen(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let taken = first[0].local_addr().unwrap();
        let error = listen(&[taken.to_string().parse().unwrap()]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen on {taken}: Address already in use")), "{error}");
        assert!(error.contains("another exporter"), "{error}");
        let error = listen(&["192.0.2.1:9871".parse().unwrap()]).unwrap_err().to_string();
        assert!(error.contains("no address of this host"), "{error}");
    }

    #[test]
    fn all_addresses_are_those_of_both_families() {
        let listeners = listen(&[":0".parse().unwrap()]).unwrap();
        let port = listeners[0].local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }

    #[test]
    fn an_address_that_systemd_has_opened_is_not_opened_again() {
        let activated = listen(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let own = activated[0].local_addr().unwrap();
        let addresses: Vec<ListenAddress> =
            [own.to_string(), "127.0.0.1:0".into()].iter().map(|text| text.parse().unwrap()).collect();
        let listeners = open(&addresses, activated).unwrap();
        assert_eq!(listeners.len(), 2);
        assert_eq!(listeners[0].local_addr().unwrap(), own);
        assert_ne!(listeners[1].local_addr().unwrap(), own);
    }

    #[test]
    fn what_a_connection_may_hold_in_the_kernel_is_bounded() {
        let listeners = listen(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let size = sockopt::socket_send_buffer_size(&listeners[0]).unwrap();
        assert_eq!(size, 2 * SEND_BUFFER);
    }
}
