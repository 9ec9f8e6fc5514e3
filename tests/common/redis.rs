//! A Redis or Valkey of its own (tools/engines-root.sh, tools/valkey-root.sh), thrown away with the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::chroot::Chroot;
use super::throwaway::Throwaway;
use super::wait_until;

pub const REDIS: &str = "/usr/bin/redis-server";

pub struct Redis {
    server: Throwaway,
    /// Outside of its root.
    pub socket: PathBuf,
    client: Client,
}

/// A connection.
pub struct Client(BufReader<UnixStream>);

impl Deref for Redis {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Redis {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Redis {
    /// On the disk of this tree, with its socket and no port, each write synced and nothing done by itself;
    /// `options` come last.
    pub fn start(tree: &Chroot, program: &str, options: &[&str]) -> Redis {
        let data = tree.disk().join("redis");
        std::fs::create_dir_all(&data).unwrap();
        let socket = tree.directory().join("redis.sock");
        let (inside, data) = (tree.inside(&socket), tree.inside(&data));
        let arguments = [
            "--port",
            "0",
            "--unixsocket",
            inside.to_str().unwrap(),
            "--dir",
            data.to_str().unwrap(),
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "always",
            "--auto-aof-rewrite-percentage",
            "0",
        ];
        let command = tree.enter(program, &[&arguments, options].concat());
        let server = Throwaway::start(command, tree.directory().join("redis.log"));
        server.wait_until("Redis to listen", || UnixStream::connect(&socket).is_ok());
        let mut client = Client::connect(&socket);
        server.wait_until("Redis to have read its files", || !client.ask("PING").starts_with("-LOADING"));
        Redis { server, socket, client }
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }
}

impl Client {
    pub fn connect(socket: &Path) -> Client {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client(BufReader::new(stream))
    }

    /// A command, and the first line of the answer; of a bulk string, the string.
    pub fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let Some(length) = line.strip_prefix('$').filter(|length| !length.starts_with('-')) else {
            return line.trim_end().to_owned();
        };
        let mut bytes = vec![0; length.trim().parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut bytes).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// So many commands, one after the other, each of which writes.
    pub fn set(&mut self, commands: u32) {
        for n in 0..commands {
            assert_eq!(self.ask(&format!("SET key{n} value")), "+OK");
        }
    }

    pub fn info(&mut self, name: &str) -> String {
        let info = self.ask("INFO persistence");
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
    }

    /// A new base of the append-only file, or a saved file.
    pub fn write_by_child(&mut self, command: &str) {
        let answer = self.ask(command);
        assert!(answer.starts_with('+'), "{answer}");
        self.wait_for_children();
    }

    fn wait_for_children(&mut self) {
        let children = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        wait_until("Redis' children to end", || children.iter().all(|name| self.info(name) == "0"));
        assert_eq!(
            (self.info("rdb_last_bgsave_status"), self.info("aof_last_bgrewrite_status")),
            ("ok".into(), "ok".into())
        );
    }
}
