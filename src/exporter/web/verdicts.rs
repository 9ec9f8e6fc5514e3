//! `/api/v1/verdict`: answered out of memory, on entrances of its own as well, which have nothing else and
//! ask for no password: a loopback address, and a local socket, on which an operator can also acknowledge a
//! failure.

use std::io::ErrorKind;
use std::net::TcpListener as StdTcpListener;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use rustix::process::geteuid;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::{Admitted, Entrance};
use super::limits::NEW_CONNECTIONS;
use super::origin::Origin;
use super::pages::{error, healthy, json as page_of, refusal};
use super::query::{self, Query};
use super::serve::is_the_listeners_end;
use super::state::Web;
use crate::exporter::confine::User;
use crate::exporter::log::Seldom;
use crate::exporter::verdict::Told;
use crate::verdict::State;

pub(super) const PATH: &str = "/api/v1/verdict";
const ROOT: u32 = 0;
const ACKNOWLEDGE: &str = "/api/v1/verdict/acknowledge";
/// All places are taken by clients that have only just come: how soon it is looked again.
const NO_ROOM: Duration = Duration::from_millis(5);
/// How long requests in progress may go on when the server stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// All that is on these entrances. `user`: who has come by the local socket.
pub(super) async fn page(web: &Arc<Web>, request: &Request<Incoming>, user: Option<u32>) -> Response<Bytes> {
    let methods: &[Method] = match request.uri().path() {
        PATH | "/-/healthy" => &[Method::GET, Method::HEAD],
        ACKNOWLEDGE if user.is_some() => &[Method::POST],
        _ => return error(StatusCode::NOT_FOUND, "there is no such page here: it has verdicts only"),
    };
    if let Some(refusal) = refusal(request, methods) {
        return refusal;
    }
    match (request.uri().path(), user) {
        (PATH, _) => answer(web, request),
        (ACKNOWLEDGE, Some(user)) => acknowledge(web, request, user).await,
        _ => healthy(web),
    }
}

/// The worst verdict of all, or that of one server.
pub(super) fn answer(web: &Web, request: &Request<Incoming>) -> Response<Bytes> {
    let query = match query::read(request.uri().query().unwrap_or_default(), &["server", "strict"]) {
        Ok(query) => query,
        Err(why) => return error(StatusCode::BAD_REQUEST, &why),
    };
    let is_strict = match query.get("strict") {
        None | Some("0" | "false") => false,
        Some("" | "1" | "true") => true,
        Some(_) => return error(StatusCode::BAD_REQUEST, "strict is 1 or 0"),
    };
    let (state, body) = match web.source.verdicts() {
        Ok(told) => match told.report(query.get("server")) {
            Some(report) => report,
            None => {
                return error(
                    StatusCode::NOT_FOUND,
                    "no server is called so; the label server of the metrics says how they are called",
                );
            }
        },
        // Of a server that is not known yet nothing is known either.
        Err(why) => (State::Unknown, Told::nothing(&why.0)),
    };
    let is_bad = state >= State::Stalled || (is_strict && state == State::Unknown);
    let status = if is_bad { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    page_of(status, format!("{body}\n"))
}

/// Who may acknowledge failures, beside root: the user that the exporter runs as, unless that is "nobody".
/// Other daemons may be that user as well, and so is, to the kernel, whoever has no number here.
fn operator(own: u32) -> Option<u32> {
    (own != User::default().uid).then_some(own)
}

async fn acknowledge(web: &Arc<Web>, request: &Request<Incoming>, user: u32) -> Response<Bytes> {
    let operator = operator(geteuid().as_raw());
    if user != ROOT && Some(user) != operator {
        let why = match operator {
            Some(_) => "only root and the user that the exporter runs as may acknowledge failures",
            None => "only root may acknowledge failures: the exporter runs as a user that others share",
        };
        return error(StatusCode::FORBIDDEN, why);
    }
    let query = query::read(request.uri().query().unwrap_or_default(), &["server"]);
    let server = match query.map(|query: Query| query.get("server").map(str::to_owned)) {
        Ok(Some(server)) => server,
        Ok(None) => return error(StatusCode::BAD_REQUEST, "of which server: ?server=NAME"),
        Err(why) => return error(StatusCode::BAD_REQUEST, &why),
    };
    let source = web.source.clone();
    let asked = tokio::task::spawn_blocking(move || (source.acknowledge(&server, user), server)).await;
    match asked {
        Ok((Ok(Some(files)), server)) => {
            let done = json!({ "server": server, "acknowledged_files": files });
            page_of(StatusCode::OK, format!("{done}\n"))
        }
        Ok((Ok(None), _)) => error(StatusCode::NOT_FOUND, "no server is called so"),
        Ok((Err(why), _)) => super::pages::not_ready(&why),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "it could not be asked for"),
    }
}

