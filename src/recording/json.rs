//! The history as one JSON object, and back. Schema 1: `setup`, `options`, what moments refer to (`servers`,
//! `files`, `neighbours`, each with its number), then `moments`, oldest first. Times in nanoseconds, those of
//! the wall clock since 1970; paths as text in which bytes that are no UTF-8 are `\xNN`, and a backslash is
//! `\\`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use super::packed::{Inconsistent, Packed, Tables};
use super::{History, Options};
use crate::model::{
    AttachMode, Durability, Engine, FileInfo, KnownBy, Net, Op, Role, Server, ServerId, Setup, StorageStack,
    Target, Threshold,
};

pub(crate) const SCHEMA: u32 = 1;

/// Why a history cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the history has schema {0}, this program reads {SCHEMA}: use the same version on both sides")]
    Schema(u32),
    #[error("not what was asked for: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Inconsistent(#[from] Inconsistent),
}

#[derive(Serialize, Deserialize)]
struct JsonSetup {
    mode: AttachMode,
    not_chosen: Vec<(AttachMode, String)>,
    kernel: String,
    #[serde(default)]
    host: String,
    ops: Vec<Op>,
    by_thread: bool,
    #[serde(default)]
    of_anybody: bool,
    #[serde(default)]
    net: Net,
    note: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct JsonOptions {
    length_ns: u64,
    bytes: usize,
    files: usize,
}

#[derive(Serialize, Deserialize)]
struct JsonServer {
    number: u32,
    id: ServerId,
    /// None: of an exporter that did not tell.
    #[serde(default)]
    name: Option<Arc<str>>,
    comm: String,
    /// As the exporter knows it, whose profiles a reader may not have.
    #[serde(default)]
    engine: Option<Arc<Engine>>,
    version: Option<String>,
    #[serde(with = "super::bytes::optional_path")]
    datadir: Option<PathBuf>,
    #[serde(with = "super::bytes::optional_path")]
    socket: Option<PathBuf>,
    ports: Vec<u16>,
    container: Option<String>,
    device: Option<String>,
    #[serde(default, with = "super::bytes::optional_path")]
    mount: Option<PathBuf>,
    filesystem: Option<String>,
    #[serde(default)]
    storage: Vec<JsonStack>,
    #[serde(default)]
    seccomp_filters: u32,
    notes: Vec<String>,
    #[serde(default)]
    thresholds: Vec<Threshold>,
    #[serde(default)]
    doublewrite_apart_since: Option<Duration>,
    alive: bool,
    known_by: KnownBy,
}

#[derive(Serialize, Deserialize)]
struct JsonStack {
    #[serde(with = "super::bytes::optional_path")]
    mount: Option<PathBuf>,
    layers: Vec<String>,
    #[serde(flatten)]
    durability: Durability,
    is_for_data: bool,
}

#[derive(Serialize, Deserialize)]
struct JsonFile {
    number: u32,
    server: ServerId,
    target: Target,
    #[serde(with = "super::bytes::optional_path")]
    path: Option<PathBuf>,
    role: Role,
    device: Option<Arc<str>>,
    #[serde(default)]
    below: Option<u32>,
    #[serde(with = "super::bytes::optional_path")]
    mount: Option<PathBuf>,
    filesystem: Option<Arc<str>>,
    open: bool,
    unlinked: bool,
}

#[derive(Serialize, Deserialize)]
struct JsonNeighbour {
    number: u32,
    device_number: u32,
    device: String,
    comm: String,
}

#[derive(Deserialize)]
struct OnlySchema {
    schema: u32,
}

#[derive(Deserialize)]
struct JsonHistory {
    setup: Option<JsonSetup>,
    options: JsonOptions,
    short_of_memory: bool,
    servers: Vec<JsonServer>,
    files: Vec<JsonFile>,
    neighbours: Vec<JsonNeighbour>,
    moments: Vec<Packed>,
}

/// A sequence that is made while it is written.
struct Each<F>(F);

impl<I: Iterator<Item: Serialize>, F: Fn() -> I> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

impl Serialize for History {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let options = JsonOptions {
            length_ns: self.options.length.as_nanos() as u64,
            bytes: self.options.bytes,
            files: self.options.files,
        };
        let setup = self.setup.as_ref().map(|setup| JsonSetup {
            mode: setup.mode,
            not_chosen: setup.not_chosen.clone(),
            kernel: setup.kernel.clone(),
            host: setup.host.clone(),
            ops: setup.ops.clone(),
            by_thread: setup.by_thread,
            of_anybody: setup.of_anybody,
            net: setup.net.clone(),
            note: setup.note.clone(),
        });
        let tables = &self.tables;
        let neighbours = || {
            tables.neighbours.iter().map(|(number, (device_number, comm), device)| JsonNeighbour {
                number,
                device_number: *device_number,
                device: device.clone(),
                comm: comm.clone(),
            })
        };
        let mut object = serializer.serialize_struct("History", 8)?;
        object.serialize_field("schema", &SCHEMA)?;
        object.serialize_field("setup", &setup)?;
        object.serialize_field("options", &options)?;
        object.serialize_field("short_of_memory", &self.short_of_memory)?;
        object.serialize_field(
            "servers",
            &Each(|| tables.servers.iter().map(|(n, id, s)| json_server(n, *id, s))),
        )?;
        object.serialize_field(
            "files",
            &Each(|| tables.files.iter().map(|(n, key, info)| json_file(n, key, info))),
        )?;
        object.serialize_field("neighbours", &Each(neighbours))?;
        object.serialize_field("moments", &Each(|| self.moments.iter().filter_map(super::Kept::read)))?;
        object.end()
    }
}

