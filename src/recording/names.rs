//! What the figures of intervals refer to by number: servers, files and neighbours. Each segment tells them
//! anew, once each and again when something of them changes, so that it can be read alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::frame::MAX_PAYLOAD;
use crate::model::{FileInfo, MAX_FRAMES, MAX_NAME, NeighbourRow, Server, ServerId, Stack, Target, Words};
use crate::text::escape_sentence;

/// As JSON in a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct ServerEntry {
    number: u32,
    server: Arc<Server>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FileEntry {
    number: u32,
    server: ServerId,
    target: Target,
    info: Arc<FileInfo>,
}

/// Syncs of untraced processes of one name on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct NeighbourEntry {
    number: u32,
    device_number: u32,
    device: String,
    comm: String,
}

/// Functions of the kernel in which syncs waited, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StackEntry {
    number: u32,
    frames: Stack,
}

#[derive(Default, Serialize)]
struct Entries {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    servers: Vec<ServerEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<FileEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    neighbours: Vec<NeighbourEntry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<StackEntry>,
}

/// The same as they are read: one entry that makes no sense to this version costs no other.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnyEntries {
    servers: Vec<Value>,
    files: Vec<Value>,
    neighbours: Vec<Value>,
    stacks: Vec<Value>,
}

/// By number, as it was told last: of what is known better later, also earlier figures say so.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    servers: BTreeMap<u32, Arc<Server>>,
    files: BTreeMap<u32, (ServerId, Target, Arc<FileInfo>)>,
    neighbours: BTreeMap<u32, (u32, String, String)>,
    stacks: BTreeMap<u32, Stack>,
}

impl Names {
    /// Takes in a frame. Entries that make no sense to this version are passed over.
    pub fn read(&mut self, json: &[u8]) {
        let Ok(entries) = serde_json::from_slice::<AnyEntries>(json) else { return };
        let servers = entries.servers.into_iter().filter_map(server_entry);
        self.servers.extend(servers.map(|ServerEntry { number, server }| (number, server)));
        let files = entries.files.into_iter().filter_map(|value| serde_json::from_value(value).ok());
        self.files
            .extend(files.map(|FileEntry { number, server, target, info }| (number, (server, target, info))));
        let neighbours =
            entries.neighbours.into_iter().filter_map(|value| serde_json::from_value(value).ok());
        self.neighbours.extend(neighbours.map(|NeighbourEntry { number, device_number, device, comm }| {
            (number, (device_number, device, comm))
        }));
        let stacks = entries.stacks.into_iter().filter_map(|value| serde_json::from_value(value).ok());
        let is_sane = |StackEntry { frames, .. }: &StackEntry| {
            frames.len() <= MAX_FRAMES && frames.iter().all(|name| name.len() <= MAX_NAME)
        };
        self.stacks.extend(stacks.filter(is_sane).map(|StackEntry { number, frames }| (number, frames)));
    }

    /// Servers, files, neighbours and stacks.
    pub fn len(&self) -> usize {
        self.servers.len() + self.files.len() + self.neighbours.len() + self.stacks.len()
    }

    pub fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }

    /// One whose frame is damaged is nobody known, and no other one.
    pub fn server(&self, number: u32) -> Option<&Arc<Server>> {
        self.servers.get(&number)
    }

    pub fn server_id(&self, number: u32) -> ServerId {
        self.servers.get(&number).map_or(UNKNOWN, |server| server.id)
    }

    pub fn file(&self, number: u32) -> (ServerId, Target, Arc<FileInfo>) {
        let known = self.files.get(&number).cloned();
        known.unwrap_or_else(|| (UNKNOWN, Target::Unattributed, Arc::default()))
    }

    /// Its device's number and name, and what its processes are called.
    pub fn neighbour(&self, number: u32) -> (u32, String, String) {
        let known = self.neighbours.get(&number).cloned();
        known.unwrap_or_else(|| (0, String::new(), crate::model::OTHER_NEIGHBOURS.to_owned()))
    }

    pub fn stack(&self, number: u32) -> Stack {
        self.stacks.get(&number).cloned().unwrap_or_default()
    }
}

/// Of whom no frame that is whole tells. No process has it; all of them are one, so that a recording that
/// names nobody takes no room for each.
const UNKNOWN: ServerId = ServerId { pid: 0, start_ns: u64::MAX };

/// Of a later version's engine that makes no sense to this one, all but that is known. Words that are
/// printed as they are here are made harmless: anybody may have written them.
fn server_entry(mut value: Value) -> Option<ServerEntry> {
    let mut entry: ServerEntry = match serde_json::from_value(value.clone()) {
        Ok(entry) => entry,
        Err(_) => {
            let server = value.get_mut("server")?.as_object_mut()?;
            server.insert("engine".into(), Value::Null);
            server.insert("thresholds".into(), Value::Array(Vec::new()));
            serde_json::from_value(value).ok()?
        }
    };
    let server = Arc::make_mut(&mut entry.server);
    server.name = escape_sentence(&server.name).into();
    if let Some(engine) = &mut server.engine {
        let engine = Arc::make_mut(engine);
        let Words { who, queue, unsynced } = &mut engine.words;
        let words = [&mut engine.name, &mut engine.title, who, queue];
        words.into_iter().chain(unsynced).for_each(|word| *word = escape_sentence(word));
    }
    Some(entry)
}

