//! What moments refer to by number: each server, file and neighbour is kept once, for as long as a moment
//! refers to it, with what was last known of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::model::{FileInfo, Server, ServerId, Target};

/// Bytes that something takes on the heap, as far as it is its own.
pub(crate) trait Weigh {
    fn heap_bytes(&self) -> usize;
}

/// A key stands twice, and a map of the standard library is about half full.
const OVERHEAD: usize = 48;

#[derive(Clone, Debug)]
pub struct Dictionary<K, V> {
    ids: HashMap<K, u32>,
    entries: Vec<Option<Entry<K, V>>>,
    vacant: Vec<u32>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct Entry<K, V> {
    key: K,
    value: V,
    uses: u32,
}

impl<K, V> Default for Dictionary<K, V> {
    fn default() -> Self {
        Dictionary { ids: HashMap::new(), entries: Vec::new(), vacant: Vec::new(), bytes: 0 }
    }
}

impl<K: Clone + Eq + Hash + Weigh, V: Weigh> Dictionary<K, V> {
    /// The number of an entry, made if need be; one more user of it.
    pub fn hold(&mut self, key: &K, value: impl FnOnce() -> V) -> u32 {
        let id = match self.ids.get(key) {
            Some(&id) => id,
            None => {
                let id = self.vacant.pop().unwrap_or(self.entries.len() as u32);
                self.put(id, key.clone(), value());
                id
            }
        };
        if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
            entry.uses += 1;
        }
        id
    }

    /// Puts an entry under a number that nobody uses yet.
    fn put(&mut self, id: u32, key: K, value: V) {
        self.bytes += weight(&key, &value);
        self.ids.insert(key.clone(), id);
        while self.entries.len() <= id as usize {
            self.entries.push(None);
        }
        self.entries[id as usize] = Some(Entry { key, value, uses: 0 });
    }

    /// One user less: without any, the entry goes.
    pub fn release(&mut self, id: u32) {
        let Some(place) = self.entries.get_mut(id as usize) else { return };
        let Some(entry) = place else { return };
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses == 0
            && let Some(entry) = place.take()
        {
            self.bytes -= weight(&entry.key, &entry.value);
            self.ids.remove(&entry.key);
            self.vacant.push(id);
        }
    }

    /// What is known now, if it is kept at all.
    pub fn update(&mut self, key: &K, value: V) {
        let Some(&id) = self.ids.get(key) else { return };
        if let Some(Some(entry)) = self.entries.get_mut(id as usize) {
            self.bytes = self.bytes + value.heap_bytes() - entry.value.heap_bytes();
            entry.value = value;
        }
    }

    pub fn get(&self, id: u32) -> Option<(&K, &V)> {
        let entry = self.entries.get(id as usize)?.as_ref()?;
        Some((&entry.key, &entry.value))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        let numbered = self.entries.iter().enumerate();
        numbered.filter_map(|(id, entry)| entry.as_ref().map(|entry| (id as u32, &entry.key, &entry.value)))
    }

    /// Estimated, and rather too many than too few.
    pub fn bytes(&self) -> usize {
        self.bytes + self.entries.capacity() * size_of::<Option<Entry<K, V>>>() + self.vacant.capacity() * 4
    }
}

fn weight<K: Weigh, V: Weigh>(key: &K, value: &V) -> usize {
    2 * key.heap_bytes() + 2 * size_of::<K>() + OVERHEAD + value.heap_bytes()
}

impl Weigh for ServerId {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weigh for (ServerId, Target) {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weigh for (u32, String) {
    fn heap_bytes(&self) -> usize {
        self.1.len() + 16
    }
}

impl Weigh for String {
    fn heap_bytes(&self) -> usize {
        self.len() + 16
    }
}

/// Shared with the snapshots for as long as there are any; counted here all the same. Device, mount and
/// filesystem are the same for many files, and weigh nothing.
impl Weigh for Arc<FileInfo> {
    fn heap_bytes(&self) -> usize {
        let path = self.path.as_ref().map_or(0, |path| path.as_os_str().len() + 16);
        size_of::<FileInfo>() + 32 + path
    }
}

impl Weigh for Arc<Server> {
    fn heap_bytes(&self) -> usize {
        let paths =
            [&self.datadir, &self.socket].into_iter().flatten().map(|path| path.as_os_str().len() + 16);
        let names = [&self.version, &self.container, &self.device, &self.filesystem].into_iter().flatten();
        let names = names.chain(&self.notes).chain([&self.comm]).map(Weigh::heap_bytes);
        let lists = self.ports.len() * 2 + self.notes.len() * size_of::<String>();
        let thresholds = self.thresholds.iter().map(|threshold| {
            let text = threshold.says.len()
                + threshold.source.len()
                + threshold.setting.as_ref().map_or(0, String::len);
            size_of_val(threshold) + text + 48
        });
        let stacks = self.storage.iter().map(|stack| {
            let layers = stack.layers.iter().map(|layer| layer.len() + 40).sum::<usize>();
            let because = stack.durability.because().map_or(0, str::len);
            size_of_val(stack) + stack.mount.as_os_str().len() + layers + because + 48
        });
        size_of::<Server>()
            + 32
            + stacks.sum::<usize>()
            + paths.sum::<usize>()
            + names.sum::<usize>()
            + lists
            + thresholds.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stays_as_long_as_it_is_used_and_its_number_is_used_again() {
        let mut table: Dictionary<(u32, String), String> = Dictionary::default();
        let key = |n: u32| (n, "command".to_owned());
        let first = table.hold(&key(1), || "a".into());
        assert_eq!(table.hold(&key(1), || unreachable!()), first);
        table.update(&key(1), "longer".into());
        assert_eq!(table.get(first), Some((&key(1), &"longer".to_owned())));
        let second = table.hold(&key(2), || "b".into());
        table.release(first);
        assert!(table.get(first).is_some());
        table.release(first);
        assert!(table.get(first).is_none());
        assert_eq!(table.hold(&key(3), || "c".into()), first);
        table.release(first);
        table.release(second);
        assert_eq!((table.iter().count(), table.bytes), (0, 0));
    }
}
