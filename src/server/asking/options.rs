//! Where to connect and as whom: as database clients are told, on the command line or in a file that is
//! named.

use std::path::PathBuf;

use super::secret::Secret;

/// How a TCP connection is protected. A unix socket needs no protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    Disabled,
    /// Encrypted if the server offers it, as MySQL's own client does; the server's certificate is not
    /// checked.
    #[default]
    Preferred,
    /// Encrypted or not at all; the server's certificate is not checked.
    Required,
    /// The server's certificate must be one of an authority known to us, and for the name that was given.
    VerifyIdentity,
}

impl Tls {
    /// As in `ssl-mode`. MySQL's VERIFY_CA, which does not look at the name, is taken as its stricter
    /// neighbour.
    pub fn parse(text: &str) -> Option<Tls> {
        Some(match text.to_ascii_uppercase().replace('-', "_").as_str() {
            "DISABLED" => Tls::Disabled,
            "PREFERRED" => Tls::Preferred,
            "REQUIRED" => Tls::Required,
            "VERIFY_CA" | "VERIFY_IDENTITY" => Tls::VerifyIdentity,
            _ => return None,
        })
    }
}

/// What was given. Nothing of it is needed: then the socket is found, for an account without a password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    pub socket: Option<PathBuf>,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub user: Option<String>,
    /// PostgreSQL's alone: a connection is one to a database.
    pub database: Option<String>,
    pub password: Option<Secret>,
    pub tls: Option<Tls>,
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl ConnectOptions {
    /// What stands here comes first, and then what `other` has.
    pub fn or(self, other: ConnectOptions) -> ConnectOptions {
        // A socket here is not to lose against a host there, nor the other way round.
        let placed = self.names_a_place();
        ConnectOptions {
            port: self.port.or(if placed && self.host.is_none() { None } else { other.port }),
            socket: if placed { self.socket } else { other.socket },
            host: if placed { self.host } else { other.host },
            user: self.user.or(other.user),
            database: self.database.or(other.database),
            password: self.password.or(other.password),
            tls: self.tls.or(other.tls),
            ca: self.ca.or(other.ca),
            certificate: self.certificate.or(other.certificate),
            key: self.key.or(other.key),
        }
    }

    /// True if they name a place to connect to.
    pub(crate) fn names_a_place(&self) -> bool {
        self.socket.is_some() || self.host.is_some() || self.port.is_some()
    }

    /// The place that is named, if one is. As MySQL's own client has it, "localhost" is the socket, if one is
    /// named.
    pub fn place(&self, default_port: u16) -> Option<Place> {
        let port = self.port.unwrap_or(default_port);
        let is_local = self.host.as_deref().is_none_or(|host| host == "localhost");
        match (&self.socket, &self.host) {
            (Some(socket), _) if is_local => Some(Place::Socket(socket.clone())),
            (_, Some(host)) => Some(Place::Tcp { host: host.clone(), port }),
            (None, None) if self.port.is_some() => Some(Place::Tcp { host: "127.0.0.1".into(), port }),
            _ => None,
        }
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// As this process sees it.
    Socket(PathBuf),
    Tcp {
        host: String,
        port: u16,
    },
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Socket(path) => f.write_str(&crate::text::escape(path.as_os_str().as_encoded_bytes())),
            Place::Tcp { host, port } => write!(f, "{}:{port}", crate::text::escape(host.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_the_socket_and_a_port_alone_is_this_host() {
        let place = |socket: Option<&str>, host: Option<&str>, port| {
            let options = ConnectOptions {
                socket: socket.map(PathBuf::from),
                host: host.map(str::to_owned),
                port,
                ..ConnectOptions::default()
            };
            options.place(3306).map(|place| place.to_string())
        };
        assert_eq!(place(Some("/s"), Some("localhost"), None).unwrap(), "/s");
        assert_eq!(place(Some("/s"), Some("db1"), None).unwrap(), "db1:3306");
        assert_eq!(place(None, None, Some(3310)).unwrap(), "127.0.0.1:3310");
        assert_eq!(place(None, None, None), None);
    }
}