/// The numbers of a segment that is being written, and what it has not told yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    servers: HashMap<ServerId, u32>,
    files: HashMap<(ServerId, Target), u32>,
    neighbours: HashMap<(u32, String), u32>,
    stacks: HashMap<Stack, u32>,
    told: Names,
    untold: Untold,
}

#[derive(Clone, Debug, Default)]
struct Untold {
    servers: Vec<u32>,
    files: Vec<u32>,
    neighbours: Vec<u32>,
    stacks: Vec<u32>,
}

impl Numbers {
    /// Of a server of which something is known.
    pub fn known_server(&mut self, server: &Arc<Server>) -> u32 {
        let number = self.number_of_server(server.id);
        let told = self.told.servers.get(&number);
        if !told.is_some_and(|told| Arc::ptr_eq(told, server) || told == server) {
            self.told.servers.insert(number, server.clone());
            self.untold.servers.push(number);
        }
        number
    }

    /// Of one that figures refer to.
    pub fn server(&mut self, id: ServerId) -> u32 {
        match self.servers.get(&id) {
            Some(&number) => number,
            None => self.known_server(&Arc::new(Server::new(id, String::new()))),
        }
    }

    fn number_of_server(&mut self, id: ServerId) -> u32 {
        let next = self.servers.len() as u32;
        *self.servers.entry(id).or_insert(next)
    }

    pub fn file(&mut self, server: ServerId, target: Target, info: &Arc<FileInfo>) -> u32 {
        let next = self.files.len() as u32;
        let number = *self.files.entry((server, target)).or_insert(next);
        let told = self.told.files.get(&number);
        if !told.is_some_and(|(.., told)| Arc::ptr_eq(told, info) || told == info) {
            self.told.files.insert(number, (server, target, info.clone()));
            self.untold.files.push(number);
        }
        number
    }

    pub fn neighbour(&mut self, row: &NeighbourRow) -> u32 {
        let key = (row.device_number, row.comm.clone());
        let next = self.neighbours.len() as u32;
        let number = *self.neighbours.entry(key).or_insert(next);
        if self.told.neighbours.get(&number).is_none_or(|(_, device, _)| *device != row.device) {
            let told = (row.device_number, row.device.clone(), row.comm.clone());
            self.told.neighbours.insert(number, told);
            self.untold.neighbours.push(number);
        }
        number
    }

    pub fn stack(&mut self, stack: &Stack) -> u32 {
        let next = self.stacks.len() as u32;
        *self.stacks.entry(stack.clone()).or_insert_with(|| {
            self.told.stacks.insert(next, stack.clone());
            self.untold.stacks.push(next);
            next
        })
    }

    /// What is to be told before the figures, in pieces that are payloads of frames.
    pub fn tell(&mut self) -> Vec<Vec<u8>> {
        let untold = std::mem::take(&mut self.untold);
        let mut pieces = Vec::new();
        self.put(untold, &mut pieces);
        pieces
    }

    /// One entry that is longer than a payload is left out: the figures then are of somebody unknown.
    fn put(&self, untold: Untold, pieces: &mut Vec<Vec<u8>>) {
        let many = untold.servers.len() + untold.files.len() + untold.neighbours.len() + untold.stacks.len();
        if many == 0 {
            return;
        }
        let json = self.json(&untold);
        match (json.len() > MAX_PAYLOAD, many) {
            (false, _) => pieces.push(json),
            (true, 1) => {}
            (true, _) => {
                let (one, other) = untold.halves();
                self.put(one, pieces);
                self.put(other, pieces);
            }
        }
    }

    fn json(&self, untold: &Untold) -> Vec<u8> {
        let (told, Untold { servers, files, neighbours, stacks }) = (&self.told, untold);
        let server = |&number: &u32| ServerEntry { number, server: told.servers[&number].clone() };
        let file = |&number: &u32| {
            let (server, target, info) = told.files[&number].clone();
            FileEntry { number, server, target, info }
        };
        let neighbour = |&number: &u32| {
            let (device_number, device, comm) = told.neighbours[&number].clone();
            NeighbourEntry { number, device_number, device, comm }
        };
        let stack = |&number: &u32| StackEntry { number, frames: told.stacks[&number].clone() };
        let entries = Entries {
            servers: servers.iter().map(server).collect(),
            files: files.iter().map(file).collect(),
            neighbours: neighbours.iter().map(neighbour).collect(),
            stacks: stacks.iter().map(stack).collect(),
        };
        serde_json::to_vec(&entries).expect("what is told has no part that JSON lacks")
    }

    pub fn told(&self) -> &Names {
        &self.told
    }

    /// Takes in a frame of a segment that is read.
    pub fn read(&mut self, json: &[u8]) {
        self.told.read(json);
    }
}

impl Untold {
    fn lists(&mut self) -> [&mut Vec<u32>; 4] {
        [&mut self.servers, &mut self.files, &mut self.neighbours, &mut self.stacks]
    }

    fn halves(mut self) -> (Untold, Untold) {
        let mut other = Untold::default();
        let is_one_of_each = self.lists().iter().all(|list| list.len() <= 1);
        for (list, rest) in self.lists().into_iter().zip(other.lists()) {
            if !is_one_of_each {
                *rest = list.split_off(list.len().div_ceil(2));
            } else if !list.is_empty() {
                *rest = std::mem::take(list);
                // They are split by what they are.
                break;
            }
        }
        (self, other)
    }
}
