//! Basic authentication against bcrypt hashes, at a bounded cost: bcrypt is slow on purpose, so its answers
//! are remembered, it runs once at a time, and after a wrong password it pauses. What is remembered is a
//! keyed hash of name, password and bcrypt hash; the passwords themselves are not kept, and a changed file
//! forgets by itself. Whose password is checked next is decided in `queue`.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::SystemRandom;

use super::origin::Origin;
use super::queue::{Queue, Waiting};
use super::settings::Secret;
use crate::linux::lock;
use crate::live::clients::for_clients;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    Denied,
    /// Too many others are waiting to be checked.
    Busy,
}

/// Right ones and wrong ones that are remembered, each.
const REMEMBERED: usize = 64;
/// After a wrong password, no other is checked for this many times as long as that took: guessing passwords
/// takes a tenth of a processor, however many guess. Where the hashes are so costly that this would be long,
/// more than that.
const PAUSE: u32 = 9;
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Shared by all connections.
#[derive(Clone)]
pub(crate) struct Authenticator(Arc<Inner>);

struct Inner {
    key: hmac::Key,
    known: Mutex<Known>,
    queue: Mutex<Queue<Claim, Verdict>>,
    checked: AtomicUsize,
}

#[derive(Default)]
struct Known {
    right: Recent,
    wrong: Recent,
}

/// The newest of them.
#[derive(Default)]
struct Recent {
    all: HashSet<Digest>,
    order: VecDeque<Digest>,
}

type Digest = [u8; 32];

impl Recent {
    fn insert(&mut self, digest: Digest) {
        if self.all.insert(digest) {
            self.order.push_back(digest);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

impl Authenticator {
    /// Fails only if the kernel gives no random numbers.
    pub fn new() -> std::io::Result<Authenticator> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| std::io::Error::other("the kernel gives no random numbers"))?;
        Ok(Authenticator(Arc::new(Inner {
            key,
            known: Mutex::default(),
            queue: Mutex::new(Queue::new()),
            checked: AtomicUsize::new(0),
        })))
    }

    /// Whether a request with this `Authorization` header may pass. Without users, everyone may.
    pub async fn check(
        &self,
        users: &BTreeMap<String, Secret>,
        header: Option<&[u8]>,
        origin: Origin,
    ) -> Verdict {
        if users.is_empty() {
            return Verdict::Allowed;
        }
        let Some((name, password)) = header.and_then(credentials) else { return Verdict::Denied };
        let (hash, exists) = match users.get(&name) {
            Some(hash) => (hash.reveal().to_owned(), true),
            None => (nobody(users), false),
        };
        let digest = self.0.digest(&name, &password, &hash);
        if let Some(verdict) = self.0.remembered(&digest) {
            return verdict;
        }
        let claim = Claim { digest, password, hash, exists };
        let Some((verdict, is_first)) = self.0.queue().enter(origin, claim, Instant::now()) else {
            return Verdict::Busy;
        };
        if is_first {
            // On a task of its own: a client that goes away must not cut its pause short.
            tokio::spawn(self.0.clone().work());
        }
        verdict.await.unwrap_or(Verdict::Busy)
    }

    /// How often bcrypt has run.
    #[cfg(test)]
    fn checked(&self) -> usize {
        self.0.checked.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue<Claim, Verdict>> {
        lock(&self.queue)
    }

    /// Checks one after the other, until nobody waits.
    async fn work(self: Arc<Self>) {
        loop {
            let Some(waiting) = self.queue().next(Instant::now()) else { return };
            let pause = self.check(waiting).await;
            tokio::time::sleep(pause).await;
        }
    }

    /// How long to pause after it.
    async fn check(&self, waiting: Waiting<Claim, Verdict>) -> Duration {
        let digest = waiting.claim.digest;
        // Somebody else may have asked the same meanwhile.
        if let Some(verdict) = self.remembered(&digest) {
            waiting.tell(verdict);
            return Duration::ZERO;
        }
        self.checked.fetch_add(1, Ordering::Relaxed);
        let begun = Instant::now();
        let Claim { password, hash, exists, .. } = waiting.claim.clone();
        let check = move || for_clients(|| bcrypt::verify(password, &hash).unwrap_or(false));
        let is_right = tokio::task::spawn_blocking(check).await.unwrap_or(false) && exists;
        if !is_right {
            self.queue().failed(waiting.origin, Instant::now());
        }
        {
            let mut known = lock(&self.known);
            if is_right { known.right.insert(digest) } else { known.wrong.insert(digest) }
        }
        waiting.tell(if is_right { Verdict::Allowed } else { Verdict::Denied });
        if is_right { Duration::ZERO } else { (begun.elapsed() * PAUSE).min(MAX_PAUSE) }
    }

    fn remembered(&self, digest: &Digest) -> Option<Verdict> {
        let known = lock(&self.known);
        if known.right.all.contains(digest) {
            Some(Verdict::Allowed)
        } else {
            known.wrong.all.contains(digest).then_some(Verdict::Denied)
        }
    }

    /// Each part with its length in front: no two of them can be read as another two.
    fn digest(&self, name: &str, password: &[u8], hash: &str) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [name.as_bytes(), password, hash.as_bytes()] {
            context.update(&part.len().to_le_bytes());
            context.update(part);
        }
        let mut digest = Digest::default();
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }
}

/// What a client claims to be.
#[derive(Clone)]
struct Claim {
    digest: Digest,
    password: Vec<u8>,
    hash: String,
    /// The name is somebody's.
    exists: bool,
}

/// Dummy hash for unknown users, so that the response time does not reveal which names exist: a hash of no
/// password, with the users' cost.
fn nobody(users: &BTreeMap<String, Secret>) -> String {
    let cost = users.values().next().and_then(|hash| hash.reveal().get(4..6)).unwrap_or("10");
    format!("$2b${cost}${}", ".".repeat(53))
}

/// RFC 7617: `Basic`, then name and password in base64, with a colon between them.
fn credentials(header: &[u8]) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    let name = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    Some((name, decoded[colon + 1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::super::queue::SHARE;
    use super::*;

    fn here() -> Origin {
        Origin::new("127.0.0.1:1".parse().unwrap(), None)
    }

    fn users() -> BTreeMap<String, Secret> {
        let hash = bcrypt::hash("right", 4).unwrap();
        serde_json::from_value(serde_json::json!({ "prometheus": hash })).unwrap()
    }

    fn header(name: &str, password: &str) -> Vec<u8> {
        format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))).into_bytes()
    }

