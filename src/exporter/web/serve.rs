//! Accepts connections, speaks HTTP and TLS on them, and ends those that take too long.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::TcpListener as StdListener;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::connection::{Admitted, Connection, End, Entrance, Page, Watched};
use super::limits::{ANSWER_TIMEOUT, HANDSHAKES, HEADER_BYTES, HEADERS, NEW_CONNECTIONS, Phase};
use super::pages;
use super::state::Web;
use crate::exporter::log::Seldom;

/// How long requests in progress may go on when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

impl Web {
    /// Serves until `stop` becomes true, then lets requests in progress finish, for some seconds at most.
    /// Fails once a listener accepts nothing any more. Needs a tokio runtime with time and I/O.
    pub async fn serve(
        self: Arc<Web>,
        listeners: Vec<StdListener>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let listener = TcpListener::from_std(listener)?;
            accepting.spawn(self.clone().accept(listener, stop.clone()));
        }
        while let Some(ended) = accepting.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        let _ = tokio::time::timeout(LAST_ANSWERS, self.connections.ended()).await;
        Ok(())
    }

    async fn accept(
        self: Arc<Web>,
        listener: TcpListener,
        mut stop: watch::Receiver<bool>,
    ) -> io::Result<()> {
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return Ok(()),
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => {
                    self.statistics.connections.add_one();
                    // Nagle's algorithm would hold the end of an answer back until the client has confirmed
                    // the rest.
                    let _ = stream.set_nodelay(true);
                    match self.connections.admit(self.origin(&stream, peer), Entrance::Main) {
                        Some(place) => drop(tokio::spawn(self.clone().converse(stream, place, stop.clone()))),
                        None => self.refuse(&stream),
                    }
                    // The kernel's queue holds back who comes faster than this.
                    tokio::time::sleep(self.next_connection()).await;
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

    fn next_connection(&self) -> Duration {
        let (now, mut turns) = (Instant::now(), self.turns());
        let wait = turns.connections.take(NEW_CONNECTIONS, now);
        if self.is_tls() { wait.max(turns.handshakes.take(HANDSHAKES, now)) } else { wait }
    }

    /// In a hurry: what the client has sent is taken in, or the kernel would throw the answer away with it.
    fn refuse(&self, stream: &TcpStream) {
        self.statistics.refused.add_one();
        static SELDOM: Seldom = Seldom::new();
        SELDOM.warn("too many connections at a time: a client was sent away");
        if !self.is_tls() {
            const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n\
                content-length: 21\r\nconnection: close\r\n\r\ntoo many connections\n";
            let _ = stream.try_read(&mut [0; 2048]);
            let _ = stream.try_write(BUSY);
        }
    }

    async fn converse(self: Arc<Web>, stream: TcpStream, place: Admitted, stop: watch::Receiver<bool>) {
        let connection = &place.connection;
        self.within_limits(connection, self.speak(stream, connection, stop)).await;
    }

    /// Until it has been spoken to its end, or must end.
    pub(super) async fn within_limits(&self, connection: &Connection, speaking: impl Future<Output = ()>) {
        tokio::select! {
            () = speaking => {}
            end = connection.must_end() => match end {
                End::TimedOut => self.statistics.timed_out.add_one(),
                End::GaveWay => {
                    self.statistics.gave_way.add_one();
                    static SELDOM: Seldom = Seldom::new();
                    SELDOM.warn("many connections at a time: one that was slow or idle gave way to a new one");
                }
            },
        }
    }

    async fn speak(
        self: &Arc<Web>,
        stream: TcpStream,
        connection: &Arc<Connection>,
        stop: watch::Receiver<bool>,
    ) {
        let loaded = self.configuration.current().await;
        let changes = self.configuration.changes();
        match loaded.tls.clone() {
            None => self.http(stream, connection, stop, changes).await,
            Some(tls) => {
                if speaks_http(&stream).await {
                    self.statistics.answered(400);
                    let _ = stream.try_read(&mut [0; 2048]);
                    let _ = stream.try_write(
                        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 16\r\n\
                          connection: close\r\n\r\nhttps is needed\n",
                    );
                    return;
                }
                match TlsAcceptor::from(tls).accept(stream).await {
                    Ok(stream) => self.http(stream, connection, stop, changes).await,
                    Err(_) => self.statistics.failed_handshakes.add_one(),
                }
            }
        }
    }

    pub(super) async fn http<S: AsyncRead + AsyncWrite + Unpin>(
        self: &Arc<Web>,
        stream: S,
        connection: &Arc<Connection>,
        mut stop: watch::Receiver<bool>,
        mut changes: watch::Receiver<u64>,
    ) {
        let service = service_fn(|request| self.answer(request, connection));
        let stream = TokioIo::new(Watched { stream, connection: connection.clone() });
        let serving = http1::Builder::new()
            // the phases of a connection have their own time limits
            .header_read_timeout(None)
            .max_buf_size(HEADER_BYTES)
            .max_headers(HEADERS)
            .serve_connection(stream, service);
        let mut serving = pin!(serving);
        let mut is_last = false;
        loop {
            tokio::select! {
                outcome = serving.as_mut() => {
                    // What hyper itself answers: it never got as far as being a request.
                    match outcome {
                        Err(error) if error.is_parse_too_large() => self.statistics.answered(431),
                        Err(error) if error.is_parse() => self.statistics.answered(400),
                        _ => {}
                    }
                    return;
                }
                () = told_to_end(&mut stop, &mut changes), if !is_last => {
                    is_last = true;
                    serving.as_mut().graceful_shutdown();
                }
            }
        }
    }

    async fn answer(
        self: &Arc<Web>,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Page>, Infallible> {
        connection.enter(Phase::Answer);
        let response = match tokio::time::timeout(ANSWER_TIMEOUT, pages::respond(self, &request, connection))
            .await
        {
            Ok(response) => response,
            Err(_) => {
                static SELDOM: Seldom = Seldom::new();
                SELDOM.warn(format_args!("a request had no answer within {} s", ANSWER_TIMEOUT.as_secs()));
                pages::error(StatusCode::SERVICE_UNAVAILABLE, "the answer takes too long")
            }
        };
        self.statistics.answered(response.status().as_u16());
        connection.enter(Phase::Response);
        Ok(response.map(|bytes| Page::new(bytes, connection.clone())))
    }
}

/// The server stops, or the configuration under which the connection was made is no longer in use.
async fn told_to_end(stop: &mut watch::Receiver<bool>, changes: &mut watch::Receiver<u64>) {
    tokio::select! {
        _ = stop.wait_for(|&stop| stop) => {}
        _ = changes.changed() => {}
    }
}

/// Whether the client begins with a letter, where TLS begins with the number of a record.
async fn speaks_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1) if first[0].is_ascii_alphabetic())
}

/// Not one connection's failure, but all that are to come: somebody shut the listener down (EINVAL), or it is
/// none.
pub(in crate::exporter) fn is_the_listeners_end(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::INVAL | Errno::BADF | Errno::NOTSOCK)
    )
}
