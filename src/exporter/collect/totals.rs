//! What a server did since the exporter began. Only ever added to, and always under the
//! labels that are valid now: a file whose role is found out later takes nothing away from where its syncs
//! were counted.

use std::collections::BTreeMap;
use std::time::Instant;

use super::paths::{Did, Files};
use crate::model::histogram::Histogram;
use crate::model::{Engine, Errors, FileRow, Op, Role, RoleRow, Scope, Setup, Via};
use crate::text;

/// The labels of failures: what alerts tell apart, and in the end all others, because a filesystem in user
/// space may fail with any errno. Each is there before there is one: `rate()` sees nothing of a series whose
/// first sample is not zero, so a disk's first error would go unnoticed.
pub(crate) const ERRNOS: [&str; 5] = ["EIO", "EROFS", "ENOSPC", "EDQUOT", "other"];

/// The syncs of one role by one operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoleTotals {
    /// As fine as the kernel's, because the forms of an exposition want different buckets: eight bytes for
    /// each of its buckets that was ever filled, 514 at most. None: there is no histogram yet.
    pub latencies: Option<Histogram>,
    pub sum_ns: u64,
    /// What durable writes wrote.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerTotals {
    pub roles: Roles,
    /// Where all writes are watched: each of them, durable ones as well.
    pub writes: Roles,
    pub files: Files,
    pub failed_syncs: ByRole,
    pub failed_writes: ByRole,
    pub writeback_errors: ByRole,
}

type Roles = BTreeMap<(Role, Op), RoleTotals>;
/// In the order of [`ERRNOS`].
pub(crate) type ByRole = BTreeMap<Role, [u64; ERRNOS.len()]>;

fn count(sum: &mut ByRole, role: Role, errors: &Errors) {
    let counts = sum.entry(role).or_default();
    for (&errno, &n) in errors {
        let name = text::errno(errno);
        let place = ERRNOS.iter().position(|&known| known == name);
        counts[place.unwrap_or(ERRNOS.len() - 1)] += n;
    }
}

fn merge_by_role(sum: &mut ByRole, more: &ByRole) {
    for (&role, more) in more {
        let counts = sum.entry(role).or_default();
        counts.iter_mut().zip(more).for_each(|(n, more)| *n += more);
    }
}

fn add(roles: &mut Roles, row: &RoleRow) {
    let totals = roles.entry((row.role, row.op)).or_default();
    totals.latencies.get_or_insert_default().merge(&row.stats.histogram);
    totals.sum_ns += row.stats.sum_ns;
    totals.bytes += row.stats.bytes;
}

fn merge(roles: &mut Roles, other: &Roles) {
    for (&key, more) in other {
        let totals = roles.entry(key).or_default();
        if let Some(latencies) = &more.latencies {
            totals.latencies.get_or_insert_default().merge(latencies);
        }
        totals.sum_ns += more.sum_ns;
        totals.bytes += more.bytes;
    }
}

impl ServerTotals {
    /// `paths`: how many have series of their own.
    pub fn new(paths: usize) -> ServerTotals {
        ServerTotals {
            roles: BTreeMap::new(),
            writes: BTreeMap::new(),
            files: Files::new(paths),
            failed_syncs: ByRole::new(),
            failed_writes: ByRole::new(),
            writeback_errors: ByRole::new(),
        }
    }

    /// The same for what is no server's.
    pub(crate) fn begin_writeback_at_zero(&mut self) {
        self.writeback_errors.entry(Role::Other).or_default();
    }

    /// Makes what is to be seen at zero before it happens.
    pub(crate) fn begin_at_zero(&mut self, setup: &Setup, engine: &Engine) {
        let ops = &setup.ops;
        let is_serial = |role: Role| engine.serial.contains(&role);
        let durable = Role::DURABLE.into_iter().filter(|&role| engine.has(role));
        for role in durable {
            self.failed_syncs.entry(role).or_default();
            if ops.contains(&Op::DsyncWrite) {
                self.failed_writes.entry(role).or_default();
            }
            if ops.contains(&Op::Write) {
                let totals = self.writes.entry((role, Op::Write)).or_default();
                if is_serial(role) {
                    totals.latencies.get_or_insert_default();
                }
            }
            if setup.net.writeback {
                self.writeback_errors.entry(role).or_default();
            }
            // Other calls name no file, and so no role. A server that asks for nothing in a ring needs no
            // series of it.
            let is_there =
                |op: &&Op| op.makes_durable() && op.scope() == Scope::File && op.via() == Via::Call;
            for &op in ops.iter().filter(is_there) {
                let totals = self.roles.entry((role, op)).or_default();
                if is_serial(role) && op != Op::SyncFileRange {
                    totals.latencies.get_or_insert_default();
                }
            }
        }
    }

    pub(crate) fn add_role(&mut self, row: &RoleRow) {
        add(&mut self.roles, row);
        count(&mut self.failed_syncs, row.role, &row.stats.errors);
    }

    pub(crate) fn add_write(&mut self, row: &RoleRow) {
        add(&mut self.writes, row);
    }

    /// What failed beside the syncs.
    pub(crate) fn add_failure(&mut self, row: &FileRow) {
        let sum = match row.op {
            Op::Writeback => &mut self.writeback_errors,
            _ => &mut self.failed_writes,
        };
        count(sum, row.info.role, &row.stats.errors);
    }

    pub(crate) fn add_files<'a>(&mut self, rows: impl Iterator<Item = Did<'a>>, now: Instant) {
        self.files.add(rows, now);
    }

    /// Adds what was counted before it was known whose it is.
    pub(crate) fn merge(&mut self, other: &ServerTotals, now: Instant) {
        merge(&mut self.roles, &other.roles);
        merge(&mut self.writes, &other.writes);
        self.files.merge(&other.files, now);
        merge_by_role(&mut self.failed_syncs, &other.failed_syncs);
        merge_by_role(&mut self.failed_writes, &other.failed_writes);
        merge_by_role(&mut self.writeback_errors, &other.writeback_errors);
    }
}
