//! Syncs of processes that are not traced, by device and command: the busiest pairs have series of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::busiest::Busiest;
use super::paths::{OTHER, Work};
use crate::model::{Interval, NeighbourRow};
use crate::text;

/// Pairs of device and command with series of their own.
pub(super) const MAX_NEIGHBOURS: usize = 20;
/// Devices that are told apart where the command is not.
const MAX_DEVICES: usize = 16;
/// The device of whoever synced all of them.
const ANY_DEVICE: &str = "any";
/// What a sync that was not timed counts for when places are given to those that spend most time: about what
/// one takes on flash.
const UNTIMED_NS: u64 = 200_000;
/// Columns of a label.
const MAX_LENGTH: usize = 100;

fn label(text: &str) -> String {
    text::shorten_middle(&text::escape(text.as_bytes()), MAX_LENGTH, "…")
}

/// A mount point as a label.
pub(crate) fn mount_label(mount: &std::path::Path) -> String {
    text::shorten_path(&text::escape(mount.as_os_str().as_encoded_bytes()), MAX_LENGTH, "…")
}

/// A device as the metrics call it.
type Device = String;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Syncs {
    /// Those that were timed.
    pub work: Work,
    pub untimed: u64,
}

fn spent(row: &NeighbourRow) -> u64 {
    row.stats.sum_ns.saturating_add(row.stats.untimed.saturating_mul(UNTIMED_NS))
}

#[derive(Clone, Debug)]
pub(crate) struct Neighbours {
    pairs: Busiest<(Device, String), Syncs>,
    /// Of all commands that had no series of their own at that time.
    others: BTreeMap<Device, Syncs>,
    /// Where the devices of these are mounted, as far as they are. That may change, and what was counted goes
    /// on.
    mounts: BTreeMap<Device, String>,
}

impl Default for Neighbours {
    fn default() -> Neighbours {
        Neighbours {
            pairs: Busiest::new(MAX_NEIGHBOURS, 0),
            others: BTreeMap::new(),
            mounts: BTreeMap::new(),
        }
    }
}

