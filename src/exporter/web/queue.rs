//! Who waits for a password to be checked, and whose turn is next: the one whose origin has failed least and
//! waits for least. Whether a name exists plays no part in the order: whoever sends two names at once would
//! learn from it which of them does. Pure but for the channels.
//!
//! A semaphore with a fixed pause after a wrong password is simpler, and was tried against
//! tests/plain/exporter_guessing.rs: with sixty guessing connections, a client whose right password is not
//! remembered yet waits for sixty checks and pauses. It got no answer within the nine seconds that there
//! are for one: with a pause of 100 ms, with one of 200 ms, and with one that delays only the answer. The
//! last would also give a whole processor to guessing. If only a few could wait, guessers would take each
//! place as it becomes free.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::origin::{Origin, Weight};

/// Requests that wait, of all clients together, and of one network.
pub(crate) const WAITING: usize = 16;
pub(crate) const SHARE: usize = 4;
/// Wrong passwords that count against where they came from, and for how long.
const FAILURES: usize = 512;
const COUNT_FOR: Duration = Duration::from_secs(60);

/// Waits, with what is to be checked.
#[derive(Debug)]
pub struct Waiting<C, V> {
    pub origin: Origin,
    pub claim: C,
    verdict: oneshot::Sender<V>,
}

impl<C, V> Waiting<C, V> {
    /// Nobody need be there any more to hear it.
    pub fn tell(self, verdict: V) {
        let _ = self.verdict.send(verdict);
    }
}

#[derive(Debug)]
pub(crate) struct Queue<C, V> {
    /// In the order of arrival.
    waiting: Vec<Waiting<C, V>>,
    failures: VecDeque<(Instant, Origin)>,
    /// Somebody takes one after the other out of it.
    is_served: bool,
}

impl<C, V> Queue<C, V> {
    pub fn new() -> Queue<C, V> {
        Queue { waiting: Vec::new(), failures: VecDeque::new(), is_served: false }
    }

    /// A place in the queue: the verdict comes from there, or the end of the channel if somebody of a better
    /// origin took the place. None: there is none. The second: `next` is to be called until it says that
    /// nobody waits.
    pub fn enter(&mut self, origin: Origin, claim: C, now: Instant) -> Option<(oneshot::Receiver<V>, bool)> {
        self.forget(now);
        let of_network = |waiting: &Waiting<C, V>| waiting.origin.is_same_network(&origin);
        let has_its_share = self.waiting.iter().filter(|waiting| of_network(waiting)).count() >= SHARE;
        if has_its_share || self.waiting.len() >= WAITING {
            let own = self.weight(&origin, Some(&origin));
            let candidates = self.waiting.iter().enumerate();
            let candidates = candidates.filter(|(_, waiting)| !has_its_share || of_network(waiting));
            // Of the heaviest, the one that came last.
            let (weight, at) =
                candidates.map(|(at, waiting)| (self.weight(&waiting.origin, Some(&origin)), at)).max()?;
            if weight <= own {
                return None;
            }
            self.waiting.remove(at);
        }
        let (verdict, receiver) = oneshot::channel();
        self.waiting.push(Waiting { origin, claim, verdict });
        Some((receiver, !std::mem::replace(&mut self.is_served, true)))
    }

    /// Whose turn it is. None: nobody waits, and who asked needs to ask no more.
    pub fn next(&mut self, now: Instant) -> Option<Waiting<C, V>> {
        self.forget(now);
        let weights = self.waiting.iter().enumerate();
        let first = weights.map(|(at, waiting)| (self.weight(&waiting.origin, None), at)).min();
        self.is_served = first.is_some();
        first.map(|(_, at)| self.waiting.remove(at))
    }

    /// A password from there was wrong.
    pub fn failed(&mut self, origin: Origin, now: Instant) {
        if self.failures.len() >= FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back((now, origin));
    }

    fn forget(&mut self, now: Instant) {
        self.waiting.retain(|waiting| !waiting.verdict.is_closed());
        let is_old = |at: Instant| now.saturating_duration_since(at) >= COUNT_FOR;
        while self.failures.front().is_some_and(|&(at, _)| is_old(at)) {
            self.failures.pop_front();
        }
    }

