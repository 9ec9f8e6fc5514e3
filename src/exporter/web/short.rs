//! Short answers, which are made for each request anew.

use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::state::Web;
use crate::exporter::source::NotReady;

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

pub(super) fn healthy(web: &Web) -> Response<Bytes> {
    match web.source.healthy() {
        Ok(()) => plain(StatusCode::OK, TEXT, "fsynctop exporter is healthy.\n"),
        Err(why) => not_ready(&why),
    }
}

/// What refuses other methods than these, and bodies; None for a request that has neither.
pub(super) fn refusal(request: &Request<Incoming>, methods: &[Method]) -> Option<Response<Bytes>> {
    if !methods.contains(request.method()) {
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        let text = match &names[..] {
            [one] => format!("{one} is the method here"),
            several => format!("{} are the methods here", several.join(" and ")),
        };
        let mut response = error(StatusCode::METHOD_NOT_ALLOWED, &text);
        if let Ok(allowed) = HeaderValue::from_str(&names.join(", ")) {
            response.headers_mut().insert(header::ALLOW, allowed);
        }
        return Some(response);
    }
    let has_body = !request.body().is_end_stream();
    has_body.then(|| error(StatusCode::BAD_REQUEST, "no request here has a body"))
}

pub(super) fn not_ready(why: &NotReady) -> Response<Bytes> {
    error(StatusCode::SERVICE_UNAVAILABLE, &why.0)
}

pub(super) fn error(status: StatusCode, text: &str) -> Response<Bytes> {
    plain(status, TEXT, format!("{text}\n"))
}

pub(super) fn json(status: StatusCode, body: String) -> Response<Bytes> {
    plain(status, JSON, body)
}

pub(super) fn plain(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
