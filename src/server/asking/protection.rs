//! Which connection a password may go over: one to this host, or one whose other end has proved who it is.
//! The address decides that is connected to, since a name leads where its resolver says.

use std::net::SocketAddr;

use super::options::{ConnectOptions, Tls};

/// How the connection to this address is to be protected; else why no password goes there, and what to do.
/// `servers`: where the servers in question were seen to listen in this network namespace, `0.0.0.0` and `::`
/// meaning every address of their kind.
pub fn of(options: &ConnectOptions, address: SocketAddr, servers: &[SocketAddr]) -> Result<Tls, String> {
    let default = if options.ca.is_some() { Tls::VerifyIdentity } else { Tls::Preferred };
    let has_password = options.password.as_ref().is_some_and(|password| !password.reveal().is_empty());
    if !has_password {
        return Ok(options.tls.unwrap_or(default));
    }
    if address.ip().to_canonical().is_loopback() {
        let tls = options.tls.unwrap_or(default);
        if tls == Tls::VerifyIdentity || servers.iter().any(|server| takes(server, address)) {
            return Ok(tls);
        }
        // Any user of this host can listen on a port that is free.
        return Err(format!(
            "no server that is traced was seen to listen on {address}, and any user of this host could, so the password \
             is not sent there: give --socket, or --ssl-mode verify-identity"
        ));
    }
    match options.tls.unwrap_or(Tls::VerifyIdentity) {
        Tls::VerifyIdentity => Ok(Tls::VerifyIdentity),
        _ => Err(format!(
            "{} is another host, and with this --ssl-mode anybody on the way there could read the password, so it is \
             not sent: give --ssl-mode verify-identity, with --ssl-ca where the certificate is not of a public \
             authority",
            address.ip()
        )),
    }
}

/// Whether what listens there takes connections to the address. On the same port, another process can listen
/// on another address of this host.
pub(super) fn takes(server: &SocketAddr, address: SocketAddr) -> bool {
    let (theirs, wanted) = (server.ip().to_canonical(), address.ip().to_canonical());
    let everywhere = theirs.is_unspecified() && theirs.is_ipv4() == wanted.is_ipv4();
    server.port() == address.port() && (theirs == wanted || everywhere)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::asking::secret::Secret;

    const MODES: [Option<Tls>; 5] =
        [None, Some(Tls::Disabled), Some(Tls::Preferred), Some(Tls::Required), Some(Tls::VerifyIdentity)];

    fn options(password: Option<&str>, tls: Option<Tls>) -> ConnectOptions {
        let password = password.map(|text| Secret::new(text.into()));
        ConnectOptions { password, tls, ..ConnectOptions::default() }
    }

    fn allowed(password: Option<&str>, address: &str, servers: &[&str]) -> [Option<Tls>; 5] {
        let servers: Vec<_> = servers.iter().map(|server| server.parse().unwrap()).collect();
        MODES.map(|tls| of(&options(password, tls), address.parse().unwrap(), &servers).ok())
    }

    #[test]
    fn a_password_goes_to_another_host_only_where_that_has_proved_who_it_is() {
        let verified = Some(Tls::VerifyIdentity);
        for address in ["192.0.2.1:3306", "[2001:db8::1]:3306", "0.0.0.0:3306", "[::ffff:192.0.2.1]:3306"] {
            let servers = ["0.0.0.0:3306", "[::]:3306"];
            assert_eq!(allowed(Some("p"), address, &servers), [verified, None, None, None, verified]);
        }
        let refusal = of(&options(Some("p"), Some(Tls::Required)), "192.0.2.1:1".parse().unwrap(), &[]);
        assert!(refusal.unwrap_err().contains("--ssl-mode verify-identity"));
    }

    #[test]
    fn without_a_password_every_mode_is_as_it_was_given() {
        let as_given = [Some(Tls::Preferred), MODES[1], MODES[2], MODES[3], MODES[4]];
        for password in [None, Some("")] {
            assert_eq!(allowed(password, "192.0.2.1:3306", &[]), as_given);
            assert_eq!(allowed(password, "127.0.0.1:3306", &[]), as_given);
        }
    }

    #[test]
    fn a_local_port_gets_a_password_if_it_is_the_servers_or_proves_that_it_is() {
        let as_given = [Some(Tls::Preferred), MODES[1], MODES[2], MODES[3], MODES[4]];
        for address in ["127.0.0.1:3306", "127.9.9.9:3306", "[::1]:3306", "[::ffff:127.0.0.1]:3306"] {
            let servers = ["0.0.0.0:33060", "0.0.0.0:3306", "[::]:3306"];
            assert_eq!(allowed(Some("p"), address, &servers), as_given);
            assert_eq!(allowed(Some("p"), address, &servers[..1]), [None, None, None, None, MODES[4]]);
        }
        // Another user may listen on the same port of another address.
        for (address, server) in [
            ("[::1]:3306", "127.0.0.1:3306"),
            ("[::1]:3306", "0.0.0.0:3306"),
            ("127.0.0.1:3306", "[::]:3306"),
            ("127.0.0.1:3306", "10.0.0.5:3306"),
            ("127.0.0.2:3306", "127.0.0.1:3306"),
        ] {
            assert_eq!(
                allowed(Some("p"), address, &[server]),
                [None, None, None, None, MODES[4]],
                "{server}"
            );
        }
        assert_eq!(allowed(Some("p"), "127.0.0.1:3306", &["127.0.0.1:3306"]), as_given);
        let with_ca = ConnectOptions { ca: Some("/ca.pem".into()), ..options(Some("p"), None) };
        assert_eq!(of(&with_ca, "127.0.0.1:1".parse().unwrap(), &[]), Ok(Tls::VerifyIdentity));
    }
}
