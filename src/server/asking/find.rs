//! The place where a server that runs here can be reached: what its descriptors and its options say, seen
//! through its own root. Reads files of that root: not for a hot path.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::options::{ConnectOptions, Place};
use super::{StatusError, protection};
use crate::linux::rooted::Root;
use crate::model::Server;
use crate::server::who::listening::tcp_addresses;

/// Ports of one server that are tried.
const MAX_PORTS: usize = 8;

/// Where to connect.
#[derive(Clone, Debug)]
pub struct Target {
    pub options: ConnectOptions,
    pub place: Place,
    /// What to call it in messages: a found socket by its path inside the server's root.
    pub name: String,
    /// Ports of this host's loopback addresses that the servers in question were seen to listen on.
    pub server_addresses: Vec<SocketAddr>,
    /// The processes of the servers in question.
    pub servers: Vec<u32>,
    /// A found socket, held open: `place` leads to it by its descriptor, because a symlink in the server's
    /// root must not be followed in ours.
    _socket: Option<Arc<OwnedFd>>,
}

impl Target {
    /// The place that the options name, else the one found for this server.
    pub fn of(options: ConnectOptions, server: &Server, default_port: u16) -> Result<Target, StatusError> {
        match options.place(default_port) {
            Some(place) => Ok(Target::named(options, place).where_servers_listen([server])),
            None => Target::found(options, server),
        }
    }

    pub fn named(options: ConnectOptions, place: Place) -> Target {
        Target {
            options,
            name: place.to_string(),
            place,
            server_addresses: Vec::new(),
            servers: Vec::new(),
            _socket: None,
        }
    }

    /// Each TCP port that this server listens on, that for clients first, by a loopback address where it has
    /// one: for a protocol that is not spoken on sockets, or not always.
    pub(crate) fn where_it_listens(
        options: &ConnectOptions,
        server: &Server,
    ) -> Result<Vec<Target>, StatusError> {
        no_password_for_what_is_found(options)?;
        let refused = |reason: &str| StatusError::NoConnection {
            endpoint: format!("process {}", server.id.pid),
            reason: format!("{reason}; give --host and --port"),
        };
        if !is_here(server) {
            return Err(refused("it is in a network namespace of its own"));
        }
        let mut ports: BTreeMap<u16, IpAddr> = BTreeMap::new();
        for address in tcp_addresses(Path::new("/proc"), server.id.pid) {
            let ip = match address.ip() {
                IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
                other => other,
            };
            // Of a port that is open at several, the address that every host has.
            let best = ports.entry(address.port()).or_insert(ip);
            if ip == Ipv4Addr::LOCALHOST || !best.is_loopback() {
                *best = ip;
            }
        }
        if ports.is_empty() {
            return Err(refused("it was not seen to listen on a TCP port"));
        }
        let target = |(port, ip): (u16, IpAddr)| {
            let place = Place::Tcp { host: ip.to_string(), port };
            Target::named(options.clone(), place).where_servers_listen([server])
        };
        let for_clients = server.known_by.port.and_then(|port| ports.remove_entry(&port));
        Ok(for_clients.into_iter().chain(ports).take(MAX_PORTS).map(target).collect())
    }

    /// It may be one of these servers: then a local port of theirs is no stranger's.
    pub(crate) fn where_servers_listen<'a>(self, servers: impl IntoIterator<Item = &'a Server>) -> Target {
        let (mut pids, mut addresses) = (Vec::new(), Vec::new());
        for server in servers {
            pids.push(server.id.pid);
            if is_here(server) {
                addresses.extend(tcp_addresses(Path::new("/proc"), server.id.pid));
            }
        }
        Target { servers: pids, ..self.where_addresses_are_the_servers(addresses) }
    }

    pub fn where_addresses_are_the_servers(self, addresses: impl IntoIterator<Item = SocketAddr>) -> Target {
        Target { server_addresses: addresses.into_iter().collect(), ..self }
    }

    fn found(options: ConnectOptions, server: &Server) -> Result<Target, StatusError> {
        no_password_for_what_is_found(&options)?;
        let refused = |endpoint: String, reason: String| StatusError::NoConnection { endpoint, reason };
        let Some(path) = &server.socket else {
            let which = format!("process {}", server.id.pid);
            return Err(refused(
                which,
                "it has no socket that could be found; give --socket or --host".into(),
            ));
        };
        let name = crate::text::escape(path.as_os_str().as_encoded_bytes());
        let open = Root::of_process(Path::new("/proc"), server.id.pid)
            .and_then(|root| root.look_up(path, OFlags::empty()))
            .map_err(|error| refused(name.clone(), error.to_string()))?;
        let place = Place::Socket(PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())));
        let target = Target::named(options, place).where_servers_listen([server]);
        Ok(Target { name, _socket: Some(Arc::new(open)), ..target })
    }
}

