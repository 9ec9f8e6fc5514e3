//! The web configuration file: YAML in the format that Prometheus' exporters share
//! (prometheus/exporter-toolkit, docs/web-configuration.md). Read and checked here, made use of in `tls` and
//! `auth`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Deserializer};

use super::limits::Rate;

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tls_server_config: Option<TlsSettings>,
    http_server_config: Option<HttpFile>,
    basic_auth_users: Option<BTreeMap<String, Secret>>,
    rate_limit: Option<RateFile>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsSettings {
    pub cert: Option<String>,
    pub key: Option<Secret>,
    pub client_ca: Option<String>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
    pub client_auth_type: Option<ClientAuth>,
    pub client_allowed_sans: Option<Vec<String>>,
    pub min_version: Option<TlsVersion>,
    pub max_version: Option<TlsVersion>,
    pub cipher_suites: Option<Vec<String>>,
    pub prefer_server_cipher_suites: Option<bool>,
    pub curve_preferences: Option<Vec<String>>,
}

/// Go's names (crypto/tls.ClientAuthType).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum ClientAuth {
    #[default]
    #[serde(alias = "")]
    NoClientCert,
    RequestClientCert,
    #[serde(alias = "RequireClientCert")]
    RequireAnyClientCert,
    VerifyClientCertIfGiven,
    RequireAndVerifyClientCert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(crate) enum TlsVersion {
    #[serde(rename = "TLS10")]
    Tls10,
    #[serde(rename = "TLS11")]
    Tls11,
    #[serde(rename = "TLS12")]
    Tls12,
    #[serde(rename = "TLS13")]
    Tls13,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpFile {
    /// Only HTTP/1.1 is spoken, whatever this says: a scrape is one request.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RateFile {
    #[serde(default, deserialize_with = "duration")]
    interval: Duration,
    #[serde(default)]
    burst: u32,
}

/// Go's notation: `1s`, `500ms`; `0` for none.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    match text.as_str() {
        "0" => Ok(Duration::ZERO),
        text => humantime::parse_duration(text).map_err(serde::de::Error::custom),
    }
}

/// Never shown.
#[derive(Clone, Deserialize, PartialEq, Eq)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// What the file asks for, checked as far as it can be without looking into other files.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub tls: Option<TlsSettings>,
    /// Names and bcrypt hashes. None: everybody may ask.
    pub users: BTreeMap<String, Secret>,
    /// Added to each answer.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub rate: Option<Rate>,
}

/// Why the file cannot be used. Quotes nothing of the file but keys: it holds secrets.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read {path}: {error}", path = path.display())]
    Unreadable { path: PathBuf, error: String },
    #[error("{path}:{line}: {message}", path = path.display())]
    Syntax { path: PathBuf, line: u64, message: String },
    #[error("{path}: {message}", path = path.display())]
    Meaning { path: PathBuf, message: String },
}

/// Headers that may be configured, and their values where there are only some.
const HEADERS: [(&str, &[&str]); 5] = [
    ("Content-Security-Policy", &[]),
    ("X-Frame-Options", &["deny", "sameorigin"]),
    ("X-Content-Type-Options", &["nosniff"]),
    ("X-XSS-Protection", &[]),
    ("Strict-Transport-Security", &[]),
];
/// A check of a password with one more takes seconds: a misconfigured scraper would keep a processor busy.
const MAX_BCRYPT_COST: u32 = 15;

impl Settings {
    /// Of the text of a file. `path` is for messages, and what its relative names are relative to.
    pub fn parse(path: &Path, text: &str) -> Result<Settings, SettingsError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let file: Option<File> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            SettingsError::Syntax { path: path.to_owned(), line, message: without_place(&error.to_string()) }
        })?;
        let file = file.unwrap_or_default();
        Settings::of(file, path.parent().unwrap_or(Path::new("")))
            .map_err(|message| SettingsError::Meaning { path: path.to_owned(), message })
    }

    fn of(file: File, directory: &Path) -> Result<Settings, String> {
        let mut tls = file.tls_server_config;
        if let Some(tls) = &mut tls {
            tls.check()?;
            for name in [&mut tls.cert_file, &mut tls.key_file, &mut tls.client_ca_file].into_iter().flatten()
            {
                *name = directory.join(&*name);
            }
        }
        let users = file.basic_auth_users.unwrap_or_default();
        for (name, hash) in &users {
            check_hash(hash.reveal()).map_err(|why| format!("basic_auth_users: {name}: {why}"))?;
            if name.contains(':') {
                return Err(format!("basic_auth_users: {name}: a name has no colon"));
            }
        }
        let headers = file.http_server_config.and_then(|http| http.headers).unwrap_or_default();
        let headers =
            headers.iter().filter(|(_, value)| !value.is_empty()).map(header).collect::<Result<_, _>>()?;
        let rate = file
            .rate_limit
            .filter(|rate| !rate.interval.is_zero())
            .map(|rate| Rate { each: rate.interval, burst: rate.burst });
        if rate.is_some_and(|rate| rate.burst == 0) {
            return Err("rate_limit: a burst of 0 would refuse every request".into());
        }
        Ok(Settings { tls, users, headers, rate })
    }
}

