//! TLS 1.2 and 1.3 by rustls, from the settings of the web configuration file.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion, version,
};

use super::files::Bundle;
use super::settings::{ClientAuth, TlsSettings, TlsVersion};

/// Why TLS cannot be spoken as the settings ask for it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A file, or a key of the settings.
    #[error("{what}: {why}")]
    Unusable { what: String, why: String },
}

fn unusable(what: impl Into<String>, why: impl Display) -> TlsError {
    TlsError::Unusable { what: what.into(), why: why.to_string() }
}

/// Makes use of the certificates and the key. The message names the file.
pub(crate) fn server_config(settings: &TlsSettings, files: &Bundle) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(provider(settings)?);
    let chain = text(settings.cert.as_deref(), settings.cert_file.as_deref(), files)?;
    let chain_name = name("cert", settings.cert_file.as_deref());
    let chain = certificates(&chain, &chain_name)?;
    let key_name = name("key", settings.key_file.as_deref());
    let key = text(settings.key.as_ref().map(|key| key.reveal()), settings.key_file.as_deref(), files)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| unusable(key_name.clone(), format_args!("no private key: {error}")))?;

    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions(settings))
        .map_err(|error| unusable(SECTION, error))?;
    let builder = match verifier(settings, files, provider)? {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| unusable(format!("{chain_name} and {key_name}"), error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = settings.prefer_server_cipher_suites.unwrap_or(true);
    // A session that is resumed skips the check of the client's certificate, which may have been replaced
    // since; a scraper keeps its connection anyway.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The part of the configuration that this is about.
const SECTION: &str = "tls_server_config";

fn name(what: &str, file: Option<&Path>) -> String {
    file.map_or_else(|| format!("{SECTION}: {what}"), |file| file.display().to_string())
}

fn text(inline: Option<&str>, file: Option<&Path>, files: &Bundle) -> Result<Vec<u8>, TlsError> {
    match (inline, file) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(file)) => {
            files.file(file).map_err(|source| TlsError::Unreadable { path: file.to_owned(), source })
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn certificates(pem: &[u8], name: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| unusable(name, error))?;
    if all.is_empty() {
        return Err(unusable(name, "there is no certificate in it (PEM is expected)"));
    }
    Ok(all)
}

fn versions(settings: &TlsSettings) -> &'static [&'static SupportedProtocolVersion] {
    static BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    let min = settings.min_version.unwrap_or(TlsVersion::Tls12);
    let max = settings.max_version.unwrap_or(TlsVersion::Tls13);
    match (min <= TlsVersion::Tls12, max >= TlsVersion::Tls13) {
        (true, true) => &BOTH,
        (true, false) => &BOTH[1..],
        (false, _) => &BOTH[..1],
    }
}

/// rustls' choice of ciphers and curves, narrowed to what the settings name, in their order. As in Go, the
/// list of ciphers is about TLS 1.2 alone.
fn provider(settings: &TlsSettings) -> Result<CryptoProvider, TlsError> {
    let mut provider = ring::default_provider();
    if let Some(names) = &settings.cipher_suites
        && !names.is_empty()
    {
        let (mut chosen, old): (Vec<SupportedCipherSuite>, Vec<_>) =
            provider.cipher_suites.iter().partition(|suite| suite.version() == &version::TLS13);
        for name in names {
            let name = name.as_str();
            match old.iter().find(|suite| suite.suite().as_str() == Some(name)) {
                Some(suite) => chosen.push(*suite),
                // Go's names of the suites of TLS 1.3, which are always offered
                None if name.starts_with("TLS_AES_") || name.starts_with("TLS_CHACHA20_") => {}
                None => {
                    let known: Vec<_> = old.iter().filter_map(|suite| suite.suite().as_str()).collect();
                    let why = format!("{name} is not available; these are: {}", known.join(", "));
                    return Err(unusable(format!("{SECTION}: cipher_suites"), why));
                }
            }
        }
        provider.cipher_suites = chosen;
    }
    if let Some(names) = &settings.curve_preferences
        && !names.is_empty()
    {
        let refused = |why: String| unusable(format!("{SECTION}: curve_preferences"), why);
        let curve = |name: &String| {
            let group = match name.as_str() {
                "X25519" => rustls::NamedGroup::X25519,
                "CurveP256" => rustls::NamedGroup::secp256r1,
                "CurveP384" => rustls::NamedGroup::secp384r1,
                _ => {
                    return Err(refused(format!(
                        "{name} is not available; these are: X25519, CurveP256, CurveP384"
                    )));
                }
            };
            let known = provider.kx_groups.iter().find(|known| known.name() == group).copied();
            known.ok_or_else(|| refused(format!("{name} is not available")))
        };
        provider.kx_groups = names.iter().map(curve).collect::<Result<_, _>>()?;
    }
    Ok(provider)
}

fn verifier(
    settings: &TlsSettings,
    files: &Bundle,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
    let auth = settings.client_auth_type.unwrap_or_default();
    let mandatory = matches!(auth, ClientAuth::RequireAnyClientCert | ClientAuth::RequireAndVerifyClientCert);
    let chain = match auth {
        ClientAuth::NoClientCert => return Ok(None),
        ClientAuth::RequestClientCert | ClientAuth::RequireAnyClientCert => None,
        ClientAuth::VerifyClientCertIfGiven | ClientAuth::RequireAndVerifyClientCert => {
            let name = name("client_ca", settings.client_ca_file.as_deref());
            let authorities = text(settings.client_ca.as_deref(), settings.client_ca_file.as_deref(), files)?;
            let mut roots = RootCertStore::empty();
            for authority in certificates(&authorities, &name)? {
                roots.add(authority).map_err(|error| unusable(&*name, error))?;
            }
            let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
            if !mandatory {
                builder = builder.allow_unauthenticated();
            }
            Some(builder.build().map_err(|error| unusable(name, error))?)
        }
    };
    let allowed = settings.client_allowed_sans.clone();
    Ok(Some(Arc::new(Clients { chain, mandatory, allowed, provider })))
}

/// Who may connect: whoever has a certificate of ours, or any at all, with one of the names that are allowed.
#[derive(Debug)]
struct Clients {
    chain: Option<Arc<dyn ClientCertVerifier>>,
    mandatory: bool,
    allowed: Option<Vec<String>>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Clients {
    fn client_auth_mandatory(&self) -> bool {
        self.mandatory
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.as_ref().map_or(&[], |chain| chain.root_hint_subjects())
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if let Some(chain) = &self.chain {
            chain.verify_client_cert(end_entity, intermediates, now)?;
        }
        match &self.allowed {
            Some(allowed) if !has_name(end_entity, allowed)? => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ClientCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Whether one of the subject's alternative names is among these, letter by letter.
fn has_name(certificate: &CertificateDer<'_>, allowed: &[String]) -> Result<bool, Error> {
    let certificate =
        webpki::EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let is_text = certificate
        .valid_dns_names()
        .chain(certificate.valid_uri_names())
        .any(|name| allowed.iter().any(|a| a == name));
    let is_address = || {
        let addresses = allowed.iter().filter_map(|name| name.parse::<IpAddr>().ok());
        addresses
            .map(ServerName::from)
            .any(|name| certificate.verify_is_valid_for_subject_name(&name).is_ok())
    };
    Ok(is_text || is_address())
}
