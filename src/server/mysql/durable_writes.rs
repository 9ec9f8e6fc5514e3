//! Files that a server makes durable by each write, through descriptors with O_DSYNC: no sync follows.

use serde::Serialize;

use super::status::reading::Reading;
use crate::model::{Server, durability};

/// For each kind of file, by what it is known: "innodb_flush_method=O_DSYNC". None: as far as is known, syncs
/// make it durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DurableWrites {
    pub redo: Option<&'static str>,
    /// Tablespaces.
    pub data: Option<&'static str>,
}

impl DurableWrites {
    /// `reading`: one with variables, if there is a connection.
    pub fn of(server: &Server, reading: Option<&Reading>) -> DurableWrites {
        let said = reading.map(DurableWrites::by_settings).unwrap_or_default();
        let seen = durability::redo_is_durable_by_writes(server).then_some("its descriptors have O_DSYNC");
        DurableWrites { redo: said.redo.or(seen), ..said }
    }

    /// As the variables say. Descriptors that were opened before they were changed may be otherwise.
    pub(crate) fn by_settings(reading: &Reading) -> DurableWrites {
        let is_on = |name| reading.is_on(name);
        let method = reading.variable("innodb_flush_method");
        // MariaDB from 11.0 on has variables of its own, which can change at run time and then count alone.
        // Data files are synced under O_DSYNC by all servers that have no such variable.
        let redo = match is_on("innodb_log_file_write_through") {
            Some(true) => Some("innodb_log_file_write_through=ON"),
            None if method.is_some_and(|method| method.eq_ignore_ascii_case("O_DSYNC")) => {
                Some("innodb_flush_method=O_DSYNC")
            }
            _ => None,
        };
        let data = is_on("innodb_data_file_write_through")
            .and_then(|is_on| is_on.then_some("innodb_data_file_write_through=ON"));
        DurableWrites { redo, data }
    }

    /// "each write of the redo log is itself durable (innodb_flush_method=O_DSYNC)". None:
    /// no write is.
    pub(crate) fn in_words(&self) -> Option<String> {
        let (files, why) = match (self.redo, self.data) {
            (None, None) => return None,
            (Some(redo), None) => ("the redo log", redo.to_owned()),
            (None, Some(data)) => ("the data files", data.to_owned()),
            (Some(redo), Some(data)) => ("the redo log and of the data files", format!("{redo}, {data}")),
        };
        Some(format!("each write of {files} is itself durable ({why})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{self, MYSQL};

    fn of(note: Option<&str>, variables: &[(&'static str, &'static str)]) -> DurableWrites {
        let notes = note.map(str::to_owned).into_iter().collect();
        let server = Server { notes, ..fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306) };
        DurableWrites::of(&server, Some(&Reading::from_pairs([], variables.iter().copied())))
    }

    #[test]
    fn a_setting_or_the_descriptors_tell_which_files_need_no_syncs() {
        let none = DurableWrites::default();
        assert_eq!(of(None, &[("innodb_flush_method", "O_DIRECT")]), none);
        assert_eq!(none.in_words(), None);
        let by_method = of(None, &[("innodb_flush_method", "o_dsync")]);
        assert_eq!(by_method, DurableWrites { redo: Some("innodb_flush_method=O_DSYNC"), data: None });
        let own = |log, data| {
            of(
                None,
                &[
                    ("innodb_flush_method", "O_DSYNC"),
                    ("innodb_log_file_write_through", log),
                    ("innodb_data_file_write_through", data),
                ],
            )
        };
        assert_eq!(own("OFF", "OFF"), none, "changed at run time");
        assert_eq!(
            own("OFF", "ON").in_words().unwrap(),
            "each write of the data files is itself durable (innodb_data_file_write_through=ON)"
        );
        assert_eq!(
            own("ON", "ON").in_words().unwrap(),
            "each write of the redo log and of the data files is itself durable (innodb_log_file_write_through=ON, \
             innodb_data_file_write_through=ON)"
        );
        let seen = Some("its descriptors have O_DSYNC");
        assert_eq!(of(Some(durability::REDO_BY_WRITES), &[]).redo, seen);
        // They are believed rather than the settings.
        let off = [("innodb_flush_method", "fsync"), ("innodb_log_file_write_through", "OFF")];
        assert_eq!(of(Some(durability::REDO_BY_WRITES), &off).redo, seen);
        let server = fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
        assert_eq!(DurableWrites::of(&server, None), none);
    }
}
