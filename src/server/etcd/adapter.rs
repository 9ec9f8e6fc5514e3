//! What etcd tells without a connection.

use std::path::PathBuf;

use super::settings;
use crate::model::Server;
use crate::server::what::adapter::{Adapter, Process};
use crate::server::what::known_by::ToldPort;
use crate::server::what::settings::{Bounds, Settings};

/// Where clients connect to if no other port is given (DefaultListenClientURLs).
pub(in crate::server) const DEFAULT_PORT: u16 = 2379;

/// A note of a server that was told so.
pub(crate) const UNSAFE: &str =
    "unsafe-no-fsync is set: etcd leaves syncs out, and a crash of the host can lose what it acknowledged.";

pub(in crate::server) struct Etcd;

impl Adapter for Etcd {
    fn profiles(&self) -> &'static [&'static str] {
        &["etcd"]
    }

    fn settings(&self, process: &Process<'_>, bounds: &Bounds<'_>) -> Settings {
        settings::of_server(process.proc_root, process.pid, bounds)
    }

    /// It has no socket for clients.
    fn complete(&self, _: &Process<'_>, _: &mut Server, _: Vec<PathBuf>, settings: &Settings) -> ToldPort {
        told_port(settings)
    }

    fn notes(&self, settings: &Settings) -> Vec<String> {
        match settings.flag("unsafe_no_fsync") {
            Some(true) => vec![UNSAFE.to_owned()],
            _ => Vec::new(),
        }
    }
}

/// That of the first URL for clients.
fn told_port(settings: &Settings) -> ToldPort {
    let told = settings.text("listen_client_urls").and_then(|urls| port(urls.split(',').next()?.trim()));
    ToldPort { clients: told.or(Some(DEFAULT_PORT)), none: false }
}

/// `http://127.0.0.1:2379`; etcd takes no URL without a port.
fn port(url: &str) -> Option<u16> {
    url.trim_end_matches('/').rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn settings(name: &'static str, value: &'static str) -> Settings {
        Settings::from_pairs(Path::new("/d"), [(name, value)])
    }

    #[test]
    fn the_port_is_the_first_one_for_clients() {
        for (urls, expected) in [
            ("http://127.0.0.1:23790", 23_790),
            ("https://[::]:4001/, http://127.0.0.1:4002", 4_001),
            ("unix://localhost", 2_379),
            ("http://a:99999", 2_379),
            ("", 2_379),
        ] {
            assert_eq!(told_port(&settings("listen_client_urls", urls)).clients, Some(expected), "{urls}");
        }
        assert_eq!(told_port(&Settings::default()).clients, Some(2_379));
    }

    #[test]
    fn what_makes_a_crash_dangerous_is_noted() {
        assert!(Etcd.notes(&settings("unsafe_no_fsync", "false")).is_empty());
        assert_eq!(Etcd.notes(&settings("unsafe_no_fsync", "true")), [UNSAFE]);
    }
}