impl TlsSettings {
    fn check(&self) -> Result<(), String> {
        fn one_of<A, B>(inline: &Option<A>, file: &Option<B>, name: &str) -> Result<(), String> {
            match (inline, file) {
                (Some(_), Some(_)) => {
                    Err(format!("tls_server_config: {name} and {name}_file are given; one is enough"))
                }
                (None, None) => Err(format!("tls_server_config: {name}_file is missing")),
                _ => Ok(()),
            }
        }
        one_of(&self.cert, &self.cert_file, "cert")?;
        one_of(&self.key, &self.key_file, "key")?;
        let auth = self.client_auth_type.unwrap_or_default();
        let has_ca = self.client_ca.is_some() || self.client_ca_file.is_some();
        if has_ca {
            one_of(&self.client_ca, &self.client_ca_file, "client_ca")?;
        }
        let verifies = [ClientAuth::VerifyClientCertIfGiven, ClientAuth::RequireAndVerifyClientCert];
        if has_ca && auth == ClientAuth::NoClientCert {
            return Err("tls_server_config: client_ca_file has no effect without client_auth_type: \
                        RequireAndVerifyClientCert"
                .into());
        }
        if !has_ca && verifies.contains(&auth) {
            return Err(format!("tls_server_config: client_auth_type: {auth:?} needs client_ca_file"));
        }
        let requires = [ClientAuth::RequireAnyClientCert, ClientAuth::RequireAndVerifyClientCert];
        if self.client_allowed_sans.is_some() && !requires.contains(&auth) {
            return Err("tls_server_config: client_allowed_sans needs client_auth_type: \
                        RequireAndVerifyClientCert"
                .into());
        }
        let mut sans = self.client_allowed_sans.iter().flatten();
        if let Some(address) = sans.find(|san| san.contains('@') && !san.contains("://")) {
            return Err(format!(
                "tls_server_config: client_allowed_sans: {address}: e-mail addresses in certificates are not \
                 looked at; DNS names, IP addresses and URIs are"
            ));
        }
        let max = self.max_version.unwrap_or(TlsVersion::Tls13);
        if max < TlsVersion::Tls12 {
            return Err("tls_server_config: max_version: TLS 1.2 and 1.3 are spoken, nothing older".into());
        }
        if max < self.min_version.unwrap_or(TlsVersion::Tls12) {
            return Err("tls_server_config: max_version is less than min_version".into());
        }
        Ok(())
    }
}

fn check_hash(hash: &str) -> Result<(), String> {
    const HOW: &str = "make one with `htpasswd -nBC 10 \"\" | tr -d ':\\n'`";
    let parts: bcrypt::HashParts = hash.parse().map_err(|_| format!("not a bcrypt hash; {HOW}"))?;
    match parts.get_cost() {
        cost @ 4..=MAX_BCRYPT_COST => {
            // The parts may be well-formed while salt or hash are not.
            let probe = bcrypt::verify("", &hash.replacen(&format!("${cost:02}$"), "$04$", 1));
            probe.map(drop).map_err(|_| format!("not a bcrypt hash; {HOW}"))
        }
        cost => {
            Err(format!("cost {cost}: between 4 and {MAX_BCRYPT_COST}, else a check takes too long; {HOW}"))
        }
    }
}

fn header((name, value): (&String, &String)) -> Result<(HeaderName, HeaderValue), String> {
    let known = HEADERS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    let Some((_, values)) = known else {
        let names = HEADERS.map(|(name, _)| name).join(", ");
        return Err(format!("http_server_config: header {name} cannot be configured; these can: {names}"));
    };
    if !values.is_empty() && !values.contains(&value.as_str()) {
        return Err(format!("http_server_config: {name} is {}", values.join(" or ")));
    }
    let wrong = |_| format!("http_server_config: {name} has a value that no header can have");
    Ok((
        HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(()))?,
        value.parse().map_err(|_| wrong(()))?,
    ))
}

