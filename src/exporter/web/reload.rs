//! The web configuration in use, read anew when one of its files has changed. A change that cannot be used,
//! or that would take protection away, leaves the old one in place and is said once.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;

use super::settings::{ClientAuth, Settings, SettingsError};
use super::statistics::Statistics;
use super::tls::{self, TlsError};
use crate::exporter::log;

/// How long a request waits for the files to be looked at; on a disk that hangs, the old configuration has to
/// do.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Why a web configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0} is gone from it; taking protection away needs a restart")]
    ProtectsLess(&'static str),
}

/// A configuration in use.
#[derive(Debug, Default)]
pub struct Loaded {
    pub tls: Option<Arc<ServerConfig>>,
    pub settings: Settings,
}

#[derive(Debug)]
pub(crate) struct Configuration {
    path: Option<PathBuf>,
    loaded: RwLock<Arc<Loaded>>,
    /// The state of the files when they were last read, usable or not.
    seen: Mutex<Seen>,
    /// A check of the files is under way.
    is_refreshing: AtomicBool,
    /// Changes with each configuration that comes into use.
    generation: watch::Sender<u64>,
    statistics: Arc<Statistics>,
}

/// The files of a configuration and what tells whether they changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen(Vec<(PathBuf, Option<Stamp>)>);

/// Device, inode, size, last change of content and of the inode (ns).
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Seen {
    fn note(&mut self, path: &Path) {
        let stamp = std::fs::metadata(path).ok().map(|file| {
            let modified = (file.mtime(), file.mtime_nsec());
            (file.dev(), file.ino(), file.size(), modified, (file.ctime(), file.ctime_nsec()))
        });
        self.0.push((path.to_owned(), stamp));
    }

    fn is_current(&self) -> bool {
        let mut now = Seen::default();
        self.0.iter().for_each(|(path, _)| now.note(path));
        now == *self
    }
}

/// Reads the file and all that it names. What was seen is returned in any case; it is looked at before it is
/// read, so that a change in between is found the next time.
fn load(path: &Path) -> (Result<Loaded, ConfigurationError>, Seen) {
    let mut seen = Seen::default();
    seen.note(path);
    let outcome = (|| {
        let text = std::fs::read_to_string(path)
            .map_err(|error| SettingsError::Unreadable { path: path.to_owned(), error: error.to_string() })?;
        let settings = Settings::parse(path, &text)?;
        let tls = match &settings.tls {
            None => None,
            Some(tls) => {
                let files = [&tls.cert_file, &tls.key_file, &tls.client_ca_file];
                files.into_iter().flatten().for_each(|file| seen.note(file));
                Some(tls::server_config(tls)?)
            }
        };
        Ok(Loaded { tls, settings })
    })();
    (outcome, seen)
}

impl Configuration {
    /// Reads the file for the first time; without one, plain HTTP for everybody.
    pub fn open(
        path: Option<&Path>,
        statistics: Arc<Statistics>,
    ) -> Result<Configuration, ConfigurationError> {
        let (loaded, seen) = match path {
            None => (Loaded::default(), Seen::default()),
            Some(path) => {
                let (loaded, seen) = load(path);
                (loaded?, seen)
            }
        };
        Ok(Configuration {
            path: path.map(Path::to_owned),
            loaded: RwLock::new(Arc::new(loaded)),
            seen: Mutex::new(seen),
            is_refreshing: AtomicBool::new(false),
            generation: watch::Sender::new(0),
            statistics,
        })
    }

    /// The configuration in use, without checking the files.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is in use after a look at the files, which happens on a thread that may block. If another look
    /// hangs, or this one takes long, it is what was in use before.
    pub async fn current(self: &Arc<Self>) -> Arc<Loaded> {
        if self.path.is_some() {
            self.refresh(false).await;
        }
        self.loaded()
    }

    /// Reads the files, changed or not, and says what came of it.
    pub(crate) async fn reload(self: &Arc<Self>) {
        if self.path.is_some() {
            self.refresh(true).await;
        }
    }

    /// For connections: theirs is no longer the configuration in use.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    async fn refresh(self: &Arc<Self>, always: bool) {
        if self.is_refreshing.swap(true, Ordering::Acquire) {
            return;
        }
        let own = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            own.refresh_now(always);
            own.is_refreshing.store(false, Ordering::Release);
        });
        let _ = tokio::time::timeout(READ_TIMEOUT, work).await;
    }

    fn refresh_now(&self, always: bool) {
        let Some(path) = &self.path else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !always && seen.is_current() {
            return;
        }
        let (outcome, now) = load(path);
        *seen = now;
        let old = self.loaded();
        match outcome.and_then(|new| protects_no_less(&old, &new).map(|()| new)) {
            Ok(new) => {
                *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
                self.generation.send_modify(|generation| *generation += 1);
                self.statistics.reloads.add_one();
                log::info(format_args!("the web configuration {} was read anew", path.display()));
            }
            Err(why) => {
                self.statistics.failed_reloads.add_one();
                log::error(format_args!("the web configuration stays as it was: {why}"));
            }
        }
    }
}

/// Of a client's certificate: that there is one, that an authority vouches for it, and that it is of certain
/// names.
fn demands(loaded: &Loaded) -> [bool; 3] {
    let tls = loaded.settings.tls.as_ref();
    let auth = tls.and_then(|tls| tls.client_auth_type).unwrap_or_default();
    [
        matches!(auth, ClientAuth::RequireAnyClientCert | ClientAuth::RequireAndVerifyClientCert),
        auth == ClientAuth::RequireAndVerifyClientCert,
        tls.is_some_and(|tls| tls.client_allowed_sans.is_some()),
    ]
}

/// A file that is being written is empty for a moment: that must not open the door.
fn protects_no_less(old: &Loaded, new: &Loaded) -> Result<(), ConfigurationError> {
    let what = if old.tls.is_some() && new.tls.is_none() {
        "tls_server_config"
    } else if !old.settings.users.is_empty() && new.settings.users.is_empty() {
        "basic_auth_users"
    } else if demands(old).into_iter().zip(demands(new)).any(|(old, new)| old && !new) {
        "what it demanded of a client's certificate (client_auth_type, client_allowed_sans)"
    } else {
        return Ok(());
    };
    Err(ConfigurationError::ProtectsLess(what))
}
