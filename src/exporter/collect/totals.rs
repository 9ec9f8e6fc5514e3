//! What a server did since the exporter began. Only ever added to, and always under the
//! labels that are valid now: a file whose role is found out later takes nothing away from where its syncs
//! were counted.

use std::collections::BTreeMap;
use std::time::Instant;

use super::paths::{Did, Files};
use crate::model::histogram::Histogram;
use crate::model::{Engine, FileRow, Op, Role, RoleRow, Scope, Setup, Via};

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
    pub(crate) fn begin_at_zero(&mut self, setup: &Setup, engine: &Engine) {
        let ops = &setup.ops;
        let is_serial = |role: Role| engine.serial.contains(&role);
        let durable = || Role::DURABLE.into_iter().filter(|&role| engine.has(role));
        for role in durable() {
            if ops.contains(&Op::DsyncWrite) {
                self.failed_writes.entry(role).or_insert_with(zeros);
            }
            if ops.contains(&Op::Write) {
                let totals = role_of(&mut self.writes, role, Op::Write);
                if is_serial(role) {
                    totals.latencies.get_or_insert_default();
                }
            }
            if setup.net.writeback {
                self.writeback_errors.entry(role).or_insert_with(zeros);
            }
        }
        for (role, op) in durable().flat_map(|role| ops.iter().map(move |&op| (role, op))) {
            // Other calls name no file, and so no role.
            if op.scope() == Scope::File && op.makes_durable() {
                let totals = role_of(&mut self.roles, role, op);
                // A server that asks for nothing in a ring needs no histogram of it.
                if is_serial(role) && op.via() == Via::Call && op != Op::SyncFileRange {
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

    pub(crate) fn add_files<'a>(&mut self, rows: impl Iterator<Item = Did<'a>>, now: Instant) {
        self.files.add(rows, now);
    }

    /// Adds what was counted before it was known whose it is.
    pub(crate) fn merge(&mut self, other: &ServerTotals, now: Instant) {
        merge(&mut self.roles, &other.roles);
        merge(&mut self.writes, &other.writes);
        self.files.merge(&other.files, now);
        merge_by_role(&mut self.failed_writes, &other.failed_writes);
        merge_by_role(&mut self.writeback_errors, &other.writeback_errors);
    }
}
