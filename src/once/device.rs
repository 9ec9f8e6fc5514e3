//! Who else syncs on the devices that a server's files are on.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{FileRow, Measurement, ServerId, Stats, Target};

/// A process, or all processes of one name, that synced on a device beside the server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Neighbour {
    /// Unescaped.
    pub comm: String,
    /// Set for another traced server, which has a table of its own.
    pub pid: Option<u32>,
    pub stats: Stats,
}

/// A device with files of the server on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Device {
    /// Unescaped: "/dev/vda", or "8:1".
    pub name: String,
    /// The one with the most syncs first.
    pub neighbours: Vec<Neighbour>,
}

/// The devices on which these servers synced files (or have their data directory), with their neighbours.
pub(super) fn devices(m: &Measurement, servers: &[ServerId]) -> Vec<Device> {
    let mut numbers: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for row in m.files.iter().filter(|row| servers.contains(&row.server)) {
        if let Some(name) = &row.info.device {
            numbers.entry(name.clone()).or_default().extend(number(row));
        }
    }
    for server in m.servers.iter().filter(|server| servers.contains(&server.id)) {
        numbers.extend(
            server
                .device
                .iter()
                .filter(|d| !numbers.contains_key(*d))
                .map(|d| (d.clone(), [].into()))
                .collect::<Vec<_>>(),
        );
    }
    let of = |(name, numbers): (String, BTreeSet<u32>)| {
        let here = |device: &str, number: Option<u32>| {
            device == name || number.is_some_and(|n| numbers.contains(&n))
        };
        let mut neighbours: Vec<Neighbour> = Vec::new();
        for row in m.neighbours.iter().filter(|row| here(&row.device, Some(row.device_number))) {
            neighbours.push(Neighbour { comm: row.comm.clone(), pid: None, stats: row.stats.clone() });
        }
        for server in m.servers.iter().filter(|server| !servers.contains(&server.id)) {
            let mut stats = Stats::default();
            let its = |row: &&FileRow| row.server == server.id;
            for row in m.files.iter().filter(its) {
                if row.info.device.as_deref().is_some_and(|device| here(device, number(row))) {
                    stats.merge(&row.stats);
                }
            }
            if stats.count > 0 {
                neighbours.push(Neighbour { comm: server.comm.clone(), pid: Some(server.id.pid), stats });
            }
        }
        neighbours.sort_by(|a, b| b.stats.count.cmp(&a.stats.count).then_with(|| a.comm.cmp(&b.comm)));
        Device { name, neighbours }
    };
    numbers.into_iter().map(of).collect()
}

fn number(row: &FileRow) -> Option<u32> {
    match row.target {
        Target::File(id) => Some(id.device),
        Target::Filesystem(number) => Some(number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, MARIADB, MYSQL};
    use super::*;

    #[test]
    fn only_who_syncs_on_the_servers_devices_is_a_neighbour() {
        let mut m = fixture::busy();
        m.neighbours = vec![
            fixture::neighbour("/dev/vda", "rsyslogd", &[(3, 900_000)]),
            fixture::neighbour("/dev/vda", "xtrabackup", &[(56, 20_000_000)]),
            fixture::neighbour("/dev/sdb", "dd", &[(9, 1_000)]),
        ];
        let found = devices(&m, &[MYSQL]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "/dev/vda");
        let comms: Vec<_> = found[0].neighbours.iter().map(|n| (n.comm.as_str(), n.pid)).collect();
        assert_eq!(comms, [("xtrabackup", None), ("rsyslogd", None)]);
    }

    #[test]
    fn another_traced_server_on_the_device_is_a_neighbour_too() {
        let m = fixture::two_servers();
        let found = devices(&m, &[MYSQL]);
        assert_eq!(found[0].neighbours[0].pid, Some(MARIADB.pid));
        assert!(devices(&m, &[MYSQL, MARIADB])[0].neighbours.is_empty());
    }

    #[test]
    fn a_server_without_syncs_has_the_device_of_its_data_directory() {
        let mut m = fixture::busy();
        (m.files, m.roles) = Default::default();
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])];
        assert_eq!(devices(&m, &[MYSQL])[0].neighbours[0].comm, "dd");
    }
}
