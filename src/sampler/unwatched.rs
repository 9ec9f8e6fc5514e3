//! Syncs outside of the watched calls, by server, and of neighbours by device and command.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Sampler;
use super::ledger::subject::comm_of;
use crate::model::{OTHER_NEIGHBOURS, ServerId};
use crate::probe::{NeighbourIdentity, record};
use crate::server::who::processes::cut_to_tick;

/// From there on those that are idle make room in the kernel's map.
const CROWDED: usize = record::UNWATCHED_NEIGHBOURS / 4 * 3;

/// What is known of them.
#[derive(Default)]
pub(super) struct Unwatched {
    /// How many there were when the processes were last read.
    read_at: u64,
    /// (thread group, its start, syncs)
    processes: Vec<(u32, u64, u64)>,
    neighbours: Neighbours,
}

impl Unwatched {
    /// How many untraced processes of a command made, by device; 0 is all devices.
    pub(super) fn by_neighbour(&self) -> impl Iterator<Item = (&Neighbour, u64)> {
        self.neighbours.sums.iter().map(|(neighbour, n)| (neighbour, *n)).filter(|(_, n)| *n > 0)
    }
}

/// A device, 0 for all of them, and a command.
type Neighbour = (u32, String);

/// What neighbours did, the sum of which is exact: who finds no room is "other".
#[derive(Default)]
struct Neighbours {
    /// How many there were when they were last read.
    read_at: u64,
    in_map: HashMap<[u64; 3], u64>,
    sums: BTreeMap<Neighbour, u64>,
}

fn key_of(neighbour: &NeighbourIdentity) -> [u64; 3] {
    [neighbour.comm_low, neighbour.comm_high, u64::from(neighbour.device)]
}

fn others() -> Neighbour {
    (0, OTHER_NEIGHBOURS.to_owned())
}

impl Neighbours {
    /// `total`: read before the others. Those that may make room.
    fn add(&mut self, total: u64, read: &[(NeighbourIdentity, u64)]) -> HashSet<[u64; 3]> {
        let mut idle = HashSet::new();
        for (neighbour, count) in read {
            let key = key_of(neighbour);
            let before = self.in_map.insert(key, *count).unwrap_or_default();
            // Less than before is one that made room, and came back.
            let new = if *count < before { *count } else { count - before };
            if new == 0 {
                idle.insert(key);
            }
            *self.sums.entry((neighbour.device, comm_of(neighbour))).or_default() += new;
        }
        if read.len() < CROWDED {
            idle.clear();
        }
        self.in_map.retain(|key, _| !idle.contains(key));
        if self.sums.len() > 2 * record::UNWATCHED_NEIGHBOURS {
            let kept: HashSet<Neighbour> =
                read.iter().map(|(neighbour, _)| (neighbour.device, comm_of(neighbour))).collect();
            self.sums.retain(|neighbour, _| kept.contains(neighbour));
        }
        let others = self.sums.remove(&others()).unwrap_or_default();
        let known: u64 = self.sums.values().sum();
        self.sums.insert(self::others(), others.max(total.saturating_sub(known)));
        self.read_at = total;
        idle
    }
}

fn server(&(pid, start_ns, _): &(u32, u64, u64)) -> ServerId {
    cut_to_tick(ServerId { pid, start_ns })
}

impl Sampler {
    /// Reads the processes, if there is anything new. One that only does what is not watched is a server,
    /// too.
    pub(super) fn read_unwatched(&mut self) -> std::io::Result<()> {
        let total = self.probe.neighbours_unwatched_count();
        if total != self.unwatched.neighbours.read_at {
            let read = self.probe.neighbours_unwatched().map_err(std::io::Error::other)?;
            let idle = self.unwatched.neighbours.add(total, &read);
            if !idle.is_empty() {
                self.probe.forget_neighbours_unwatched(|neighbour| idle.contains(&key_of(neighbour)));
            }
        }
        let total = self.probe.unwatched_count();
        if total == self.unwatched.read_at {
            return Ok(());
        }
        let processes = self.probe.unwatched().map_err(std::io::Error::other)?;
        processes.iter().for_each(|process| self.expect_server(server(process)));
        (self.unwatched.read_at, self.unwatched.processes) = (total, processes);
        Ok(())
    }

    /// By server, in their order.
    pub(super) fn unwatched_by_server(&self) -> Vec<(ServerId, u64)> {
        let mut by_server: BTreeMap<ServerId, u64> = BTreeMap::new();
        for process in &self.unwatched.processes {
            *by_server.entry(server(process)).or_default() += process.2;
        }
        by_server.into_iter().collect()
    }

    /// These servers are remembered no longer.
    pub(super) fn forget_unwatched(&mut self, is_gone: impl Fn(ServerId) -> bool) {
        let processes = std::mem::take(&mut self.unwatched.processes);
        let (gone, kept): (Vec<_>, Vec<_>) =
            processes.into_iter().partition(|process| is_gone(server(process)));
        self.unwatched.processes = kept;
        let gone: Vec<(u32, u64)> = gone.into_iter().map(|(pid, start, _)| (pid, start)).collect();
        if !gone.is_empty() {
            self.probe.forget_unwatched(&gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(n: usize) -> NeighbourIdentity {
        NeighbourIdentity { comm_low: 0x6464, comm_high: 0, device: n as u32, reserved: 0 }
    }

    fn of(neighbours: &Neighbours, device: u32) -> u64 {
        neighbours.sums.get(&(device, "dd".into())).copied().unwrap_or_default()
    }

    #[test]
    fn each_is_counted_for_its_command_and_the_rest_for_others() {
        let mut neighbours = Neighbours::default();
        assert_eq!(neighbours.add(12, &[(neighbour(1), 7), (neighbour(2), 3)]), HashSet::new());
        assert_eq!((of(&neighbours, 1), of(&neighbours, 2)), (7, 3));
        assert_eq!(neighbours.sums[&others()], 2, "the map was full");
        neighbours.add(13, &[(neighbour(1), 8), (neighbour(2), 3)]);
        assert_eq!((of(&neighbours, 1), neighbours.sums[&others()]), (8, 2));
        // It was made room for, and came back.
        neighbours.add(15, &[(neighbour(1), 2)]);
        assert_eq!((of(&neighbours, 1), neighbours.sums[&others()]), (10, 2));
    }

    #[test]
    fn whoever_is_idle_makes_room_and_its_figures_stay_and_all_of_it_is_bounded() {
        let mut neighbours = Neighbours::default();
        let mut total = 0;
        for round in 0..20 {
            let read: Vec<_> = (0..CROWDED).map(|n| (neighbour(1 + round * CROWDED + n), 5)).collect();
            total += 5 * CROWDED as u64;
            assert_eq!(neighbours.add(total, &read).len(), 0, "none is idle");
            assert_eq!(neighbours.add(total, &read).len(), CROWDED, "all are");
            assert_eq!(neighbours.sums.values().sum::<u64>(), total);
            assert!(neighbours.sums.len() <= 3 * record::UNWATCHED_NEIGHBOURS);
            assert!(neighbours.in_map.is_empty());
        }
    }
}
