//! Programs that somebody else has attached: a syscall tracepoint slows every process of the host, so a block
//! that ran beside one is measured again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use libbpf_rs::ProgramType;
use libbpf_rs::query::ProgInfoIter;

use crate::progress;

/// How long one waits for others to end.
const PATIENCE: Duration = Duration::from_secs(900);
/// The kernel takes a while to free programs of ours that are detached.
const FREED_AFTER: Duration = Duration::from_secs(2);
const TRACING: [ProgramType; 5] = [
    ProgramType::Kprobe,
    ProgramType::Tracepoint,
    ProgramType::PerfEvent,
    ProgramType::RawTracepoint,
    ProgramType::Tracing,
];

/// The tracing programs that are loaded, by id.
pub fn programs() -> BTreeMap<u32, String> {
    let tracing = ProgInfoIter::default().filter(|program| TRACING.contains(&program.ty));
    tracing.map(|program| (program.id, program.name.to_string_lossy().into_owned())).collect()
}

/// Of programs.
pub type Ids = BTreeSet<u32>;

/// What was attached when the bench began, and stays: a part of "nothing attached".
pub struct Others {
    lasting: BTreeMap<u32, String>,
}

impl Others {
    /// Those that are there for longer than a test lasts are taken as a part of this host.
    pub fn find() -> Others {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut lasting = programs();
        if !lasting.is_empty() {
            progress!("others trace here: waiting for {:?} to end", lasting.values());
        }
        while !lasting.is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(500));
            let now = programs();
            lasting.retain(|id, _| now.contains_key(id));
        }
        Others { lasting }
    }

    /// Names of what was there all the time.
    pub fn lasting(&self) -> Vec<String> {
        self.lasting.values().cloned().collect()
    }

    /// Of what has been loaded since: ours, if it is asked right after loading.
    pub fn new_ids(&self) -> Ids {
        self.beside(&Ids::new()).into_keys().collect()
    }

    /// Nobody else traces, at this moment.
    pub fn are_gone(&self) -> bool {
        self.are_gone_beside(&Ids::new())
    }

    /// The same while these of ours are loaded.
    pub fn are_gone_beside(&self, ours: &Ids) -> bool {
        self.beside(ours).is_empty()
    }

    fn beside(&self, ours: &Ids) -> BTreeMap<u32, String> {
        let mut others = programs();
        others.retain(|id, _| !self.lasting.contains_key(id) && !ours.contains(id));
        others
    }

    /// Waits until nobody else traces. Nothing of ours must be attached.
    pub fn wait(&self) -> Result<()> {
        self.wait_beside(&Ids::new())
    }

    /// The same while these of ours are loaded.
    pub fn wait_beside(&self, ours: &Ids) -> Result<()> {
        let began = Instant::now();
        let mut told = false;
        loop {
            let others = self.beside(ours);
            if others.is_empty() {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                bail!("others have been tracing for {PATIENCE:?}: {:?}", others.values());
            }
            if !told && began.elapsed() > FREED_AFTER {
                progress!("waiting: others trace here ({:?})", others.values());
                told = true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}
