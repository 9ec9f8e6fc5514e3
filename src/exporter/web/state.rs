//! What all connections share: the figures, the configuration, who may go next.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use tokio::net::TcpStream;

use super::answers::Shared;
use super::auth::Authenticator;
use super::connection::{Connection, Connections, Entrance};
use super::files::Files;
use super::limits::{HANDSHAKES, Phase, REQUESTS, Rate, Turns, VERDICTS};
use super::local_user::LocalUsers;
use super::origin::Origin;
use super::reload::{Configuration, ConfigurationError};
use super::statistics::Statistics;
use crate::exporter::source::{Form, Source};
use crate::linux::lock;

/// Why the web server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error("cannot check passwords: {0}")]
    Passwords(#[from] std::io::Error),
}

/// All that connections share.
pub struct Web {
    pub(super) source: Arc<dyn Source>,
    pub(super) configuration: Arc<Configuration>,
    pub(super) authenticator: Authenticator,
    pub(super) statistics: Arc<Statistics>,
    /// The metrics, by [`Form`].
    pub(super) metrics: [Shared; Form::ALL.len()],
    pub(super) status: Shared,
    pub(super) connections: Arc<Connections>,
    /// Of those who ask for verdicts alone: nobody else takes their places, or their turns.
    pub(super) verdict_connections: Arc<Connections>,
    /// None: they cannot be told apart here.
    local_users: Option<LocalUsers>,
    /// Held by the request that is next. Who goes away while it waits has taken no turn from the others.
    requests: tokio::sync::Mutex<Turns>,
    verdict_requests: tokio::sync::Mutex<Turns>,
    handshakes: tokio::sync::Mutex<Turns>,
    turns: Mutex<AllTurns>,
}

/// Whose turn it is.
#[derive(Default)]
pub(super) struct AllTurns {
    pub(super) connections: Turns,
    pub(super) verdict_connections: Turns,
    /// The web configuration file's own limit.
    pub(super) configured: Turns,
}

impl Web {
    /// Reads the web configuration, if there is one.
    pub fn new(
        source: Arc<dyn Source>,
        web_config: Option<Arc<dyn Files>>,
        statistics: Arc<Statistics>,
    ) -> Result<Arc<Web>, StartError> {
        let configuration = Configuration::open(web_config, statistics.clone())?;
        Ok(Arc::new(Web {
            source,
            configuration: Arc::new(configuration),
            authenticator: Authenticator::new()?,
            statistics,
            metrics: Default::default(),
            status: Shared::default(),
            connections: Arc::default(),
            verdict_connections: Arc::default(),
            local_users: LocalUsers::open(),
            requests: tokio::sync::Mutex::default(),
            verdict_requests: tokio::sync::Mutex::default(),
            handshakes: tokio::sync::Mutex::default(),
            turns: Mutex::default(),
        }))
    }

    /// True if clients must speak TLS at present.
    pub(crate) fn is_tls(&self) -> bool {
        self.configuration.loaded().tls.is_some()
    }

    /// Reads the web configuration file anew.
    pub(crate) async fn reload(&self) {
        self.configuration.reload().await;
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, AllTurns> {
        lock(&self.turns)
    }

    /// Waits for a request's turn, after those that came before it and are still there.
    pub(super) async fn turn(&self, connection: &Connection) {
        connection.enter(Phase::Turn);
        let (turns, rate) = match connection.entrance {
            Entrance::Main => (&self.requests, REQUESTS),
            Entrance::Verdicts { .. } => (&self.verdict_requests, VERDICTS),
        };
        next(turns, rate).await;
        connection.enter(Phase::Answer);
    }

    /// The same of a TLS handshake, by who has said something.
    pub(super) async fn handshake(&self) {
        next(&self.handshakes, HANDSHAKES).await;
    }

    pub(super) fn origin(&self, stream: &TcpStream, peer: SocketAddr) -> Origin {
        let user = self.local_users.as_ref().zip(stream.local_addr().ok());
        Origin::new(peer, user.and_then(|(users, own)| users.of(peer, own)))
    }
}

async fn next(turns: &tokio::sync::Mutex<Turns>, rate: Rate) {
    let mut turns = turns.lock().await;
    let wait = turns.wait(rate, Instant::now());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
    turns.take(rate, Instant::now());
}
