//! The directory to calibrate: its filesystem and device, and whether it may be used.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::location::{self, Location};
use crate::linux::PROC;
use crate::linux::rooted::Root;
use crate::linux::storage::Storage;
use crate::model::Server;
use crate::server::what::settings::Settings;
use crate::sync_cost::{CalibrateError, Place};
use crate::text::{escape, percent};

/// A device that is busy for a larger share of the time is refused.
pub(crate) const MAX_BUSY: f64 = 0.3;
/// How long the device is observed beforehand.
const WATCH: Duration = Duration::from_secs(1);
/// Files that exist only in a server's data directory.
const DATA_DIRECTORY_FILES: [&str; 8] = [
    "ibdata1",
    "mysql.ibd",
    "aria_log_control",
    "auto.cnf",
    "ib_logfile0",
    "PG_VERSION",
    "member/wal",
    "appendonlydir",
];
/// Settings that name a directory in which a server syncs files.
const SERVER_DIRECTORIES: [&str; 6] = [
    "datadir",
    "innodb_log_group_home_dir",
    "innodb_data_home_dir",
    "innodb_doublewrite_dir",
    "innodb_undo_directory",
    "aria_log_dir_path",
];
/// Settings that name files, without the suffix that the server appends.
const SERVER_LOGS: [&str; 2] = ["log_bin", "relay_log"];

/// Device and inode, the same by every path.
type Identity = (u64, u64);

/// A directory that a server uses.
struct ServerDirectory {
    identity: Identity,
    locations: Vec<Location>,
    reach: Reach,
}

/// Which part of a directory the server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    AllBelow,
    /// The directory itself: it holds a log, and possibly unrelated subdirectories.
    Itself,
}

impl Place {
    /// Determines the filesystem and device of a directory.
    pub fn inspect(directory: &Path) -> Result<Place, CalibrateError> {
        let io = |what| CalibrateError::io(directory, what);
        let real = std::fs::canonicalize(directory).map_err(io("find it"))?;
        if !real.is_dir() {
            return Err(CalibrateError::Refused(format!("{} is not a directory", directory.display())));
        }
        let statvfs = rustix::fs::statvfs(&real).map_err(|error| io("query its filesystem")(error.into()))?;
        let storage = Storage::of(&real).map_err(io("find its mount"))?;
        Ok(Place {
            directory: real,
            filesystem: storage.filesystem,
            kernel_device: storage.kernel_device,
            device: storage.device,
            mount_options: storage.options.join(","),
            filesystem_id: statvfs.f_fsid,
            storage: Some(storage.durability),
        })
    }

    /// The busy share of the device, measured for a moment. None if the kernel reports none: tmpfs, NFS.
    pub fn busy(&self) -> Option<f64> {
        let device = self.kernel_device.as_deref()?;
        let (began, before) = (Instant::now(), milliseconds_busy(device)?);
        std::thread::sleep(WATCH);
        let after = milliseconds_busy(device)?;
        Some(after.saturating_sub(before) as f64 / 1e3 / began.elapsed().as_secs_f64())
    }

