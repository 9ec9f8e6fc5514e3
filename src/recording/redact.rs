//! Takes out of a recording what is nobody else's: names of hosts, servers, users, processes, files and
//! devices. Each becomes a word with a number, the same one wherever it stood. Every field is named here, so
//! that a new one cannot be forgotten.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::model::{
    DeviceRow, Engine, FileInfo, FileRow, InFlight, Interval, KnownBy, NeighbourRow, OTHER_NEIGHBOURS,
    OwnCounters, OwnReading, Owner, Server, Setup, StorageStack, Table, Unsynced, UnsyncedRow, VerdictRow,
};

/// Endings of files' names that are kept, as they say what kind of file it is.
const ENDINGS: [&str; 16] = [
    "aof", "bin", "db", "dblwr", "frm", "ib", "ibd", "ibt", "ibu", "index", "info", "log", "rdb", "snap",
    "sst", "wal",
];

/// What stands before the name of a binary log, in what a MySQL counted.
const BINLOG_FILE: &str = "binlog_file:";

/// Values that say how a server is set, and not whose it is.
const WORDS_OF_SETTINGS: [&str; 45] = [
    "ALL_O_DIRECT",
    "CRC32",
    "DETECT_AND_RECOVER",
    "DETECT_ONLY",
    "FULL",
    "MINIMAL",
    "MIXED",
    "NO",
    "NOBLOB",
    "NONE",
    "OFF",
    "OFF_PERMISSIVE",
    "ON",
    "ON_PERMISSIVE",
    "O_DIRECT",
    "O_DIRECT_NO_FSYNC",
    "O_DSYNC",
    "READ-COMMITTED",
    "READ-UNCOMMITTED",
    "REPEATABLE-READ",
    "ROW",
    "SERIALIZABLE",
    "STATEMENT",
    "YES",
    "always",
    "crc32",
    "err",
    "everysec",
    "false",
    "fdatasync",
    "fsync",
    "fsync_writethrough",
    "full_crc32",
    "local",
    "master",
    "no",
    "off",
    "ok",
    "on",
    "open_datasync",
    "open_sync",
    "remote_apply",
    "remote_write",
    "slave",
    "true",
];

/// "10.11.14-MariaDB-0+deb12u2": what a distribution calls it, without a space or a path.
fn is_version(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b".-+~_".contains(&byte);
    text.len() < 64 && text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(is_part)
}

pub(crate) struct Redactor {
    /// Engines that everybody knows: profiles of a user's own have names and words of that user's own.
    builtin: Vec<Arc<Engine>>,
    words: BTreeMap<&'static str, BTreeMap<String, usize>>,
}

impl Redactor {
    pub fn new(builtin: Vec<Arc<Engine>>) -> Redactor {
        Redactor { builtin, words: BTreeMap::new() }
    }

    fn is_builtin(&self, engine: &Engine) -> bool {
        self.builtin.iter().any(|known| **known == *engine)
    }

    pub fn interval(&mut self, m: Interval) -> Interval {
        let Interval {
            span,
            setup,
            lost,
            servers,
            roles,
            files,
            rest,
            failures,
            writes,
            write_roles,
            threads: _,
            in_flight,
            neighbours,
            whole_disks: _,
            unwatched,
            devices,
            io,
            counters,
            verdicts,
            unsynced: Unsynced { rows, together, dropped },
            waits,
            wait_losses,
        } = m;
        let known: Vec<Arc<Server>> = servers.iter().cloned().collect();
        let is_known =
            |sync: &InFlight| known.iter().any(|server| server.id == sync.server && server.engine.is_some());
        let known_in_flight: Vec<(bool, InFlight)> =
            in_flight.into_iter().map(|sync| (is_known(&sync), sync)).collect();
        Interval {
            span,
            setup: Arc::new(self.setup(&setup)),
            lost,
            servers: servers.iter().map(|server| Arc::new(self.server(server))).collect(),
            roles,
            files: self.files(files),
            rest,
            failures: self.files(failures),
            writes: self.files(writes),
            write_roles,
            threads: Table::default(),
            in_flight: known_in_flight
                .into_iter()
                .map(|(is_known, sync)| self.in_flight(is_known, sync))
                .collect(),
            neighbours: neighbours.into_iter().map(|row| self.neighbour(row)).collect(),
            whole_disks: Default::default(),
            unwatched,
            io,
            verdicts: (verdicts.into_iter())
                .map(|row| VerdictRow { sentence: without_details(&row.sentence), ..row })
                .collect(),
            counters: counters.into_iter().map(|row| self.counters(row)).collect(),
            devices: devices.into_iter().map(|row| self.device_row(row)).collect(),
            unsynced: Unsynced {
                rows: rows.into_iter().map(|row| UnsyncedRow { info: self.file(&row.info), ..row }).collect(),
                together,
                dropped,
            },
            // Their functions are the kernel's.
            waits,
            wait_losses,
        }
    }

    fn word(&mut self, kind: &'static str, of: &str) -> String {
        let words = self.words.entry(kind).or_default();
        let next = words.len() + 1;
        format!("{kind}-{}", words.entry(of.to_owned()).or_insert(next))
    }

