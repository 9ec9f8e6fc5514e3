//! The client's side of TLS: whom to believe, and who we are. It knows no protocol above.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, StreamOwned,
};

use super::bounded::Bounded;
use super::options::ConnectOptions;
use crate::linux::rooted::Root;

/// Files larger than this hold no certificates of ours.
const FILE_LIMIT: u64 = 4 << 20;

pub type Stream = StreamOwned<ClientConnection, Bounded>;

/// Encrypts from here on. Returns when the other end has proved that it is `host`, or anything else if
/// `verify` is not set.
pub fn begin(
    mut stream: Bounded,
    host: &str,
    verify: bool,
    options: &ConnectOptions,
) -> std::io::Result<Stream> {
    let other = std::io::Error::other::<String>;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| other(format!("{host} is no name that a certificate could be for")))?;
    let config = config(verify, options).map_err(other)?;
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(std::io::Error::other)?;
    while tls.is_handshaking() {
        if tls.complete_io(&mut stream)? == (0, 0) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(StreamOwned::new(tls, stream))
}

fn config(verify: bool, options: &ConnectOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match verify {
        true => builder.with_root_certificates(roots(options.ca.as_deref())?),
        false => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))),
    };
    match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|error| format!("no key in {}: {error}", key.display()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
        }
        _ => Ok(builder.with_no_client_auth()),
    }
}

/// Those of the file alone, where one is given: who names an authority does not mean all the others, too.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                let text = "this host has no certificates of authorities, so the server's cannot be looked at: give \
                            --ssl-ca";
                return Err(text.into());
            }
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(file)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(format!("there is no certificate in {} (PEM is expected)", file.display())),
        Err(error) => Err(format!("no certificates in {}: {error}", file.display())),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let contents =
        std::path::absolute(file).and_then(|absolute| Root::at(Path::new("/"))?.read(&absolute, FILE_LIMIT));
    contents.map_err(|error| format!("cannot read {}: {error}", file.display()))
}

/// Takes any certificate, in any form: for connections that keep out who only listens.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
