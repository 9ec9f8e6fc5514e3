//! The option files of MySQL's and MariaDB's clients, and the account that they take where none is given.

use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::rooted::Root;
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::secret::Secret;
use crate::server::asking::{StatusError, trusted_file};
use crate::server::mysql::settings;
use crate::server::what::settings::Settings;

/// The groups of an option file that are read.
const GROUPS: [&str; 5] = ["client", "client-server", "client-mariadb", "mysql", "fsynctop"];

/// Out of an option file, relative to the working directory.
pub(crate) fn from_file(path: &Path) -> Result<ConnectOptions, StatusError> {
    let failed = |source| StatusError::OptionFile { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(failed)?;
    let root = Root::at(Path::new("/")).map_err(failed)?;
    // The reader skips what is not there, as servers do; a file that was named must be there.
    root.look_up(&absolute, OFlags::empty()).map_err(failed)?;
    let settings = settings::of_groups(&root, &absolute, &GROUPS, &|open| trusted_file::check(open))
        .map_err(|(path, source)| StatusError::OptionFile { path, source })?;
    of_settings(&settings).map_err(|reason| failed(std::io::Error::other(reason)))
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
        database: None,
        password: text("password").map(Secret::new),
        tls: mode.or(verify).or(ssl),
        ca: path("ssl_ca"),
        certificate: path("ssl_cert"),
        key: path("ssl_key"),
    })
}

/// The account's name: as given, or that of the user who runs this.
pub(crate) fn user_name(options: &ConnectOptions) -> String {
    let environment = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    options.user.clone().unwrap_or_else(|| {
        if rustix::process::geteuid().is_root() {
            return "root".into();
        }
        environment("USER").or_else(|| environment("LOGNAME")).unwrap_or_else(|| "root".into())
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::server::asking::options::Place;

    #[test]
    fn an_option_file_is_read_as_clients_do() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("fsynctop.cnf");
        let text = "[mysqld]\nsocket=/server.sock\nport=1\n[client]\nuser=monitor\npassword='p#1\\\"'\n\
                    socket=/run/db.sock\nssl-mode=verify_ca\nssl-ca=/ca.pem\n[fsynctop]\nport=3307\n";
        std::fs::write(&path, text).unwrap();
        let options = from_file(&path).unwrap();
        assert_eq!(user_name(&options), "monitor");
        assert_eq!(options.password.as_ref().unwrap().reveal(), "p#1\"");
        assert_eq!((options.port, options.tls), (Some(3307), Some(Tls::VerifyIdentity)));
        assert_eq!(options.place(3306), Some(Place::Socket("/run/db.sock".into())));
        assert!(!format!("{options:?}").contains("p#1"));

        // The command line wins, and a host there is not beaten by a socket here.
        let given = ConnectOptions { host: Some("db1".into()), ..ConnectOptions::default() };
        let both = given.or(options.clone());
        assert_eq!(both.place(3306), Some(Place::Tcp { host: "db1".into(), port: 3307 }));
        assert_eq!(user_name(&both), "monitor");
        let given = ConnectOptions { socket: Some("/other.sock".into()), ..ConnectOptions::default() };
        assert_eq!(given.or(options).place(3306), Some(Place::Socket("/other.sock".into())));
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
        let options = from_file(&main).unwrap();
        assert_eq!(options.place(3306).unwrap().to_string(), "db1:3307");
        for path in [&main, &extra, &part, &parts] {
            let before = std::fs::metadata(path).unwrap().permissions().mode();
            chmod(path, before | 0o002);
            let error = from_file(&main).unwrap_err().to_string();
            let said = format!("{}: everyone can write it, so it is not trusted: chmod o-w", path.display());
            assert!(error.ends_with(&said), "{error}");
            chmod(path, before);
        }
        from_file(&main).unwrap();
    }

    #[test]
    fn a_named_file_that_cannot_be_used_is_an_error() {
        let error = from_file(Path::new("/no/such.cnf")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the option file /no/such.cnf: No such file"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[client]\nport=many\n").unwrap();
        let error = from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("port = many is no port"), "{error}");
    }
}