    fn path(&mut self, path: &Path) -> PathBuf {
        let mut redacted = PathBuf::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => redacted.push(self.word("name", &name.to_string_lossy())),
                other => redacted.push(other),
            }
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        if let Some(ending) = ending.filter(|ending| ENDINGS.contains(ending)) {
            redacted.set_extension(ending);
        }
        redacted
    }

    fn counters(&mut self, row: OwnCounters) -> OwnCounters {
        let OwnCounters { server, readings, settings } = row;
        let reading = |reading: &Arc<OwnReading>| {
            let counters = reading.counters.iter().map(|(name, value)| {
                let name = match name.strip_prefix(BINLOG_FILE) {
                    Some(path) => format!("{BINLOG_FILE}{}", self.path(Path::new(path)).display()),
                    None => name.clone(),
                };
                (name, self.value(value))
            });
            let counters = counters.collect();
            Arc::new(OwnReading { counters, ..OwnReading::clone(reading) })
        };
        let readings = readings.iter().map(reading).collect();
        let settings = settings.iter().map(|(name, value)| match &**name {
            "version" if is_version(value) => (name.clone(), value.clone()),
            "port" => (name.clone(), self.word("text", value)),
            _ => (name.clone(), self.value(value)),
        });
        OwnCounters { server, readings, settings: Arc::new(settings.collect()) }
    }

    fn value(&mut self, value: &str) -> String {
        let is_kept = value.parse::<f64>().is_ok() || WORDS_OF_SETTINGS.contains(&value);
        if is_kept { value.to_owned() } else { self.word("text", value) }
    }

    fn arc_path(&mut self, path: &Option<Arc<Path>>) -> Option<Arc<Path>> {
        path.as_deref().map(|path| self.path(path).into())
    }

    fn device(&mut self, device: &str) -> String {
        self.word("device", device)
    }

    /// A sentence of the program's own, in which a path may stand.
    fn sentence(text: &str) -> String {
        let words = text.split(' ').map(|word| if word.contains('/') { "…" } else { word });
        words.collect::<Vec<_>>().join(" ")
    }

    fn setup(&mut self, setup: &Setup) -> Setup {
        let Setup { mode, not_chosen, kernel, host, ops, by_thread, of_anybody, net, note } = setup;
        Setup {
            mode: *mode,
            not_chosen: not_chosen.iter().map(|(mode, why)| (*mode, Self::sentence(why))).collect(),
            kernel: kernel.clone(),
            host: self.word("host", host),
            ops: ops.clone(),
            by_thread: *by_thread,
            of_anybody: *of_anybody,
            net: net.clone(),
            note: note.as_deref().map(Self::sentence),
        }
    }

    fn server(&mut self, server: &Server) -> Server {
        let Server {
            id,
            name,
            comm,
            engine,
            version,
            datadir,
            socket,
            ports: _,
            container,
            device,
            mount,
            filesystem,
            storage,
            seccomp_filters,
            notes,
            thresholds,
            doublewrite_apart_since,
            alive,
            known_by,
        } = server;
        let KnownBy {
            described,
            listens,
            port: _,
            owner: _,
            whose: _,
            proof,
            unit: _,
            datadir: _,
            hostname: _,
            uuid: _,
            server_id: _,
        } = known_by;
        let engine = engine.as_ref().filter(|engine| self.is_builtin(engine));
        let is_product = engine.is_some_and(|engine| engine.commands.contains(comm));
        let thresholds = if engine.is_some() { thresholds.clone() } else { Vec::new() };
        let storage = storage.iter().map(|stack| {
            let StorageStack { mount, layers, durability, is_for_data } = stack;
            StorageStack {
                mount: self.path(mount),
                layers: layers.clone(),
                durability: durability.clone(),
                is_for_data: *is_for_data,
            }
        });
        let storage: Vec<StorageStack> = storage.collect();
        Server {
            id: *id,
            name: self.word("server", name).into(),
            comm: if is_product { comm.clone() } else { self.word("process", comm) },
            engine: engine.cloned(),
            version: version.clone(),
            datadir: datadir.as_deref().map(|path| self.path(path)),
            socket: socket.as_deref().map(|path| self.path(path)),
            ports: Vec::new(),
            container: container.as_deref().map(|name| self.word("container", name)),
            device: device.as_deref().map(|name| self.device(name)),
            mount: mount.as_deref().map(|path| self.path(path)),
            filesystem: filesystem.clone(),
            storage,
            seccomp_filters: *seccomp_filters,
            notes: notes.iter().map(|note| Self::sentence(note)).collect(),
            thresholds,
            doublewrite_apart_since: *doublewrite_apart_since,
            alive: *alive,
            known_by: KnownBy {
                described: *described,
                listens: *listens,
                port: None,
                owner: None,
                whose: Owner::default(),
                proof: *proof,
                unit: None,
                datadir: None,
                hostname: None,
                uuid: None,
                server_id: None,
            },
        }
    }

    fn files(&mut self, rows: Table<FileRow>) -> Table<FileRow> {
        rows.into_iter().map(|row| FileRow { info: self.file(&row.info), ..row }).collect()
    }

    fn file(&mut self, info: &FileInfo) -> Arc<FileInfo> {
        let FileInfo { path, role, device, below, mount, filesystem, open, unlinked } = info;
        Arc::new(FileInfo {
            path: path.as_deref().map(|path| self.path(path)),
            role: *role,
            device: device.as_deref().map(|name| self.device(name).into()),
            below: *below,
            mount: self.arc_path(mount),
            filesystem: filesystem.clone(),
            open: *open,
            unlinked: *unlinked,
        })
    }

    fn in_flight(&mut self, is_of_product: bool, sync: InFlight) -> InFlight {
        let InFlight { server, tid, thread, op, role, path, age, age_is_minimum, count, waits_for } = sync;
        InFlight {
            server,
            tid,
            thread: if is_of_product { thread } else { self.word("thread", &thread) },
            op,
            role,
            path: path.map(|path| self.path(&path)),
            age,
            age_is_minimum,
            count,
            waits_for: waits_for.map(|text| Self::sentence(&text)),
        }
    }

    fn neighbour(&mut self, row: NeighbourRow) -> NeighbourRow {
        let NeighbourRow { device_number, device, mount, comm, stats } = row;
        NeighbourRow {
            device_number,
            device: if device.is_empty() { device } else { self.device(&device) },
            mount: self.arc_path(&mount),
            comm: if comm == OTHER_NEIGHBOURS { comm } else { self.word("process", &comm) },
            stats,
        }
    }

    fn device_row(&mut self, row: DeviceRow) -> DeviceRow {
        let DeviceRow { number, name, mount, written_bytes, read_bytes, submitted_bytes } = row;
        DeviceRow {
            number,
            name: self.device(&name).into(),
            mount: self.arc_path(&mount),
            written_bytes,
            read_bytes,
            submitted_bytes,
        }
    }
}