/// What clients of verdicts come by.
enum Door {
    Loopback(TcpListener),
    Local(UnixListener),
}

enum Client {
    Loopback(TcpStream, Origin),
    Local(UnixStream, u32),
}

impl Web {
    /// As [`Web::serve`], with verdicts alone. Fails once a listener accepts nothing any more.
    pub async fn serve_verdicts(
        self: Arc<Web>,
        loopback: Vec<StdTcpListener>,
        local: Option<StdUnixListener>,
        stop: watch::Receiver<bool>,
    ) -> std::io::Result<()> {
        let mut accepting = JoinSet::new();
        for listener in loopback {
            accepting
                .spawn(self.clone().let_in(Door::Loopback(TcpListener::from_std(listener)?), stop.clone()));
        }
        if let Some(listener) = local {
            listener.set_nonblocking(true)?;
            accepting
                .spawn(self.clone().let_in(Door::Local(UnixListener::from_std(listener)?), stop.clone()));
        }
        while let Some(ended) = accepting.join_next().await {
            ended.map_err(std::io::Error::other)??;
        }
        let _ = tokio::time::timeout(LAST_ANSWERS, self.verdict_connections.ended()).await;
        Ok(())
    }

    async fn let_in(self: Arc<Web>, door: Door, mut stop: watch::Receiver<bool>) -> std::io::Result<()> {
        loop {
            // Nobody is sent away: an answer takes a moment only. Those behind the client wait in the
            // kernel's queue. Whether there is room is asked once it has come, which may be long after the
            // one before.
            let next = async {
                let accepted = self.next_client(&door).await;
                while accepted.is_ok() && !self.verdict_connections.has_room() {
                    tokio::time::sleep(NO_ROOM).await;
                }
                accepted
            };
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|&stop| stop) => return Ok(()),
                accepted = next => accepted,
            };
            match accepted {
                Ok(Client::Loopback(stream, origin)) => {
                    self.begin(stream, origin, Entrance::Verdicts { user: None }, &stop);
                }
                Ok(Client::Local(stream, user)) => {
                    self.begin(stream, Origin::local(user), Entrance::Verdicts { user: Some(user) }, &stop);
                }
                Err(error) if is_the_listeners_end(&error) => return Err(error),
                Err(error) => {
                    if error.kind() != ErrorKind::ConnectionAborted {
                        static SELDOM: Seldom = Seldom::new();
                        SELDOM.warn(format_args!("cannot accept a client that asks for verdicts: {error}"));
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
            let wait = self.turns().verdict_connections.take(NEW_CONNECTIONS, Instant::now());
            tokio::time::sleep(wait).await;
        }
    }

    async fn next_client(&self, door: &Door) -> std::io::Result<Client> {
        match door {
            Door::Loopback(listener) => {
                let (stream, peer) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                let origin = self.origin(&stream, peer);
                Ok(Client::Loopback(stream, origin))
            }
            Door::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred()?.uid();
                Ok(Client::Local(stream, user))
            }
        }
    }

    fn begin<S>(self: &Arc<Web>, stream: S, origin: Origin, entrance: Entrance, stop: &watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.statistics.connections.add_one();
        match self.verdict_connections.admit(origin, entrance) {
            Some(place) => drop(tokio::spawn(self.clone().tell(stream, place, stop.clone()))),
            None => self.statistics.refused.add_one(),
        }
    }

    async fn tell<S>(self: Arc<Web>, stream: S, place: Admitted, stop: watch::Receiver<bool>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let connection = &place.connection;
        let changes = self.configuration.changes();
        self.within_limits(connection, self.http(stream, connection, stop, changes)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_the_exporter_shares_its_user_with_acknowledges_nothing() {
        assert_eq!(operator(998), Some(998));
        assert_eq!(operator(User::default().uid), None);
    }
}
