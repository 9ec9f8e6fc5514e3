//! Answers requests: authorises the client, picks the page, negotiates its form.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::answers::{Answer, Outcome};
use super::auth::Verdict;
use super::connection::{Connection, Entrance};
use super::negotiate;
use super::short::{JSON, TEXT, error, healthy, not_ready, plain, refusal};
use super::state::Web;
use super::verdicts;
use crate::exporter::log::Seldom;
use crate::exporter::source::Source;

const HTML: &str = "text/html; charset=utf-8";
/// What the landing page may load: nothing but its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";

/// The answer to a request; always one.
pub(crate) async fn respond(
    web: &Arc<Web>,
    request: &Request<Incoming>,
    connection: &Connection,
) -> Response<Bytes> {
    if let Entrance::Verdicts { user } = connection.entrance {
        web.turn(connection).await;
        return hardened(verdicts::page(web, request, user).await, request);
    }
    let configuration = web.configuration.current().await;
    let mut response = match admit(web, request, &configuration.settings, connection).await {
        Ok(()) => page(web, request).await,
        Err(refusal) => refusal,
    };
    for (name, value) in &configuration.settings.headers {
        response.headers_mut().insert(name, value.clone());
    }
    hardened(response, request)
}

/// What every response has.
fn hardened(mut response: Response<Bytes>, request: &Request<Incoming>) -> Response<Bytes> {
    let headers = response.headers_mut();
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if !request.body().is_end_stream() {
        // It is not read, however long it is.
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Rate limit and authentication: an error is the response to send instead.
async fn admit(
    web: &Arc<Web>,
    request: &Request<Incoming>,
    settings: &super::settings::Settings,
    connection: &Connection,
) -> Result<(), Response<Bytes>> {
    if let Some(rate) = settings.rate
        && !web.turns().configured.take_now(rate, Instant::now())
    {
        return Err(error(StatusCode::TOO_MANY_REQUESTS, "too many requests (rate_limit)"));
    }
    web.turn(connection).await;
    let authorization = request.headers().get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    match web.authenticator.check(&settings.users, authorization, connection.origin).await {
        Verdict::Allowed => {}
        Verdict::Denied => {
            web.statistics.denied.add_one();
            if authorization.is_some() {
                static SELDOM: Seldom = Seldom::new();
                SELDOM.warn("a client was sent away: wrong name or password");
            }
            let mut response = error(StatusCode::UNAUTHORIZED, "name and password are needed");
            let challenge = HeaderValue::from_static("Basic realm=\"fsynctop\", charset=\"UTF-8\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            return Err(response);
        }
        Verdict::Busy => {
            let text = "too many passwords are being checked; try again";
            return Err(error(StatusCode::SERVICE_UNAVAILABLE, text));
        }
    }
    Ok(())
}

async fn page(web: &Arc<Web>, request: &Request<Incoming>) -> Response<Bytes> {
    let path = request.uri().path();
    if !["/", "/metrics", "/status", "/-/healthy", "/-/ready", verdicts::PATH].contains(&path) {
        return error(StatusCode::NOT_FOUND, "there is no such page; / lists those that there are");
    }
    if let Some(refusal) = refusal(request, &[Method::GET, Method::HEAD]) {
        return refusal;
    }
    match path {
        verdicts::PATH => verdicts::answer(web, request),
        "/metrics" => metrics(web, request).await,
        "/status" => {
            let source = web.source.clone();
            answer(web.status.get(move || source.status()).await, JSON, request).await
        }
        "/-/healthy" => healthy(web),
        "/-/ready" => match web.source.ready() {
            Ok(()) => plain(StatusCode::OK, TEXT, "fsynctop exporter is ready.\n"),
            Err(why) => not_ready(&why),
        },
        _ => {
            let mut response = plain(StatusCode::OK, HTML, landing(&*web.source));
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            response
        }
    }
}

async fn metrics(web: &Arc<Web>, request: &Request<Incoming>) -> Response<Bytes> {
    let form = negotiate::form(list(request, header::ACCEPT).as_deref());
    let (source, statistics) = (web.source.clone(), web.statistics.clone());
    let make = move || {
        let begun = Instant::now();
        let text = source.metrics(form)?;
        statistics.exposition(begun.elapsed(), text.len());
        Ok(text)
    };
    let outcome = web.metrics[form as usize].get(make).await;
    let mut response = answer(outcome, negotiate::content_type(form), request).await;
    let vary = HeaderValue::from_static("Accept, Accept-Encoding");
    response.headers_mut().insert(header::VARY, vary);
    response
}

/// All values of a header as one list.
fn list(request: &Request<Incoming>, name: HeaderName) -> Option<String> {
    let values: Vec<_> =
        request.headers().get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    (!values.is_empty()).then(|| values.join(","))
}

async fn answer(
    outcome: Outcome,
    content_type: &'static str,
    request: &Request<Incoming>,
) -> Response<Bytes> {
    let answer: Arc<Answer> = match outcome {
        Ok(answer) => answer,
        Err(why) => return not_ready(&why),
    };
    if negotiate::gzip(list(request, header::ACCEPT_ENCODING).as_deref())
        && let Some(compressed) = answer.gzip().await
    {
        let mut response = plain(StatusCode::OK, content_type, compressed);
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        return response;
    }
    plain(StatusCode::OK, content_type, answer.text.clone())
}

const PAGES: [(&str, &str); 5] = [
    ("/metrics", "the figures, for Prometheus"),
    (
        "/status",
        "what works on this host and what does not, as JSON (the same as <code>fsynctop check</code>)",
    ),
    (
        verdicts::PATH,
        "how the durability of each server stands, as JSON: 503 while one is stalled or failing; ?server= asks for one",
    ),
    ("/-/healthy", "200 while both of its processes are at work, else 503 and why"),
    ("/-/ready", "200 while it traces, else 503 and why"),
];

fn landing(source: &dyn Source) -> String {
    let (class, state) = match source.ready() {
        Ok(()) => ("ready", "It traces.".to_owned()),
        Err(why) => ("not-ready", html(&why.0)),
    };
    let mut rows = String::new();
    for (path, what) in PAGES {
        let _ = writeln!(rows, "<tr><td><a href=\"{path}\">{path}</a></td><td>{what}</td></tr>");
    }
    format!(
        "<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>fsynctop exporter</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 48em; margin: 2em auto; padding: 0 1em; }}
td {{ padding: .2em 1.5em .2em 0; vertical-align: top; }}
.not-ready {{ color: #c22; font-weight: bold; }}
</style>
</head>
<body>
<h1>fsynctop exporter</h1>
<p>The sync calls of the database servers on this host: which files, how often, how long, what failed, what is stuck.</p>
<p class=\"{class}\">{state}</p>
<table>
{rows}</table>
<p>Version {version}</p>
</body>
</html>
",
        version = env!("CARGO_PKG_VERSION"),
    )
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_no_markup() {
        assert_eq!(html("<a href=\"x\">'&</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&lt;/a&gt;");
    }
}
