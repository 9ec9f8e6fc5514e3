//! Speaks HTTP and TLS on connections, and ends those that take too long.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::connection::{Admitted, Connection, End, Page, Watched};
use super::limits::{ANSWER_TIMEOUT, HEADER_BYTES, HEADERS, Phase};
use super::state::Web;
use super::{pages, short};
use crate::exporter::log::Seldom;

impl Web {
    pub(super) async fn converse(
        self: Arc<Web>,
        stream: TcpStream,
        place: Admitted,
        stop: watch::Receiver<bool>,
    ) {
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

    pub(super) async fn tell<S>(self: Arc<Web>, stream: S, place: Admitted, stop: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let connection = &place.connection;
        let changes = self.configuration.changes();
        self.within_limits(connection, self.http(stream, connection, stop, changes)).await;
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
                let Some(first) = first_byte(&stream).await else { return };
                // TLS begins with the number of a record.
                if first.is_ascii_alphabetic() {
                    self.statistics.answered(400);
                    let _ = stream.try_read(&mut [0; 2048]);
                    let _ = stream.try_write(
                        b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 16\r\n\
                          connection: close\r\n\r\nhttps is needed\n",
                    );
                    return;
                }
                self.handshake().await;
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
                short::error(StatusCode::SERVICE_UNAVAILABLE, "the answer takes too long")
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

/// None: the client has gone without a word.
async fn first_byte(stream: &TcpStream) -> Option<u8> {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)).then_some(first[0])
}
