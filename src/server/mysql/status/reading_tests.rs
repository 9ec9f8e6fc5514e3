use super::*;
use crate::model::{KnownBy, ServerId};

fn error(code: u16) -> Error {
    Error::Refused(ServerError { code, state: "42000".into(), message: "denied".into() })
}

fn row(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

#[test]
fn what_the_account_may_not_ask_is_left_out_and_said() {
    let mut asked = Vec::new();
    let reading = Reading::ask(Scope::Everything, &mut |question| {
        asked.push(question.to_owned());
        match question {
            "SHOW GLOBAL STATUS" => Ok(vec![row(&["Innodb_os_log_fsyncs", "7"])]),
            "SHOW GLOBAL VARIABLES" => Ok(vec![row(&["innodb_log_file_size", "1000"])]),
            "SELECT @@GLOBAL.gtid_executed" => Err(error(1193)),
            "SHOW ENGINE INNODB STATUS" => Err(error(1227)),
            _ => Err(error(1142)),
        }
    })
    .unwrap();
    assert_eq!(reading.number("innodb_os_log_fsyncs"), Some(7));
    assert_eq!((reading.gtids, &reading.binlog_files, reading.engine), (None, &None, None));
    assert_eq!(reading.refused.len(), 2, "{:?}", reading.refused);
    assert!(reading.refused[1].contains("PROCESS"));
    assert_eq!(asked.len(), 5);
}

#[test]
fn an_error_of_the_connection_is_not_taken_for_a_refusal() {
    let outcome = Reading::ask(Scope::Syncs, &mut |question| match question {
        "SHOW GLOBAL STATUS" => Ok(Vec::new()),
        _ => Err(Error::Broken("Connection reset by peer".into())),
    });
    assert!(outcome.is_err());
}

#[test]
fn each_generation_of_servers_says_its_redo_log_in_its_own_way() {
    let new = Reading::from_pairs(
        [
            ("Innodb_redo_log_current_lsn", "900"),
            ("Innodb_redo_log_checkpoint_lsn", "400"),
            ("Innodb_redo_log_capacity_resized", "1000"),
        ],
        [],
    );
    assert_eq!((new.lsn(), new.checkpoint_age(), new.redo_capacity()), (Some(900), Some(500), Some(1000)));
    let mariadb = Reading::from_pairs(
        [
            ("Innodb_lsn_current", "900"),
            ("Innodb_checkpoint_age", "300"),
            ("Innodb_checkpoint_max_age", "803"),
        ],
        [("innodb_log_file_size", "1000")],
    );
    assert_eq!((mariadb.checkpoint_age(), mariadb.max_checkpoint_age()), (Some(300), Some(803)));
    assert_eq!(mariadb.redo_capacity(), Some(1000));
    let old = Reading {
        engine: Some(EngineStatus { lsn: Some(900), checkpoint: Some(100), max_checkpoint_age: None }),
        ..Reading::from_pairs([], [("innodb_log_file_size", "500"), ("innodb_log_files_in_group", "2")])
    };
    assert_eq!((old.checkpoint_age(), old.redo_capacity()), (Some(800), Some(1000)));
    assert_eq!(Reading::from_pairs([], []).checkpoint_age(), None);
}

#[test]
fn another_server_is_noticed_by_what_it_says_of_itself() {
    let id = ServerId { pid: 4711, start_ns: 0 };
    let server = Server {
        datadir: Some("/no/such/a".into()),
        ports: vec![3306],
        known_by: KnownBy { uuid: Some("AA".into()), ..KnownBy::default() },
        ..Server::new(id, "mysqld".into())
    };
    let says = |variables: &[(&'static str, &'static str)]| {
        Reading::from_pairs([], variables.iter().copied()).is_of(&server).map_err(|error| error.to_string())
    };
    assert_eq!(says(&[]), Ok(()));
    assert_eq!(says(&[("server_uuid", "aa"), ("datadir", "/no/such/a/"), ("port", "3306")]), Ok(()));
    assert!(says(&[("server_uuid", "bb")]).unwrap_err().contains("that of process 4711 is AA"));
    assert!(says(&[("port", "3307"), ("skip_networking", "OFF")]).is_err());
    assert_eq!(says(&[("port", "3307"), ("skip_networking", "ON")]), Ok(()));
}