/// A password goes to no place that was not named: any process can call itself mysqld and listen.
fn no_password_for_what_is_found(options: &ConnectOptions) -> Result<(), StatusError> {
    if options.password.is_none() {
        return Ok(());
    }
    let text = "there is a password, but no place to use it: give --socket or --host (or socket= in an option file); it is \
                not sent to a place that was merely found";
    Err(StatusError::Options(text.into()))
}

/// Whether this server takes connections at that address of this host. None: not known, because it is in a
/// network namespace of its own, where what it listens on may have any address here.
pub(crate) fn listens_at(server: &Server, address: SocketAddr) -> Option<bool> {
    let listens = || tcp_addresses(Path::new("/proc"), server.id.pid);
    is_here(server).then(|| listens().iter().any(|theirs| protection::takes(theirs, address)))
}

/// In our network namespace.
fn is_here(server: &Server) -> bool {
    let ours = network_namespace("self");
    ours.is_some() && network_namespace(&server.id.pid.to_string()) == ours
}

/// A server in a network namespace of its own has loopback addresses of its own.
fn network_namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::asking::secret::Secret;
    use crate::server::who::processes;

    fn server(socket: Option<&Path>) -> Server {
        let id = processes::find(Path::new("/proc"), std::process::id()).unwrap().id();
        Server { socket: socket.map(Path::to_owned), ..Server::new(id, "mysqld".into()) }
    }

    #[test]
    fn a_found_socket_is_reached_by_its_descriptor_and_gets_no_password() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let target = Target::of(ConnectOptions::default(), &server(Some(&path)), 3306).unwrap();
        let Place::Socket(place) = &target.place else { panic!("{target:?}") };
        assert!(place.starts_with("/proc/self/fd"));
        assert_eq!(target.name, path.to_str().unwrap());
        std::os::unix::net::UnixStream::connect(place).unwrap();

        let secret = ConnectOptions { password: Some(Secret::new("p".into())), ..ConnectOptions::default() };
        let error = Target::of(secret.clone(), &server(Some(&path)), 3306).unwrap_err().to_string();
        assert!(error.contains("not sent to a place that was merely found"), "{error}");
        let named = ConnectOptions { socket: Some(path.clone()), ..secret };
        assert_eq!(Target::of(named, &server(None), 3306).unwrap().place, Place::Socket(path));
    }

    #[test]
    fn a_server_is_looked_for_on_the_ports_that_it_listens_on() {
        let server = server(None);
        let wide = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let addresses = || Target::where_it_listens(&ConnectOptions::default(), &server).unwrap();
        let port = wide.local_addr().unwrap().port();
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        // Other tests of this process may listen, too.
        let is_tried = |targets: &[Target]| targets.iter().any(|target| target.name == here.to_string());
        assert!(is_tried(&addresses()) || addresses().len() == MAX_PORTS, "{:?}", addresses());
        assert_eq!(listens_at(&server, here), Some(true));
        drop(wide);
        assert_eq!(listens_at(&server, here), Some(false));
        let gone = Server { id: crate::model::ServerId { pid: 0, start_ns: 1 }, ..server };
        assert_eq!(listens_at(&gone, here), None);
        let error = Target::where_it_listens(&ConnectOptions::default(), &gone).unwrap_err().to_string();
        assert!(error.contains("network namespace of its own; give --host and --port"), "{error}");
    }

    #[test]
    fn without_a_socket_the_message_says_what_to_do() {
        let error = Target::of(ConnectOptions::default(), &server(None), 3306).unwrap_err().to_string();
        assert!(error.contains("give --socket or --host"), "{error}");
        let gone = server(Some(Path::new("/no/such.sock")));
        let error = Target::of(ConnectOptions::default(), &gone, 3306).unwrap_err().to_string();
        assert!(error.starts_with("no connection to the server at /no/such.sock: No such file"), "{error}");
    }
}
