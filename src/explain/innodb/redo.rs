//! The redo log apart from its syncs' latency: who syncs it, how full it is, how fast it is written.

use serde::Serialize;

use crate::explain::factors::InFlightSamples;
use crate::model::Role;
use crate::server::mysql::status::counters::Between;

/// Shares of the capacity at which MySQL 8.0.30 and later starts aggressive page flushing, and at which
/// writers must wait; measured on 9.7.
const ASYNCHRONOUS: f64 = 0.775;
const SYNCHRONOUS: f64 = 0.831;
const HOUR: f64 = 3600.0;
/// Redo log sizes are rounded up to a multiple of this.
const SIZE_STEP: u64 = 64 << 20;
/// A window shorter than this, in seconds, cannot be extrapolated to an hour.
const MIN_SECONDS: f64 = 1.0;

/// The state of the redo log. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Redo {
    /// The threads seen syncing it, the most frequent first.
    pub synced_by: Vec<Syncer>,
    /// innodb_log_writer_threads, if the server has it.
    pub log_writer_threads: Option<bool>,
    pub checkpoint_age_bytes: Option<u64>,
    pub limit: Option<Limit>,
    pub capacity_bytes: Option<u64>,
    pub dirty_pages: Option<u64>,
    /// As a share of the buffer pool's pages.
    pub dirty_share: Option<f64>,
    pub written_bytes: Option<u64>,
    pub bytes_per_hour: Option<u64>,
    /// How long the redo log lasts at this rate until it wraps around.
    pub hours_held: Option<f64>,
    /// One hour of redo, rounded up. None if nothing was written.
    pub an_hour_needs_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Syncer {
    pub thread: String,
    pub who: Who,
    /// Share of the syncs seen in flight.
    pub share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    Connections,
    LogFlusher,
    LogWriter,
    Background,
    /// Unknown: the server does not name its threads (MySQL 5.x, MariaDB up to 11.4).
    Unnamed,
}

impl Who {
    fn of(thread: &str) -> Who {
        match thread {
            "connection" | "one_connection" => Who::Connections,
            "mysqld" | "mariadbd" => Who::Unnamed,
            "ib_log_flush" | "log_flusher" => Who::LogFlusher,
            "ib_log_writer" | "log_writer" => Who::LogWriter,
            _ => Who::Background,
        }
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Who::Connections => "connections",
            Who::LogFlusher => "the log flusher",
            Who::LogWriter => "the log writer",
            Who::Background => "background threads",
            Who::Unnamed => "threads that this server does not name",
        }
    }
}

/// Limits of the checkpoint age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Above this, pages are flushed aggressively. None: unknown.
    pub asynchronous_bytes: Option<u64>,
    /// Above this, writers wait.
    pub synchronous_bytes: u64,
    /// True if the server does not report the limits: they are estimated from the capacity.
    pub is_estimate: bool,
}

impl Redo {
    pub fn measure(in_flight: &InFlightSamples, status: Option<&Between>) -> Redo {
        let threads = in_flight.threads(Role::Redo);
        let seen: u64 = threads.iter().map(|(_, n)| n).sum();
        let synced_by = threads.into_iter().map(|(thread, n)| Syncer {
            who: Who::of(&thread),
            share: n as f64 / seen.max(1) as f64,
            thread,
        });
        let redo = Redo { synced_by: synced_by.collect(), ..Redo::default() };
        let Some(between) = status else { return redo };
        let reading = between.to;
        let capacity = reading.redo_capacity();
        let limit = match (reading.max_checkpoint_age(), capacity) {
            (Some(bytes), _) => {
                Some(Limit { asynchronous_bytes: None, synchronous_bytes: bytes, is_estimate: false })
            }
            (None, Some(capacity)) => {
                let share = |share: f64| (capacity as f64 * share) as u64;
                let asynchronous_bytes = Some(share(ASYNCHRONOUS));
                Some(Limit { asynchronous_bytes, synchronous_bytes: share(SYNCHRONOUS), is_estimate: true })
            }
            (None, None) => None,
        };
        let dirty_pages = reading.number("innodb_buffer_pool_pages_dirty");
        let pages = reading.number("innodb_buffer_pool_pages_total").filter(|&pages| pages > 0);
        let written_bytes = between.redo_bytes();
        let seconds = between.duration().as_secs_f64();
        let bytes_per_hour = written_bytes
            .filter(|_| seconds >= MIN_SECONDS)
            .map(|bytes| (bytes as f64 / seconds * HOUR) as u64);
        let per_hour = bytes_per_hour.filter(|&bytes| bytes > 0);
        Redo {
            log_writer_threads: reading.is_on("innodb_log_writer_threads"),
            checkpoint_age_bytes: reading.checkpoint_age(),
            limit,
            capacity_bytes: capacity,
            dirty_pages,
            dirty_share: dirty_pages.zip(pages).map(|(dirty, pages)| dirty as f64 / pages as f64),
            written_bytes,
            bytes_per_hour,
            hours_held: capacity.zip(per_hour).map(|(capacity, rate)| capacity as f64 / rate as f64),
            an_hour_needs_bytes: per_hour.map(|bytes| bytes.div_ceil(SIZE_STEP).saturating_mul(SIZE_STEP)),
            ..redo
        }
    }

    /// Who syncs the log most, and the share of all syncs seen.
    pub(crate) fn mostly_synced_by(&self) -> Option<(Who, f64)> {
        [Who::Connections, Who::LogFlusher, Who::LogWriter, Who::Background, Who::Unnamed]
            .into_iter()
            .map(|who| (who, self.synced_by.iter().filter(|syncer| syncer.who == who).map(|s| s.share).sum()))
            .max_by(|a: &(Who, f64), b| a.1.total_cmp(&b.1))
            .filter(|&(_, share)| share > 0.0)
    }

    /// The checkpoint age as a share of its limit.
    pub fn fullness(&self) -> Option<f64> {
        Some(self.checkpoint_age_bytes? as f64 / self.limit?.synchronous_bytes.max(1) as f64)
    }
}
