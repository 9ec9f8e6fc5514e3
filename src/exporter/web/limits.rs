//! Limits of one client and of all together: pure decisions, tested without a network.

use std::time::{Duration, Instant};

use super::origin::Origin;

/// Connections at a time. A scraper has one or two; with more than this, somebody has to give way.
pub const CONNECTIONS: usize = 64;
/// Bytes of a request's line and headers together.
pub(crate) const HEADER_BYTES: usize = 16 << 10;
/// Headers of a request.
pub(crate) const HEADERS: usize = 64;
/// Kernel memory for what a client has not taken yet, and for what it sends (the kernel doubles both): the
/// default grows to megabytes for each connection, and is charged to the service's memory limit.
pub(crate) const SEND_BUFFER: usize = 64 << 10;
pub(crate) const RECEIVE_BUFFER: usize = 16 << 10;
/// New connections, and requests: so many each second, after a burst. The rest waits by party, or for its
/// answer; a flood costs a few percent of one processor.
pub(crate) const NEW_CONNECTIONS: Rate = Rate { each: Duration::from_millis(2), burst: 500 };
pub(crate) const REQUESTS: Rate = Rate { each: Duration::from_millis(5), burst: 200 };
/// A verdict is an answer out of memory, and whoever asks for it waits for half a second at most: those of
/// all places that one user can have come within a quarter of that.
pub(crate) const VERDICTS: Rate = Rate { each: Duration::from_millis(2), burst: 200 };
/// Clients that are taken out of the kernel's queue of an entrance, to wait here or to be sent away. Who
/// floods it faster than this fills that queue, which the kernel has for all users together.
pub(crate) const ACCEPTED: Rate = Rate { each: Duration::from_micros(100), burst: 5_000 };
/// A TLS handshake costs up to a millisecond of processor time.
pub(crate) const HANDSHAKES: Rate = Rate { each: Duration::from_millis(10), burst: 100 };

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The client is to say something: TLS handshake, first request, the rest of a request.
    Request,
    /// It has had an answer and may ask again.
    Idle,
    /// It has asked, and there are many requests before its own.
    Turn,
    /// The answer is being made.
    Answer,
    /// The client is to take the answer.
    Response,
}

impl Phase {
    /// How long it may last altogether. A trickle of bytes does not extend it.
    pub fn limit(self) -> Duration {
        match self {
            Phase::Request => Duration::from_secs(5),
            // longer than any sensible scrape interval: a TLS handshake for each scrape would cost more
            Phase::Idle => Duration::from_secs(150),
            Phase::Turn | Phase::Answer | Phase::Response => Duration::from_secs(10),
        }
    }
}

/// How long an answer may take to be made, before the client is told that there is none.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(9);

/// A connection as the choice of who gives way sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub origin: Origin,
    pub phase: Phase,
    pub since: Instant,
}

impl Seen {
    /// It may not have had the time to ask.
    pub(crate) fn has_just_come(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        self.phase == Phase::Request && age < ENOUGH_FOR_A_REQUEST
    }
}

/// Who has had the time to send a request, or to take an answer.
const ENOUGH_FOR_A_REQUEST: Duration = Duration::from_millis(250);
const ENOUGH_FOR_A_RESPONSE: Duration = Duration::from_secs(2);

/// Which connection gives way to a new one: of the origin that has most of them, first one that is slow to
/// ask, then one that is idle, then one that waits for its turn, then one that is slow to take its answer,
/// then one that has only just come; each time the one that has been so for longest. One whose answer is
/// being made is never cut off. None: all are at work.
pub(crate) fn gives_way(open: &[Seen], now: Instant) -> Option<usize> {
    let rank = |(at, seen): (usize, &Seen)| {
        let age = now.saturating_duration_since(seen.since);
        let class = match seen.phase {
            Phase::Request if age >= ENOUGH_FOR_A_REQUEST => 4,
            Phase::Idle => 3,
            Phase::Turn => 2,
            Phase::Response if age >= ENOUGH_FOR_A_RESPONSE => 1,
            Phase::Request => 0,
            Phase::Response | Phase::Answer => return None,
        };
        let of_the_same = seen.origin.weight(open.iter().map(|other| &other.origin));
        Some(((of_the_same, class, age), at))
    };
    open.iter().enumerate().filter_map(rank).max().map(|(_, at)| at)
}

/// So many in a time, after a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub each: Duration,
    pub burst: u32,
}

