//! `/api/v1/verdict`: answered out of memory, on entrances of its own as well, which have nothing else and
//! ask for no password: a loopback address, and a local socket, on which an operator can also acknowledge a
//! failure.

use std::sync::Arc;

use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response, StatusCode};
use rustix::process::geteuid;
use serde_json::json;

use super::query::{self, Query};
use super::short::{error, healthy, json as page_of, not_ready, refusal};
use super::state::Web;
use crate::exporter::confine::User;
use crate::exporter::verdict::{Asked, Told};
use crate::verdict::State;

pub(super) const PATH: &str = "/api/v1/verdict";
const ROOT: u32 = 0;
const ACKNOWLEDGE: &str = "/api/v1/verdict/acknowledge";

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
    let query =
        match query::read(request.uri().query().unwrap_or_default(), &["server", "uid", "unit", "strict"]) {
            Ok(query) => query,
            Err(why) => return error(StatusCode::BAD_REQUEST, &why),
        };
    let is_strict = match query.get("strict") {
        None | Some("0" | "false") => false,
        Some("" | "1" | "true") => true,
        Some(_) => return error(StatusCode::BAD_REQUEST, "strict is 1 or 0"),
    };
    let uid = match query.get("uid").map(str::parse) {
        None => None,
        Some(Ok(uid)) => Some(uid),
        Some(Err(_)) => return error(StatusCode::BAD_REQUEST, "uid is the number of a user"),
    };
    let asked = Asked { name: query.get("server"), uid, unit: query.get("unit") };
    let (state, body) = match web.source.verdicts() {
        Ok(told) => match told.report(asked) {
            Some(report) => report,
            None => {
                return error(
                    StatusCode::NOT_FOUND,
                    "no server was ever called so; the label server of the metrics says how they are called",
                );
            }
        },
        // Of a server that is not known yet nothing is known either.
        Err(why) => (State::Unknown, Told::nothing(&why.0)),
    };
    let status = match state {
        State::Stalled | State::Failing => StatusCode::SERVICE_UNAVAILABLE,
        State::Unknown if is_strict => StatusCode::SERVICE_UNAVAILABLE,
        // "Intentionally noncommittal" (RFC 9110, 15.3.3): no error, since whoever can keep this from knowing
        // must not be able to cause a failover; and not what says that all is well.
        State::Unknown => StatusCode::ACCEPTED,
        State::Idle | State::Ok | State::Slow => StatusCode::OK,
    };
    page_of(status, format!("{body}\n"))
}

/// Who may acknowledge failures, beside root: the user that the exporter runs as, unless that is "nobody".
/// Other daemons may be that user as well, and so is, to the kernel, whoever has no number here.
fn operator(own: u32) -> Option<u32> {
    (own != User::default().uid).then_some(own)
}

/// An error says who may.
pub(crate) fn may_acknowledge(user: u32) -> Result<(), &'static str> {
    match operator(geteuid().as_raw()) {
        _ if user == ROOT => Ok(()),
        Some(operator) if user == operator => Ok(()),
        Some(_) => Err("only root and the user that the exporter runs as may acknowledge failures"),
        None => Err("only root may acknowledge failures: the exporter runs as a user that others share"),
    }
}

async fn acknowledge(web: &Arc<Web>, request: &Request<Incoming>, user: u32) -> Response<Bytes> {
    if let Err(why) = may_acknowledge(user) {
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
        Ok((Err(why), _)) => not_ready(&why),
        Err(_) => error(StatusCode::INTERNAL_SERVER_ERROR, "it could not be asked for"),
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