    fn run<T>(test: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(test)
    }

    #[test]
    fn the_right_password_of_a_user_passes_and_nothing_else() {
        run(async {
            let (authenticator, users) = (Authenticator::new().unwrap(), users());
            for (header, verdict) in [
                (Some(header("prometheus", "right")), Verdict::Allowed),
                (Some(header("prometheus", "wrong")), Verdict::Denied),
                (Some(header("prometheus", "")), Verdict::Denied),
                (Some(header("stranger", "right")), Verdict::Denied),
                (Some(b"basic ".to_vec()), Verdict::Denied),
                (Some(b"Basic !!!!".to_vec()), Verdict::Denied),
                (Some(b"Bearer abc".to_vec()), Verdict::Denied),
                (Some(b"Ba".to_vec()), Verdict::Denied),
                (Some(vec![0xff; 5000]), Verdict::Denied),
                (None, Verdict::Denied),
            ] {
                assert_eq!(
                    authenticator.check(&users, header.as_deref(), here()).await,
                    verdict,
                    "{header:?}"
                );
                assert_eq!(
                    authenticator.check(&BTreeMap::new(), header.as_deref(), here()).await,
                    Verdict::Allowed
                );
            }
        });
    }

    #[test]
    fn bcrypt_runs_once_for_each_password_however_often_it_is_used() {
        run(async {
            let (authenticator, users) = (Authenticator::new().unwrap(), users());
            let (right, wrong) = (header("prometheus", "right"), header("prometheus", "wrong"));
            for _ in 0..100 {
                assert_eq!(authenticator.check(&users, Some(&right), here()).await, Verdict::Allowed);
                assert_eq!(authenticator.check(&users, Some(&wrong), here()).await, Verdict::Denied);
            }
            assert_eq!(authenticator.checked(), 2);
        });
    }

    #[test]
    fn a_changed_password_is_noticed_at_once() {
        run(async {
            let authenticator = Authenticator::new().unwrap();
            let right = header("prometheus", "right");
            assert_eq!(authenticator.check(&users(), Some(&right), here()).await, Verdict::Allowed);
            let other = bcrypt::hash("other", 4).unwrap();
            let changed = serde_json::from_value(serde_json::json!({ "prometheus": other })).unwrap();
            assert_eq!(authenticator.check(&changed, Some(&right), here()).await, Verdict::Denied);
            let nobody = serde_json::from_value(serde_json::json!({ "somebody": other })).unwrap();
            assert_eq!(authenticator.check(&nobody, Some(&right), here()).await, Verdict::Denied);
        });
    }

