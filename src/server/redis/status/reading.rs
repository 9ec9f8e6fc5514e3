//! What Redis told at one moment, and which server it is.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::model::{Server, Texts};
use crate::server::asking::identity::{Origin, started};
use crate::server::asking::told::{Told, chosen};
use crate::server::asking::{Counted, StatusError};
use crate::server::who::processes;

/// Files that were begun to be saved (stat_rdb_saves in src/rdb.c; from 7.0 on).
pub(crate) const SAVES: &str = "rdb_saves";
/// New bases of the append-only file that were begun (stat_aof_rewrites in src/aof.c; from 7.0 on).
pub(crate) const REWRITES: &str = "aof_rewrites";
/// Bytes of the base and of what was appended to it; not told where the append-only file is off.
pub(crate) const AOF_BYTES: &str = "aof_current_size";
/// Those of the base, by which a rewrite is known that has ended.
pub(crate) const BASE_BYTES: &str = "aof_base_size";
/// Writes made while a sync still ran, after two seconds of waiting for it.
pub(crate) const DELAYED: &str = "aof_delayed_fsync";
/// Changes that no saved file has.
pub(crate) const CHANGES: &str = "rdb_changes_since_last_save";

/// Syncs that wait for the thread that makes them.
pub(crate) const PENDING_SYNCS: &str = "aof_pending_bio_fsync";

const COUNTERS: [&str; 3] = [SAVES, REWRITES, DELAYED];
/// Which Redis has as signed numbers: one that is less than nothing is not told.
const SIZES: [&str; 4] = [AOF_BYTES, BASE_BYTES, CHANGES, PENDING_SYNCS];
/// Commands that make a file without counting it (FLUSHALL, where it saves one, and DEBUG), that end a child
/// before it has synced what was counted, or that change what is compared, in INFO commandstats.
const UNCOUNTED: [&str; 6] = [
    "cmdstat_flushall",
    "cmdstat_debug",
    "cmdstat_replicaof",
    "cmdstat_slaveof",
    "cmdstat_failover",
    "cmdstat_config|set",
];
/// Sets all counters back.
const RESET: &str = "cmdstat_config|resetstat";
/// 1 while a child writes such a file.
pub(crate) const SAVING: &str = "rdb_bgsave_in_progress";
pub(crate) const REWRITING: &str = "aof_rewrite_in_progress";
const CHILDREN: [&str; 2] = [SAVING, REWRITING];
/// "ok", or "err".
pub(crate) const SAVE_STATUS: &str = "rdb_last_bgsave_status";
pub(crate) const REWRITE_STATUS: &str = "aof_last_bgrewrite_status";
pub(crate) const WRITE_STATUS: &str = "aof_last_write_status";
const STATUSES: [&str; 3] = [SAVE_STATUS, REWRITE_STATUS, WRITE_STATUS];
const IDENTITY: [&str; 7] =
    ["process_id", "run_id", "uptime_in_seconds", "redis_version", "valkey_version", "role", "server_name"];

/// What durability hangs on.
pub(crate) const SETTINGS: [&str; 4] = ["appendonly", "appendfsync", "no-appendfsync-on-rewrite", "save"];

/// Uptime is told in whole seconds, by a clock that is read ten times a second.
const START_TOLERANCE: Duration = Duration::from_secs(3);
/// "255.255.255-dev".
const LONGEST_VERSION: usize = 32;
/// No value of INFO that is of use is longer.
const MAX_VALUE: usize = 128;
/// That of a setting: `save` may have many points.
const MAX_SETTING: usize = 512;

#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    origin: Origin,
    taken: SystemTime,
    numbers: BTreeMap<&'static str, u64>,
    words: BTreeMap<&'static str, String>,
    settings: BTreeMap<&'static str, String>,
    /// How often such commands were called, [`UNCOUNTED`] and [`RESET`]. Not always asked for.
    calls: BTreeMap<&'static str, u64>,
    /// What it would not tell, and in which words.
    refused: Vec<String>,
    /// Bytes are compared, not only files.
    with_bytes: bool,
}

impl Reading {
    pub(super) fn empty(origin: Origin, taken: SystemTime) -> Reading {
        Reading {
            origin,
            taken,
            numbers: BTreeMap::new(),
            words: BTreeMap::new(),
            settings: BTreeMap::new(),
            calls: BTreeMap::new(),
            refused: Vec::new(),
            with_bytes: false,
        }
    }

