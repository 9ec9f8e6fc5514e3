//! One connection: what it is doing, how long it may go on with that, and the socket that is watched for it;
//! and the table of all of them.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::time::sleep_until;

use super::limits::{CONNECTIONS, Phase, Seen, gives_way};
use super::origin::Origin;

use crate::linux::lock;

/// Why a connection was ended from this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    TimedOut,
    GaveWay,
}

/// Where a client has come in, which decides what is there for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// All pages, for those whom the web configuration lets in.
    Main,
    /// Verdicts, for everybody: on a loopback address, or on a local socket, where the kernel says which user
    /// it is.
    Verdicts { user: Option<u32> },
}

#[derive(Debug)]
pub struct Connection {
    pub origin: Origin,
    pub entrance: Entrance,
    state: Mutex<State>,
    give_way: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    since: Instant,
    /// All of the response is in the hands of hyper: what follows is its last flush.
    handed_over: bool,
}

impl Connection {
    fn new(origin: Origin, entrance: Entrance) -> Connection {
        let state = State { phase: Phase::Request, since: Instant::now(), handed_over: false };
        Connection { origin, entrance, state: Mutex::new(state), give_way: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn enter(&self, phase: Phase) {
        *self.state() = State { phase, since: Instant::now(), handed_over: false };
    }

    fn heard(&self) {
        if self.state().phase == Phase::Idle {
            self.enter(Phase::Request);
        }
    }

    fn flushed(&self) {
        let state = self.state();
        if state.phase == Phase::Response && state.handed_over {
            drop(state);
            self.enter(Phase::Idle);
        }
    }

    fn deadline(&self) -> Instant {
        let state = self.state();
        state.since + state.phase.limit()
    }

    /// Waits until it must end.
    pub(crate) async fn must_end(&self) -> End {
        loop {
            let deadline = self.deadline();
            tokio::select! {
                () = self.give_way.notified() => return End::GaveWay,
                // It may have gone on to another phase meanwhile.
                () = sleep_until(deadline.into()) => if self.deadline() <= Instant::now() {
                    return End::TimedOut;
                },
            }
        }
    }

    fn seen(&self) -> Seen {
        let state = self.state();
        Seen { origin: self.origin, phase: state.phase, since: state.since }
    }
}

/// All that are open.
#[derive(Debug)]
pub struct Connections {
    open: Mutex<Vec<Arc<Connection>>>,
    count: watch::Sender<usize>,
}

impl Default for Connections {
    fn default() -> Connections {
        Connections { open: Mutex::default(), count: watch::Sender::new(0) }
    }
}

impl Connections {
    /// A place for a new connection, if need be that of another one. None: all are at work.
    pub(crate) fn admit(self: &Arc<Self>, origin: Origin, entrance: Entrance) -> Option<Admitted> {
        let mut open = self.open();
        if open.len() >= CONNECTIONS {
            let seen: Vec<Seen> = open.iter().map(|connection| connection.seen()).collect();
            let at = gives_way(&seen, Instant::now())?;
            open.swap_remove(at).give_way.notify_one();
        }
        let connection = Arc::new(Connection::new(origin, entrance));
        open.push(connection.clone());
        drop(open);
        self.count.send_modify(|count| *count += 1);
        Some(Admitted { connection, table: self.clone() })
    }

    /// Whether another one of this origin would find a place without taking it from one of its own party that
    /// has only just come.
    pub(crate) fn has_room(&self, origin: &Origin) -> bool {
        let open = self.open();
        if open.len() < CONNECTIONS {
            return true;
        }
        let (seen, now): (Vec<Seen>, _) =
            (open.iter().map(|connection| connection.seen()).collect(), Instant::now());
        gives_way(&seen, now)
            .is_some_and(|at| !seen[at].has_just_come(now) || !seen[at].origin.is_same_party(origin))
    }

    /// Waits until there are none.
    pub async fn ended(&self) {
        let _ = self.count.subscribe().wait_for(|&count| count == 0).await;
    }

    fn open(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        lock(&self.open)
    }
}

/// A place in the table, given back when dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub connection: Arc<Connection>,
    table: Arc<Connections>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.table.open().retain(|other| !Arc::ptr_eq(other, &self.connection));
        self.table.count.send_modify(|count| *count -= 1);
    }
}

/// A stream whose connection learns what happens on it.
#[derive(Debug)]
pub struct Watched<S> {
    pub stream: S,
    pub connection: Arc<Connection>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.connection.heard();
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper calls this when it has written all that it has.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(outcome, Poll::Ready(Ok(()))) {
            self.connection.flushed();
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The body of a response: one piece, shared by all who get it.
#[derive(Debug)]
pub(crate) struct Page {
    bytes: Bytes,
    connection: Arc<Connection>,
}

impl Page {
    pub fn new(bytes: Bytes, connection: Arc<Connection>) -> Page {
        Page { bytes, connection }
    }
}

impl Body for Page {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// hyper lets go of a body when it has all of it.
impl Drop for Page {
    fn drop(&mut self) {
        self.connection.state().handed_over = true;
    }
}
