//! The web server's own counters, for the exporter's metrics.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::linux::lock;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The status codes that are answered with; 400 also stands for what is no HTTP.
pub(crate) const CODES: [u16; 10] = [200, 400, 401, 403, 404, 405, 429, 431, 500, 503];

#[derive(Debug, Default)]
pub struct Statistics {
    /// Requests by [`CODES`].
    requests: [Counter; CODES.len()],
    /// Connections that were accepted.
    pub connections: Counter,
    /// Of those, sent away at once because too many were waiting already.
    pub refused: Counter,
    /// Of those, ended because they gave way to a new one.
    pub gave_way: Counter,
    /// Of those, ended because the client was too slow to ask, or to take its answer.
    pub timed_out: Counter,
    /// TLS handshakes that failed: no or a wrong certificate, another protocol.
    pub failed_handshakes: Counter,
    /// Requests with a wrong name or password, or without one.
    pub denied: Counter,
    /// Times that the web configuration was read anew, and times that this failed and the old one stayed.
    pub reloads: Counter,
    pub failed_reloads: Counter,
    made: Mutex<Made>,
}

/// The counters at one moment, as they are sent to the process that writes the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub(crate) requests: [u64; CODES.len()],
    pub connections: u64,
    pub refused: u64,
    pub gave_way: u64,
    pub timed_out: u64,
    pub failed_handshakes: u64,
    pub denied: u64,
    pub reloads: u64,
    pub failed_reloads: u64,
    pub made: Made,
}

impl Figures {
    pub fn requests(&self) -> impl Iterator<Item = (u16, u64)> {
        CODES.into_iter().zip(self.requests)
    }
}

/// The expositions that were made; one may have been given to many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Made {
    pub count: u64,
    pub total: Duration,
    /// Of the last one: how long it took, how many bytes it has, when it was.
    pub last: Duration,
    pub last_bytes: usize,
    pub last_at: Option<SystemTime>,
}

impl Statistics {
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            requests: std::array::from_fn(|at| self.requests[at].get()),
            connections: self.connections.get(),
            refused: self.refused.get(),
            gave_way: self.gave_way.get(),
            timed_out: self.timed_out.get(),
            failed_handshakes: self.failed_handshakes.get(),
            denied: self.denied.get(),
            reloads: self.reloads.get(),
            failed_reloads: self.failed_reloads.get(),
            made: self.made(),
        }
    }

    pub fn requests(&self) -> impl Iterator<Item = (u16, u64)> {
        CODES.iter().zip(&self.requests).map(|(&code, counter)| (code, counter.get()))
    }

    pub(super) fn answered(&self, code: u16) {
        if let Some(at) = CODES.iter().position(|&known| known == code) {
            self.requests[at].add_one();
        }
    }

    pub fn made(&self) -> Made {
        *lock(&self.made)
    }

    pub(super) fn exposition(&self, took: Duration, bytes: usize) {
        let mut made = lock(&self.made);
        made.count += 1;
        made.total += took;
        made.last = took;
        made.last_bytes = bytes;
        made.last_at = Some(SystemTime::now());
    }
}
