//! How a table of bounded size is shared out among owners: who has most gives way, and nobody keeps the
//! system's own services out.

use std::collections::{BTreeMap, VecDeque};

use crate::model::Owner;

/// The size of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub all: usize,
    /// Of these, what only services of the system may take. A container is none: whoever runs it may be
    /// anybody.
    pub reserve: usize,
}

/// Whether there is room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Free,
    /// If one of this owner's makes room. An owner never gives way to its own newcomer.
    InPlaceOf(Owner),
    Refused,
}

/// A service of the system, for which a part of each table is kept.
pub(crate) fn is_service(owner: Owner) -> bool {
    matches!(owner, Owner::System(_))
}

impl Room {
    /// `held`: how many each owner has.
    pub fn admit(self, held: &BTreeMap<Owner, usize>, newcomer: Owner) -> Admission {
        let total: usize = held.values().sum();
        let strangers = || held.iter().filter(|(owner, _)| !is_service(**owner));
        let of_strangers: usize = strangers().map(|(_, number)| number).sum();
        let is_free = total < self.all
            && (is_service(newcomer) || of_strangers < self.all.saturating_sub(self.reserve));
        if is_free {
            return Admission::Free;
        }
        // Services that run never give way: they are there because an administrator wants them.
        let most = strangers().max_by_key(|(_, number)| **number);
        let own = held.get(&newcomer).copied().unwrap_or(0);
        match most {
            // Within its reserve, a service needs nobody to have more than it has.
            Some((&owner, _)) if is_service(newcomer) && total - of_strangers < self.reserve => {
                Admission::InPlaceOf(owner)
            }
            // So that the two do not change places for ever.
            Some((&owner, &number)) if owner != newcomer && number >= own + 2 => Admission::InPlaceOf(owner),
            _ => Admission::Refused,
        }
    }
}

/// Of these, the `most` to keep: each owner's in turn, in the order in which they come, services first. So
/// whoever has thousands leaves to others what is most important of theirs.
pub(crate) fn fairly<T>(all: Vec<T>, most: usize, owner: impl Fn(&T) -> Owner) -> Vec<T> {
    if all.len() <= most {
        return all;
    }
    let mut queues: BTreeMap<Owner, VecDeque<T>> = BTreeMap::new();
    all.into_iter().for_each(|one| queues.entry(owner(&one)).or_default().push_back(one));
    let mut kept = Vec::with_capacity(most);
    while kept.len() < most {
        // Services come before all other owners.
        let in_turn = queues.values_mut().filter_map(VecDeque::pop_front);
        kept.extend(in_turn.take(most - kept.len()));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_owner_keeps_what_comes_first_of_its_own() {
        let all = || {
            let of_stranger = (0..10).map(|number| (A, number));
            of_stranger.chain([(SERVICE, 100), (SERVICE, 101), (B, 200)]).collect::<Vec<_>>()
        };
        let kept = |most| fairly(all(), most, |(owner, _)| *owner);
        assert_eq!(kept(13), all());
        assert_eq!(kept(3), [(SERVICE, 100), (B, 200), (A, 0)]);
        assert_eq!(kept(6)[3..], [(SERVICE, 101), (A, 1), (A, 2)]);
        assert_eq!(kept(1), [(SERVICE, 100)]);
        assert_eq!(kept(0), []);
    }

    const ROOM: Room = Room { all: 8, reserve: 2 };
    const A: Owner = Owner::User(1001);
    const B: Owner = Owner::Container(7);
    const SERVICE: Owner = Owner::System(27);
    const ANOTHER: Owner = Owner::System(26);

    /// What each has after these have come, one after the other.
    fn after(newcomers: impl IntoIterator<Item = Owner>) -> BTreeMap<Owner, usize> {
        let mut held = BTreeMap::new();
        for newcomer in newcomers {
            match ROOM.admit(&held, newcomer) {
                Admission::Free => {}
                Admission::InPlaceOf(owner) => *held.get_mut(&owner).unwrap() -= 1,
                Admission::Refused => continue,
            }
            *held.entry(newcomer).or_default() += 1;
            assert!(held.values().sum::<usize>() <= ROOM.all, "{held:?}");
        }
        held
    }

    #[test]
    fn who_has_most_gives_way_and_services_have_a_reserve() {
        let many = |owner| std::iter::repeat_n(owner, 20);
        assert_eq!(after(many(A)), BTreeMap::from([(A, 6)]));
        assert_eq!(after(many(A).chain(many(B))), BTreeMap::from([(A, 3), (B, 3)]));
        assert_eq!(
            after(many(A).chain([SERVICE, ANOTHER])),
            BTreeMap::from([(A, 6), (SERVICE, 1), (ANOTHER, 1)])
        );
        assert_eq!(after(many(A).chain(many(SERVICE))), BTreeMap::from([(A, 4), (SERVICE, 4)]));
        // One that fills the table is not driven out, and keeps nobody else from a share.
        assert_eq!(after(many(SERVICE)), BTreeMap::from([(SERVICE, 8)]));
        assert_eq!(after(many(SERVICE).chain([ANOTHER, A])), BTreeMap::from([(SERVICE, 8)]));
    }

    #[test]
    fn many_users_together_leave_the_reserve() {
        let users = (0..20).map(|uid| Owner::User(2000 + uid));
        let held = after(users.chain([SERVICE, ANOTHER, SERVICE]));
        assert_eq!((held[&SERVICE], held[&ANOTHER]), (1, 1), "as many as are kept for them");
    }
}
