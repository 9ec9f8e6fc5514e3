//! Which product a process is, and what of a description is that product's own.

use std::path::{Path, PathBuf};

use super::known_by::{self, ToldPort};
use super::launch::Launch;
use super::open_log::OpenLog;
use super::roles::Roles;
use super::settings::{Bounds, Settings};
use super::version::Version;
use crate::linux::rooted::Root;
use crate::model::{Datadir, Engine, Server, durability};
use crate::server::who::instances;
use crate::server::who::processes;
use crate::server::{etcd, mysql, postgres, redis};

/// Whether a server that was described is a PostgreSQL.
pub(crate) fn is_postgres(server: &Server) -> bool {
    match &server.version {
        Some(version) => version.starts_with(postgres::version::PRODUCT),
        None => server.engine.as_deref().is_some_and(|engine| engine.name == POSTGRES),
    }
}

/// Whether a server that was described is an etcd.
pub(crate) fn is_etcd(server: &Server) -> bool {
    server.version.is_none() && server.engine.as_deref().is_some_and(|engine| engine.name == ETCD)
}

/// Whether a server that was described is a Redis or a Valkey.
pub(crate) fn is_redis(server: &Server) -> bool {
    let is_one = |engine: &Engine| OF_REDIS.contains(&engine.name.as_str());
    server.version.is_none() && server.engine.as_deref().is_some_and(is_one)
}

/// Where its clients connect to if no port is given.
pub(crate) fn default_port(server: &Server) -> u16 {
    match server {
        server if is_postgres(server) => postgres::adapter::DEFAULT_PORT,
        server if is_etcd(server) => etcd::adapter::DEFAULT_PORT,
        server if is_redis(server) => redis::DEFAULT_PORT,
        _ => mysql::adapter::DEFAULT_PORT,
    }
}

/// Processes of one server whose descriptors are looked at. Those that write the log all the time are begun
/// first.
const MAX_PROCESSES: usize = 64;

pub(in crate::server) enum Product {
    /// MySQL or MariaDB; also what is none of the engines, of which their rules find what there is.
    MySql(Option<mysql::version::Version>),
    /// None: its executable cannot be read.
    Postgres(Option<postgres::version::Version>),
    Etcd,
    /// Another engine, of which no more is known than its profile says.
    Other(Datadir),
}

/// The engines whose settings are MySQL's.
const OF_MYSQL: [&str; 2] = ["mysql", "mariadb"];
const POSTGRES: &str = "postgres";
const ETCD: &str = "etcd";
/// Those that speak Redis' protocol and count what it counts.
const OF_REDIS: [&str; 2] = ["redis", "valkey"];

impl Product {
    /// By the executable's version; where that is not known, by the engine that it is taken for by its name.
    pub fn of(version: Option<Version>, engine: Option<&Engine>) -> Product {
        match (version, engine) {
            (Some(Version::MySql(version)), _) => Product::MySql(Some(version)),
            (Some(Version::Postgres(version)), _) => Product::Postgres(Some(version)),
            (None, Some(engine)) if engine.name == POSTGRES => Product::Postgres(None),
            (None, Some(engine)) if engine.name == ETCD => Product::Etcd,
            (None, Some(engine)) if !OF_MYSQL.contains(&engine.name.as_str()) => {
                Product::Other(engine.datadir)
            }
            (None, _) => Product::MySql(None),
        }
    }

    pub fn settings(&self, proc_root: &Path, pid: u32, bounds: &Bounds<'_>) -> Settings {
        match self {
            Product::MySql(version) => mysql::settings::of_server(proc_root, pid, version.as_ref(), bounds),
            Product::Postgres(_) => postgres::settings::of_server(proc_root, pid, bounds),
            Product::Etcd => etcd::settings::of_server(proc_root, pid, bounds),
            Product::Other(Datadir::WorkingDirectory) => {
                let launch = Launch::read(proc_root, pid, &[]);
                Settings::relative_to(launch.and_then(|launch| launch.working_directory))
            }
            Product::Other(Datadir::Settings) => Settings::default(),
        }
    }

    pub fn version(&self, root: Option<&Root>, datadir: Option<&Path>) -> Option<String> {
        match self {
            Product::MySql(version) => version.as_ref().map(ToString::to_string),
            Product::Postgres(Some(version)) => Some(version.to_string()),
            Product::Etcd | Product::Other(_) => None,
            Product::Postgres(None) => Some(postgres::version::of_directory(root?, datadir?)?.to_string()),
        }
    }

    /// The processes whose descriptors tell what the server has open: itself first.
    pub fn processes(&self, proc_root: &Path, pid: u32) -> Vec<u32> {
        let others = match self {
            Product::MySql(_) | Product::Etcd | Product::Other(_) => Vec::new(),
            Product::Postgres(_) => instances::members(proc_root, &[pid]),
        };
        let others = others.into_iter().filter(|&other| other != pid).take(MAX_PROCESSES);
        std::iter::once(pid).chain(others).collect()
    }

    /// Whether an open file is of the log that makes commits durable.
    pub fn is_log_in_use(
        &self,
        path: &Path,
        roles: &dyn Roles,
        engine: Option<&Engine>,
        settings: &Settings,
    ) -> bool {
        match self {
            Product::MySql(_) => mysql::adapter::is_redo_in_use(path, roles, engine, settings),
            Product::Postgres(_) => postgres::adapter::is_wal_in_use(path),
            Product::Etcd | Product::Other(_) => false,
        }
    }

    /// Adds the socket, and what the server is known by. `listening`: sockets that it listens on.
    pub fn complete(
        &self,
        proc_root: &Path,
        root: Option<&Root>,
        server: &mut Server,
        listening: Vec<PathBuf>,
        settings: &Settings,
    ) {
        let is_database = server.version.is_some();
        match self {
            Product::MySql(_) => {
                server.socket = mysql::adapter::socket(listening, settings);
                known_by::read(root, server, mysql::adapter::told_port(settings, is_database));
                mysql::adapter::identify(root, server, settings);
            }
            Product::Postgres(_) => {
                let pid = processes::own_pid(proc_root, server.id.pid);
                let lock = postgres::adapter::LockFile::read(root, server.datadir.as_deref(), pid);
                server.socket = postgres::adapter::socket(listening, settings, &lock);
                known_by::read(root, server, postgres::adapter::told_port(settings, &lock, is_database));
            }
            Product::Etcd => known_by::read(root, server, etcd::adapter::told_port(settings)),
            Product::Other(_) => {
                let bound = listening.into_iter().next();
                server.socket = bound.map(|path| settings.resolved(&path).unwrap_or(path));
                known_by::read(root, server, ToldPort::default());
            }
        }
    }

    pub fn notes(&self, log: &OpenLog, eatmydata: bool, settings: &Settings) -> Vec<String> {
        match self {
            Product::MySql(_) => mysql::adapter::notes(log, eatmydata, settings),
            Product::Postgres(_) => postgres::adapter::notes(log, eatmydata, settings),
            Product::Etcd => etcd::adapter::notes(eatmydata, settings),
            Product::Other(_) => {
                eatmydata.then(|| durability::SYNCS_DO_NOTHING.to_owned()).into_iter().collect()
            }
        }
    }
}
