//! Clients that have come and for which there is no place yet: each party's wait in a queue of their own, so
//! that whoever floods the entrance waits behind nobody but itself.

use std::collections::VecDeque;

use super::origin::Origin;

/// Clients of one party, and of all, that may wait. A health check is one.
const MAX_OF_ONE: usize = 128;
const MAX_OF_ALL: usize = 1_024;

#[derive(Debug)]
pub(super) struct Lobby<C> {
    /// One for each party, in turn; none is empty.
    queues: VecDeque<VecDeque<(Origin, C)>>,
}

impl<C> Default for Lobby<C> {
    fn default() -> Lobby<C> {
        Lobby { queues: VecDeque::new() }
    }
}

impl<C> Lobby<C> {
    /// Returns who has to go for that. Where too many of its party wait, it is the first of them that comes
    /// from the same address, else from the same network, else the first of all: who floods from one address
    /// drives out nobody but itself. Where too many wait altogether, it is one of the party that has most.
    pub fn enter(&mut self, origin: Origin, client: C) -> Option<C> {
        let is_full = self.queues.iter().map(VecDeque::len).sum::<usize>() >= MAX_OF_ALL;
        let is_of_party = |queue: &&mut VecDeque<(Origin, C)>| queue[0].0.is_same_party(&origin);
        if let Some(own) = self.queues.iter_mut().find(is_of_party) {
            let gone = (is_full || own.len() >= MAX_OF_ONE).then(|| gives_way(own, &origin));
            own.push_back((origin, client));
            return gone.flatten();
        }
        let most = self.queues.iter_mut().max_by_key(|queue| queue.len());
        let gone = most.filter(|_| is_full).and_then(VecDeque::pop_back);
        self.queues.retain(|queue| !queue.is_empty());
        self.queues.push_back(VecDeque::from([(origin, client)]));
        gone.map(|(_, client)| client)
    }

    /// The client whose turn it is, of those who may come in.
    pub fn next(&mut self, may_come_in: impl Fn(&Origin) -> bool) -> Option<(Origin, C)> {
        let at = self.queues.iter().position(|queue| may_come_in(&queue[0].0))?;
        let mut queue = self.queues.remove(at)?;
        let next = queue.pop_front()?;
        if !queue.is_empty() {
            self.queues.push_back(queue);
        }
        Some(next)
    }

    pub fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}

fn gives_way<C>(waiting: &mut VecDeque<(Origin, C)>, newcomer: &Origin) -> Option<C> {
    let first =
        |is_it: fn(&Origin, &Origin) -> bool| waiting.iter().position(|(other, _)| is_it(other, newcomer));
    let at = first(Origin::is_same_address).or_else(|| first(Origin::is_same_network)).unwrap_or(0);
    waiting.remove(at).map(|(_, client)| client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_party_waits_behind_itself_alone() {
        let (flooder, other, third) = (Origin::local(1), Origin::local(2), Origin::local(3));
        let mut lobby = Lobby::default();
        let gone: Vec<i32> = (0..1_000).filter_map(|number| lobby.enter(flooder, number)).collect();
        assert_eq!(gone, (0..1_000 - MAX_OF_ONE as i32).collect::<Vec<_>>(), "who has waited for longest");
        assert_eq!((lobby.enter(other, 5_000), lobby.enter(third, 6_000)), (None, None));
        let next = |lobby: &mut Lobby<i32>| lobby.next(|_| true).unwrap().1;
        assert_eq!([next(&mut lobby), next(&mut lobby), next(&mut lobby)], [872, 5_000, 6_000]);
        assert_eq!(lobby.next(|origin| *origin == other), None, "it has nobody waiting any more");
        assert_eq!(lobby.next(|origin| *origin == flooder).unwrap().1, 873);
    }

    #[test]
    fn of_one_party_whoever_floods_from_one_address_drives_out_nobody_but_itself() {
        let at = |address: [u8; 4]| Origin::new((address, 1).into(), None);
        let (flooder, same_network, another) = (at([192, 0, 2, 66]), at([192, 0, 2, 1]), at([192, 0, 77, 1]));
        let mut lobby = Lobby::default();
        let flood =
            |lobby: &mut Lobby<i32>| (0..1_000).filter_map(|number| lobby.enter(flooder, number)).count();
        flood(&mut lobby);
        lobby.enter(same_network, 5_000);
        lobby.enter(another, 6_000);
        flood(&mut lobby);
        let mut waiting = Vec::new();
        while let Some((_, client)) = lobby.next(|_| true) {
            waiting.push(client);
        }
        assert_eq!((waiting.len(), &waiting[..2]), (MAX_OF_ONE, &[5_000, 6_000][..]));
    }

    #[test]
    fn a_new_party_comes_in_whoever_has_filled_it() {
        let mut lobby = Lobby::default();
        for user in 0..(MAX_OF_ALL / MAX_OF_ONE) as u32 {
            (0..MAX_OF_ONE).for_each(|_| assert_eq!(lobby.enter(Origin::local(user), user), None));
        }
        assert_eq!(lobby.enter(Origin::local(0), 0), Some(0));
        assert!(lobby.enter(Origin::local(77), 77).is_some_and(|gone| gone < 8), "another one's last");
        let mut all = Vec::new();
        while let Some((_, client)) = lobby.next(|_| true) {
            all.push(client);
        }
        assert!(all.len() == MAX_OF_ALL && all[..9].contains(&77) && lobby.is_empty());
    }
}
