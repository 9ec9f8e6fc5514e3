//! What a file is to the database: one line for each role, with all that the views know of it. A new role is
//! a line here, a rule in an engine's profile (`src/engine/`), and a line in `docs/roles.md`, which a test
//! asks for.

use serde::{Deserialize, Deserializer, Serialize};

/// What holds for a role; see the methods of [`Role`].
#[derive(Clone, Copy)]
struct Facts {
    name: &'static str,
    in_a_sentence: &'static str,
    numbering: Numbering,
    loss: Consequence,
    traits: u8,
}

const SERIAL: u8 = 1;
const DURABLE: u8 = 2;
const INNODB: u8 = 4;
const FEW: u8 = 8;

/// Which numbers in a file's name change from one of its successors to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The name is the file's own.
    Fixed,
    /// The last one counts up; others, as in a host's name, stay.
    Last,
    Every,
    /// Each word of hexadecimal digits that begins with a decimal one.
    Hexadecimal,
}

/// What a failure to write or to sync one of its files costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consequence {
    /// Committed data, perhaps.
    Counts,
    /// The same of what the server syncs: what it only writes, as an error log, it can do without.
    IfSynced,
    /// Nothing: what is lost is made again, or was never needed.
    Harmless,
}

macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident $name:tt, $in_a_sentence:literal, $numbering:ident, $loss:ident, $traits:expr;)*) => {
        /// What a file is to the database.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Role {
            $($(#[$doc])* #[serde(rename = $name)] $role,)*
        }

        impl Role {
            pub const ALL: [Role; [$($name),*].len()] = [$(Role::$role),*];

            const fn facts(self) -> Facts {
                match self {
                    $(Role::$role => Facts {
                        name: $name,
                        in_a_sentence: $in_a_sentence,
                        numbering: Numbering::$numbering,
                        loss: Consequence::$loss,
                        traits: $traits,
                    },)*
                }
            }
        }
    };
}

roles! {
    Redo "redo", "the redo log", Last, Counts, SERIAL | DURABLE | INNODB | FEW;
    Binlog "binlog", "the binary log", Last, Counts, SERIAL | DURABLE | FEW;
    BinlogIndex "binlog_index", "the binary log's index", Last, Counts, FEW;
    RelayLog "relay_log", "the relay log", Last, Counts, DURABLE | FEW;
    Doublewrite "doublewrite", "the doublewrite buffer", Fixed, Counts, DURABLE | INNODB | FEW;
    Undo "undo", "the undo tablespaces", Fixed, Counts, DURABLE | INNODB | FEW;
    SystemTablespace "system_tablespace", "the system tablespace", Fixed, Counts, DURABLE | INNODB | FEW;
    Tablespace "tablespace", "the tablespaces", Fixed, Counts, DURABLE | INNODB;
    Dictionary "dictionary", "the data dictionary", Fixed, Counts, DURABLE | INNODB;
    Temporary "temporary", "temporary files", Every, Harmless, INNODB;
    ReplicationMetadata "replication_metadata", "replication metadata files", Fixed, Counts, FEW;
    Clone "clone", "clone files", Every, Harmless, 0;
    RedoArchive "redo_archive", "redo archive files", Every, Harmless, 0;
    Audit "audit", "audit files", Every, Harmless, 0;
    /// Logs and data files of engines other than InnoDB (Aria, MyISAM, MyRocks, TokuDB, Galera's cache).
    EngineLog "engine_log", "engine log files", Every, Counts, 0;
    EngineData "engine_data", "engine data files", Fixed, Counts, 0;
    Wal "wal", "the WAL", Hexadecimal, Counts, SERIAL | DURABLE | FEW;
    Data "data", "data files", Fixed, Counts, DURABLE;
    CommitStatus "commit_status", "the commit status", Fixed, Counts, DURABLE;
    Control "control", "the control file", Fixed, Counts, DURABLE | FEW;
    ReplicationSlot "replication_slot", "replication slots", Hexadecimal, Counts, 0;
    Statistics "statistics", "statistics", Fixed, Harmless, 0;
    Log "log", "message logs", Every, IfSynced, 0;
    Snapshot "snapshot", "snapshots", Hexadecimal, Counts, DURABLE | FEW;
    Backend "backend", "the backend", Fixed, Counts, DURABLE | FEW;
    Aof "aof", "the AOF", Last, Counts, SERIAL | DURABLE | FEW;
    AofManifest "aof_manifest", "the AOF's manifest", Every, Counts, DURABLE | FEW;
    Rdb "rdb", "RDB files", Every, Counts, DURABLE | FEW;
    Sst "sst", "SST files", Every, Counts, DURABLE;
    Manifest "manifest", "the manifest", Every, Counts, DURABLE | FEW;
    Options "options", "options files", Every, Counts, 0;
    Database "database", "the database files", Fixed, Counts, DURABLE;
    Journal "journal", "rollback journals", Fixed, Counts, DURABLE;
    Shm "shm", "the WAL's index", Fixed, Harmless, 0;
    Directory "directory", "directories", Fixed, Counts, 0;
    Other "other", "other files", Fixed, IfSynced, 0;
}