    #[test]
    fn guessing_neither_fills_memory_nor_forgets_who_is_known() {
        run(async {
            let (authenticator, users) = (Authenticator::new().unwrap(), users());
            let right = header("prometheus", "right");
            assert_eq!(authenticator.check(&users, Some(&right), here()).await, Verdict::Allowed);
            for guess in 0..3 * REMEMBERED as u32 {
                authenticator.0.known.lock().unwrap().wrong.insert([guess as u8; 32]);
            }
            let sizes = {
                let known = authenticator.0.known.lock().unwrap();
                (known.wrong.all.len(), known.wrong.order.len())
            };
            assert_eq!(sizes, (REMEMBERED, REMEMBERED));
            assert_eq!(authenticator.check(&users, Some(&right), here()).await, Verdict::Allowed);
            assert_eq!(authenticator.checked(), 1);
        });
    }

    #[test]
    fn many_who_guess_wait_in_turn_and_the_rest_is_sent_away() {
        run(async {
            let (authenticator, users) = (Authenticator::new().unwrap(), users());
            let mut all = Vec::new();
            for guess in 0..40 {
                let (authenticator, users) = (authenticator.clone(), users.clone());
                let header = header("prometheus", &guess.to_string());
                all.push(tokio::spawn(
                    async move { authenticator.check(&users, Some(&header), here()).await },
                ));
            }
            let mut verdicts = Vec::new();
            for one in all {
                verdicts.push(one.await.unwrap());
            }
            let denied = verdicts.iter().filter(|&&verdict| verdict == Verdict::Denied).count();
            assert_eq!((denied, authenticator.checked()), (SHARE, SHARE));
            assert!(!verdicts.contains(&Verdict::Allowed));
        });
    }

    #[test]
    fn nobody_has_a_password_and_the_users_cost() {
        let hash = nobody(&users());
        assert_eq!(hash.parse::<bcrypt::HashParts>().unwrap().get_cost(), 4);
        assert!(!bcrypt::verify("", &hash).unwrap());
    }

    mod any_header {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

            #[test]
            fn gives_no_more_than_it_holds(header in prop::collection::vec(any::<u8>(), 0..300)) {
                if let Some((name, password)) = credentials(&header) {
                    // Three bytes of four characters, behind the scheme and its blank.
                    prop_assert!(name.len() + 1 + password.len() <= (header.len() - 6) / 4 * 3);
                }
            }

            #[test]
            fn with_any_base64_in_it_is_read_without_a_panic(
                encoded in prop::collection::vec(any::<u8>(), 0..100).prop_map(|bytes| STANDARD.encode(bytes)),
                cut in 0usize..140,
            ) {
                let encoded = &encoded[..cut.min(encoded.len())];
                credentials(format!("Basic {encoded}").as_bytes());
            }

            #[test]
            fn name_and_password_survive_it(
                scheme in "[Bb][Aa][Ss][Ii][Cc]",
                name in "[^:]{0,30}",
                password in prop::collection::vec(any::<u8>(), 0..50),
                blanks in " {0,3}",
            ) {
                let text = [name.as_bytes(), b":", &password].concat();
                let header = format!("{scheme} {blanks}{}{blanks}", STANDARD.encode(text));
                prop_assert_eq!(credentials(header.as_bytes()), Some((name, password)));
            }

            #[test]
            fn another_scheme_is_no_name_and_password(scheme in "[A-Za-z]{1,12}", encoded in "[A-Za-z0-9+/=]{0,40}") {
                prop_assume!(!scheme.eq_ignore_ascii_case("basic"));
                prop_assert_eq!(credentials(format!("{scheme} {encoded}").as_bytes()), None);
            }

            #[test]
            fn what_is_remembered_of_one_is_not_that_of_another(
                one in ("\\PC{0,8}", prop::collection::vec(any::<u8>(), 0..8), "\\PC{0,8}"),
                other in ("\\PC{0,8}", prop::collection::vec(any::<u8>(), 0..8), "\\PC{0,8}"),
            ) {
                let inner = Authenticator::new().unwrap().0;
                let digest = |(name, password, hash): &(String, Vec<u8>, String)| inner.digest(name, password, hash);
                prop_assert_eq!(digest(&one) == digest(&other), one == other);
            }
        }
    }
}
