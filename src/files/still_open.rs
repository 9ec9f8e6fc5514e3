//! Which of the files of which something has failed are still open in their server: a failure counts for as
//! long. A process with tens of thousands of descriptors takes long to look through, and one on a filesystem
//! of its own making may hang: each server waits for itself, and the time of all has an allowance.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::engine::engines::Engines;
use crate::files::resolve::may_have_open;
use crate::linux::PROC;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::cpu_time::Allowance;
use crate::linux::open_files::tables;
use crate::model::{FileId, ServerId};
use crate::server::who::instances::members;

pub(crate) type File = (ServerId, FileId);

const SERVERS: usize = 64;
/// One search at a time; a thread that hangs is its server's, and others may hang beside it.
const OF_ONE_SERVER: Share = Share { threads: 1, with_abandoned: 1, queue: 16 };
const SEARCHES: Share = Share { threads: 1, with_abandoned: 4, queue: SERVERS * OF_ONE_SERVER.queue };
const SEARCH_TIME: Duration = Duration::from_millis(200);
const SEARCH_TIMEOUT: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Whoever has many descriptors, and files that fail, makes work here.
const SEARCH_SHARE: f64 = 0.002;
const SEARCH_BURST: Duration = Duration::from_secs(1);

/// `T`: what the caller wants to know again of a file when the answer comes.
pub(crate) struct StillOpen<T> {
    searches: Pool<ServerId, (File, T), (File, T, bool)>,
    asked: HashMap<File, Asked>,
    /// How often any was.
    times: u64,
    last_round: Instant,
}

struct Asked {
    /// Which question of all was the last about it.
    time: u64,
    is_pending: bool,
}

