//! The collector at work: the sampler feeds the books and the history, scrapes read them.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::book::{Book, Labelled, Options};
use super::own::{Own, ProcessFacts};
use super::{expose, forms};
use crate::exporter::recent_file::RecentFile;
use crate::exporter::recording::Recording;
use crate::exporter::source::{Form, NotReady};
use crate::exporter::verdict::Told;
use crate::exporter::web::Figures;
use crate::linux::lock;
use crate::live::{self, Follower, Live, Published, State, Stream};
use crate::recording::History;
use crate::sampler::Sampler;
use crate::server::who::selection::Selection;

/// A snapshot of this age is fresh: scrapes that come close together share one.
const FRESH: Duration = Duration::from_millis(100);
/// How long a scrape waits for a fresh one; then the latest must do, and says how old it is.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(3);

/// What the sampler's thread writes and others read. Each lock is held for a copy, or for taking in one
/// snapshot.
struct Kept {
    book: Mutex<Book>,
    history: Mutex<History>,
}

pub(crate) struct Collector {
    live: Arc<Live>,
    stream: Mutex<Stream>,
    kept: Arc<Kept>,
    about: About,
    interval: Duration,
    recording: Option<Arc<Recording>>,
}

/// The last minutes, as the exporter before has left them, and where they are left to the next one.
pub(crate) struct Remembered {
    pub history: History,
    pub file: Option<RecentFile>,
}

/// Facts about the exporter that the collector does not count itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    /// Memory of the probes' maps, at most.
    pub map_bytes: u64,
    /// The process that serves.
    pub web_pid: Option<u32>,
    /// The process that records.
    pub recorder_pid: Option<u32>,
}

impl Collector {
    /// Attaches, and begins to count and to remember.
    pub fn start<E>(
        make: impl FnOnce() -> Result<Sampler, E> + Send + 'static,
        selection: Selection,
        live: live::Options,
        options: Options,
        remembered: Remembered,
        recording: Option<Arc<Recording>>,
        about: About,
    ) -> Result<Collector, E>
    where
        E: From<io::Error> + Send + 'static,
    {
        let kept =
            Arc::new(Kept { book: Mutex::new(Book::new(options)), history: Mutex::new(remembered.history) });
        let interval = live.interval;
        let live = Live::start_with(
            make,
            selection,
            live,
            follower(kept.clone(), recording.clone(), remembered.file),
        )?;
        let stream = Mutex::new(live.stream());
        Ok(Collector { stream, live: Arc::new(live), kept, about, interval, recording })
    }

    /// Copies the last minutes, as they stand when it is called.
    pub fn history(&self) -> impl Fn() -> History + Send + Sync + use<> {
        let kept = self.kept.clone();
        move || lock(&kept.history).clone()
    }

    /// What has been published since this was last asked, for those who judge it.
    pub fn published(&self) -> Option<Published> {
        lock(&self.stream).newest()
    }

    /// What servers are called in the metrics.
    pub fn labelled(&self) -> Vec<Labelled> {
        lock(&self.kept.book).labelled()
    }

    /// One exposition, with the counters of the web process and the verdicts of that moment. Waits for a
    /// fresh snapshot.
    pub fn render(
        &self,
        form: Form,
        web: Figures,
        verdicts: impl Fn() -> Option<Arc<Told>>,
    ) -> Result<Vec<u8>, NotReady> {
        // None: tracing has ended, or is late. The metrics say so.
        let _ = self.live.fresh(FRESH, SCRAPE_TIMEOUT);
        let book = lock(&self.kept.book).clone();
        let own = Own { verdicts: verdicts(), ..self.own(web) };
        let families = expose::families(&book, &own);
        forms::write(form, &families, &book.options().buckets)
            .map_err(|error| NotReady(format!("the metrics cannot be written: {error}")))
    }

    /// Whoever ends the tracing stops it; what was counted can be scraped after that, too.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    fn own(&self, web: Figures) -> Own {
        let state = self.live.state();
        // The number of one that has ended may be another's.
        let records = self.recording.as_ref().is_some_and(|recording| !recording.has_ended());
        let mut own = Own {
            is_tracing: state.is_tracing(),
            is_paused: matches!(state, State::Paused { .. }),
            interval: match state {
                State::Degraded { interval } => interval,
                _ => self.interval,
            },
            self_test: Some(self.live.tested()),
            web,
            map_bytes: self.about.map_bytes,
            process: ProcessFacts::read(),
            web_process: self.about.web_pid.and_then(ProcessFacts::read_of),
            recording: self.recording.as_ref().map(|recording| recording.facts()),
            recorder: self.about.recorder_pid.filter(|_| records).and_then(ProcessFacts::read_of),
            ..Own::default()
        };
        let history = lock(&self.kept.history);
        own.history_bytes = history.bytes();
        own.history_length = history.length();
        own.history_is_short = history.is_short_of_memory();
        own
    }
}

/// Feeds the books with every snapshot, the history and the recording with what came between two regular
/// ones.
fn follower(kept: Arc<Kept>, recording: Option<Arc<Recording>>, mut file: Option<RecentFile>) -> Follower {
    let mut is_first = true;
    Box::new(move |published, is_tick| {
        lock(&kept.book).feed(published);
        let interval = &published.interval;
        // What the first one holds happened while it was being attached.
        if std::mem::take(&mut is_first) {
            return;
        }
        if let Some(recording) = &recording {
            recording.push(interval, is_tick);
        }
        let mut history = lock(&kept.history);
        if is_tick {
            history.push(interval);
            if let Some(file) = &mut file {
                file.append(&history);
            }
        } else {
            history.push_part(interval);
        }
    })
}
