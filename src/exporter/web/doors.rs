//! Where clients come in. They wait in queues of ours, by party, and not in the kernel's, which has one for
//! all: who comes after another user's thousand is not to wait for those.

use std::io::{self, ErrorKind};
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{Connections, Entrance};
use super::limits::{ACCEPTED, NEW_CONNECTIONS, Turns};
use super::lobby::Lobby;
use super::origin::Origin;
use super::state::Web;
use crate::exporter::log::Seldom;

/// Clients wait for a place or a turn: how soon it is looked again whether there is one.
const A_MOMENT: Duration = Duration::from_millis(2);
/// How long requests in progress may go on when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

enum Door {
    Main(TcpListener),
    /// The other two are for verdicts alone.
    Loopback(TcpListener),
    Local(UnixListener),
}

enum Client {
    Main(TcpStream),
    Loopback(TcpStream),
    Local(UnixStream, u32),
}

impl Client {
    fn entrance(&self) -> Entrance {
        match self {
            Client::Main(_) => Entrance::Main,
            Client::Loopback(_) => Entrance::Verdicts { user: None },
            Client::Local(_, user) => Entrance::Verdicts { user: Some(*user) },
        }
    }
}

impl Web {
    /// Serves until `stop` becomes true, then lets requests in progress finish, for some seconds at most.
    /// Fails once a listener accepts nothing any more. Needs a tokio runtime with time and I/O.
    pub async fn serve(
        self: Arc<Web>,
        listeners: Vec<StdTcpListener>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let doors = listeners.into_iter().map(|listener| Ok(Door::Main(TcpListener::from_std(listener)?)));
        self.open(doors.collect::<io::Result<_>>()?, stop).await?;
        let _ = tokio::time::timeout(LAST_ANSWERS, self.connections.ended()).await;
        Ok(())
    }

    /// The same, with verdicts alone.
    pub async fn serve_verdicts(
        self: Arc<Web>,
        loopback: Vec<StdTcpListener>,
        local: Option<StdUnixListener>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let doors = loopback.into_iter().map(|listener| Ok(Door::Loopback(TcpListener::from_std(listener)?)));
        let mut doors = doors.collect::<io::Result<Vec<_>>>()?;
        if let Some(listener) = local {
            listener.set_nonblocking(true)?;
            doors.push(Door::Local(UnixListener::from_std(listener)?));
        }
        self.open(doors, stop).await?;
        let _ = tokio::time::timeout(LAST_ANSWERS, self.verdict_connections.ended()).await;
        Ok(())
    }

    async fn open(self: &Arc<Web>, doors: Vec<Door>, stop: watch::Receiver<bool>) -> io::Result<()> {
        let mut open = JoinSet::new();
        for door in doors {
            open.spawn(self.clone().let_in(door, stop.clone()));
        }
        while let Some(ended) = open.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(())
    }

    async fn let_in(self: Arc<Web>, door: Door, mut stop: watch::Receiver<bool>) -> io::Result<()> {
        let mut lobby = Lobby::default();
        let mut accepted = Turns::default();
        // The next one that comes in does so then; others are accepted meanwhile.
        let mut turn = Instant::now();
        loop {
            let mut now = Instant::now();
            while turn <= now && !lobby.is_empty() {
                let places = self.places(&door);
                // Who scrapes is told that all are at work, and comes again.
                let may_come = |origin: &Origin| matches!(door, Door::Main(_)) || places.has_room(origin);
                turn = match lobby.next(may_come) {
                    Some((origin, client)) => {
                        self.begin(client, origin, &stop);
                        now = Instant::now();
                        now + self.next_turn(&door, now)
                    }
                    None => now + A_MOMENT,
                };
            }
            let wait = accepted.take(ACCEPTED, Instant::now());
            let next = async {
                // Even a sleep of no time takes a tick of the timer, a millisecond.
                if !wait.is_zero() {
                    tokio::time::sleep(wait).await;
                }
                self.next_client(&door).await
            };
            let client = tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return Ok(()),
                client = next => client,
                () = tokio::time::sleep(A_MOMENT), if !lobby.is_empty() => continue,
            };
            match client {
                Ok((origin, client)) => {
                    self.statistics.connections.add_one();
                    if let Some(gone) = lobby.enter(origin, client) {
                        self.refuse(&gone);
                    }
                }
                Err(error) if is_the_listeners_end(&error) => return Err(error),
                Err(error) => {
                    // Of the connection, not of the listener: the next may be better.
                    if error.kind() != ErrorKind::ConnectionAborted {
                        static SELDOM: Seldom = Seldom::new();
                        SELDOM.warn(format_args!("cannot accept a connection: {error}"));
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
    }

    fn places(&self, door: &Door) -> &Arc<Connections> {
        match door {
            Door::Main(_) => &self.connections,
            Door::Loopback(_) | Door::Local(_) => &self.verdict_connections,
        }
    }

    fn next_turn(&self, door: &Door, now: Instant) -> Duration {
        let mut turns = self.turns();
        match door {
            Door::Main(_) => turns.connections.take(NEW_CONNECTIONS, now),
            Door::Loopback(_) | Door::Local(_) => turns.verdict_connections.take(NEW_CONNECTIONS, now),
        }
    }

    async fn next_client(&self, door: &Door) -> io::Result<(Origin, Client)> {
        match door {
            Door::Main(listener) | Door::Loopback(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Nagle's algorithm would hold the end of an answer back until the client has confirmed the
                // rest.
                let _ = stream.set_nodelay(true);
                let origin = self.origin(&stream, peer);
                let is_main = matches!(door, Door::Main(_));
                Ok((origin, if is_main { Client::Main(stream) } else { Client::Loopback(stream) }))
            }
            Door::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                Ok((Origin::local(user), Client::Local(stream, user)))
            }
        }
    }

    fn begin(self: &Arc<Web>, client: Client, origin: Origin, stop: &watch::Receiver<bool>) {
        let entrance = client.entrance();
        let places = match entrance {
            Entrance::Main => &self.connections,
            Entrance::Verdicts { .. } => &self.verdict_connections,
        };
        let Some(place) = places.admit(origin, entrance) else { return self.refuse(&client) };
        let (web, stop) = (self.clone(), stop.clone());
        match client {
            Client::Main(stream) => drop(tokio::spawn(web.converse(stream, place, stop))),
            Client::Loopback(stream) => drop(tokio::spawn(web.tell(stream, place, stop))),
            Client::Local(stream, _) => drop(tokio::spawn(web.tell(stream, place, stop))),
        }
    }

    /// In a hurry: what the client has sent is taken in, or the kernel would throw the answer away with it.
    fn refuse(&self, client: &Client) {
        self.statistics.refused.add_one();
        let Client::Main(stream) = client else { return };
        static SELDOM: Seldom = Seldom::new();
        SELDOM.warn("too many connections at a time: a client was sent away");
        if !self.is_tls() {
            const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n\
                content-length: 21\r\nconnection: close\r\n\r\ntoo many connections\n";
            let _ = stream.try_read(&mut [0; 2048]);
            let _ = stream.try_write(BUSY);
        }
    }
}

/// Not one connection's failure, but all that are to come: somebody shut the listener down (EINVAL), or it is
/// none.
pub(in crate::exporter) fn is_the_listeners_end(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK)
    )
}