impl<T: Copy + Send + 'static> StillOpen<T> {
    pub fn new(name: &'static str, engines: Arc<Engines>) -> StillOpen<T> {
        let search = move |&(server, file): &File| {
            let (proc_root, until) = (Path::new(PROC), Instant::now() + SEARCH_TIME);
            let members = members(proc_root, &engines, &[server.pid]);
            let mut threads = members.iter().flat_map(|&pid| tables(proc_root, pid));
            threads.any(|tid| may_have_open(proc_root, tid, file, until))
        };
        StillOpen::with(name, search)
    }

    fn with(name: &'static str, search: impl Fn(&File) -> bool + Send + Sync + 'static) -> StillOpen<T> {
        let limits = Limits {
            all: SEARCHES,
            of_one_owner: OF_ONE_SERVER,
            job_timeout: SEARCH_TIMEOUT,
            allowance: Some(Allowance::new(SEARCH_SHARE, SEARCH_BURST)),
        };
        let search = move |&(file, known): &(File, T)| Some((file, known, search(&file)));
        StillOpen {
            searches: Pool::new(name, limits, search),
            asked: HashMap::new(),
            times: 0,
            last_round: Instant::now(),
        }
    }

    /// Files that are open no more, each with what was known of it when it was asked about.
    pub fn closed(&mut self) -> Vec<(File, T)> {
        let mut closed = Vec::new();
        while let Some((file, known, is_open)) = self.searches.poll() {
            if let Some(asked) = self.asked.get_mut(&file) {
                asked.is_pending = false;
            }
            if !is_open {
                closed.push((file, known));
            }
        }
        closed
    }

    /// Asks about these files, every two seconds, and about no others any more. For whichever there is no
    /// room now, the next round begins with them.
    pub fn look_for(&mut self, files: impl Iterator<Item = (File, T)>) {
        if self.last_round.elapsed() >= LOOK_AGAIN {
            self.last_round = Instant::now();
            self.begin_round(files.collect());
        }
    }

    fn begin_round(&mut self, mut files: Vec<(File, T)>) {
        let wanted: HashSet<File> = files.iter().map(|(file, _)| *file).collect();
        self.asked.retain(|file, _| wanted.contains(file));
        self.searches.retain(|(file, _)| wanted.contains(file));
        files.sort_by_key(|(file, _)| (self.asked.get(file).map_or(0, |asked| asked.time), *file));
        // Room that is made meanwhile is not for those that come later.
        let mut without_room = HashSet::new();
        for (file, known) in files {
            let is_pending = self.asked.get(&file).is_some_and(|asked| asked.is_pending);
            if is_pending || without_room.contains(&file.0) {
                continue;
            }
            if self.searches.submit(file.0, (file, known)) {
                self.times += 1;
                self.asked.insert(file, Asked { time: self.times, is_pending: true });
            } else {
                without_room.insert(file.0);
            }
        }
    }

    /// Processor time that the searches have used.
    pub fn spent(&self) -> Duration {
        self.searches.spent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::{Mutex, mpsc};

    fn file(pid: u32, inode: u64) -> (File, ()) {
        let server = ServerId { pid, start_ns: 7 };
        ((server, FileId { device: 1, inode, generation: 3, weak: false, part: false }), ())
    }

    fn wait_for(what: &str, mut until: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !until() {
            assert!(Instant::now() < end, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn of_more_files_than_there_is_room_for_each_has_its_turn_before_any_has_another() {
        let counts: Arc<Mutex<BTreeMap<u64, u32>>> = Arc::default();
        let theirs = counts.clone();
        let mut files: StillOpen<()> = StillOpen::with("test-open", move |(_, file)| {
            *theirs.lock().unwrap().entry(file.inode).or_default() += 1;
            true
        });
        let all: Vec<_> = (1..=40).map(|inode| file(1, inode)).collect();
        for rounds in 1..=6 {
            files.begin_round(all.clone());
            wait_for("a round", || {
                assert_eq!(files.closed(), []);
                files.searches.pending() == 0
            });
            assert_eq!(files.closed(), []);
            let counts = counts.lock().unwrap();
            assert!(counts.len() >= (rounds * OF_ONE_SERVER.queue).min(40), "{rounds}: {counts:?}");
            let most = counts.values().max().unwrap();
            let least = (1..=40).map(|inode| counts.get(&inode).copied().unwrap_or(0)).min().unwrap();
            assert!(most - least <= 1, "{rounds}: {counts:?}");
        }
    }

    #[test]
    fn a_server_that_hangs_keeps_no_other_from_being_looked_at() {
        let (release, hang) = mpsc::channel::<()>();
        let hang = Mutex::new(hang);
        let mut files: StillOpen<()> = StillOpen::with("test-open", move |(server, _)| {
            if server.pid == 1 {
                let _ = hang.lock().unwrap().recv();
            }
            false
        });
        let hanging = (1..=1_000).map(|inode| file(1, inode));
        files.begin_round(hanging.chain([file(2, 5), file(2, 6)]).collect());
        let mut closed = Vec::new();
        wait_for("the other's", || {
            closed.extend(files.closed());
            closed.len() == 2
        });
        assert!(closed.iter().all(|((server, _), ())| server.pid == 2), "{closed:?}");
        drop(release);
    }

    #[test]
    fn what_is_asked_about_no_more_is_not_looked_for() {
        let (release, hang) = mpsc::channel::<()>();
        let hang = Mutex::new(hang);
        let mut files: StillOpen<()> = StillOpen::with("test-open", move |_| {
            let _ = hang.lock().unwrap().recv();
            true
        });
        files.begin_round((1..=10).map(|inode| file(1, inode)).collect());
        wait_for("the first", || files.searches.pending() == 10);
        files.begin_round(Vec::new());
        assert!(files.searches.pending() <= 1, "one may be at work");
        assert!(files.asked.is_empty());
        drop(release);
    }

    #[test]
    fn a_file_of_this_process_is_open_until_it_is_closed_and_the_time_is_counted() {
        use std::os::linux::fs::MetadataExt;
        let open = std::fs::File::open("/proc/self/exe").unwrap();
        let inode = open.metadata().unwrap().st_ino();
        let server = ServerId { pid: std::process::id(), start_ns: 7 };
        // No file has this number.
        let id = |inode| FileId { device: 1, inode, generation: 3, weak: false, part: false };
        let mut files: StillOpen<u64> = StillOpen::new("test-open", Engines::builtin());
        files.begin_round(vec![((server, id(u64::MAX)), 5), ((server, id(inode)), 6)]);
        wait_for("both", || files.searches.pending() == 0);
        let closed: Vec<u64> = files.closed().into_iter().map(|(_, known)| known).collect();
        assert!(closed.contains(&5), "{closed:?}");
        assert!(files.spent() > Duration::ZERO);
    }
}
