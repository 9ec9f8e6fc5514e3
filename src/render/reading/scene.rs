//! What every sentence about one server needs.

use crate::model::{FileRow, Interval, Op, Role, Server, ServerId, Stats, durability};
use crate::render::Options;
use crate::render::style::Paint;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub text: String,
    pub paint: Paint,
}

impl Sentence {
    pub fn plain(text: String) -> Self {
        Sentence { text, paint: Paint::Plain }
    }
}

/// One server's interval with what every sentence needs.
pub(super) struct Scene<'a> {
    pub m: &'a Interval,
    pub server: ServerId,
    pub options: &'a Options,
}

impl Scene<'_> {
    /// The syncs of one role, all operations together.
    pub fn role(&self, role: Role) -> Stats {
        let mut sum = Stats::default();
        let its = |row: &&crate::model::RoleRow| row.server == self.server && row.role == role;
        self.m.roles.iter().filter(its).for_each(|row| sum.merge(&row.stats));
        sum
    }

    pub fn total(&self) -> Stats {
        let mut sum = Stats::default();
        self.m.roles.iter().filter(|row| row.server == self.server).for_each(|row| sum.merge(&row.stats));
        sum
    }

    pub fn server(&self) -> Option<&Server> {
        self.m.servers.iter().find(|server| server.id == self.server).map(|server| &**server)
    }

    /// What failed beside the syncs.
    pub fn failures(&self, wanted: fn(Op) -> bool) -> impl Iterator<Item = &FileRow> {
        self.m.failures.iter().filter(move |row| row.server == self.server && wanted(row.op))
    }

    pub fn notes(&self) -> &[String] {
        self.server().map_or(&[], |server| &server.notes)
    }

    pub fn is_mariadb(&self) -> bool {
        self.server().and_then(|server| server.version.as_deref()).is_some_and(|v| v.starts_with("MariaDB"))
    }

    /// Of O_DSYNC writes, which are then rows of their own.
    pub fn watches_durable_writes(&self) -> bool {
        self.m.setup.ops.contains(&Op::DsyncWrite)
    }

    pub fn watches_all_writes(&self) -> bool {
        self.m.setup.ops.contains(&Op::Write)
    }

    /// A note says so of the server: nothing else needs to be supposed where the redo log has no syncs.
    pub fn redo_is_durable_by_writes(&self) -> bool {
        self.server().is_some_and(durability::redo_is_durable_by_writes)
    }
}
