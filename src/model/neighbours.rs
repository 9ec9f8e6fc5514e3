//! Who else syncs on the devices that a server's files lie on.

use std::collections::{BTreeMap, BTreeSet};

use super::{Interval, ServerId, Stats};

/// A process, or all processes of one name, that synced on a device beside the server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Neighbour {
    /// Unescaped.
    pub comm: String,
    /// Set for another traced server, which has a table of its own.
    pub pid: Option<u32>,
    pub place: Place,
    pub stats: Stats,
}

/// Where a neighbour syncs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// On the device itself.
    Here,
    /// On another device of this name, unescaped, that lies on a disk of this one.
    SameDisk(String),
    /// On all devices, or it is not known on which.
    AnyDevice,
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
pub(crate) fn used_by<'a>(m: &'a Interval, servers: &[ServerId]) -> BTreeMap<&'a str, BTreeSet<u32>> {
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

/// The filesystems of these servers' files, by name.
pub(crate) fn filesystems<'a>(m: &'a Interval, servers: &[ServerId]) -> BTreeSet<&'a str> {
    let of_files = m.files.iter().filter(|row| servers.contains(&row.server));
    let of_servers = m.servers.iter().filter(|server| servers.contains(&server.id));
    of_files
        .filter_map(|row| row.info.filesystem.as_deref())
        .chain(of_servers.filter_map(|server| server.filesystem.as_deref()))
        .collect()
}

/// The devices that these servers use, with their neighbours: whoever syncs there, or elsewhere on the same
/// disk.
pub(crate) fn devices(m: &Interval, servers: &[ServerId]) -> Vec<Device> {
    let numbers = used_by(m, servers);
    // By its name; by its number where the two sides came to different names for one device; else by a disk,
    // for the first device that shares it.
    let place_on = |name: &str, device: &str, number: Option<u32>| {
        let is_own = |number| numbers.values().any(|own| own.contains(&number));
        let shares = |own: &BTreeSet<u32>| {
            number.is_some_and(|number| own.iter().any(|&own| m.whole_disks.are_shared(own, number)))
        };
        if numbers.contains_key(device) {
            (device == name).then_some(Place::Here)
        } else if number.is_some_and(is_own) {
            number.is_some_and(|number| numbers[name].contains(&number)).then_some(Place::Here)
        } else {
            let first = numbers.iter().find(|(_, own)| shares(own));
            first.filter(|(first, _)| **first == name).map(|_| Place::SameDisk(device.to_owned()))
        }
    };
    let neighbours_on = |&name: &&str| {
        let untraced = m.neighbours.iter().filter_map(|row| {
            let place = match row.is_of_any_device() {
                true => Place::AnyDevice,
                false => place_on(name, &row.device, Some(row.device_number))?,
            };
            Some(Neighbour { comm: row.comm.clone(), pid: None, place, stats: row.stats.clone() })
        });
        let mut neighbours: Vec<Neighbour> = untraced.collect();
        let mut traced: BTreeMap<(ServerId, Place), Stats> = BTreeMap::new();
        for row in m.files.iter().filter(|row| !servers.contains(&row.server)) {
            let device = row.info.device.as_deref();
            if let Some(place) = device.and_then(|device| place_on(name, device, row.device_number())) {
                traced.entry((row.server, place)).or_default().merge(&row.stats);
            }
        }
        let done = traced.into_iter().filter(|(_, stats)| stats.count > 0);
        neighbours.extend(done.filter_map(|((id, place), stats)| {
            let server = m.server(id)?;
            Some(Neighbour { comm: server.comm.clone(), pid: Some(id.pid), place, stats })
        }));
        neighbours.sort_by(|a, b| b.stats.all().cmp(&a.stats.all()).then_with(|| a.comm.cmp(&b.comm)));
        Device { name: name.to_owned(), neighbours }
    };
    numbers.keys().map(neighbours_on).collect()
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
        ]
        .into();
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
    fn whoever_syncs_elsewhere_on_the_disk_is_a_neighbour_and_is_told_once() {
        let mut m = fixture::busy();
        let mut backup = fixture::neighbour("/dev/vda2", "xtrabackup", &[(9, 1_000)]);
        backup.device_number = 253 << 20 | 2;
        m.neighbours = vec![backup, fixture::neighbour("/dev/sdb", "dd", &[(9, 1_000)])].into();
        assert!(devices(&m, &[MYSQL])[0].neighbours.is_empty(), "nothing is known of the disks");
        let vda = BTreeSet::from([253 << 20]);
        m.whole_disks = BTreeMap::from([(fixture::DEVICE, vda.clone()), (253 << 20 | 2, vda)]).into();
        let found = devices(&m, &[MYSQL]);
        let [one] = &found[0].neighbours[..] else { panic!("{found:?}") };
        assert_eq!((one.comm.as_str(), &one.place), ("xtrabackup", &Place::SameDisk("/dev/vda2".into())));
    }

    #[test]
    fn a_device_under_two_names_is_matched_by_its_number_and_counted_once() {
        let mut m = fixture::busy();
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])].into();
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
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])].into();
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
        m.neighbours = vec![fixture::neighbour("/dev/vda", "dd", &[(9, 1_000)])].into();
        assert_eq!(devices(&m, &[MYSQL])[0].neighbours[0].comm, "dd");
    }
}