fn json_server(number: u32, id: ServerId, server: &Server) -> JsonServer {
    JsonServer {
        number,
        id,
        name: Some(server.name.clone()),
        comm: server.comm.clone(),
        engine: server.engine.clone(),
        version: server.version.clone(),
        datadir: server.datadir.clone(),
        socket: server.socket.clone(),
        ports: server.ports.clone(),
        container: server.container.clone(),
        device: server.device.clone(),
        mount: server.mount.clone(),
        filesystem: server.filesystem.clone(),
        storage: server.storage.iter().map(JsonStack::from).collect(),
        seccomp_filters: server.seccomp_filters,
        notes: server.notes.clone(),
        thresholds: server.thresholds.clone(),
        doublewrite_apart_since: server.doublewrite_apart_since,
        alive: server.alive,
        known_by: server.known_by.clone(),
    }
}

impl From<&StorageStack> for JsonStack {
    fn from(stack: &StorageStack) -> JsonStack {
        let StorageStack { mount, layers, durability, is_for_data } = stack.clone();
        JsonStack { mount: Some(mount), layers, durability, is_for_data }
    }
}

impl From<JsonStack> for StorageStack {
    fn from(stack: JsonStack) -> StorageStack {
        let JsonStack { mount, layers, durability, is_for_data } = stack;
        StorageStack { mount: mount.unwrap_or_default(), layers, durability, is_for_data }
    }
}

fn json_file(number: u32, &(server, target): &(ServerId, Target), info: &FileInfo) -> JsonFile {
    JsonFile {
        number,
        server,
        target,
        path: info.path.clone(),
        role: info.role,
        device: info.device.clone(),
        below: info.below,
        mount: info.mount.as_deref().map(Path::to_owned),
        filesystem: info.filesystem.clone(),
        open: info.open,
        unlinked: info.unlinked,
    }
}

impl History {
    /// On one line, with a newline at its end.
    pub fn write_json(&self, mut out: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")
    }

