//! What a server, and the neighbours, did since the exporter began. Only ever added to, and always under the
//! labels that are valid now: a file whose role is found out later takes nothing away from where its syncs
//! were counted.

use std::collections::BTreeMap;

use super::paths::{Did, Files, Work};
use crate::model::histogram::Histogram;
use crate::model::{FileRow, Measurement, NeighbourRow, Op, Role, RoleRow, Scope, Setup, Via};
use crate::text;

/// Failures that are shown before there is one: `rate()` sees nothing of a series whose first sample is not
/// zero, so a disk's first error would go unnoticed.
pub const ERRNOS: [i32; 4] = [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::EROFS];
/// The syncs of one role by one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleTotals {
    /// As fine as the kernel's, because the forms of an exposition want different buckets: eight bytes for
    /// each of its buckets that was ever filled, 514 at most. None: there is no histogram yet.
    pub latencies: Option<Histogram>,
    pub sum_ns: u64,
    pub errors: BTreeMap<i32, u64>,
    /// What durable writes wrote.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerTotals {
    pub roles: Roles,
    /// Where all writes are watched: each of them, durable ones as well.
    pub writes: Roles,
    pub files: Files,
    /// By errno.
    pub failed_writes: ByRole,
    pub writeback_errors: ByRole,
}

type Roles = BTreeMap<(Role, Op), RoleTotals>;
pub(crate) type ByRole = BTreeMap<Role, BTreeMap<i32, u64>>;

fn zeros() -> BTreeMap<i32, u64> {
    ERRNOS.iter().map(|&errno| (errno, 0)).collect()
}

fn merge_by_role(sum: &mut ByRole, more: &ByRole) {
    for (&role, errors) in more {
        let known = sum.entry(role).or_insert_with(zeros);
        errors.iter().for_each(|(&errno, &n)| *known.entry(errno).or_default() += n);
    }
}

fn role_of(roles: &mut Roles, role: Role, op: Op) -> &mut RoleTotals {
    roles.entry((role, op)).or_insert_with(|| RoleTotals { errors: zeros(), ..RoleTotals::default() })
}

fn add(roles: &mut Roles, row: &RoleRow) {
    let totals = role_of(roles, row.role, row.op);
    totals.latencies.get_or_insert_default().merge(&row.stats.histogram);
    totals.sum_ns += row.stats.sum_ns;
    totals.bytes += row.stats.bytes;
    for (&errno, &n) in row.stats.errors.iter() {
        *totals.errors.entry(errno).or_default() += n;
    }
}

fn merge(roles: &mut Roles, other: &Roles) {
    for (&(role, op), more) in other {
        let totals = role_of(roles, role, op);
        if let Some(latencies) = &more.latencies {
            totals.latencies.get_or_insert_default().merge(latencies);
        }
        totals.sum_ns += more.sum_ns;
        totals.bytes += more.bytes;
        for (&errno, &n) in &more.errors {
            *totals.errors.entry(errno).or_default() += n;
        }
    }
}

impl ServerTotals {
    /// `paths`: how many have series of their own.
    pub fn new(paths: usize) -> ServerTotals {
        ServerTotals {
            roles: BTreeMap::new(),
            writes: BTreeMap::new(),
            files: Files::new(paths),
            failed_writes: ByRole::new(),
            writeback_errors: ByRole::new(),
        }
    }

    /// The same for what is no server's.
    pub(crate) fn begin_writeback_at_zero(&mut self) {
        self.writeback_errors.entry(Role::Other).or_insert_with(zeros);
    }

    /// Makes what is to be seen at zero before it happens.
    pub(crate) fn begin_at_zero(&mut self, setup: &Setup) {
        let ops = &setup.ops;
        for role in Role::DURABLE {
            if ops.contains(&Op::DsyncWrite) {
                self.failed_writes.entry(role).or_insert_with(zeros);
            }
            if ops.contains(&Op::Write) {
                let totals = role_of(&mut self.writes, role, Op::Write);
                if role.is_serial() {
                    totals.latencies.get_or_insert_default();
                }
            }
            if setup.net.writeback {
                self.writeback_errors.entry(role).or_insert_with(zeros);
            }
        }
        for (role, op) in Role::DURABLE.into_iter().flat_map(|role| ops.iter().map(move |&op| (role, op))) {
            // Other calls name no file, and so no role.
            if op.scope() == Scope::File && op.makes_durable() {
                let totals = role_of(&mut self.roles, role, op);
                // A server that asks for nothing in a ring needs no histogram of it.
                if role.is_serial() && op.via() == Via::Call && op != Op::SyncFileRange {
                    totals.latencies.get_or_insert_default();
                }
            }
        }
    }

    pub(crate) fn add_role(&mut self, row: &RoleRow) {
        add(&mut self.roles, row);
    }

