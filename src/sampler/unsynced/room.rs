//! Whose files make room, so that one process cannot take that of all: those of whichever has most.

use std::collections::HashMap;

use crate::model::ServerId;

/// A file that stands idle, and of which something is unsynced or possibly lost.
pub(super) struct Idle<Importance> {
    pub slot: u32,
    pub server: ServerId,
    /// The least goes first.
    pub importance: Importance,
}

/// The slots of so many files, each of the process that has most slots when it is chosen; fewer where that
/// process has no file that stands idle. `held`: how many slots each process has.
pub(super) fn of_the_greatest<Importance: Ord>(
    mut idle: Vec<Idle<Importance>>,
    mut held: HashMap<ServerId, usize>,
    wanted: usize,
) -> Vec<u32> {
    idle.sort_by(|one, other| other.importance.cmp(&one.importance));
    let mut by_server: HashMap<ServerId, Vec<u32>> = HashMap::new();
    for file in idle {
        by_server.entry(file.server).or_default().push(file.slot);
    }
    let mut chosen = Vec::new();
    while chosen.len() < wanted
        && let Some((server, slots)) = held.iter_mut().max_by_key(|(server, slots)| (**slots, **server))
        && let Some(slot) = by_server.get_mut(server).and_then(Vec::pop)
    {
        *slots -= 1;
        chosen.push(slot);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(pid: u32) -> ServerId {
        ServerId { pid, start_ns: 1 }
    }

    fn idle(slots: std::ops::Range<u32>, pid: u32) -> impl Iterator<Item = Idle<u32>> {
        slots.map(move |slot| Idle { slot, server: server(pid), importance: slot })
    }

    #[test]
    fn whoever_has_most_gives_its_least_important_until_another_has_as_many() {
        let held = HashMap::from([(server(1), 10), (server(2), 7), (server(3), 2)]);
        let files = || idle(100..110, 1).chain(idle(200..207, 2)).chain(idle(300..302, 3)).collect();
        assert_eq!(of_the_greatest(files(), held.clone(), 3), [100, 101, 102]);
        let mut chosen = of_the_greatest(files(), held.clone(), 7);
        chosen.sort_unstable();
        assert_eq!(chosen, [100, 101, 102, 103, 104, 200, 201]);
        assert_eq!(of_the_greatest(files(), held, 0), [0; 0]);
    }

    #[test]
    fn nobody_gives_room_for_one_who_has_more_and_is_at_work_on_all_of_it() {
        let held = HashMap::from([(server(1), 10), (server(2), 7)]);
        let files: Vec<_> = idle(100..101, 1).chain(idle(200..207, 2)).collect();
        assert_eq!(of_the_greatest(files, held, 5), [100]);
    }
}