impl Neighbours {
    /// Of those that are new, the ones that took most time come first.
    pub fn add(&mut self, measurement: &Interval, now: Instant) {
        let mut rows: Vec<&NeighbourRow> = measurement.neighbours.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(spent(row)));
        for row in &rows {
            let sum = match row.is_unattributed() {
                true => self.others.entry(OTHER.into()).or_default(),
                false => self.sum_of(row, now),
            };
            sum.work.add(row.stats.count, row.stats.sum_ns);
            sum.untimed += row.stats.untimed;
        }
        self.pairs.change_hands(now);
        self.note_mounts(&rows);
    }

    fn sum_of(&mut self, row: &NeighbourRow, now: Instant) -> &mut Syncs {
        let device = if row.is_of_any_device() { ANY_DEVICE } else { &row.device };
        let mut pair = (label(device), label(&row.comm));
        if pair.1 != OTHER {
            self.pairs.spend(&pair, false, spent(row), now);
            if let Some(own) = self.pairs.series(&pair) {
                return own;
            }
        }
        if self.others.len() >= MAX_DEVICES && !self.others.contains_key(&pair.0) {
            pair.0 = OTHER.into();
        }
        self.others.entry(pair.0).or_default()
    }

    /// Devices of one name may be mounted at several places, as the subvolumes of btrfs are: the one that is
    /// known stays for as long as somebody syncs there.
    fn note_mounts(&mut self, rows: &[&NeighbourRow]) {
        let mut seen: BTreeMap<Device, Vec<String>> = BTreeMap::new();
        for row in rows.iter().filter(|row| !row.is_of_any_device()) {
            let mounts = seen.entry(label(&row.device)).or_default();
            mounts.extend(row.mount.as_deref().map(mount_label));
        }
        let shown: BTreeSet<&Device> =
            self.pairs.iter().map(|((device, _), _)| device).chain(self.others.keys()).collect();
        self.mounts.retain(|device, mount| {
            shown.contains(device) && seen.get(device).is_none_or(|seen| seen.contains(mount))
        });
        for (device, mounts) in seen.into_iter().filter(|(device, _)| shown.contains(device)) {
            if let Some(mount) = mounts.into_iter().next() {
                self.mounts.entry(device).or_insert(mount);
            }
        }
    }

    /// (device, where it is mounted, command, syncs); the mount is empty where there is none.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str, Syncs)> {
        let own = self.pairs.iter().map(|((device, comm), &syncs)| (device, comm.as_str(), syncs));
        let all = own.chain(self.others.iter().map(|(device, &syncs)| (device, OTHER, syncs)));
        let mount = |device: &Device| self.mounts.get(device).map_or("", String::as_str);
        all.map(move |(device, comm, syncs)| (device.as_str(), mount(device), comm, syncs))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::fixture::{neighbour, quiet};

    fn add(neighbours: &mut Neighbours, rows: Vec<NeighbourRow>, now: Instant) {
        neighbours.add(&Interval { neighbours: rows.into(), ..quiet() }, now);
    }

    fn of(neighbours: &Neighbours, wanted: &str) -> Option<u64> {
        neighbours.iter().find(|&(_, _, comm, _)| comm == wanted).map(|(.., syncs)| syncs.work.count)
    }

    #[test]
    fn neighbours_are_bounded_and_none_is_lost() {
        let mut neighbours = Neighbours::default();
        let now = Instant::now();
        for n in 0..1_000 {
            let mut row = neighbour("", &format!("command{n}"), &[(1, 1_000)]);
            row.device = format!("/dev/loop{}", n % 100);
            row.device_number = 7 << 20 | (n % 100);
            add(&mut neighbours, vec![row], now);
        }
        let rows: Vec<_> = neighbours.iter().collect();
        assert!(rows.len() <= MAX_NEIGHBOURS + MAX_DEVICES + 1, "{}", rows.len());
        assert_eq!(rows.iter().map(|(.., syncs)| syncs.work.count).sum::<u64>(), 1_000);
        let has = |name: &str, wanted: &str| {
            rows.iter().any(|&(device, _, comm, _)| (device, comm) == (name, wanted))
        };
        assert!(has("/dev/loop0", "command0") && has("/dev/loop99", "other") == (MAX_DEVICES >= 100));
        // The first one still has its own.
        let row = NeighbourRow { device: "/dev/loop0".into(), ..neighbour("", "command0", &[(5, 1_000)]) };
        add(&mut neighbours, vec![row], now);
        assert_eq!(of(&neighbours, "command0"), Some(6));
    }

    #[test]
    fn what_was_not_timed_is_apart_and_has_a_place_and_a_sync_of_all_devices_is_of_any() {
        let mut neighbours = Neighbours::default();
        let untimed = |device: &str, device_number, comm: &str, untimed| {
            let mut row = NeighbourRow { device_number, ..neighbour(device, comm, &[]) };
            row.stats.untimed = untimed;
            row
        };
        let rows = vec![
            untimed("/dev/vda", 253 << 20, "dd", 3_650),
            untimed("0:0", 0, "backupjob", 2),
            untimed("0:0", 0, OTHER, 7),
        ];
        add(&mut neighbours, rows, Instant::now());
        let mut found: Vec<_> =
            neighbours.iter().map(|(device, _, comm, syncs)| (device, comm, syncs.untimed)).collect();
        found.sort_unstable();
        assert_eq!(found, [("/dev/vda", "dd", 3_650), ("any", "backupjob", 2), (OTHER, OTHER, 7)]);
    }

    /// A package is upgraded: dpkg and the scripts of packages sync once or for some seconds each. Then a
    /// backup begins.
    #[test]
    fn after_an_upgrade_and_a_pip_install_the_backup_that_syncs_most_is_not_other() {
        let mut neighbours = Neighbours::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let on_vda = |comm: &str, n| vec![neighbour("/dev/vda", comm, &[(n, 2_000_000)])];
        for n in 0..120 {
            add(&mut neighbours, on_vda(&format!("pkg{n}.postinst"), 5), at(n));
            add(&mut neighbours, on_vda(["dpkg", "pip"][usize::from(n > 60)], 40), at(n));
        }
        assert_eq!(of(&neighbours, "dpkg"), Some(61 * 40), "among the first");
        // Four seconds of its time are more than any of them took.
        (120..150).for_each(|second| add(&mut neighbours, on_vda("xtrabackup", 400), at(second)));
        let shown = of(&neighbours, "xtrabackup").expect("it has a series");
        assert!(shown >= 25 * 400, "{shown} of 12,000 syncs have its name");
        let all: u64 = neighbours.iter().map(|(.., syncs)| syncs.work.count).sum();
        assert_eq!(all, 120 * 45 + 12_000);
    }

    #[test]
    fn a_device_that_is_mounted_elsewhere_goes_on_and_takes_no_place() {
        let mut neighbours = Neighbours::default();
        let start = Instant::now();
        let on = |device: &str, comm: &str, mount: Option<&str>| {
            let mount = mount.map(|mount| std::path::Path::new(mount).into());
            NeighbourRow { mount, ..neighbour(device, comm, &[(1, 1_000)]) }
        };
        for n in 0..40 {
            let mount = format!("/backup/{n}");
            let rows = ["rsync", OTHER].map(|comm| on("/dev/sdb", comm, Some(&mount))).to_vec();
            add(&mut neighbours, rows, start + Duration::from_secs(n));
        }
        let all = |neighbours: &Neighbours| -> Vec<_> {
            let all = neighbours.iter().map(|(device, mount, comm, syncs)| {
                (device.to_owned(), mount.to_owned(), comm.to_owned(), syncs.work.count)
            });
            all.collect()
        };
        let of = |mount: &str, comm: &str, count| ("/dev/sdb".into(), mount.into(), comm.into(), count);
        assert_eq!(all(&neighbours), [of("/backup/39", "rsync", 40), of("/backup/39", OTHER, 40)]);
        // Two places at once are no reason to change it at each look; none at all is.
        let elsewhere = NeighbourRow { device_number: 99, ..on("/dev/sdb", "rsync", Some("/b")) };
        let two = vec![elsewhere, on("/dev/sdb", "rsync", Some("/backup/39"))];
        add(&mut neighbours, two, start + Duration::from_secs(40));
        assert_eq!(all(&neighbours)[0], of("/backup/39", "rsync", 42));
        add(&mut neighbours, vec![on("/dev/sdb", "rsync", None)], start + Duration::from_secs(41));
        assert_eq!(all(&neighbours)[0], of("", "rsync", 43));
    }

    #[test]
    fn a_neighbour_cannot_choose_its_label_freely() {
        let mut neighbours = Neighbours::default();
        let mut rows = vec![
            neighbour("/dev/vda", "a\n\"}\x1b[2J", &[(1, 1_000)]),
            neighbour("/dev/vda", "other", &[(2, 1)]),
        ];
        rows.iter_mut().for_each(|row| row.mount = Some(std::path::Path::new("/mnt/\x1b[2J").into()));
        add(&mut neighbours, rows, Instant::now());
        let labels: Vec<_> = neighbours
            .iter()
            .map(|(device, mount, comm, syncs)| (device, mount, comm, syncs.work.count))
            .collect();
        let mount = "/mnt/\\x1b[2J";
        assert_eq!(labels, [("/dev/vda", mount, "a\\n\"}\\x1b[2J", 1), ("/dev/vda", mount, "other", 2)]);
    }
}
