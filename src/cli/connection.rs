//! The options that say how to reach a server's own counters: those of any client of MySQL, PostgreSQL, etcd
//! or Redis.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::server::asking::connection::Client;
use crate::server::asking::options::{ConnectOptions, Tls};
use crate::server::asking::secret::Secret;
use crate::server::mysql::{self, status::options};
use crate::server::postgres::{self, status::service_file};
use crate::server::what::adapter::Adapter;

const HEADING: &str = "How to reach the server's own counters";

/// None of this is needed if the server lets the current user in without a password; its socket is found.
/// A password comes from one of the files, from MYSQL_PWD, PGPASSWORD or REDISCLI_AUTH, or from the prompt of
/// --password.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = HEADING)]
pub struct ConnectionArgs {
    /// Read this option file of MySQL's or MariaDB's
    ///
    /// Its groups [client], [client-server], [client-mariadb], [mysql] and [fsynctop]. No other file is read,
    /// not even root's own ~/.my.cnf.
    #[arg(long, value_name = "FILE")]
    pub defaults_file: Option<PathBuf>,
    /// Read this file of PostgreSQL's connection services
    ///
    /// Its group [fsynctop]: host, port, user, dbname, password and sslmode with its certificates. No other
    /// file is read, neither ~/.pg_service.conf nor ~/.pgpass.
    #[arg(long, value_name = "FILE")]
    pub service_file: Option<PathBuf>,
    /// The server's socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The server's address, for TCP
    #[arg(long, value_name = "NAME", conflicts_with = "socket")]
    pub host: Option<String>,
    /// Its port [default: 3306; PostgreSQL: 5432; etcd, Redis, Valkey: each that it listens on]
    #[arg(long, value_name = "N")]
    pub port: Option<u16>,
    /// The account [default: the user who runs this; PostgreSQL: its owner; Redis, Valkey: default]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Ask for the password on the terminal
    ///
    /// It is never taken from the command line, where everyone can read it.
    #[arg(long)]
    pub password: bool,
    /// TLS over TCP
    ///
    /// preferred and required encrypt, verify-identity checks the certificate, too. A password goes to
    /// another host with verify-identity only, which is the default there.
    #[arg(long, value_enum, value_name = "MODE")]
    pub ssl_mode: Option<TlsArg>,
    /// Certificates of the authorities to believe
    ///
    /// Instead of those that this host believes. With this, the server's certificate is checked.
    #[arg(long, value_name = "FILE")]
    pub ssl_ca: Option<PathBuf>,
    /// Our own certificate
    #[arg(long, value_name = "FILE", requires = "ssl_key")]
    pub ssl_cert: Option<PathBuf>,
    /// And its key
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    pub ssl_key: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsArg {
    Disabled,
    Preferred,
    Required,
    VerifyIdentity,
}

/// What was given, for the servers of each engine.
pub(crate) struct Options {
    given: ConnectOptions,
    /// What stands in a file of one engine's clients.
    files: Vec<(&'static dyn Adapter, ConnectOptions)>,
}

impl Options {
    pub(crate) fn of<C: Client>(&self) -> ConnectOptions {
        let given = self.given.clone();
        let Some(variable) = C::PASSWORD_VARIABLE else {
            return ConnectOptions { user: None, password: None, ..given };
        };
        let mut files = self.files.iter();
        let file = files.find(|(adapter, _)| adapter.is(C::ADAPTER));
        given.or(file.map(|(_, options)| options.clone()).unwrap_or_default()).or(of_environment(variable))
    }
}

impl ConnectionArgs {
    /// Reads the files, and asks for the password where that was asked for.
    pub(crate) fn options(&self) -> anyhow::Result<Options> {
        let password = match self.password {
            true => Some(Secret::ask().context("cannot ask for the password")?),
            false => None,
        };
        let given = ConnectOptions {
            socket: self.socket.clone(),
            host: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            database: None,
            password,
            tls: self.ssl_mode.map(|mode| match mode {
                TlsArg::Disabled => Tls::Disabled,
                TlsArg::Preferred => Tls::Preferred,
                TlsArg::Required => Tls::Required,
                TlsArg::VerifyIdentity => Tls::VerifyIdentity,
            }),
            ca: self.ssl_ca.clone(),
            certificate: self.ssl_cert.clone(),
            key: self.ssl_key.clone(),
        };
        let mut files: Vec<(&'static dyn Adapter, ConnectOptions)> = Vec::new();
        if let Some(file) = &self.defaults_file {
            files.push((mysql::status::client::Client::ADAPTER, options::from_file(file)?));
        }
        if let Some(file) = &self.service_file {
            files.push((postgres::status::client::Client::ADAPTER, service_file::read(file)?));
        }
        Ok(Options { given, files })
    }

    /// The engine whose servers are meant, where a file of its clients says so.
    pub(crate) fn engine(&self) -> Option<&'static dyn Adapter> {
        self.service_file.is_some().then_some(postgres::status::client::Client::ADAPTER)
    }
}

/// A password in a variable of that name.
fn of_environment(variable: &str) -> ConnectOptions {
    let password = std::env::var(variable).ok().filter(|password| !password.is_empty());
    ConnectOptions { password: password.map(Secret::new), ..ConnectOptions::default() }
}