/// The place stands in front already.
fn without_place(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.split(" at line ").next().unwrap_or(line).trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Well-formed, cost 4.
    const HASH: &str = "$2y$04$1OODdQwG0TODsCMR7HkDmOWB7sGOHZ0DWcI8DkL9Qxo/Z6FWRfyb2";

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(Path::new("/etc/fsynctop/web.yml"), text).map_err(|error| error.to_string())
    }

    fn refused(text: &str, says: &[&str]) {
        let error = parse(text).expect_err(text);
        for part in says {
            assert!(error.contains(part), "no {part:?} in {error:?}");
        }
    }

    #[test]
    fn an_empty_file_asks_for_nothing() {
        for text in ["", "# nothing yet\n", "basic_auth_users:\ntls_server_config:\n"] {
            let settings = parse(text).unwrap();
            assert!(settings.tls.is_none() && settings.users.is_empty() && settings.rate.is_none(), "{text}");
        }
    }

    #[test]
    fn everything_at_once() {
        let hash = bcrypt::hash("fsync", 4).unwrap();
        let settings = parse(&format!(
            "tls_server_config:
  cert_file: server.crt
  key_file: /run/secrets/server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.crt
  client_allowed_sans: [prometheus.example.org, 'spiffe://example.org/prometheus']
  min_version: TLS13
http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Frame-Options: deny
    Content-Security-Policy: ''
basic_auth_users:
  prometheus: {hash}
rate_limit:
  interval: 500ms
  burst: 20
"
        ))
        .unwrap();
        let tls = settings.tls.unwrap();
        assert_eq!(tls.cert_file.unwrap(), Path::new("/etc/fsynctop/server.crt"));
        assert_eq!(tls.key_file.unwrap(), Path::new("/run/secrets/server.key"));
        assert_eq!(tls.client_auth_type, Some(ClientAuth::RequireAndVerifyClientCert));
        assert_eq!(tls.min_version, Some(TlsVersion::Tls13));
        assert_eq!(settings.headers.len(), 2);
        assert_eq!(settings.users["prometheus"].reveal(), hash);
        assert_eq!(settings.rate, Some(Rate { each: Duration::from_millis(500), burst: 20 }));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        refused("tls_server_config:\n  cert_flie: a\n", &["web.yml:2:", "cert_flie", "cert_file"]);
        refused("\nbasic_auth: {}\n", &["web.yml:2:", "basic_auth"]);
        refused("tls_server_config: [", &["web.yml:"]);
        refused("rate_limit: {interval: soon, burst: 1}", &["web.yml:1:"]);
    }

    #[test]
    fn what_would_not_protect_is_refused() {
        let with = |more: &str| format!("tls_server_config:\n  cert_file: a\n  key_file: b\n{more}");
        refused("tls_server_config:\n  cert_file: a\n", &["key_file is missing"]);
        refused(&with("  cert: a\n"), &["cert and cert_file"]);
        refused(&with("  client_ca_file: ca\n"), &["client_auth_type"]);
        refused(&with("  client_auth_type: RequireAndVerifyClientCert\n"), &["needs client_ca_file"]);
        refused(&with("  client_auth_type: Always\n"), &["Always", "RequireAndVerifyClientCert"]);
        refused(&with("  client_allowed_sans: [a]\n"), &["client_allowed_sans needs"]);
        refused(&with("  max_version: TLS11\n"), &["1.2 and 1.3"]);
        refused(&with("  min_version: TLS13\n  max_version: TLS12\n"), &["less than min_version"]);
        let email = "  client_auth_type: RequireAnyClientCert\n  client_allowed_sans: [a@example.org]\n";
        refused(&with(email), &["e-mail"]);
        refused("rate_limit: {interval: 1s}", &["burst of 0"]);
    }

    #[test]
    fn users_need_hashes_that_can_be_checked_in_time() {
        let user = |hash: &str| format!("basic_auth_users:\n  alice: '{hash}'\n");
        assert!(parse(&user(HASH)).is_ok());
        refused(&user("password"), &["alice", "not a bcrypt hash", "htpasswd"]);
        refused(&user("$2y$10$tooshort"), &["not a bcrypt hash"]);
        refused(&user(&HASH.replace("$04$", "$31$")), &["cost 31", "15"]);
        refused(&user(&HASH.replace("OODd", "O Dd")), &["not a bcrypt hash"]);
    }

    #[test]
    fn no_message_and_no_debug_output_shows_a_secret() {
        let error = parse("basic_auth_users:\n  alice: secret-hash\n").unwrap_err();
        assert!(!error.contains("secret-hash"), "{error}");
        let error = parse("tls_server_config:\n  key: secret-key\n  kye: secret-key\n").unwrap_err();
        assert!(!error.contains("secret-key"), "{error}");
        let settings = parse(&format!("basic_auth_users: {{alice: '{HASH}'}}")).unwrap();
        assert!(!format!("{settings:?}").contains(HASH));
    }

    #[test]
    fn only_harmless_headers_can_be_set() {
        let header = |line: &str| format!("http_server_config:\n  headers:\n    {line}\n");
        assert!(parse(&header("X-Content-Type-Options: nosniff")).is_ok());
        refused(&header("Set-Cookie: a=b"), &["Set-Cookie", "cannot be configured"]);
        refused(&header("X-Frame-Options: allow"), &["deny or sameorigin"]);
        refused(&header("X-XSS-Protection: \"1\\r\\nSet-Cookie: a\""), &["no header can have"]);
    }
}
