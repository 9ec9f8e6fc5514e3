//! TLS, client certificates and users of the exporter, as curl and openssl see them, and what happens when
//! their files change. Needs no root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::wait_until;
use crate::common::web::{Authority, SCRAPE, Server, ask, curl, is_closed, status};
use serde_json::json;
use tempfile::TempDir;

/// A directory with a web configuration file, and what it names.
struct Setting {
    directory: TempDir,
}

impl Setting {
    fn new(text: &str) -> Setting {
        let setting = Setting { directory: tempfile::tempdir().unwrap() };
        setting.write(text);
        setting
    }

    /// With a certificate for this host, and one each for two clients.
    fn with_certificates(text: &str) -> Setting {
        let setting = Setting::new(text);
        let authority = Authority::new(setting.path(), "an authority");
        authority.sign("server", "DNS:localhost,IP:127.0.0.1");
        authority.sign("prometheus", "DNS:prometheus.example.org,URI:spiffe://example.org/prometheus");
        authority.sign("stranger", "DNS:stranger.example.org,IP:192.0.2.7");
        setting
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// As a careful administrator does it: another file takes the place of the old one.
    fn write(&self, text: &str) {
        fs::write(self.file("web.yml.new"), text).unwrap();
        fs::rename(self.file("web.yml.new"), self.file("web.yml")).unwrap();
    }

    fn serve(&self) -> Server {
        Server::start(json!({ "web_config_file": self.file("web.yml") }))
    }

    /// curl's status for /metrics over TLS; 0 where there was no answer.
    fn https(&self, server: &Server, arguments: &[&str]) -> u16 {
        let authority = self.file("ca.crt");
        let url = format!("https://{}/metrics", server.address);
        status(&[&["--cacert", authority.to_str().unwrap(), &url], arguments].concat())
    }

    fn https_as(&self, server: &Server, client: &str) -> u16 {
        let (cert, key) = (self.file(&format!("{client}.crt")), self.file(&format!("{client}.key")));
        self.https(server, &["--cert", cert.to_str().unwrap(), "--key", key.to_str().unwrap()])
    }
}

const TLS: &str = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n";

fn users(users: &[(&str, &str)]) -> String {
    let lines =
        users.iter().map(|(name, password)| format!("  {name}: {}\n", bcrypt::hash(password, 7).unwrap()));
    format!("basic_auth_users:\n{}", lines.collect::<String>())
}

#[test]
fn tls_is_spoken_by_the_versions_that_are_allowed() {
    let setting = Setting::with_certificates(TLS);
    let server = setting.serve();
    assert_eq!(setting.https(&server, &["--tlsv1.3"]), 200);
    assert_eq!(setting.https(&server, &["--tlsv1.2", "--tls-max", "1.2"]), 200);
    assert_eq!(setting.https(&server, &["--tlsv1.0", "--tls-max", "1.1"]), 0);
    // who does not check whom it talks to would also be served; who checks must have the authority
    assert_eq!(status(&[&format!("https://{}/metrics", server.address)]), 0);
    assert_eq!(status(&["--insecure", &format!("https://{}/metrics", server.address)]), 200);
    let plain = curl(&["--include", &server.url("/metrics")]);
    let plain = String::from_utf8(plain.stdout).unwrap();
    assert!(plain.starts_with("HTTP/1.1 400") && plain.ends_with("https is needed\n"), "{plain}");
    let http1 = curl(&[
        "--insecure",
        "--write-out",
        "%{http_version}",
        "--output",
        "/dev/null",
        "--http2",
        &format!("https://{}/metrics", server.address),
    ]);
    assert_eq!(String::from_utf8(http1.stdout).unwrap(), "1.1");
    let report = server.end();
    assert_eq!((&report["requests"]["200"], &report["requests"]["400"]), (&json!(4), &json!(1)));

    let strict = format!("{TLS}  min_version: TLS13\n");
    setting.write(&strict);
    let server = setting.serve();
    assert_eq!(setting.https(&server, &["--tlsv1.3"]), 200);
    assert_eq!(setting.https(&server, &["--tls-max", "1.2"]), 0);
    assert_eq!(server.end()["failed_handshakes"], 1);

    let one = "  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n  curve_preferences: [CurveP384]\n";
    setting.write(&format!("{TLS}{one}"));
    let server = setting.serve();
    let cipher = |name: &str| setting.https(&server, &["--tls-max", "1.2", "--ciphers", name]);
    assert_eq!(cipher("ECDHE-ECDSA-AES256-GCM-SHA384"), 200);
    assert_eq!(cipher("ECDHE-ECDSA-AES128-GCM-SHA256"), 0);
    assert_eq!(setting.https(&server, &["--curves", "X25519:P-256"]), 0);
    assert_eq!(setting.https(&server, &["--curves", "X25519:P-256:P-384"]), 200);
}

#[test]
fn clients_need_a_certificate_of_the_authority_where_that_is_asked_for() {
    let required = format!("{TLS}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n");
    let setting = Setting::with_certificates(&required);
    let other = tempfile::tempdir().unwrap();
    Authority::new(other.path(), "another authority").sign("foreigner", "DNS:prometheus.example.org");
    for file in ["foreigner.crt", "foreigner.key"] {
        fs::copy(other.path().join(file), setting.file(file)).unwrap();
    }
    let server = setting.serve();
    assert_eq!(setting.https(&server, &[]), 0);
    assert_eq!(setting.https_as(&server, "prometheus"), 200);
    assert_eq!(setting.https_as(&server, "stranger"), 200);
    assert_eq!(setting.https_as(&server, "foreigner"), 0);
    assert_eq!(server.end()["failed_handshakes"], 2);

    for (san, prometheus, stranger) in [
        ("prometheus.example.org", 200, 0),
        ("spiffe://example.org/prometheus", 200, 0),
        ("192.0.2.7", 0, 200),
        ("example.org", 0, 0),
    ] {
        setting.write(&format!("{required}  client_allowed_sans: ['{san}']\n"));
        let server = setting.serve();
        let got = (setting.https_as(&server, "prometheus"), setting.https_as(&server, "stranger"));
        assert_eq!(got, (prometheus, stranger), "{san}");
    }

    // What is demanded of a certificate is not taken away while the exporter runs.
    let of_prometheus = format!("{required}  client_allowed_sans: [prometheus.example.org]\n");
    setting.write(&of_prometheus);
    let server = setting.serve();
    for less in [
        TLS.to_owned(),
        required.clone(),
        format!("{TLS}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n"),
        format!(
            "{TLS}  client_auth_type: RequireAnyClientCert\n  client_allowed_sans: [prometheus.example.org]\n"
        ),
    ] {
        setting.write(&less);
        let got = ["prometheus", "stranger", "foreigner"].map(|client| setting.https_as(&server, client));
        assert_eq!((got, setting.https(&server, &[])), ([200, 0, 0], 0), "{less}");
    }
    assert_eq!(server.end()["failed_reloads"], 4);

    setting.write(&format!("{TLS}  client_auth_type: VerifyClientCertIfGiven\n  client_ca_file: ca.crt\n"));
    let server = setting.serve();
    assert_eq!(setting.https(&server, &[]), 200);
    assert_eq!((setting.https_as(&server, "prometheus"), setting.https_as(&server, "foreigner")), (200, 0));

    setting.write(&format!("{TLS}  client_auth_type: RequireAnyClientCert\n"));
    let server = setting.serve();
    assert_eq!(setting.https(&server, &[]), 0);
    assert_eq!((setting.https_as(&server, "prometheus"), setting.https_as(&server, "foreigner")), (200, 200));
}

#[test]
fn users_are_let_in_with_their_password_and_it_is_checked_once() {
    let setting = Setting::new(&users(&[("prometheus", "secret:with colon"), ("alice", "wonder")]));
    let server = setting.serve();
    let url = server.url("/metrics");
    assert_eq!(status(&[&url]), 401);
    assert_eq!(status(&["--user", "prometheus:secret:with colon", &url]), 200);
    assert_eq!(status(&["--user", "alice:wonder", &url]), 200);
    assert_eq!(status(&["--user", "alice:secret:with colon", &url]), 401);
    assert_eq!(status(&["--user", "bob:wonder", &url]), 401);
    // nothing is to be had without
    for path in ["/", "/-/healthy", "/-/ready", "/status", "/nothing"] {
        assert_eq!(status(&[&server.url(path)]), 401, "{path}");
    }
    let challenge = curl(&["--include", &url]);
    assert!(String::from_utf8(challenge.stdout).unwrap().contains("www-authenticate: Basic realm="));

    let before = server.cpu();
    let mut stream = server.connect();
    // alice:wonder
    let request = "GET /-/healthy HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWxpY2U6d29uZGVy\r\n\r\n";
    for _ in 0..300 {
        assert_eq!(ask(&mut stream, request).unwrap().status, 200);
    }
    let cost = server.cpu() - before;
    let begun = Instant::now();
    bcrypt::verify("wonder", &bcrypt::hash("wonder", 7).unwrap()).unwrap();
    let once = begun.elapsed() / 2;
    assert!(cost < 50 * once, "300 requests cost {cost:?}, and one check of a password {once:?}");
    let report = server.end();
    assert_eq!(report["denied"], 9, "{report}");
}

#[test]
fn headers_and_a_limit_of_requests_can_be_configured() {
    let setting = Setting::new(
        "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    Strict-Transport-Security: max-age=1\n\
         rate_limit:\n  interval: 10s\n  burst: 3\n",
    );
    let server = setting.serve();
    let mut stream = server.connect();
    let codes: Vec<_> =
        (0..5).map(|_| ask(&mut stream, SCRAPE).unwrap()).map(|answer| answer.status).collect();
    assert_eq!(codes, [200, 200, 200, 429, 429]);
    let answer = ask(&mut stream, SCRAPE).unwrap();
    assert_eq!(answer.header("x-frame-options"), Some("deny"));
    assert_eq!(answer.header("strict-transport-security"), Some("max-age=1"));
}

/// The subject of the certificate that the server shows now.
fn shown(server: &Server) -> String {
    let url = format!("https://{}/-/healthy", server.address);
    let output = curl(&["--insecure", "--verbose", "--output", "/dev/null", &url]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let subject = text.lines().find_map(|line| line.split_once("subject: ")).map(|(_, subject)| subject);
    subject.unwrap_or_else(|| panic!("no certificate in {text}")).trim().to_owned()
}

#[test]
fn a_renewed_certificate_is_shown_to_the_next_who_connects() {
    let setting = Setting::with_certificates(TLS);
    let authority = Authority(setting.path());
    authority.sign("renewed", "IP:127.0.0.1");
    let server = setting.serve();
    assert_eq!(shown(&server), "CN=server");
    // the key first, as it happens: for a moment they do not belong together
    fs::rename(setting.file("renewed.key"), setting.file("server.key")).unwrap();
    assert_eq!(shown(&server), "CN=server");
    fs::rename(setting.file("renewed.crt"), setting.file("server.crt")).unwrap();
    assert_eq!(shown(&server), "CN=renewed");
    assert_eq!(setting.https(&server, &[]), 200);
    // overwritten in place, without a new inode
    authority.sign("another", "IP:127.0.0.1");
    fs::copy(setting.file("another.key"), setting.file("server.key")).unwrap();
    fs::copy(setting.file("another.crt"), setting.file("server.crt")).unwrap();
    assert_eq!(shown(&server), "CN=another");
    // a certificate that is gone or rubbish leaves the last one in use
    fs::write(setting.file("server.crt"), "rubbish").unwrap();
    assert_eq!(shown(&server), "CN=another");
    fs::remove_file(setting.file("server.crt")).unwrap();
    assert_eq!(shown(&server), "CN=another");
    assert_eq!(shown(&server), "CN=another");
    let report = server.end();
    assert_eq!((&report["reloads"], &report["failed_reloads"]), (&json!(2), &json!(3)), "each is said once");
}

#[test]
fn a_change_of_users_holds_at_once_also_on_a_connection_that_is_open() {
    let setting = Setting::new(&users(&[("alice", "wonder")]));
    let server = setting.serve();
    let (mut stream, mut other) = (server.connect(), server.connect());
    let request = "GET /-/healthy HTTP/1.1\r\nHost: x\r\nAuthorization: Basic YWxpY2U6d29uZGVy\r\n\r\n";
    assert_eq!(ask(&mut stream, request).unwrap().status, 200);
    assert_eq!(ask(&mut other, request).unwrap().status, 200);
    setting.write(&users(&[("bob", "wonder")]));
    assert_eq!(ask(&mut stream, request).unwrap().status, 401);
    // connections from before the change are not kept
    wait_until("the connections to end", || is_closed(&mut stream) && is_closed(&mut other));
    assert_eq!(status(&["--user", "bob:wonder", &server.url("/metrics")]), 200);
}

#[test]
fn a_file_that_would_open_the_door_is_not_used() {
    let setting = Setting::with_certificates(&format!("{TLS}{}", users(&[("alice", "wonder")])));
    let server = setting.serve();
    let https = |arguments: &[&str]| setting.https(&server, arguments);
    for text in ["", "basic_auth_users: {", "basic_auth_users:\n  alice: wonder\n", TLS, "unknown: true\n"] {
        fs::write(setting.file("web.yml"), text).unwrap();
        assert_eq!(https(&[]), 401, "{text}");
        assert_eq!(https(&["--user", "alice:wonder"]), 200, "{text}");
    }
    fs::remove_file(setting.file("web.yml")).unwrap();
    assert_eq!(https(&[]), 401);
    setting.write(&format!("{TLS}{}", users(&[("carol", "new")])));
    assert_eq!((https(&["--user", "alice:wonder"]), https(&["--user", "carol:new"])), (401, 200));
    let report = server.end();
    assert_eq!((&report["reloads"], &report["failed_reloads"]), (&json!(1), &json!(6)));
}

#[test]
fn who_begins_no_handshake_stops_nobody() {
    let setting = Setting::with_certificates(TLS);
    let server = setting.serve();
    let mut silent: Vec<_> = (0..200).map(|_| server.connect()).collect();
    let begun = Instant::now();
    assert_eq!(setting.https(&server, &[]), 200);
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    std::thread::sleep(Duration::from_secs(6));
    let open = silent.iter_mut().filter_map(|stream| (!is_closed(stream)).then_some(())).count();
    assert_eq!(open, 0);
    assert!(server.open_files() < 40);
}
