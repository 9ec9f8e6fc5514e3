//! Needs root, and real servers. Whatever it was started as, a server is found by default and its children
//! are followed; a name that is given to none is told.

use std::process::Command;

use serde_json::Value;

use crate::common::exact::{counts_of, of_server};
use crate::common::explained::Explained;
use crate::common::measured::{Measured, number, sum};
use crate::common::needs;
use crate::common::postgres::Cluster;
use crate::common::postgres_log::{assert_is_one, measure, of_log};
use crate::common::server::{Home, Kind};
use crate::common::tracing::Tracing;

fn engine_of(measured: &Measured, pid: u32) -> Option<&str> {
    let mut servers = measured.0["servers"].as_array().unwrap().iter();
    servers.find(|server| number(server, "pid") == u64::from(pid))?["engine"].as_str()
}

/// As the units of RHEL and Fedora start it, and by a name that no profile has.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_postgres_of_another_name_is_found_by_default_and_its_children_with_it() {
    needs(&[]);
    let cluster = Cluster::with_tables(15);
    let own = format!("pg{}", std::process::id());
    for name in ["postmaster", &own] {
        let server = cluster.start_as(name, &[]);
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", server.pid())).unwrap();
        assert_eq!(comm.trim_end(), name);
        for options in [["--engine", "postgres"], ["--comm", name], ["--pid", &server.pid().to_string()]] {
            // Others may run beside it.
            let (measured, counted) = measure(&options, &server, |server| server.load(4, 50));
            let measured = of_server(&measured, server.pid());
            let said = format!("{options:?}: {counted:?} {}", counts_of(&measured));
            assert_is_one(&measured, &server);
            assert_eq!(engine_of(&measured, server.pid()), Some("postgres"), "{said}");
            assert!(counted.syncs > 10, "{said}");
            assert_eq!(sum(of_log(&measured, "fdatasync")), counted.syncs, "{said}");
        }
        let load = server.begin_load(2);
        let explained = Explained::of(server.pid(), 3, &[]);
        let is_it = |finding: &&Value| finding["setting"] == "synchronous_commit=on";
        let finding = explained.0["audit"].as_array().unwrap().iter().find(is_it);
        assert_eq!(finding.unwrap()["standing"], "consistent", "{:#}", explained.0["audit"]);
        drop(load);
        server.stop();
    }
}

/// As a build for debugging is called, and by a name that no profile has.
#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_mariadb_of_another_name_is_found_by_default() {
    needs(&[]);
    for name in [Some("mysqld-debug"), None] {
        let mut home = Home::new(Kind::MariaDb);
        if let Some(name) = name {
            let own = std::mem::replace(&mut home.comm, name.to_owned());
            std::fs::rename(home.path().join(own), home.path().join(name)).unwrap();
        }
        let database = home.start(&[], &[]);
        database.prepare();
        let tracing = Tracing::begin(&["--engine", "mysql,mariadb", "--output", "json"]);
        database.insert(1, 50);
        let measured = of_server(&tracing.one(), database.pid);
        let said = format!("{name:?} {}", counts_of(&measured));
        assert_eq!(engine_of(&measured, database.pid), Some("mariadb"), "{said}");
        assert!(measured.of_role("redo") >= 50 && measured.of_role("binlog") >= 50, "{said}");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_a_name_that_was_given_to_no_server_is_told() {
    needs(&[]);
    let output = Command::new(env!("CARGO_BIN_EXE_fsynctop"))
        .args(["once", "-d", "1", "--server-name", "nosuch=x", "--pid", &std::process::id().to_string()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("--server-name nosuch=x names none"), "{said}");
}
