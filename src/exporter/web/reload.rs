//! The web configuration in use, read anew when one of its files has changed. A change that cannot be used,
//! or that would take protection away, leaves the old one in place and is said once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;

use super::files::{Bundle, Files};
use super::settings::{ClientAuth, Settings, SettingsError};
use super::statistics::Statistics;
use super::tls::{self, TlsError};
use crate::exporter::log;
use crate::linux::lock;

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
    #[error("the process that reads it does not answer")]
    Unknown,
    #[error("{0} is gone from it; taking protection away needs a restart")]
    ProtectsLess(&'static str),
}

/// A configuration in use.
#[derive(Debug, Default)]
pub struct Loaded {
    pub tls: Option<Arc<ServerConfig>>,
    pub settings: Settings,
}

pub(crate) struct Configuration {
    /// None: plain HTTP for everybody.
    files: Option<Arc<dyn Files>>,
    loaded: Mutex<Arc<Loaded>>,
    /// The generation of the files that was read last, usable or not.
    seen: Mutex<Option<u64>>,
    /// A check of the files is under way.
    is_refreshing: AtomicBool,
    /// Changes with each configuration that comes into use.
    generation: watch::Sender<u64>,
    statistics: Arc<Statistics>,
}

impl Loaded {
    pub fn of(bundle: &Bundle) -> Result<Loaded, ConfigurationError> {
        let settings = bundle.settings()?;
        let tls = settings.tls.as_ref().map(|tls| tls::server_config(tls, bundle)).transpose()?;
        Ok(Loaded { tls, settings })
    }
}

impl Configuration {
    /// Reads the files for the first time.
    pub fn open(
        files: Option<Arc<dyn Files>>,
        statistics: Arc<Statistics>,
    ) -> Result<Configuration, ConfigurationError> {
        let (loaded, seen) = match files.as_ref().map(|files| files.changed(None)) {
            None => (Loaded::default(), None),
            Some(None) => return Err(ConfigurationError::Unknown),
            Some(Some(bundle)) => (Loaded::of(&bundle)?, Some(bundle.generation)),
        };
        Ok(Configuration {
            files,
            loaded: Mutex::new(Arc::new(loaded)),
            seen: Mutex::new(seen),
            is_refreshing: AtomicBool::new(false),
            generation: watch::Sender::new(0),
            statistics,
        })
    }

    /// The configuration in use, without checking the files.
    pub fn loaded(&self) -> Arc<Loaded> {
        lock(&self.loaded).clone()
    }

    /// What is in use after a look at the files, which happens on a thread that may block. If another look
    /// hangs, or this one takes long, it is what was in use before.
    pub async fn current(self: &Arc<Self>) -> Arc<Loaded> {
        if self.files.is_some() {
            self.refresh(false).await;
        }
        self.loaded()
    }

    /// Reads the files, changed or not, and says what came of it.
    pub(crate) async fn reload(self: &Arc<Self>) {
        if self.files.is_some() {
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
        let Some(files) = &self.files else { return };
        let mut seen = lock(&self.seen);
        let Some(bundle) = files.changed(if always { None } else { *seen }) else { return };
        *seen = Some(bundle.generation);
        let old = self.loaded();
        match Loaded::of(&bundle).and_then(|new| protects_no_less(&old, &new).map(|()| new)) {
            Ok(new) => {
                *lock(&self.loaded) = Arc::new(new);
                self.generation.send_modify(|generation| *generation += 1);
                self.statistics.reloads.add_one();
                log::info(format_args!("the web configuration {} was read anew", bundle.path().display()));
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
