//! A file of connection services, as libpq reads it (pg_service.conf): of its groups, [fsynctop].

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::rooted::Root;
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::secret::Secret;
use crate::server::asking::{StatusError, trusted_file};
use crate::server::postgres::adapter::DEFAULT_PORT;

const GROUP: &str = "fsynctop";
/// A service has some ten lines.
const LIMIT: u64 = 64 << 10;

/// Of a file that nobody can change but root and we: it says where a password goes.
pub(crate) fn read(path: &Path) -> Result<ConnectOptions, StatusError> {
    let failed = |source| StatusError::OptionFile { path: path.to_owned(), source };
    let text = contents(path).map_err(failed)?;
    parse(&text).map_err(|reason| failed(io::Error::other(reason)))
}

fn contents(path: &Path) -> io::Result<String> {
    let file = Root::at(Path::new("/"))?.open_file(&std::path::absolute(path)?, OFlags::empty())?;
    trusted_file::check(&file)?;
    let mut text = String::new();
    file.take(LIMIT).read_to_string(&mut text)?;
    Ok(text)
}

fn parse(text: &str) -> Result<ConnectOptions, String> {
    let mut options = ConnectOptions::default();
    let (mut is_in_group, mut is_there) = (false, false);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            is_in_group = name.split(']').next() == Some(GROUP);
            is_there |= is_in_group;
            continue;
        }
        if !is_in_group {
            continue;
        }
        // No spaces around the '=' there: they would belong to the name and the value.
        let (name, value) = line.split_once('=').ok_or_else(|| "a line has no value".to_owned())?;
        if value.is_empty() {
            continue; // as libpq has it, not given
        }
        let text = || Some(value.to_owned());
        match name {
            // A directory is that of a local socket.
            "host" if value.starts_with('/') => options.socket = Some(PathBuf::from(value)),
            "host" | "hostaddr" => options.host = text(),
            "port" => options.port = Some(value.parse().map_err(|_| format!("port={value} is no port"))?),
            "user" => options.user = text(),
            "dbname" => options.database = text(),
            "password" => options.password = text().map(Secret::new),
            "sslmode" => {
                options.tls = Some(tls(value).ok_or_else(|| format!("sslmode={value} is unknown"))?);
            }
            "sslrootcert" => options.ca = Some(value.into()),
            "sslcert" => options.certificate = Some(value.into()),
            "sslkey" => options.key = Some(value.into()),
            other => return Err(format!("{other} is not used here")),
        }
    }
    if !is_there {
        return Err(format!("it has no group [{GROUP}]"));
    }
    // With an authority, libpq checks the certificate under "require" as well.
    if options.ca.is_some() && options.tls == Some(Tls::Required) {
        options.tls = Some(Tls::VerifyIdentity);
    }
    // The socket's name has the port in it.
    let port = options.port.unwrap_or(DEFAULT_PORT);
    options.socket = options.socket.map(|directory| directory.join(format!(".s.PGSQL.{port}")));
    Ok(options)
}

/// "allow" encrypts only where the server insists; "verify-ca", which does not look at the name, is taken as
/// its stricter neighbour.
fn tls(text: &str) -> Option<Tls> {
    Some(match text {
        "disable" | "allow" => Tls::Disabled,
        "prefer" => Tls::Preferred,
        "require" => Tls::Required,
        "verify-ca" | "verify-full" => Tls::VerifyIdentity,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::server::asking::options::Place;

    const TEXT: &str = "# services\n[other]\nhost=elsewhere\nunknown=1\n[fsynctop]\nhost=/run/postgresql\nport=5433\n\
                        user=monitor\ndbname=db\npassword=p=1 \nsslmode=verify-ca\n";

    #[test]
    fn a_service_is_read_as_libpq_does() {
        let options = parse(TEXT).unwrap();
        assert_eq!(options.place(5432), Some(Place::Socket("/run/postgresql/.s.PGSQL.5433".into())));
        assert_eq!((options.user.as_deref(), options.database.as_deref()), (Some("monitor"), Some("db")));
        assert_eq!(options.password.unwrap().reveal(), "p=1");
        assert_eq!(options.tls, Some(Tls::VerifyIdentity));
        let with_authority =
            parse("[fsynctop]\nhost=a\nuser=\nsslmode=require\nsslrootcert=/ca.pem\n").unwrap();
        assert_eq!((with_authority.tls, with_authority.user), (Some(Tls::VerifyIdentity), None));
        let tcp = parse("[fsynctop]\nhost=db1\n").unwrap();
        assert_eq!(tcp.place(5432).unwrap().to_string(), "db1:5432");
        for (text, reason) in [
            ("[other]\nhost=a\n", "it has no group [fsynctop]"),
            ("[fsynctop]\nport=many\n", "port=many is no port"),
            ("[fsynctop]\nsslmode=tls\n", "sslmode=tls is unknown"),
            ("[fsynctop]\nservicefile=/etc/x\n", "servicefile is not used here"),
            ("[fsynctop]\nhost\n", "a line has no value"),
        ] {
            assert_eq!(parse(text).unwrap_err(), reason);
        }
    }

    #[test]
    fn what_others_can_write_gives_no_credentials() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), TEXT).unwrap();
        assert!(read(file.path()).is_ok());
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o646)).unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.ends_with("everyone can write it, so it is not trusted: chmod o-w"), "{error}");
        let error = read(Path::new("/no/such.conf")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the option file /no/such.conf: No such file"), "{error}");
    }
}