    pub(crate) fn add_write(&mut self, row: &RoleRow) {
        add(&mut self.writes, row);
    }

    /// What failed beside the syncs.
    pub(crate) fn add_failure(&mut self, row: &FileRow) {
        let errors = BTreeMap::clone(&row.stats.errors);
        let sum = match row.op {
            Op::Writeback => &mut self.writeback_errors,
            _ => &mut self.failed_writes,
        };
        merge_by_role(sum, &[(row.info.role, errors)].into());
    }

    pub(crate) fn add_files<'a>(&mut self, rows: impl Iterator<Item = Did<'a>>) {
        self.files.add(rows);
    }

    /// Adds what was counted before it was known whose it is.
    pub(crate) fn merge(&mut self, other: &ServerTotals) {
        merge(&mut self.roles, &other.roles);
        merge(&mut self.writes, &other.writes);
        self.files.merge(&other.files);
        merge_by_role(&mut self.failed_writes, &other.failed_writes);
        merge_by_role(&mut self.writeback_errors, &other.writeback_errors);
    }
}

/// Pairs of device and command with series of their own.
const MAX_NEIGHBOURS: usize = 20;
/// Devices that are told apart where the command is not.
const MAX_DEVICES: usize = 16;
const OTHER: &str = "other";
/// Columns of a label.
const MAX_LENGTH: usize = 100;

/// Syncs of processes that are not traced, by device and command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbours {
    work: BTreeMap<(String, String), Work>,
}

impl Neighbours {
    /// Of those that are new, the ones that took most time come first.
    pub fn add(&mut self, measurement: &Measurement) {
        let mut rows: Vec<&NeighbourRow> = measurement.neighbours.iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.stats.sum_ns));
        for row in rows {
            let key = self.key(row);
            self.work.entry(key).or_default().add(row.stats.count, row.stats.sum_ns);
        }
    }

    fn key(&self, row: &NeighbourRow) -> (String, String) {
        let label = |text: &str| text::shorten_middle(&text::escape(text.as_bytes()), MAX_LENGTH, "…");
        if row.device_number == 0 {
            return (OTHER.into(), OTHER.into());
        }
        let (device, comm) = (label(&row.device), label(&row.comm));
        let apart = self.work.keys().filter(|(_, comm)| comm != OTHER).count();
        let key = (device, comm);
        if self.work.contains_key(&key) || (apart < MAX_NEIGHBOURS && key.1 != OTHER) {
            return key;
        }
        let of_device = (key.0, OTHER.to_owned());
        let devices = self.work.keys().filter(|(_, comm)| comm == OTHER).count();
        if self.work.contains_key(&of_device) || devices < MAX_DEVICES {
            return of_device;
        }
        (OTHER.into(), OTHER.into())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, Work)> {
        self.work.iter().map(|((device, comm), &work)| (device.as_str(), comm.as_str(), work))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{neighbour, quiet};

    #[test]
    fn neighbours_are_bounded_and_none_is_lost() {
        let mut neighbours = Neighbours::default();
        for n in 0..1_000 {
            let mut row = neighbour("", &format!("command{n}"), &[(1, 1_000)]);
            row.device = format!("/dev/loop{}", n % 100);
            row.device_number = 7 << 20 | (n % 100);
            let measurement = Measurement { neighbours: vec![row], ..quiet() };
            neighbours.add(&measurement);
        }
        let rows: Vec<_> = neighbours.iter().collect();
        assert!(rows.len() <= MAX_NEIGHBOURS + MAX_DEVICES + 1, "{}", rows.len());
        assert_eq!(rows.iter().map(|(.., work)| work.count).sum::<u64>(), 1_000);
        assert!(rows.iter().any(|&(device, comm, _)| (device, comm) == ("/dev/loop0", "command0")));
        // Sticky: the first one still has its own.
        neighbours.add(&Measurement {
            neighbours: vec![NeighbourRow {
                device: "/dev/loop0".into(),
                ..neighbour("", "command0", &[(5, 1_000)])
            }],
            ..quiet()
        });
        let of = |wanted: &str| neighbours.iter().find(|(_, comm, _)| *comm == wanted).unwrap().2.count;
        assert_eq!(of("command0"), 6);
    }

    #[test]
    fn a_neighbour_cannot_choose_its_label_freely() {
        let mut neighbours = Neighbours::default();
        let rows = vec![
            neighbour("/dev/vda", "a\n\"}\x1b[2J", &[(1, 1_000)]),
            neighbour("/dev/vda", "other", &[(2, 1)]),
        ];
        neighbours.add(&Measurement { neighbours: rows, ..quiet() });
        let labels: Vec<_> =
            neighbours.iter().map(|(device, comm, work)| (device, comm, work.count)).collect();
        assert_eq!(labels, [("/dev/vda", "a\\n\"}\\x1b[2J", 1), ("/dev/vda", "other", 2)]);
    }
}
