//! What is left of servers that are remembered no longer: their syncs stay in the totals, under
//! [`ServerId::ENDED`], by role, operation and nothing else.

use std::collections::HashSet;

use super::{Ledger, Subject};
use crate::model::{Role, ServerId, Stats, Target};

impl Subject {
    fn server(&self) -> Option<ServerId> {
        match self {
            Subject::File { server, .. } | Subject::Thread { server, .. } => Some(*server),
            Subject::Neighbour { .. } => None,
        }
    }
}

impl Ledger {
    /// The rows of servers that have ended, to be taken out of use. A call of a process that has ended is no
    /// longer in flight, whether or not its end was seen.
    pub(crate) fn rows_of_ended(&mut self, servers: &HashSet<ServerId>) -> Vec<u32> {
        let mut rows = Vec::new();
        for (slot, live) in (0..).zip(&mut self.live) {
            let Some(live) = live else { continue };
            let server = self.accounts[live.account as usize].subject.server();
            if server.is_some_and(|server| servers.contains(&server)) {
                live.running = 0;
                if !live.unlinked {
                    rows.push(slot);
                }
            }
        }
        rows
    }

    /// Adds the accounts of those servers that have no rows any more to those of all that have ended. Returns
    /// these servers, and the slots of the histograms that their cold files shared: they are to be cleared.
    pub(crate) fn fold_ended(
        &mut self,
        servers: &HashSet<ServerId>,
        role: impl Fn(&Subject) -> Role,
    ) -> (HashSet<ServerId>, Vec<u32>) {
        let its = |at: &u32| {
            let account = &self.accounts[*at as usize];
            account
                .subject
                .server()
                .filter(|server| servers.contains(server))
                .map(|server| (server, account.rows))
        };
        let mut gone = servers.clone();
        for (server, _) in self.by_subject.iter().filter_map(its).filter(|(_, rows)| *rows > 0) {
            gone.remove(&server);
        }
        let folded: Vec<u32> = self
            .by_subject
            .iter()
            .filter(|at| its(at).is_some_and(|(server, _)| gone.contains(&server)))
            .copied()
            .collect();
        for at in folded {
            let (subject, stats, shown_as) = self.close(at);
            let heir = match subject {
                Subject::File { op, .. } => {
                    let role = shown_as.unwrap_or_else(|| role(&subject));
                    Subject::File { server: ServerId::ENDED, target: Target::Gone(role), op }
                }
                Subject::Thread { op, .. } => {
                    Subject::Thread { server: ServerId::ENDED, tid: 0, start: 0, op }
                }
                Subject::Neighbour { .. } => continue,
            };
            let heir = self.account(heir);
            self.merge(heir, &stats);
        }
        (gone.clone(), self.end_shared(&gone))
    }

    fn end_shared(&mut self, gone: &HashSet<ServerId>) -> Vec<u32> {
        let ended: Vec<_> =
            self.shared.keys().filter(|(server, ..)| gone.contains(server)).copied().collect();
        let mut slots = Vec::new();
        for key in ended {
            let (_, role, op) = key;
            let Some(slot) = self.shared.remove(&key) else { continue };
            slots.push(slot);
            let Some(histogram) = self.shared_histograms.remove(&slot) else { continue };
            let heir =
                self.account(Subject::File { server: ServerId::ENDED, target: Target::Gone(role), op });
            self.merge(heir, &Stats { histogram, ..Stats::default() });
        }
        slots
    }
}
