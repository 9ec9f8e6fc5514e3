//! Single-flight answers: made once for all clients that ask at the same time, and cached for a moment.
//! However many clients there are, and however often they ask, the figures are made a few times a second at
//! most.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use tokio::sync::{OnceCell, watch};

use crate::exporter::source::NotReady;
use crate::linux::lock;
use crate::live::clients::for_clients;

/// How long an answer is given again, at least.
const YOUNG: Duration = Duration::from_millis(250);
/// An answer that takes long to make is given again for this many times as long, so that asking without a
/// pause takes a few percent of a processor and no more.
const TIMES_ITS_COST: u32 = 25;
const MAX_YOUNG: Duration = Duration::from_secs(1);

/// The bytes of an answer, and the same compressed once somebody wants that.
#[derive(Debug)]
pub struct Answer {
    pub text: Bytes,
    gzip: OnceCell<Bytes>,
}

impl Answer {
    pub fn new(text: Vec<u8>) -> Answer {
        Answer { text: text.into(), gzip: OnceCell::new() }
    }

    /// None if it cannot be compressed.
    pub async fn gzip(&self) -> Option<Bytes> {
        let text = self.text.clone();
        let compress = || async {
            tokio::task::spawn_blocking(move || for_clients(|| gzip(&text))).await.ok().flatten().ok_or(())
        };
        self.gzip.get_or_try_init(compress).await.ok().cloned()
    }
}

fn gzip(text: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

pub type Outcome = Result<Arc<Answer>, NotReady>;

/// One kind of answer.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<State>>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Nothing,
    Making(watch::Receiver<Option<Outcome>>),
    /// Becomes nothing by itself when it is no longer young.
    Made(Outcome),
}

impl Shared {
    /// The answer of now. `make` runs on a thread that may block; that goes on if the one who asked goes
    /// away, since others may wait for it.
    pub async fn get(&self, make: impl FnOnce() -> Result<Vec<u8>, NotReady> + Send + 'static) -> Outcome {
        let mut made = {
            let mut state = self.lock();
            match &*state {
                State::Made(outcome) => return outcome.clone(),
                State::Making(made) => made.clone(),
                State::Nothing => {
                    let (tell, made) = watch::channel(None);
                    *state = State::Making(made.clone());
                    tokio::spawn(self.clone().make(make, tell));
                    made
                }
            }
        };
        match made.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            _ => Err(NotReady("the answer could not be made".into())),
        }
    }

    async fn make(
        self,
        make: impl FnOnce() -> Result<Vec<u8>, NotReady> + Send + 'static,
        tell: watch::Sender<Option<Outcome>>,
    ) {
        let begun = Instant::now();
        let outcome = match tokio::task::spawn_blocking(|| for_clients(make)).await {
            Ok(outcome) => outcome.map(|text| Arc::new(Answer::new(text))),
            Err(_) => Err(NotReady("making the answer failed; the log says why".into())),
        };
        let young = (begun.elapsed() * TIMES_ITS_COST).clamp(YOUNG, MAX_YOUNG);
        *self.lock() = State::Made(outcome.clone());
        let _ = tell.send(Some(outcome));
        drop(tell);
        tokio::time::sleep(young).await;
        *self.lock() = State::Nothing;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
    }

    fn counting(
        made: &Arc<AtomicU32>,
        takes: Duration,
    ) -> impl FnOnce() -> Result<Vec<u8>, NotReady> + use<> {
        let made = made.clone();
        move || {
            std::thread::sleep(takes);
            Ok(made.fetch_add(1, Ordering::Relaxed).to_string().into_bytes())
        }
    }

    #[test]
    fn all_who_ask_at_once_get_one_answer() {
        run(async {
            let (shared, made) = (Shared::default(), Arc::new(AtomicU32::new(0)));
            let ask = || {
                let (shared, make) = (shared.clone(), counting(&made, Duration::from_millis(30)));
                tokio::spawn(async move { shared.get(make).await.unwrap().text.clone() })
            };
            let all: Vec<_> = (0..100).map(|_| ask()).collect();
            for one in all {
                assert_eq!(one.await.unwrap(), "0");
            }
            assert_eq!(made.load(Ordering::Relaxed), 1);
        });
    }

    #[test]
    fn an_answer_is_given_again_for_a_moment_and_then_forgotten() {
        run(async {
            let (shared, made) = (Shared::default(), Arc::new(AtomicU32::new(0)));
            let ask = || shared.get(counting(&made, Duration::ZERO));
            assert_eq!(ask().await.unwrap().text, "0");
            assert_eq!(ask().await.unwrap().text, "0");
            // It is not kept in memory for longer than it is given. A busy machine makes it cost something.
            let end = Instant::now() + MAX_YOUNG + Duration::from_secs(20);
            while !matches!(*shared.lock(), State::Nothing) {
                assert!(Instant::now() < end, "it is kept in memory");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert_eq!(ask().await.unwrap().text, "1");
        });
    }

    #[test]
    fn an_answer_that_was_costly_is_given_for_longer() {
        run(async {
            let (shared, made) = (Shared::default(), Arc::new(AtomicU32::new(0)));
            let ask = || shared.get(counting(&made, Duration::from_millis(100)));
            ask().await.unwrap();
            // Less than MAX_YOUNG by as much as a busy machine may be late.
            tokio::time::sleep(YOUNG + Duration::from_millis(100)).await;
            assert_eq!(ask().await.unwrap().text, "0");
        });
    }

    #[test]
    fn who_goes_away_takes_the_answer_from_nobody() {
        run(async {
            let (shared, made) = (Shared::default(), Arc::new(AtomicU32::new(0)));
            let first = shared.get(counting(&made, Duration::from_millis(50)));
            assert!(tokio::time::timeout(Duration::from_millis(10), first).await.is_err());
            assert_eq!(shared.get(counting(&made, Duration::ZERO)).await.unwrap().text, "0");
        });
    }

    #[test]
    fn a_failure_is_an_answer_too_and_a_panic_is_a_failure() {
        run(async {
            let no = NotReady("not yet".into());
            let told = no.clone();
            assert_eq!(Shared::default().get(move || Err(told)).await.unwrap_err(), no);
            let outcome = Shared::default().get(|| panic!("for the test")).await;
            assert!(outcome.unwrap_err().0.contains("failed"));
        });
    }

    #[test]
    fn what_is_compressed_can_be_had_back() {
        run(async {
            let text = "fsynctop_up 1\n".repeat(1000).into_bytes();
            let answer = Answer::new(text.clone());
            let small = answer.gzip().await.unwrap();
            assert!(small.len() < text.len() / 20);
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(&small[..]).read_to_end(&mut back).unwrap();
            assert_eq!(back, text);
        });
    }
}