    /// Refuses a device that is in use.
    pub(crate) fn refuse_if_busy(&self) -> Result<(), CalibrateError> {
        match self.busy() {
            Some(busy) if busy > MAX_BUSY => Err(CalibrateError::Refused(format!(
                "{} is {} busy, and the limit is {}: a calibration would slow down its users, and the figures would be \
                 wrong. Try again when the device is idle.",
                self.device,
                percent(busy),
                percent(MAX_BUSY)
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a directory that belongs to a database server, running or not. `servers`: those running on
    /// this host.
    pub fn refuse_if_servers(&self, servers: &[(Server, Settings)]) -> Result<(), CalibrateError> {
        let refused = |whose: String| {
            let directory = escape(self.directory.as_os_str().as_encoded_bytes());
            Err(CalibrateError::Refused(format!(
                "{directory} is {whose}. Another directory of the same filesystem gives the same figures. To use this \
                 one all the same: --production {directory}"
            )))
        };
        let above: Vec<_> = self.directory.ancestors().filter_map(identity).collect();
        let here = self.locations();
        for (server, settings) in servers {
            let is_here = |used: &ServerDirectory| {
                let same = |test: fn(&Location, &Location) -> bool| {
                    here.iter().any(|here| used.locations.iter().any(|used| test(here, used)))
                };
                match used.reach {
                    Reach::AllBelow => above.contains(&used.identity) || same(Location::is_within),
                    Reach::Itself => above.first() == Some(&used.identity) || same(Location::eq),
                }
            };
            if server_directories(server, settings).iter().any(is_here) {
                let comm = escape(server.comm.as_bytes());
                return refused(format!("used by a running server ({comm} {})", server.id.pid));
            }
        }
        let is_there = |mark: &&&str| self.directory.ancestors().any(|above| above.join(mark).exists());
        match DATA_DIRECTORY_FILES.iter().find(is_there) {
            Some(mark) => refused(format!("in the data directory of a server: {mark} is there or above it")),
            None => Ok(()),
        }
    }

    fn locations(&self) -> Vec<Location> {
        let open = |path| Root::at(Path::new("/"))?.look_up(path, OFlags::DIRECTORY);
        let own = std::process::id();
        open(&self.directory).map_or(Vec::new(), |opened| location::of(own, &opened, &self.directory))
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((std::os::unix::fs::MetadataExt::dev(&metadata), std::os::unix::fs::MetadataExt::ino(&metadata)))
}

/// The directories that a server's settings name, resolved in its own root.
fn server_directories(server: &Server, settings: &Settings) -> Vec<ServerDirectory> {
    let known = |identity| ServerDirectory { identity, locations: Vec::new(), reach: Reach::AllBelow };
    let mut found: Vec<_> = server.known_by.datadir.map(known).into_iter().collect();
    let Ok(root) = Root::of_process(Path::new(PROC), server.id.pid) else { return found };
    let of = |path: &Path, reach| {
        let real = root.canonical(path)?;
        let directory = root.look_up(&real, OFlags::DIRECTORY).ok()?;
        let stat = rustix::fs::fstat(directory.as_fd()).ok()?;
        let locations = location::of(server.id.pid, &directory, &real);
        Some(ServerDirectory { identity: (stat.st_dev, stat.st_ino), locations, reach })
    };
    let directories = SERVER_DIRECTORIES.iter().flat_map(|name| settings.paths(name));
    found.extend(server.datadir.as_deref().and_then(|path| of(path, Reach::AllBelow)));
    found.extend(directories.filter_map(|path| of(&path, Reach::AllBelow)));
    let logs = SERVER_LOGS.iter().flat_map(|name| settings.paths(name));
    found.extend(logs.filter_map(|path| of(path.parent()?, Reach::Itself)));
    found
}

/// The time for which a device has been busy since boot (Documentation/block/stat.rst, io_ticks).
fn milliseconds_busy(device: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/class/block/{device}/stat")).ok()?;
    text.split_whitespace().nth(9)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{KnownBy, ServerId};

    #[test]
    fn a_place_is_described_and_its_filesystem_known_again() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let place = Place::inspect(directory.path()).unwrap();
        assert!(!place.filesystem.is_empty() && place.mount_options.contains("rw"), "{place:?}");
        let below = directory.path().join("below");
        std::fs::create_dir(&below).unwrap();
        assert_eq!(Place::inspect(&below).unwrap().filesystem_id, place.filesystem_id);
        assert!(Place::inspect(&directory.path().join("none")).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Place::inspect(file.path()).unwrap_err().to_string().contains("is not a directory"));
    }

    #[test]
    fn what_belongs_to_a_server_is_refused_running_or_not() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let below = directory.path().join("schema");
        std::fs::create_dir(&below).unwrap();
        let place = Place::inspect(&below).unwrap();
        place.refuse_if_servers(&[]).unwrap();
        let id = ServerId { pid: std::process::id(), start_ns: 0 };
        let mut server = Server::new(id, "mysqld".into());
        server.known_by = KnownBy { datadir: identity(directory.path()), ..KnownBy::default() };
        let error =
            place.refuse_if_servers(&[(server.clone(), Settings::default())]).unwrap_err().to_string();
        assert!(
            error.contains("used by a running server (mysqld") && error.contains("--production"),
            "{error}"
        );
        // The binary log's directory, from its base name.
        server.known_by = KnownBy::default();
        let log = below.join("binlog");
        let settings = Settings::from_pairs(Path::new("/no"), [("log_bin", log.to_str().unwrap())]);
        assert!(place.refuse_if_servers(&[(server.clone(), settings)]).is_err());
        let elsewhere = Settings::from_pairs(Path::new("/no"), [("log_bin", "/no/such/binlog")]);
        place.refuse_if_servers(&[(server, elsewhere)]).unwrap();
        for mark in DATA_DIRECTORY_FILES {
            let data = tempfile::tempdir_in(&below).unwrap();
            std::fs::create_dir_all(data.path().join(mark)).unwrap();
            std::fs::create_dir(data.path().join("deep")).unwrap();
            for directory in [data.path().to_owned(), data.path().join("deep")] {
                let place = Place::inspect(&directory).unwrap();
                let error = place.refuse_if_servers(&[]).unwrap_err().to_string();
                assert!(error.contains(&format!("{mark} is there or above it")), "{error}");
            }
        }
        place.refuse_if_servers(&[]).unwrap();
    }
}
