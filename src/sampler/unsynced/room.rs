//! Whose files make room, so that one owner cannot take that of all: those of whichever has most.

use std::collections::HashMap;

use crate::model::Owner;

/// A file of which something is unsynced or possibly lost.
pub(super) struct Held<Importance> {
    pub slot: u32,
    pub owner: Owner,
    /// It was written since the last look: where nobody else has any, nothing is gained by giving it up.
    pub is_active: bool,
    /// The least goes first.
    pub importance: Importance,
}

/// The slots of so many files, each of the owner that has most slots when it is chosen; fewer where that
/// owner is alone and its files do not stand idle.
pub(super) fn of_the_greatest<Importance: Ord>(mut files: Vec<Held<Importance>>, wanted: usize) -> Vec<u32> {
    let mut held: HashMap<Owner, usize> = HashMap::new();
    files.iter().for_each(|file| *held.entry(file.owner).or_default() += 1);
    if held.len() < 2 {
        files.retain(|file| !file.is_active);
    }
    files.sort_by(|one, other| other.importance.cmp(&one.importance));
    let mut by_owner: HashMap<Owner, Vec<u32>> = HashMap::new();
    for file in files {
        by_owner.entry(file.owner).or_default().push(file.slot);
    }
    let mut chosen = Vec::new();
    while chosen.len() < wanted
        && let Some((owner, slots)) = held.iter_mut().max_by_key(|(owner, slots)| (**slots, **owner))
        && let Some(slot) = by_owner.get_mut(owner).and_then(Vec::pop)
    {
        *slots -= 1;
        chosen.push(slot);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(slots: std::ops::Range<u32>, user: u32, is_active: bool) -> impl Iterator<Item = Held<u32>> {
        slots.map(move |slot| Held { slot, owner: Owner::User(user), is_active, importance: slot })
    }

    #[test]
    fn whoever_has_most_gives_its_least_important_until_another_has_as_many() {
        let all = |is_active| {
            let first = files(100..110, 1, is_active);
            first.chain(files(200..207, 2, false)).chain(files(300..302, 3, false)).collect()
        };
        assert_eq!(of_the_greatest(all(false), 3), [100, 101, 102]);
        assert_eq!(of_the_greatest(all(true), 3), [100, 101, 102], "also of what it is at work on");
        let mut chosen = of_the_greatest(all(false), 7);
        chosen.sort_unstable();
        assert_eq!(chosen, [100, 101, 102, 103, 104, 200, 201]);
        assert_eq!(of_the_greatest(all(false), 0), [0; 0]);
    }

    #[test]
    fn who_is_alone_gives_up_nothing_that_it_is_at_work_on() {
        let all: Vec<_> = files(100..101, 1, false).chain(files(101..110, 1, true)).collect();
        assert_eq!(of_the_greatest(all, 5), [100]);
    }
}