    /// Keeps what is of use in a section of INFO. Why the section cannot be Redis', if it cannot.
    pub(super) fn add(&mut self, section: &str) -> Result<(), String> {
        for line in section.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let known = |names: &[&'static str]| names.iter().copied().find(|known| *known == name);
            let twice = if let Some(name) = known(&COUNTERS).or_else(|| known(&CHILDREN)) {
                let number = value.parse().map_err(|_| format!("its {name} is no count"))?;
                self.numbers.insert(name, number).is_some()
            } else if let (Some(name), Ok(number)) = (known(&SIZES), value.parse()) {
                self.numbers.insert(name, number).is_some()
            } else if let Some(name) = known(&UNCOUNTED).or_else(|| known(&[RESET])) {
                let calls =
                    value.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
                self.calls.insert(name, calls.unwrap_or_default()).is_some()
            } else if let Some(name) = known(&STATUSES).or_else(|| known(&IDENTITY)) {
                if value.len() > MAX_VALUE {
                    return Err(format!("its {name} is too long"));
                }
                self.words.insert(name, value.to_owned()).is_some()
            } else {
                false
            };
            if twice {
                return Err("it tells one thing twice".to_owned());
            }
        }
        Ok(())
    }

    /// The answer to CONFIG GET: the name and the value.
    pub(super) fn set(&mut self, name: &'static str, answer: &[String]) {
        if let [told, value] = answer
            && told == name
            && value.len() <= MAX_SETTING
        {
            self.settings.insert(name, value.clone());
        }
    }

    /// Of each setting it is the same.
    pub(super) fn refuse(&mut self, what: String) {
        if self.refused.is_empty() {
            self.refused.push(what);
        }
    }

    pub(super) fn compare_bytes(&mut self) {
        self.with_bytes = true;
    }

    /// It has what every Redis has.
    pub(super) fn is_complete(&self) -> bool {
        ["process_id", "run_id", "redis_version"].iter().all(|name| self.words.contains_key(name))
            && CHILDREN.iter().all(|name| self.numbers.contains_key(name))
    }