    /// Failures and places of the same origin, with the one that is to come.
    fn weight(&self, origin: &Origin, to_come: Option<&Origin>) -> Weight {
        let failures = self.failures.iter().map(|(_, failed)| failed);
        let places = self.waiting.iter().map(|waiting| &waiting.origin);
        origin.weight(failures.chain(places).chain(to_come))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    struct Entrance {
        queue: Queue<&'static str, ()>,
        receivers: Vec<oneshot::Receiver<()>>,
        now: Instant,
    }

    impl Entrance {
        fn new() -> Entrance {
            Entrance { queue: Queue::new(), receivers: Vec::new(), now: Instant::now() }
        }

        fn enter(&mut self, address: [u8; 4], claim: &'static str) -> bool {
            self.enter_as(origin(address), claim)
        }

        fn enter_as(&mut self, origin: Origin, claim: &'static str) -> bool {
            let entered = self.queue.enter(origin, claim, self.now);
            let is_in = entered.is_some();
            self.receivers.extend(entered.map(|(receiver, _)| receiver));
            is_in
        }

        fn fail(&mut self, address: [u8; 4], times: usize) {
            (0..times).for_each(|_| self.queue.failed(origin(address), self.now));
        }

        fn order(&mut self) -> Vec<&'static str> {
            std::iter::from_fn(|| Some(self.queue.next(self.now)?.claim)).collect()
        }
    }

    fn origin(address: [u8; 4]) -> Origin {
        Origin::new(SocketAddr::new(Ipv4Addr::from(address).into(), 1), None)
    }

    #[test]
    fn a_network_has_no_more_than_its_share_of_the_places() {
        let mut entrance = Entrance::new();
        let entered = (0..20).filter(|&host| entrance.enter([192, 0, 2, host], "guess")).count();
        assert_eq!(entered, SHARE);
        assert!(entrance.enter([198, 51, 100, 1], "right"));
    }

    #[test]
    fn who_has_failed_goes_behind_who_has_not() {
        let mut entrance = Entrance::new();
        entrance.fail([192, 0, 2, 66], 5);
        assert!(entrance.enter([192, 0, 2, 66], "guess"));
        assert!(entrance.enter([192, 0, 2, 1], "same network"));
        assert!(entrance.enter([198, 51, 100, 1], "elsewhere"));
        assert_eq!(entrance.order(), ["elsewhere", "same network", "guess"]);
        // It is forgiven in time.
        entrance.now += COUNT_FOR;
        assert!(entrance.enter([192, 0, 2, 66], "guess"));
        assert!(entrance.enter([198, 51, 100, 1], "elsewhere"));
        assert_eq!(entrance.order(), ["guess", "elsewhere"]);
    }

    #[test]
    fn a_guesser_makes_room_for_another_and_not_for_itself() {
        let mut entrance = Entrance::new();
        entrance.fail([192, 0, 2, 66], 5);
        assert!((0..SHARE).all(|_| entrance.enter([192, 0, 2, 66], "guess")));
        assert!(!entrance.enter([192, 0, 2, 66], "guess"));
        assert!(entrance.enter([192, 0, 2, 1], "right"));
        assert_eq!(entrance.order(), ["right", "guess", "guess", "guess"]);
        // So do many networks of one site.
        let places = (0..WAITING as u8).map(|at| entrance.enter([10, 1, at, 1], "guess"));
        assert!(places.collect::<Vec<_>>().into_iter().all(|entered| entered));
        assert!(!entrance.enter([10, 1, 200, 1], "guess"));
        assert!(entrance.enter([198, 51, 100, 1], "right"));
        assert_eq!((entrance.order()[0], entrance.queue.waiting.len()), ("right", 0));
    }

    #[test]
    fn users_of_this_host_do_not_stand_in_each_others_way() {
        let mut entrance = Entrance::new();
        let user = |user| Origin::new("127.0.0.1:1".parse().unwrap(), Some(user));
        assert!((0..SHARE).all(|_| entrance.enter_as(user(1001), "guess")));
        assert!(!entrance.enter_as(user(1001), "guess"));
        assert!(entrance.enter_as(user(1000), "right"));
        assert_eq!(entrance.order()[0], "right");
        // One of them with all the addresses of this host does not, either.
        let at = |host| Origin::new(SocketAddr::new([127, 0, host, 1].into(), 1), Some(1001));
        assert!((0..WAITING as u8).all(|host| entrance.enter_as(at(host), "guess")));
        assert!(!entrance.enter_as(at(200), "guess"));
        assert!(entrance.enter_as(user(1000), "right"));
        assert_eq!(entrance.order()[0], "right");
    }

    #[test]
    fn who_has_gone_gives_the_place_back_and_failures_are_bounded() {
        let mut entrance = Entrance::new();
        for _ in 0..100 {
            assert!((0..SHARE).all(|_| entrance.enter([192, 0, 2, 66], "guess")));
            entrance.receivers.clear();
        }
        assert_eq!(entrance.order(), [""; 0]);
        entrance.fail([192, 0, 2, 66], 10 * FAILURES);
        assert_eq!(entrance.queue.failures.len(), FAILURES);
    }
}
