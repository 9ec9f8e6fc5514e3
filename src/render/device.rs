//! Who else syncs on the devices that a server's files are on.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Lost, Measurement, ServerId, Stats};
use crate::text::count;

/// A process, or all processes of one name, that synced on a device beside the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Neighbour {
    /// Unescaped.
    pub comm: String,
    /// Set for another traced server, which has a table of its own.
    pub pid: Option<u32>,
    pub stats: Stats,
}

/// A device with files of the server on it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Device {
    /// Unescaped: "/dev/vda", or "8:1".
    pub name: String,
    /// The one with the most syncs first.
    pub neighbours: Vec<Neighbour>,
}

/// The devices on which these servers synced files, or have their data directory: names, and numbers as far
/// as files on them were synced.
pub(crate) fn used_by<'a>(m: &'a Measurement, servers: &[ServerId]) -> BTreeMap<&'a str, BTreeSet<u32>> {
    let mut numbers: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for row in m.files.iter().filter(|row| servers.contains(&row.server)) {
        if let Some(name) = &row.info.device {
            numbers.entry(name).or_default().extend(row.device_number());
        }
    }
    for server in m.servers.iter().filter(|server| servers.contains(&server.id)) {
        if let Some(name) = &server.device {
            numbers.entry(name).or_default();
        }
    }
    numbers
}

/// The devices that these servers use, with their neighbours.
pub(crate) fn devices(m: &Measurement, servers: &[ServerId]) -> Vec<Device> {
    let numbers = used_by(m, servers);
    // By its name; by its number where the two sides came to different names for one device.
    let is_on = |name: &str, device: &str, number: Option<u32>| match numbers.contains_key(device) {
        true => device == name,
        false => number.is_some_and(|number| numbers[name].contains(&number)),
    };
    let neighbours_on = |&name: &&str| {
        let untraced = m.neighbours.iter().filter(|row| is_on(name, &row.device, Some(row.device_number)));
        let mut neighbours: Vec<Neighbour> = untraced
            .map(|row| Neighbour { comm: row.comm.clone(), pid: None, stats: row.stats.clone() })
            .collect();
        for server in m.servers.iter().filter(|server| !servers.contains(&server.id)) {
            let its = m.files.iter().filter(|row| row.server == server.id);
            let mut stats = Stats::default();
            its.filter(|row| {
                row.info.device.as_ref().is_some_and(|device| is_on(name, device, row.device_number()))
            })
            .for_each(|row| stats.merge(&row.stats));
            if stats.count > 0 {
                neighbours.push(Neighbour { comm: server.comm.clone(), pid: Some(server.id.pid), stats });
            }
        }
        neighbours.sort_by(|a, b| b.stats.count.cmp(&a.stats.count).then_with(|| a.comm.cmp(&b.comm)));
        Device { name: name.to_owned(), neighbours }
    };
    numbers.keys().map(neighbours_on).collect()
}

/// Where no other process made a watched call. On which device those synced that did otherwise is not known.
pub(crate) fn nobody(lost: &Lost) -> String {
    match lost.neighbours_unwatched {
        0 => "no other process synced".to_owned(),
        1 => "others on this host synced once in ways not watched".to_owned(),
        n => format!("others on this host synced {} times in ways not watched", count(n)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Target;
    use crate::model::fixture::{self, MARIADB, MYSQL};

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
    fn a_device_under_two_names_is_matched_by_its_number_and_counted_once() {
        let mut m = fixture::busy();
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])];
        m.neighbours[0].device = "253:0".into();
        assert_eq!(devices(&m, &[MYSQL])[0].neighbours.len(), 1);
        m.neighbours[0].device = "/dev/vda".into();
        std::sync::Arc::make_mut(&mut m.files[0].info).device = Some("another name".into());
        let found: Vec<usize> = devices(&m, &[MYSQL]).iter().map(|device| device.neighbours.len()).collect();
        assert_eq!(found, [1, 0]);
    }

    #[test]
    fn files_of_two_overlays_on_one_device_are_on_that_device() {
        let mut m = fixture::two_servers();
        for (row, overlay) in m.files.iter_mut().zip(40 << 20..) {
            let info = std::sync::Arc::make_mut(&mut row.info);
            (info.below, info.filesystem) = (Some(fixture::DEVICE), Some("overlay".into()));
            let Target::File(id) = &mut row.target else { unreachable!() };
            id.device = overlay;
        }
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])];
        // Whoever sees no device nodes calls it by its number.
        m.neighbours[0].device = "253:0".into();
        let [device] = &devices(&m, &[MYSQL])[..] else { panic!("{:?}", devices(&m, &[MYSQL])) };
        let mut comms: Vec<_> = device.neighbours.iter().map(|n| n.comm.as_str()).collect();
        comms.sort_unstable();
        assert_eq!(comms, ["dd", "mariadbd"]);
    }

    #[test]
    fn a_server_without_syncs_has_the_device_of_its_data_directory() {
        let mut m = fixture::busy();
        (m.files, m.roles) = Default::default();
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])];
        assert_eq!(devices(&m, &[MYSQL])[0].neighbours[0].comm, "dd");
    }
}