    /// Sections of INFO and settings; for tests.
    pub fn from_text(info: &str, settings: &[(&'static str, &str)]) -> Reading {
        let mut reading = Reading::empty(Origin::Process(0), SystemTime::UNIX_EPOCH);
        reading.add(info).unwrap_or_default();
        for &(name, value) in settings {
            reading.set(name, &[name.to_owned(), value.to_owned()]);
        }
        reading
    }

    pub(crate) fn with_settings_of(self, other: &Reading) -> Reading {
        let (settings, refused) = (other.settings.clone(), other.refused.clone());
        Reading { settings, refused, calls: other.calls.clone(), ..self }
    }

    /// "Redis 7.0.15", "Valkey 8.1.1".
    pub fn version(&self) -> Option<String> {
        let version = |name: &str| self.words.get(name).filter(|version| is_version(version));
        match (version("valkey_version"), version("redis_version")) {
            (Some(version), _) => Some(format!("Valkey {version}")),
            (None, version) => Some(format!("Redis {}", version?)),
        }
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    pub(crate) fn refused(&self) -> &[String] {
        &self.refused
    }

    /// It says so itself of the last of its kind.
    pub(crate) fn has_failed(&self, status: &str) -> bool {
        self.words.get(status).is_some_and(|status| status == "err")
    }

    /// It takes what another sends, whole files included.
    pub(crate) fn is_replica(&self) -> bool {
        self.words.get("role").is_some_and(|role| role == "slave")
    }

    /// Children that write, each of which syncs its file when it has.
    pub(crate) fn children(&self) -> u64 {
        CHILDREN.iter().map(|child| self.runs(child)).sum()
    }

    /// 1 if a child of that kind writes.
    pub(crate) fn runs(&self, child: &str) -> u64 {
        u64::from(self.count(child) != Some(0))
    }

    /// Whether this is the server that is traced. Looks into its /proc: not for a hot path.
    pub fn is_of(&self, server: &Server) -> Result<(), StatusError> {
        let pid = server.id.pid;
        let (listens, place) = self.origin.is_of(server);
        let own_pid = processes::own_pid(Path::new("/proc"), pid);
        let theirs = self.words.get("process_id").and_then(|pid| pid.parse::<u32>().ok());
        let uptime = self.words.get("uptime_in_seconds").and_then(|seconds| seconds.parse().ok());
        let began = uptime.and_then(|seconds| self.taken.checked_sub(Duration::from_secs(seconds)));
        let apart = |began: SystemTime| {
            let ours = started(server);
            began.duration_since(ours).unwrap_or_else(|error| error.duration())
        };
        let why = if listens == Some(false) {
            format!("process {pid} does not listen at {place}")
        } else if theirs != Some(own_pid) {
            let theirs = theirs.map_or("no number".to_owned(), |theirs| theirs.to_string());
            format!("its process_id is {theirs}, that of process {pid} is {own_pid}")
        } else if listens.is_none() && began.is_none_or(|began| apart(began) > START_TOLERANCE) {
            format!(
                "by its uptime it was not started when process {pid} was, which is in another network namespace; or a clock \
                 was set since"
            )
        } else {
            return Ok(());
        };
        Err(StatusError::OtherServer(why))
    }
}

/// In a recording, behind which the calls of such commands stand.
const CALLS: &str = "calls:";

impl Told for Reading {
    const ASKS_FOR_ALL: bool = true;

    fn counters(&self) -> Texts {
        let mut counters = chosen(&self.numbers, |_| true);
        counters.extend(chosen(&self.words, |name| STATUSES.contains(&name) || name == "role"));
        counters.extend(self.calls.iter().map(|(name, calls)| (format!("{CALLS}{name}"), calls.to_string())));
        counters
    }

    fn settings(&self) -> Texts {
        chosen(&self.settings, |_| true)
    }

    fn of_told(counters: &Texts, settings: &Texts) -> Reading {
        fn known<T>(
            names: &[&[&'static str]],
            value: impl Fn(&str) -> Option<T>,
        ) -> BTreeMap<&'static str, T> {
            let names = names.iter().copied().flatten();
            names.filter_map(|&name| Some((name, value(name)?))).collect()
        }
        let text = |name: &str| counters.get(name).cloned();
        Reading {
            numbers: known(&[&COUNTERS, &SIZES, &CHILDREN], |name| text(name)?.parse().ok()),
            words: known(&[&STATUSES, &["role"]], text),
            settings: known(&[&SETTINGS], |name| settings.get(name).cloned()),
            calls: known(&[&UNCOUNTED, &[RESET]], |name| text(&format!("{CALLS}{name}"))?.parse().ok()),
            with_bytes: counters.contains_key(AOF_BYTES),
            ..Reading::empty(Origin::Process(0), SystemTime::UNIX_EPOCH)
        }
    }
}

/// It is shown as it is, and whoever answers chose it.
fn is_version(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+' | b'_');
    (1..=LONGEST_VERSION).contains(&text.len()) && text.bytes().all(is_part)
}

/// Two readings, the earlier one first.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    pub from: &'a Reading,
    pub to: &'a Reading,
}

impl Between<'_> {
    /// By how much a counter grew. None: it is not there, or went backwards.
    pub fn grown(&self, name: &'static str) -> Option<Counted> {
        Counted::grown(name, self.from.count(name), self.to.count(name))
    }

    /// All that grew of what is compared.
    pub(crate) fn moved(&self) -> u64 {
        let bytes = self.to.with_bytes.then_some(AOF_BYTES);
        let grown = [SAVES, REWRITES].into_iter().chain(bytes).filter_map(|name| self.grown(name));
        grown.map(|counted| counted.count).fold(0, u64::saturating_add)
    }

    /// The append-only file got another base, so that its size says nothing of what was appended.
    pub(crate) fn is_rewritten(&self) -> bool {
        let changed = |name: &str| self.from.count(name) != self.to.count(name);
        changed(REWRITES) || changed(BASE_BYTES) || self.from.runs(REWRITING) + self.to.runs(REWRITING) > 0
    }

    /// A child may have written at some time.
    pub(crate) fn had_children(&self) -> bool {
        let saved = self.grown(SAVES).is_none_or(|counted| counted.count > 0);
        saved || self.is_rewritten() || self.from.children() + self.to.children() > 0
    }

    /// A command was called beside which the counters are not exact.
    pub(crate) fn has_uncounted(&self) -> bool {
        UNCOUNTED.iter().any(|name| self.from.calls.get(name) != self.to.calls.get(name))
    }

    /// A setting on which it hangs what is synced was changed meanwhile, and maybe changed back.
    pub(crate) fn was_set(&self) -> bool {
        self.from.settings != self.to.settings || self.has_uncounted()
    }

    /// Why no counter of this interval can be used.
    pub fn interrupted(&self) -> Option<&'static str> {
        let went_back =
            |name: &&str| self.to.count(name).zip(self.from.count(name)).is_some_and(|(to, from)| to < from);
        if self.from.words.get("run_id") != self.to.words.get("run_id") {
            return Some("the server was restarted meanwhile");
        }
        let was_reset = self.from.calls.get(RESET) != self.to.calls.get(RESET);
        (was_reset || COUNTERS.iter().any(went_back))
            .then_some("its counters were reset meanwhile (CONFIG RESETSTAT)")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nprocess_id:5\r\nrun_id:a\r\n# Persistence\r\nrdb_saves:3\r\n\
                        rdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:1\r\nsome_other:x\r\naof_rewrites:2\r\n";

    #[test]
    fn of_info_what_is_of_use_is_kept() {
        let reading = Reading::from_text(INFO, &[("appendfsync", "always")]);
        assert!(reading.is_complete());
        assert_eq!((reading.count(SAVES), reading.count(AOF_BYTES), reading.children()), (Some(3), None, 1));
        assert_eq!((reading.numbers.len(), reading.words.len()), (4, 3));
        assert_eq!(reading.setting("appendfsync"), Some("always"));
        assert_eq!(reading.version().as_deref(), Some("Redis 7.0.15"));
        let valkey = Reading::from_text(&format!("{INFO}valkey_version:8.1.1\r\n"), &[]);
        assert_eq!(valkey.version().as_deref(), Some("Valkey 8.1.1"));
        assert!(!Reading::from_text("redis_version:7\r\nprocess_id:5\r\n", &[]).is_complete());
        for hostile in ["7\u{1b}[2J", "7 \u{202e}", "", &"7".repeat(40)] {
            assert_eq!(Reading::from_text(&format!("redis_version:{hostile}\r\n"), &[]).version(), None);
        }
    }

    #[test]
    fn what_cannot_be_redis_is_an_error() {
        let add = |line: &str| Reading::empty(Origin::Process(0), SystemTime::UNIX_EPOCH).add(line);
        for bad in ["rdb_saves:-1", "rdb_saves:", "rdb_saves:1.5", "rdb_bgsave_in_progress:yes"] {
            assert!(add(bad).unwrap_err().contains("is no count"), "{bad}");
        }
        assert!(add(&format!("run_id:{}", "a".repeat(200))).unwrap_err().contains("too long"));
        assert!(add("run_id:a\r\nrun_id:b").unwrap_err().contains("twice"));
        // That it has less than nothing of them is for Redis to say.
        add("rdb_changes_since_last_save:-1\r\naof_current_size:-5").unwrap();
        add(&format!("another:{}", "a".repeat(9_000))).unwrap();
        // An answer to another question than was asked is none.
        let mut reading = Reading::from_text(INFO, &[]);
        reading.set("appendfsync", &["requirepass".into(), "secret".into()]);
        reading.set("appendfsync", &["appendfsync".into()]);
        assert_eq!(reading.setting("appendfsync"), None);
    }

    #[test]
    fn a_restart_and_a_reset_are_told_apart() {
        let at = |run: &str, saves: u64| {
            Reading::from_text(&format!("run_id:{run}\r\nrdb_saves:{saves}\r\n"), &[])
        };
        let with = |calls: &str| Reading::from_text(&format!("run_id:a\r\ncmdstat_{calls},usec=9\r\n"), &[]);
        let of = |from: Reading, to: Reading| Between { from: &from, to: &to }.interrupted();
        assert!(
            of(with("config|resetstat:calls=1"), with("config|resetstat:calls=2"))
                .unwrap()
                .contains("RESETSTAT")
        );
        let (from, to) = (with("flushall:calls=1"), with("flushall:calls=2"));
        assert!(
            Between { from: &from, to: &to }.has_uncounted()
                && !Between { from: &to, to: &to }.has_uncounted()
        );
        assert_eq!(of(at("a", 3), at("a", 3)), None);
        assert!(of(at("a", 3), at("b", 4)).unwrap().contains("restarted"));
        assert!(of(at("a", 3), at("a", 2)).unwrap().contains("RESETSTAT"));
    }

    #[test]
    fn another_server_is_told_by_where_it_listens_and_what_it_calls_itself() {
        let me = processes::find(Path::new("/proc"), std::process::id()).unwrap().id();
        let server = Server::new(me, "redis-server".into());
        let own = processes::own_pid(Path::new("/proc"), me.pid);
        let reading = |origin: Origin, pid: u32| Reading {
            origin,
            ..Reading::from_text(&format!("process_id:{pid}\r\nrun_id:a\r\n"), &[])
        };
        let is_of = |reading: Reading| reading.is_of(&server).map_err(|error| error.to_string());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let here = Origin::Address { address: listener.local_addr().unwrap(), is_here: true };
        for origin in [here, Origin::Process(me.pid)] {
            assert_eq!(is_of(reading(origin, own)), Ok(()));
            assert!(is_of(reading(origin, own + 1)).unwrap_err().contains("its process_id is"));
        }
        assert!(is_of(reading(Origin::Process(1), own)).unwrap_err().contains("does not listen at"));
        let elsewhere = Origin::Address { address: listener.local_addr().unwrap(), is_here: false };
        assert!(is_of(reading(elsewhere, own)).unwrap_err().contains("does not listen at"));
        drop(listener);
        assert!(is_of(reading(here, own)).unwrap_err().contains("does not listen at 127.0.0.1"));
    }
}
