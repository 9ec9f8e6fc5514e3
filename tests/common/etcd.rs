//! An etcd of its own (tools/engines-root.sh), thrown away with the test, and what it counts itself.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use super::chroot::Chroot;
use super::throwaway::{Throwaway, at_rest, free_port};

pub const TOOL: &str = "engines-root.sh";

pub struct Etcd {
    server: Throwaway,
    /// Where it serves clients.
    pub port: u16,
}

impl Etcd {
    /// On the disk of this tree.
    pub fn start(tree: &Chroot) -> Etcd {
        let etcd = Etcd::begin(tree, "http", &[]);
        etcd.until_healthy();
        etcd
    }

    pub fn until_healthy(&self) {
        self.server.wait_until("etcd to be healthy", || {
            self.ask("GET", "/health", "").is_ok_and(|answer| answer.contains("\"health\":\"true\""))
        });
    }

    /// `scheme`: of its port for clients.
    pub fn begin(tree: &Chroot, scheme: &str, options: &[&str]) -> Etcd {
        let data = tree.inside(&tree.disk()).join("etcd").display().to_string();
        let (port, peers) = (free_port(), format!("http://127.0.0.1:{}", free_port()));
        let clients = format!("{scheme}://127.0.0.1:{port}");
        let cluster = format!("default={peers}");
        let arguments = [
            "--data-dir",
            &data,
            "--snapshot-count",
            "100",
            "--listen-client-urls",
            &clients,
            "--advertise-client-urls",
            &clients,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &cluster,
        ];
        let command = tree.enter("/usr/bin/etcd", &[&arguments, options].concat());
        Etcd { server: Throwaway::start(command, tree.directory().join("etcd.log")), port }
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        ask(self.port, method, path, body)
    }

    /// A value under the one key that there is.
    pub fn put(&self, key: u32) {
        // "a" and "b" in base 64, as the gateway wants them.
        self.put_value(["YQ==", "Yg=="][key as usize % 2]);
    }

    /// `value`: in base 64.
    pub fn put_value(&self, value: &str) {
        let body = format!("{{\"key\": \"YQ==\", \"value\": \"{value}\"}}");
        let answer = self.ask("POST", "/v3/kv/put", &body).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// So many clients, each of which puts so many values one after the other.
    pub fn load(&self, clients: u32, puts: u32) {
        std::thread::scope(|scope| {
            for client in 0..clients {
                scope.spawn(move || (0..puts).for_each(|n| self.put(client * puts + n)));
            }
        });
    }

    pub fn defragment(&self) {
        let answer = self.ask("POST", "/v3/maintenance/defragment", "{}").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    fn metric(&self, name: &str) -> u64 {
        let page = self.ask("GET", "/metrics", "").unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {page}")).trim().parse::<f64>().unwrap() as u64
    }

    /// Syncs of the WAL, commits of the backend, syncs of snapshots.
    pub fn counts(&self) -> [u64; 3] {
        [
            "etcd_disk_wal_fsync_duration_seconds",
            "etcd_disk_backend_commit_duration_seconds",
            "etcd_snap_fsync_duration_seconds",
        ]
        .map(|name| self.metric(&format!("{name}_count")))
    }

    /// The counts, once they have stood still: the backend is committed every 100 ms if there is anything.
    pub fn quiet(&self) -> [u64; 3] {
        at_rest(|_| Some(Duration::from_secs(2)), || self.counts())
    }
}

/// What it answers on that port.
pub fn ask(port: u16, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