    /// Reads back what [`History::write_json`] wrote.
    pub(crate) fn read_json(text: &str) -> Result<History, ReadError> {
        let OnlySchema { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(ReadError::Schema(schema));
        }
        let json: JsonHistory = serde_json::from_str(text)?;
        let mut history = History::new(Options {
            length: Duration::from_nanos(json.options.length_ns),
            bytes: json.options.bytes,
            files: json.options.files,
        });
        history.setup = json.setup.map(|setup| {
            let JsonSetup { mode, not_chosen, kernel, host, ops, by_thread, of_anybody, net, note } = setup;
            Arc::new(Setup { mode, not_chosen, kernel, host, ops, by_thread, of_anybody, net, note })
        });
        history.short_of_memory = json.short_of_memory;
        let (tables, numbers) = tables_of(json.servers, json.files, json.neighbours);
        for mut packed in json.moments {
            let Some(setup) = &history.setup else { break };
            numbers.apply(&mut packed)?;
            let moment = tables.unpack(packed, setup.clone())?;
            history.insert(&moment);
        }
        for (_, id, server) in tables.servers.iter() {
            history.tables.servers.update(id, server.clone());
        }
        Ok(history)
    }
}

/// The numbers of entries as they came, and as they are here: those of a table are places in memory, and must
/// not be of the sender's choice.
#[derive(Default)]
struct Numbers {
    servers: HashMap<u32, u32>,
    files: HashMap<u32, u32>,
    neighbours: HashMap<u32, u32>,
}

impl Numbers {
    fn apply(&self, packed: &mut Packed) -> Result<(), Inconsistent> {
        let renumber = |numbers: &HashMap<u32, u32>, number: &mut u32| {
            *number = *numbers.get(number).ok_or(Inconsistent)?;
            Ok(())
        };
        packed.servers().try_for_each(|number| renumber(&self.servers, number))?;
        packed.files().try_for_each(|number| renumber(&self.files, number))?;
        packed.neighbours().try_for_each(|number| renumber(&self.neighbours, number))
    }
}

fn tables_of(
    servers: Vec<JsonServer>,
    files: Vec<JsonFile>,
    neighbours: Vec<JsonNeighbour>,
) -> (Tables, Numbers) {
    let (mut tables, mut numbers) = (Tables::default(), Numbers::default());
    for server in servers {
        let JsonServer { number, id, name, comm, version, datadir, socket, ports, container, device, .. } =
            server;
        let (engine, mount, filesystem) = (server.engine, server.mount, server.filesystem);
        let (notes, thresholds) = (server.notes, server.thresholds);
        let (alive, known_by) = (server.alive, server.known_by);
        let storage = server.storage.into_iter().map(Into::into).collect();
        let (seccomp_filters, doublewrite_apart_since) =
            (server.seccomp_filters, server.doublewrite_apart_since);
        let server = Server {
            id,
            name: name.unwrap_or_else(|| comm.as_str().into()),
            comm,
            engine,
            version,
            datadir,
            socket,
            ports,
            container,
            device,
            mount,
            filesystem,
            storage,
            seccomp_filters,
            doublewrite_apart_since,
            notes,
            thresholds,
            alive,
            known_by,
        };
        numbers.servers.insert(number, tables.servers.hold(&id, || Arc::new(server)));
    }
    for file in files {
        let JsonFile { number, server, target, path, role, device, below, mount, filesystem, open, unlinked } =
            file;
        let mount = mount.map(Into::into);
        let info = FileInfo { path, role, device, below, mount, filesystem, open, unlinked };
        numbers.files.insert(number, tables.files.hold(&(server, target), || Arc::new(info)));
    }
    for neighbour in neighbours {
        let JsonNeighbour { number, device_number, device, comm } = neighbour;
        let held = tables.neighbours.hold(&(device_number, comm), || device);
        numbers.neighbours.insert(number, held);
    }
    (tables, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_an_entry_makes_no_room_for_those_below_it() {
        let neighbour = |number| JsonNeighbour {
            number,
            device_number: number,
            device: "vda".into(),
            comm: "mysqld".into(),
        };
        let bytes = |numbers: &[u32]| {
            let (tables, _) = tables_of(vec![], vec![], numbers.iter().copied().map(neighbour).collect());
            assert_eq!(tables.neighbours.iter().count(), numbers.len());
            tables.bytes()
        };
        assert_eq!(bytes(&[7, (1 << 20) - 1, u32::MAX]), bytes(&[0, 1, 2]));
    }
}