/// Paths and threads stand in parentheses, and may have any character in them.
fn without_details(sentence: &str) -> String {
    match (sentence.find('('), sentence.rfind(')')) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}(…){}", &sentence[..begin], &sentence[end + 1..])
        }
        _ => sentence.split(" (").next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;
    use crate::model::fixture::{busy, in_flight, neighbour, two_servers};

    /// Everything that is written of an interval.
    fn written(m: &Interval) -> String {
        let mut segment = super::super::segment::Segment::begin(None);
        assert!(segment.push(m, &[]));
        String::from_utf8_lossy(segment.bytes()).into_owned()
    }

    #[test]
    fn nothing_that_names_somebody_is_left_and_every_figure_stays() {
        let mut m = two_servers();
        Arc::make_mut(&mut m.setup).host = "secret-host".into();
        let server = Arc::make_mut(&mut m.servers[0]);
        server.name = "secret-name".into();
        server.datadir = Some("/secret-place/mysql".into());
        server.socket = Some("/secret-place/sock".into());
        server.container = Some("secret-container".into());
        server.device = Some("/dev/secret-device".into());
        server.mount = Some("/secret-mount".into());
        server.notes = vec!["It reads /secret-place/my.cnf.".into()];
        server.storage[0].mount = "/secret-mount".into();
        server.known_by.hostname = Some("secret-pod".into());
        server.known_by.uuid = Some("secret-uuid".into());
        server.known_by.unit = Some("secret.service".into());
        for row in m.files.iter_mut() {
            let info = Arc::make_mut(&mut row.info);
            info.path = Some("/secret-place/shop/secret-table.ibd".into());
            info.device = Some("/dev/secret-device".into());
            info.mount = Some(Path::new("/secret-mount").into());
        }
        m.in_flight.push(in_flight(Role::Redo, "/secret-place/#ib_redo7", std::time::Duration::from_secs(3)));
        m.neighbours = vec![neighbour("/dev/secret-device", "secret-job", &[(3, 1_000)])].into();
        assert!(written(&m).contains("secret"));
        let builtin = m.servers.iter().filter_map(|server| server.engine.clone()).collect();
        let mut redactor = Redactor::new(builtin);
        let redacted = redactor.interval(m.clone());
        assert!(!written(&redacted).contains("secret"), "{}", written(&redacted));
        assert_eq!((redacted.total(), &redacted.roles), (m.total(), &m.roles));
        let stats = |m: &Interval| m.files.iter().map(|row| row.stats.clone()).collect::<Vec<_>>();
        assert_eq!(stats(&redacted), stats(&m));
        let file = redacted.files[0].info.path.clone().unwrap();
        assert_eq!(file.extension().unwrap(), "ibd");
        assert_eq!(&*redacted.servers[0].name, "server-1");
        // The same has the same name later.
        assert_eq!(redactor.interval(m).files[0].info.path.as_ref(), Some(&file));
        let other = redactor.interval(busy());
        assert_ne!(&*other.servers[0].name, "server-1");
    }
}
