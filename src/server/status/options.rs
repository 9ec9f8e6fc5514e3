//! Where to connect and as whom: as any MySQL client is told, on the command line or in an option file that
//! is named.

use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::StatusError;
use super::secret::Secret;
use super::trusted_file;
use crate::linux::rooted::Root;
use crate::server::settings::Settings;

/// The groups of an option file that are read.
const GROUPS: [&str; 5] = ["client", "client-server", "client-mariadb", "mysql", "fsynctop"];
pub(crate) const DEFAULT_PORT: u16 = 3306;

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
    pub password: Option<Secret>,
    pub tls: Option<Tls>,
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

impl ConnectOptions {
    /// Out of an option file, relative to the working directory.
    pub(crate) fn from_file(path: &Path) -> Result<ConnectOptions, StatusError> {
        let failed = |source| StatusError::OptionFile { path: path.to_owned(), source };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let root = Root::at(Path::new("/")).map_err(failed)?;
        // The reader skips what is not there, as servers do; a file that was named must be there.
        root.look_up(&absolute, OFlags::empty()).map_err(failed)?;
        let settings = Settings::of_groups(&root, &absolute, &GROUPS, &|open| trusted_file::check(open))
            .map_err(|(path, source)| StatusError::OptionFile { path, source })?;
        ConnectOptions::of_settings(&settings).map_err(|reason| failed(std::io::Error::other(reason)))
    }

    fn of_settings(settings: &Settings) -> Result<ConnectOptions, String> {
        let text = |name: &str| settings.text(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let path = |name: &str| settings.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let port = match text("port") {
            None => None,
            Some(text) => Some(text.parse().map_err(|_| format!("port = {text} is no port"))?),
        };
        let mode = match text("ssl_mode") {
            None => None,
            Some(text) => Some(Tls::parse(&text).ok_or_else(|| format!("ssl-mode = {text} is unknown"))?),
        };
        // MariaDB's names for the same.
        let verify = settings.flag("ssl_verify_server_cert").filter(|&on| on).map(|_| Tls::VerifyIdentity);
        let ssl = settings.flag("ssl").map(|on| if on { Tls::Required } else { Tls::Disabled });
        Ok(ConnectOptions {
            socket: path("socket"),
            host: text("host"),
            port,
            user: text("user"),
            password: text("password").map(Secret::new),
            tls: mode.or(verify).or(ssl),
            ca: path("ssl_ca"),
            certificate: path("ssl_cert"),
            key: path("ssl_key"),
        })
    }

    /// What stands here comes first, and then what `other` has.
    pub fn or(self, other: ConnectOptions) -> ConnectOptions {
        // A socket here is not to lose against a host there, nor the other way round.
        let placed = self.names_a_place();
        ConnectOptions {
            port: self.port.or(if placed && self.host.is_none() { None } else { other.port }),
            socket: if placed { self.socket } else { other.socket },
            host: if placed { self.host } else { other.host },
            user: self.user.or(other.user),
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

    /// The account's name: as given, or that of the user who runs this.
    pub(crate) fn user_name(&self) -> String {
        let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        self.user.clone().unwrap_or_else(|| {
            if rustix::process::geteuid().is_root() {
                return "root".into();
            }
            environment("USER").or_else(|| environment("LOGNAME")).unwrap_or_else(|| "root".into())
        })
    }

    /// The place that is named, if one is. As MySQL's own client: "localhost" is the socket, if one is named.
    pub fn place(&self) -> Option<Place> {
        let port = self.port.unwrap_or(DEFAULT_PORT);
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
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_option_file_is_read_as_clients_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsynctop.cnf");
        let text = "[mysqld]\nsocket=/server.sock\nport=1\n[client]\nuser=monitor\npassword='p#1\\\"'\n\
                    socket=/run/db.sock\nssl-mode=verify_ca\nssl-ca=/ca.pem\n[fsynctop]\nport=3307\n";
        std::fs::write(&path, text).unwrap();
        let options = ConnectOptions::from_file(&path).unwrap();
        assert_eq!(options.user_name(), "monitor");
        assert_eq!(options.password.as_ref().unwrap().reveal(), "p#1\"");
        assert_eq!((options.port, options.tls), (Some(3307), Some(Tls::VerifyIdentity)));
        assert_eq!(options.place(), Some(Place::Socket("/run/db.sock".into())));
        assert!(!format!("{options:?}").contains("p#1"));

        // The command line wins, and a host there is not beaten by a socket here.
        let given = ConnectOptions { host: Some("db1".into()), ..ConnectOptions::default() };
        let both = given.or(options.clone());
        assert_eq!(both.place(), Some(Place::Tcp { host: "db1".into(), port: 3307 }));
        assert_eq!(both.user_name(), "monitor");
        let given = ConnectOptions { socket: Some("/other.sock".into()), ..ConnectOptions::default() };
        assert_eq!(given.or(options).place(), Some(Place::Socket("/other.sock".into())));
    }

    #[test]
    fn what_others_can_write_gives_no_credentials_however_it_is_included() {
        let directory = tempfile::tempdir().unwrap();
        let (main, extra) = (directory.path().join("main.cnf"), directory.path().join("extra.cnf"));
        let (parts, part) = (directory.path().join("parts"), directory.path().join("parts/part.cnf"));
        std::fs::create_dir(&parts).unwrap();
        let includes = format!("!include {}\n!includedir {}\n", extra.display(), parts.display());
        std::fs::write(&main, includes + "!include /no/such.cnf\n[client]\nuser=monitor\n").unwrap();
        std::fs::write(&extra, "[client]\nhost=db1\n").unwrap();
        std::fs::write(&part, "[client]\nport=3307\n").unwrap();
        let chmod = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in [&main, &extra, &part] {
            chmod(path, 0o600);
        }
        let options = ConnectOptions::from_file(&main).unwrap();
        assert_eq!(options.place().unwrap().to_string(), "db1:3307");
        for path in [&main, &extra, &part, &parts] {
            let before = std::fs::metadata(path).unwrap().permissions().mode();
            chmod(path, before | 0o002);
            let error = ConnectOptions::from_file(&main).unwrap_err().to_string();
            let said = format!("{}: everyone can write it, so it is not trusted: chmod o-w", path.display());
            assert!(error.ends_with(&said), "{error}");
            chmod(path, before);
        }
        ConnectOptions::from_file(&main).unwrap();
    }

    #[test]
    fn a_named_file_that_cannot_be_used_is_an_error() {
        let error = ConnectOptions::from_file(Path::new("/no/such.cnf")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the option file /no/such.cnf: No such file"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[client]\nport=many\n").unwrap();
        let error = ConnectOptions::from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("port = many is no port"), "{error}");
    }

    #[test]
    fn localhost_is_the_socket_and_a_port_alone_is_this_host() {
        let place = |socket: Option<&str>, host: Option<&str>, port| {
            let options = ConnectOptions {
                socket: socket.map(PathBuf::from),
                host: host.map(str::to_owned),
                port,
                ..ConnectOptions::default()
            };
            options.place().map(|place| place.to_string())
        };
        assert_eq!(place(Some("/s"), Some("localhost"), None).unwrap(), "/s");
        assert_eq!(place(Some("/s"), Some("db1"), None).unwrap(), "db1:3306");
        assert_eq!(place(None, None, Some(3310)).unwrap(), "127.0.0.1:3310");
        assert_eq!(place(None, None, None), None);
    }
}
