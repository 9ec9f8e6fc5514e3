//! What had no room on the kernel side, by the servers that it may be of; and how many rows an owner may
//! make.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::model::{Owner, ServerId};
use crate::probe::Probe;

/// What a new row costs this side until it is in a snapshot: its name, its account, its histogram. It was 49
/// µs with 150,000 files that were synced once each.
const COST: Duration = Duration::from_micros(50);
/// Of the processor time that is allowed, so much is for the new files of one owner.
const PART: f64 = 0.5;
/// How many of its rows an owner may have made at once: a server opens all its tables within seconds.
const AT_ONCE: f64 = 0.5;

#[derive(Default)]
pub(super) struct Shares {
    /// By the rows that they have: the shares, and what of those had been refused when that was learnt.
    of: HashMap<ServerId, BTreeMap<u8, u64>>,
    /// In the last snapshot, by share, and what followed from it.
    refused: BTreeMap<u8, u64>,
    told: Vec<(ServerId, u64)>,
    limit: Option<Limit>,
}

/// Of new rows of one owner.
struct Limit {
    per_second: f64,
    at_once: u32,
    allowed: Instant,
}

impl Shares {
    pub(super) fn learn(&mut self, server: ServerId, share: u8) {
        let refused = &self.refused;
        let before = || refused.get(&share).copied().unwrap_or(0);
        self.of.entry(server).or_default().entry(share).or_insert_with(before);
    }

    pub(super) fn forget(&mut self, is_gone: impl Fn(&ServerId) -> bool) {
        self.of.retain(|server, _| !is_gone(server));
        self.told.retain(|(server, _)| !is_gone(server));
    }

    /// The servers of whose owners something was not kept since they were met, and how much: all that have a
    /// share together have what is its. One that has no row yet has its owner's shares.
    pub(super) fn refused(
        &mut self,
        refused: Vec<(u8, u64)>,
        alive: impl FnOnce() -> Vec<(ServerId, Owner)>,
    ) -> Vec<(ServerId, u64)> {
        let refused: BTreeMap<u8, u64> = refused.into_iter().collect();
        // Nearly always: who has come since is told nothing either.
        if refused == self.refused {
            return self.told.clone();
        }
        self.learn_from_owners(alive());
        let since =
            |(share, before): (&u8, &u64)| refused.get(share).copied().unwrap_or(0).saturating_sub(*before);
        let of =
            |(&server, shares): (&ServerId, &BTreeMap<u8, u64>)| (server, shares.iter().map(since).sum());
        self.told = self.of.iter().map(of).filter(|(_, n)| *n > 0).collect();
        self.told.sort_unstable();
        self.refused = refused;
        self.told.clone()
    }

    fn learn_from_owners(&mut self, alive: Vec<(ServerId, Owner)>) {
        let mut of_owners: HashMap<Owner, BTreeSet<u8>> = HashMap::new();
        for (server, owner) in &alive {
            let shares = self.of.get(server).into_iter().flat_map(BTreeMap::keys);
            of_owners.entry(*owner).or_default().extend(shares);
        }
        for (server, owner) in alive {
            if !self.of.contains_key(&server) {
                of_owners[&owner].iter().for_each(|share| self.learn(server, *share));
            }
        }
    }

    /// From now on new files of one owner take no more than a part of `share` of a processor.
    pub(super) fn limit(&mut self, probe: &mut Probe, share: f64) -> std::io::Result<()> {
        let per_second = share * PART / COST.as_secs_f64();
        let at_once = (f64::from(probe.capacity().files) * AT_ONCE) as u32;
        self.limit = Some(Limit { per_second, at_once, allowed: Instant::now() });
        probe.allow_rows(at_once, at_once)?;
        probe.limit_rows();
        Ok(())
    }

    /// To be called now and then.
    pub(super) fn allow(&mut self, probe: &mut Probe) -> std::io::Result<()> {
        let Some(limit) = &mut self.limit else { return Ok(()) };
        let rows = (limit.allowed.elapsed().as_secs_f64() * limit.per_second) as u32;
        limit.allowed += Duration::from_secs_f64(f64::from(rows) / limit.per_second);
        if rows > 0 { probe.allow_rows(rows, limit.at_once) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Owner = Owner::User(1001);

    fn id(pid: u32) -> ServerId {
        ServerId { pid, ..ServerId::NONE }
    }

    #[test]
    fn what_had_no_room_is_told_of_all_servers_of_its_share_and_of_no_others() {
        let mut shares = Shares::default();
        for (pid, share) in [(1, 7), (2, 7), (3, 8), (3, 9)] {
            shares.learn(id(pid), share);
        }
        let mut refused = |refused: &[(u8, u64)]| shares.refused(refused.to_vec(), Vec::new);
        assert_eq!(refused(&[]), []);
        assert_eq!(refused(&[(7, 5), (10, 1)]), [(id(1), 5), (id(2), 5)]);
        assert_eq!(refused(&[(7, 5), (8, 2), (9, 4)]), [(id(1), 5), (id(2), 5), (id(3), 6)], "of two shares");
        shares.forget(|server| *server == id(1));
        assert_eq!(
            shares.refused(vec![(7, 5), (8, 2), (9, 4)], Vec::new),
            [(id(2), 5), (id(3), 6)],
            "as before"
        );
        assert_eq!(shares.refused(vec![(7, 6)], Vec::new), [(id(2), 6)]);
    }

    #[test]
    fn a_server_is_not_told_what_was_refused_before_it_was_met() {
        let mut shares = Shares::default();
        shares.refused(vec![(7, 5)], Vec::new);
        shares.learn(id(1), 7);
        assert_eq!(shares.refused(vec![(7, 5)], Vec::new), []);
        assert_eq!(shares.refused(vec![(7, 6)], Vec::new), [(id(1), 1)]);
    }

    #[test]
    fn a_server_that_found_no_row_has_its_owners_shares() {
        let mut shares = Shares::default();
        shares.learn(id(1), 7);
        let alive = || vec![(id(1), ALICE), (id(2), ALICE), (id(3), Owner::User(1002))];
        assert_eq!(shares.refused(vec![(7, 5)], alive), [(id(1), 5), (id(2), 5)]);
    }
}