/// A rate limiter, first come, first served (GCRA, the generic cell rate algorithm: a token bucket kept as
/// one time).
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// When the turn after the last one given out comes, were there no burst.
    next: Option<Instant>,
}

impl Turns {
    /// Takes a turn; how long to wait for it.
    pub fn take(&mut self, rate: Rate, now: Instant) -> Duration {
        let wait = self.wait(rate, now);
        self.next = Some(self.next.map_or(now, |next| next.max(now)) + rate.each);
        wait
    }

    /// Takes a turn only if it has come.
    pub(crate) fn take_now(&mut self, rate: Rate, now: Instant) -> bool {
        let is_free = self.wait(rate, now).is_zero();
        if is_free {
            self.take(rate, now);
        }
        is_free
    }

    /// How long until there is a turn to take.
    pub fn wait(&self, rate: Rate, now: Instant) -> Duration {
        let ahead = self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now));
        ahead.saturating_sub(rate.each.saturating_mul(rate.burst.saturating_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAPER: &str = "192.0.2.1:1";
    const OTHER: &str = "192.0.2.66:1";

    struct Open {
        now: Instant,
        seen: Vec<Seen>,
    }

    impl Open {
        fn new() -> Open {
            Open { now: Instant::now() + Duration::from_secs(1000), seen: Vec::new() }
        }

        fn add(&mut self, peer: &str, phase: Phase, age_ms: u64) -> &mut Open {
            let origin = Origin::new(peer.parse().unwrap(), None);
            self.seen.push(Seen { origin, phase, since: self.now - Duration::from_millis(age_ms) });
            self
        }

        fn gives_way(&self) -> Option<usize> {
            gives_way(&self.seen, self.now)
        }
    }

    #[test]
    fn whoever_has_most_connections_gives_way_first() {
        let mut open = Open::new();
        open.add(SCRAPER, Phase::Idle, 60_000);
        for _ in 0..10 {
            open.add(OTHER, Phase::Request, 10);
        }
        assert!(open.gives_way().is_some_and(|at| at > 0));
    }

    #[test]
    fn of_one_client_the_slow_go_before_the_idle_and_the_idle_before_the_new() {
        let mut open = Open::new();
        open.add(SCRAPER, Phase::Request, 5).add(SCRAPER, Phase::Idle, 90_000);
        assert_eq!(open.gives_way(), Some(1));
        open.add(SCRAPER, Phase::Request, 300).add(SCRAPER, Phase::Request, 400);
        assert_eq!(open.gives_way(), Some(3));
    }

    #[test]
    fn an_answer_that_is_being_made_or_taken_is_not_cut_off() {
        let mut open = Open::new();
        open.add(SCRAPER, Phase::Answer, 8_000).add(SCRAPER, Phase::Response, 1_900);
        assert_eq!(open.gives_way(), None);
        open.add(SCRAPER, Phase::Response, 2_100);
        assert_eq!(open.gives_way(), Some(2));
        open.add(SCRAPER, Phase::Idle, 1);
        assert_eq!(open.gives_way(), Some(3));
    }

    #[test]
    fn who_waits_for_a_turn_on_many_connections_gives_way() {
        let mut open = Open::new();
        open.add(SCRAPER, Phase::Idle, 60_000);
        for age in 0..10 {
            open.add(OTHER, Phase::Turn, age);
        }
        assert_eq!(open.gives_way(), Some(10));
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_in_turn() {
        let rate = Rate { each: Duration::from_millis(10), burst: 3 };
        let (mut turns, start) = (Turns::default(), Instant::now());
        let waits: Vec<_> = (0..5).map(|_| turns.take(rate, start).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 10, 20]);
        // those turns are given out until 50 ms; a burst is free again 30 ms later
        let later = start + Duration::from_millis(50);
        let waits: Vec<_> = (0..4).map(|_| turns.take(rate, later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 10]);
    }

    #[test]
    fn who_does_not_wait_takes_no_turn_away() {
        let rate = Rate { each: Duration::from_secs(1), burst: 1 };
        let (mut turns, start) = (Turns::default(), Instant::now());
        assert!(turns.take_now(rate, start));
        for ms in 1..1000 {
            assert!(!turns.take_now(rate, start + Duration::from_millis(ms)));
        }
        assert!(turns.take_now(rate, start + Duration::from_secs(1)));
    }
}
