//! The number of syncs in flight, sampled. Apart from the latencies, so that the two can disagree.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::snapshot::{InFlight, Role, ServerId};

/// With fewer samples a mean says little.
pub const ENOUGH: u64 = 100;

/// One role's samples.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfRole {
    sum: u64,
    squares: u64,
    most: u64,
    /// How many of the syncs seen were a thread's of that name.
    threads: BTreeMap<String, u64>,
}

/// Samples of one server's syncs in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct InFlightSamples {
    server: ServerId,
    taken: u64,
    roles: BTreeMap<Role, OfRole>,
}

/// The mean of the samples of one role.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sampled {
    pub mean: f64,
    /// Of the mean, if the samples are independent.
    pub standard_error: f64,
    /// The most that were ever seen at once.
    pub most: u64,
    pub samples: u64,
}

impl InFlightSamples {
    pub fn new(server: ServerId) -> InFlightSamples {
        InFlightSamples { server, taken: 0, roles: BTreeMap::new() }
    }

    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Adds what was in flight at one moment; other servers' syncs are left out.
    pub fn add(&mut self, in_flight: &[InFlight]) {
        self.taken += 1;
        let mut counts: BTreeMap<Role, u64> = BTreeMap::new();
        for sync in in_flight.iter().filter(|sync| sync.server == self.server) {
            *counts.entry(sync.role).or_default() += 1;
            let threads = &mut self.roles.entry(sync.role).or_default().threads;
            *threads.entry(without_number(&sync.thread).to_owned()).or_default() += 1;
        }
        for (role, count) in counts {
            let of_role = self.roles.entry(role).or_default();
            of_role.sum += count;
            of_role.squares += count * count;
            of_role.most = of_role.most.max(count);
        }
    }

    /// None before the first sample.
    pub fn of(&self, role: Role) -> Option<Sampled> {
        let none = OfRole::default();
        let of_role = self.roles.get(&role).unwrap_or(&none);
        let n = self.taken as f64;
        (self.taken > 0).then(|| {
            let mean = of_role.sum as f64 / n;
            let variance = (of_role.squares as f64 / n - mean * mean).max(0.0);
            Sampled { mean, standard_error: (variance / n).sqrt(), most: of_role.most, samples: self.taken }
        })
    }

    /// The names of the threads that were seen in syncs of a role, the most frequent first, with how often.
    pub fn threads(&self, role: Role) -> Vec<(String, u64)> {
        let Some(of_role) = self.roles.get(&role) else { return Vec::new() };
        let mut threads: Vec<_> = of_role.threads.iter().map(|(name, &n)| (name.clone(), n)).collect();
        threads.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        threads
    }
}

/// Of a row of threads that do the same ("ib_io_wr-3").
fn without_number(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::once::fixture::{self, MARIADB, MYSQL};
    use std::time::Duration;

    #[test]
    fn the_mean_counts_the_empty_samples_too() {
        let one = |thread: &str, role| InFlight {
            thread: thread.into(),
            ..fixture::in_flight(role, "/d/x", Duration::ZERO)
        };
        let server = one("x", Role::Redo).server;
        let mut samples = InFlightSamples::new(server);
        assert_eq!(samples.of(Role::Redo), None);
        let other = if server == MYSQL { MARIADB } else { MYSQL };
        samples.add(&[one("connection", Role::Redo), one("connection", Role::Binlog)]);
        samples.add(&[InFlight { server: other, ..one("connection", Role::Redo) }]);
        samples.add(&[
            one("ib_log_flush", Role::Redo),
            one("ib_io_wr-1", Role::Tablespace),
            one("ib_io_wr-2", Role::Tablespace),
        ]);
        samples.add(&[one("connection", Role::Redo)]);
        let redo = samples.of(Role::Redo).unwrap();
        assert_eq!((redo.mean, redo.most, redo.samples), (0.75, 1, 4));
        assert!((redo.standard_error - (0.1875_f64 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(samples.of(Role::Tablespace).unwrap().mean, 0.5);
        assert_eq!(samples.of(Role::Undo).unwrap().mean, 0.0);
        assert_eq!(
            samples.threads(Role::Redo),
            [("connection".to_owned(), 2), ("ib_log_flush".to_owned(), 1)]
        );
        assert_eq!(samples.threads(Role::Tablespace), [("ib_io_wr".to_owned(), 2)]);
    }
}