impl Role {
    /// The logs that every commit waits for, in the order of a commit.
    pub(crate) const SERIAL: [Role; count(SERIAL)] = select(SERIAL);
    /// Where a failed sync loses committed data.
    pub const DURABLE: [Role; count(DURABLE)] = select(DURABLE);

    /// The name in tables, JSON, labels and rules.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// "the redo log": as a sentence calls its files.
    pub(crate) fn in_a_sentence(self) -> &'static str {
        self.facts().in_a_sentence
    }

    /// "redo log": the same behind "the", or at the head of a line.
    pub fn title(self) -> &'static str {
        let name = self.in_a_sentence();
        name.strip_prefix("the ").unwrap_or(name)
    }

    /// A log whose syncs the server serialises: at most one in flight, so sum of latencies / time is how busy
    /// it is.
    pub fn is_serial(self) -> bool {
        self.facts().traits & SERIAL != 0
    }

    /// InnoDB counts the syncs of these files in Innodb_data_fsyncs.
    pub fn is_innodb(self) -> bool {
        self.facts().traits & INNODB != 0
    }

    /// A server has a handful of these files, by whatever names.
    pub(crate) fn is_few(self) -> bool {
        self.facts().traits & FEW != 0
    }

    pub(crate) fn numbering(self) -> Numbering {
        self.facts().numbering
    }

    pub(crate) fn loss(self) -> Consequence {
        self.facts().loss
    }
}

/// Of its name; one that is not known here, because a later version has told it, is another file's.
pub(crate) fn or_other<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Role, D::Error> {
    let name = String::deserialize(deserializer)?;
    Ok(Role::ALL.into_iter().find(|role| role.name() == name).unwrap_or(Role::Other))
}

const fn count(of: u8) -> usize {
    let (mut number, mut at) = (0, 0);
    while at < Role::ALL.len() {
        number += (Role::ALL[at].facts().traits & of != 0) as usize;
        at += 1;
    }
    number
}

const fn select<const N: usize>(of: u8) -> [Role; N] {
    let (mut selected, mut number, mut at) = ([Role::Other; N], 0, 0);
    while at < Role::ALL.len() {
        if Role::ALL[at].facts().traits & of != 0 {
            selected[number] = Role::ALL[at];
            number += 1;
        }
        at += 1;
    }
    selected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_has_one_name_in_the_code_in_json_and_in_tables() {
        for role in Role::ALL {
            let in_json = serde_json::to_value(role).unwrap();
            assert_eq!(in_json, role.name());
            assert_eq!(serde_json::from_value::<Role>(in_json).unwrap(), role);
            // The variant in snake case.
            let words: String = format!("{role:?}")
                .chars()
                .flat_map(|c| c.is_uppercase().then_some('_').into_iter().chain([c.to_ascii_lowercase()]))
                .collect();
            assert_eq!(words.trim_start_matches('_'), role.name());
        }
    }

    #[test]
    fn the_logs_that_commits_wait_for_are_few_and_durable() {
        assert_eq!(Role::SERIAL, [Role::Redo, Role::Binlog, Role::Wal, Role::Aof]);
        assert!(Role::SERIAL.iter().all(|role| Role::DURABLE.contains(role) && role.is_few()));
        assert!(Role::DURABLE.iter().all(|role| role.loss() == Consequence::Counts));
        assert_eq!((Role::Redo.title(), Role::Directory.title()), ("redo log", "directories"));
    }
}
