//! What packets go over: the bounded stream as it is, or with TLS.

use std::io::{self, Read, Write};
use std::time::Instant;

use crate::server::asking::bounded::Bounded;
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::tls;

pub enum Transport {
    Plain { stream: Bounded, is_socket: bool },
    Tls(Box<tls::Stream>),
}

impl Transport {
    pub fn socket(stream: Bounded) -> Transport {
        Transport::Plain { stream, is_socket: true }
    }

    pub(crate) fn tcp(stream: Bounded) -> Transport {
        Transport::Plain { stream, is_socket: false }
    }

    /// True if only the other end can read what is sent.
    pub(crate) fn is_private(&self) -> bool {
        matches!(self, Transport::Tls(_) | Transport::Plain { is_socket: true, .. })
    }

    pub(crate) fn is_socket(&self) -> bool {
        matches!(self, Transport::Plain { is_socket: true, .. })
    }

    /// What is below.
    pub(crate) fn bounded(&self) -> &Bounded {
        match self {
            Transport::Plain { stream, .. } => stream,
            Transport::Tls(stream) => &stream.sock,
        }
    }

    pub(crate) fn encrypt(self, host: &str, verify: bool, options: &ConnectOptions) -> io::Result<Transport> {
        match self {
            Transport::Plain { stream, .. } => {
                Ok(Transport::Tls(Box::new(tls::begin(stream, host, verify, options)?)))
            }
            encrypted => Ok(encrypted),
        }
    }

    /// Where an address speaks TLS or does not, and there is nothing to prefer. True: it is encrypted now.
    pub(crate) fn encrypt_if_asked(
        self,
        host: &str,
        tls: Tls,
        options: &ConnectOptions,
    ) -> io::Result<(Transport, bool)> {
        let is_asked = match tls {
            Tls::Disabled => false,
            Tls::Preferred => options.certificate.is_some(),
            Tls::Required | Tls::VerifyIdentity => true,
        };
        let transport =
            if is_asked { self.encrypt(host, tls == Tls::VerifyIdentity, options)? } else { self };
        Ok((transport, is_asked))
    }

    pub fn allow(&mut self, until: Instant, limit: u64) {
        match self {
            Transport::Plain { stream, .. } => stream.allow(until, limit),
            Transport::Tls(stream) => stream.sock.allow(until, limit),
        }
    }
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Plain { stream, .. } => stream.read(buffer),
            Transport::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Plain { stream, .. } => stream.write(bytes),
            Transport::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Plain { stream, .. } => stream.flush(),
            Transport::Tls(stream) => stream.flush(),
        }
    }
}
