//! Which process runs which server, and what it is called.

use super::*;

#[test]
fn a_server_keeps_its_label_and_its_counts_when_it_is_started_again_even_with_the_same_pid() {
    let mut world = World::with_mysql();
    world.files.push(redo(MYSQL, 1, &[(5, 80_000)]));
    world.tick();
    world.sync(0, &[(2, 90_000)]);
    world.servers[0].alive = false;
    let all = world.tick();
    // The last syncs of a server that has ended.
    assert_eq!(syncs(&all, &["server=\"3306\""]), 7.0);
    assert_eq!(all["fsynctop_server_up{server=\"3306\"}"], 0.0);
    let again = ServerId { start_ns: MYSQL.start_ns + 60_000_000_000, ..MYSQL };
    world.servers.push(server(again, "mysqld", "MySQL 9.7.5", 3307));
    world.files.push(redo(again, 1, &[(3, 80_000)]));
    let all = world.tick();
    assert_eq!(syncs(&all, &["server=\"3306\""]), 10.0);
    assert_eq!(syncs(&all, &[]), 10.0);
    assert_eq!(all["fsynctop_server_up{server=\"3306\"}"], 1.0);
    assert_eq!(sum(&all, "fsynctop_server_info", &["version=\"MySQL 9.7.5\"", "port=\"3307\""]), 1.0);
    assert_eq!(sum(&all, "fsynctop_server_info", &[]), 1.0);
    assert_eq!(sum(&all, "fsynctop_server_up", &[]), 1.0);
    // The sampler forgets the first process; its rows go with it.
    world.servers.remove(0);
    world.files.remove(0);
    let all = world.tick();
    assert_eq!(syncs(&all, &["server=\"3306\""]), 10.0);
}

#[test]
fn a_start_that_is_only_known_to_a_clock_tick_at_first_is_the_same_process() {
    let mut world = World::with_mysql();
    let exact = ServerId { start_ns: MYSQL.start_ns + 1_234_567, ..MYSQL };
    world.tick();
    world.files.push(redo(exact, 1, &[(5, 80_000)]));
    world.tick();
    world.servers[0].id = exact;
    let all = world.tick();
    assert_eq!(syncs(&all, &["server=\"3306\""]), 5.0);
    assert_eq!(sum(&all, "fsynctop_server_up", &[]), 1.0);
}

#[test]
fn two_servers_on_one_port_are_told_apart_and_neither_takes_the_others_label() {
    let mut world = World::with_mysql();
    let mut other = server(MARIADB, "mariadbd", "MariaDB 10.11.14", 3306);
    other.datadir = Some("/srv/b".into());
    world.servers.push(other);
    let all = world.tick();
    assert_eq!(all["fsynctop_server_up{server=\"3306 /var/lib/mysql\"}"], 1.0);
    assert_eq!(all["fsynctop_server_up{server=\"3306 /srv/b\"}"], 1.0);
    // The first one is started again, when the second is gone: it has its label still.
    world.servers[0].alive = false;
    world.servers[1].alive = false;
    world.servers.push(server(ServerId { pid: 9, start_ns: 1 << 50 }, "mysqld", "MySQL 9.7.4", 3306));
    let all = world.tick();
    assert_eq!(all["fsynctop_server_up{server=\"3306 /var/lib/mysql\"}"], 1.0);
    assert_eq!(sum(&all, "fsynctop_server_up", &[]), 1.0);
}

#[test]
fn two_that_ran_before_the_exporter_are_told_apart_also_where_their_directories_are_called_the_same() {
    let on = |pid: u32, inode: u64| {
        let id = ServerId { pid, start_ns: u64::from(pid) << 30 };
        let mut one = server(id, "mysqld", "MySQL 9.7.4", 3306);
        one.known_by.datadir = Some((8, inode));
        one
    };
    let mut world = World::new(Options::default());
    world.servers = vec![on(10, 1), on(11, 2)];
    world.files = world.servers.iter().map(|server| redo(server.id, 1, &[(1, 80_000)])).collect();
    let all = world.tick();
    assert_eq!(sum(&all, "fsynctop_server_up", &[]), 2.0, "{all:#?}");
    let pids = |all: &BTreeMap<String, f64>| -> BTreeMap<String, String> {
        pids(all).into_iter().map(|(label, pid)| (pid.to_string(), label)).collect()
    };
    let before = pids(&all);
    assert_eq!(before.len(), 2);
    // Both end, and the second one is started again: it is the second one still.
    world.servers.iter_mut().for_each(|server| server.alive = false);
    world.tick();
    world.servers.push(on(12, 2));
    world.files.push(redo(world.servers[2].id, 1, &[(1, 80_000)]));
    let all = world.tick();
    assert_eq!(pids(&all)["12"], before["11"]);
    let second = format!("server=\"{}\"", before["11"]);
    assert_eq!(syncs(&all, &[&second]), 2.0, "{all:#?}");
    assert_eq!(syncs(&all, &[]), 3.0);
}

#[test]
fn a_helper_of_a_servers_own_name_is_no_server() {
    let mut world = World::with_mysql();
    world.tick();
    let mut helper = Server::new(ServerId { pid: 77, start_ns: 1 << 50 }, "mysqld".into());
    helper.known_by.described = true;
    helper.version = Some("MySQL 9.7.4".into());
    helper.known_by.port = Some(3306);
    world.servers.push(helper);
    world.tick();
    world.servers[1].alive = false;
    let all = world.tick();
    assert_eq!(all["fsynctop_server_up{server=\"3306\"}"], 1.0);
    assert_eq!(sum(&all, "fsynctop_server_up", &[]), 1.0);
    // Of the same data directory: `mysqld --help` reads the option file as well.
    let mut helper = server(ServerId { pid: 78, start_ns: 1 << 51 }, "mysqld", "MySQL 9.7.4", 3306);
    (helper.known_by.listens, helper.ports) = (false, Vec::new());
    helper.known_by.datadir = Some((8, 7));
    world.servers[0].known_by.datadir = Some((8, 7));
    world.servers.push(helper);
    let all = world.tick();
    assert_eq!(all["fsynctop_server_pid{server=\"3306\"}"], f64::from(MYSQL.pid));
}

#[test]
fn another_users_process_that_claims_a_servers_directory_is_not_told_of_under_its_label() {
    let of = |pid: u32, owner: u32| {
        let id = ServerId { pid, start_ns: u64::from(pid) << 30 };
        let mut one = owned(server(id, "mysqld", "MySQL 9.7.4", 3306), owner);
        one.known_by.datadir = Some((8, 7));
        one.known_by.proof.datadir = owner == 0 || owner == 999;
        one
    };
    let mut world = World::new(Options::default());
    world.servers.push(of(10, 999));
    world.tick();
    // It is asked for by its name, and whoever shares that can make it failing.
    world.servers.extend([of(11, 1_000), of(12, 999), of(13, 0)]);
    world.files.push(redo(world.servers[1].id, 1, &[(1, 80_000)]));
    let all = world.tick();
    let labelled = world.book.labelled();
    let own = labelled.iter().find(|of| of.label == "3306").unwrap();
    let pids: Vec<u32> = own.main.iter().chain(&own.others).map(|id| id.pid).collect();
    assert_eq!(pids, [10, 12, 13]);
    assert_eq!(syncs(&all, &["server=\"3306\""]), 0.0);
    assert_eq!(syncs(&all, &[]), 1.0);
    // Nor is one of which that is not known yet.
    let mut undescribed = of(15, 1_000);
    (undescribed.known_by.described, undescribed.name) = (false, "3306".into());
    world.servers.push(undescribed);
    world.tick();
    let labelled = world.book.labelled();
    let own = labelled.iter().find(|of| of.label == "3306").unwrap();
    assert!(own.others.iter().all(|id| id.pid != 15), "{own:?}");
    world.servers.pop();
    // It goes on when the server is started again.
    world.servers[0].alive = false;
    world.servers.retain(|server| ![12, 13].contains(&server.id.pid));
    world.tick();
    world.servers.push(of(14, 999));
    world.tick();
    let labelled = world.book.labelled();
    let own = labelled.iter().find(|of| of.label == "3306").unwrap();
    assert_eq!((own.main.map(|id| id.pid), own.others.len()), (Some(14), 0));
}

/// A server of a user's that says it is on this port; how much of that is true is another question.
fn claimant(pid: u32, port: u16, proof: Proof) -> Server {
    let id = ServerId { pid, start_ns: u64::from(pid) << 30 };
    let mut one = owned(server(id, "mysqld", "MySQL 9.7.4", port), 1001);
    one.datadir = Some(format!("/home/u/{pid}").into());
    (one.known_by.datadir, one.known_by.proof) = (Some((9, pid.into())), proof);
    one
}

fn service(pid: u32, port: u16) -> Server {
    let id = ServerId { pid, start_ns: u64::from(pid) << 30 };
    let mut one = server(id, "mysqld", "MySQL 9.7.4", port);
    one.datadir = Some(format!("/srv/{pid}").into());
    one.known_by.datadir = Some((8, pid.into()));
    one
}

/// The pid of each server by its label.
fn pids(all: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let label = |series: &String| {
        let rest = series.strip_prefix("fsynctop_server_pid{server=\"")?;
        Some(rest.split_once('"').unwrap().0.to_owned())
    };
    all.iter().filter_map(|(series, &pid)| Some((label(series)?, pid))).collect()
}

#[test]
fn who_only_claims_a_name_never_has_it_and_who_proves_it_takes_it_back() {
    let only_says = Proof::default();
    let mut world = World::new(Options::default());
    world.servers.push(claimant(70, 3306, only_says));
    world.files.push(redo(world.servers[0].id, 1, &[(5, 80_000)]));
    assert_eq!(pids(&world.tick()), BTreeMap::from([("3306 (uid 1001)".into(), 70.0)]));
    // One that listens there, on another address or before the server begins, is beaten by the service.
    world.servers.push(claimant(71, 3306, Proof { port: true, ..only_says }));
    world.files.push(redo(world.servers[1].id, 1, &[(3, 80_000)]));
    assert_eq!(pids(&world.tick())["3306"], 71.0);
    world.servers.push(service(10, 3306));
    world.files.push(redo(world.servers[2].id, 1, &[(1, 80_000)]));
    // A series that changes hands begins anew.
    world.before.clear();
    let all = world.tick();
    assert_eq!(
        pids(&all),
        BTreeMap::from([
            ("3306".into(), 10.0),
            ("3306 (uid 1001)".into(), 70.0),
            ("3306 /home/u/71".into(), 71.0)
        ])
    );
    assert_eq!(syncs(&all, &["server=\"3306\""]), 1.0);
    assert_eq!(syncs(&all, &["server=\"3306 /home/u/71\""]), 3.0);
    // While it is restarted, nobody else takes its name, whatever they can prove.
    world.servers[2].alive = false;
    world.tick();
    world.servers.push(claimant(72, 3306, Proof { port: true, ..only_says }));
    let all = world.tick();
    assert_eq!((pids(&all)["3306"], all["fsynctop_server_up{server=\"3306\"}"]), (10.0, 0.0));
    let mut again = service(10, 3306);
    again.id = ServerId { pid: 11, start_ns: 11 << 30 };
    world.servers.push(again);
    assert_eq!(pids(&world.tick())["3306"], 11.0);
}

#[test]
fn whoever_is_seen_first_who_says_that_a_directory_is_theirs_is_not_the_server() {
    let mut world = World::new(Options::default());
    let mut real = owned(service(30, 3306), 0);
    real.known_by.datadir = Some((8, 7));
    let mut says = claimant(7, 3306, Proof::default());
    (says.datadir, says.known_by.datadir) = (real.datadir.clone(), real.known_by.datadir);
    // Of two that are there when it begins the one with the lower number is looked at first.
    world.servers = vec![says, real];
    world.files = world.servers.iter().map(|server| redo(server.id, 1, &[(1, 80_000)])).collect();
    let all = world.tick();
    assert_eq!(pids(&all), BTreeMap::from([("3306".into(), 30.0), ("3306 (uid 1001)".into(), 7.0)]));
    assert_eq!(syncs(&all, &["server=\"3306\""]), 1.0);
}

#[test]
fn a_service_whose_claim_is_confirmed_late_takes_its_name_back() {
    let mut world = World::new(Options::default());
    // The service does not run yet, and a user listens on the port of another address.
    world.servers.push(claimant(71, 3306, Proof { port: true, ..Proof::default() }));
    world.files.push(redo(world.servers[0].id, 1, &[(3, 80_000)]));
    assert_eq!(pids(&world.tick()), BTreeMap::from([("3306".into(), 71.0)]));
    // It is described before it listens.
    let mut starts = service(10, 3306);
    starts.known_by.proof = Proof { port: false, ..Proof::FULL };
    world.servers.push(starts);
    world.files.push(redo(world.servers[1].id, 1, &[(1, 80_000)]));
    world.tick();
    world.servers[1].known_by.proof = Proof::FULL;
    world.before.clear();
    world.tick();
    world.before.clear();
    let all = world.tick();
    let expected = BTreeMap::from([("3306".into(), 10.0), ("3306 /home/u/71".into(), 71.0)]);
    assert_eq!(pids(&all), expected);
    assert_eq!(syncs(&all, &["server=\"3306\""]), 1.0);
}

#[test]
fn a_stranger_drives_no_service_that_was_stopped_out() {
    let mut world = World::new(Options::default());
    for pid in 10..26 {
        world.servers.push(service(pid, 3_000 + pid as u16));
    }
    world.tick();
    world.servers[0].alive = false;
    world.tick();
    for pid in 1_000..1_100 {
        world.servers.push(claimant(pid, 20_000 + pid as u16, Proof::FULL));
        world.before.clear();
        world.tick();
    }
    let pids = pids(&world.tick());
    assert_eq!(pids["3010"], 10.0, "{pids:?}");
}

#[test]
fn a_users_own_server_has_the_bare_name_once_it_listens() {
    let mut world = World::new(Options::default());
    world.servers.push(claimant(70, 3307, Proof::default()));
    world.files.push(redo(world.servers[0].id, 1, &[(5, 80_000)]));
    assert_eq!(pids(&world.tick()), BTreeMap::from([("3307 (uid 1001)".into(), 70.0)]));
    world.servers[0].known_by.proof = Proof::FULL;
    world.tick();
    world.before.clear();
    let all = world.tick();
    assert_eq!(pids(&all), BTreeMap::from([("3307".into(), 70.0)]));
    assert_eq!(syncs(&all, &["server=\"3307\""]), 5.0, "it takes its counts along");
}

#[test]
fn a_crowd_of_one_users_takes_no_name_from_a_service_and_leaves_room_for_those_that_come() {
    let mut world = World::new(Options::default());
    world.servers.push(service(10, 3306));
    world.tick();
    for pid in 1_000..1_080 {
        world.servers.push(claimant(pid, 20_000 + pid as u16, Proof::FULL));
    }
    world.tick();
    world.servers.push(service(11, 3307));
    for pid in 12..30 {
        world.servers.push(service(pid, 4_000 + pid as u16));
    }
    // Servers of the one who has most make room: their series end.
    world.before.clear();
    let all = world.tick();
    let pids = pids(&all);
    assert!(pids.len() <= 65, "64 and other: {}", pids.len());
    for pid in 10..30 {
        assert!(pids.values().any(|&has| has == f64::from(pid)), "{pid} {pids:?}");
    }
    let of_user = pids.values().filter(|&&pid| pid >= 1_000.0).count();
    assert_eq!(of_user, 44, "as many as are left of 64");
    // Those without a label are one, and the server that had its label first has it still.
    assert_eq!(pids["3306"], 10.0);
    let other = world.book.labelled().into_iter().find(|of| of.label == "other").unwrap();
    assert_eq!(other.others.len(), 36);
}

#[test]
fn a_series_that_has_lost_its_place_ends_though_the_server_has_gone() {
    let mut world = World::new(Options { paths: Some(1), ..Options::default() });
    world.servers.push(server(MYSQL, "mysqld", "MySQL 9.7.4", 3306));
    world.files = vec![table(MYSQL, 1, &[(1, 100_000)]), table(MYSQL, 2, &[(1, 50_000)])];
    let paths: Vec<String> =
        world.files.iter().map(|row| row.info.path.as_ref().unwrap().display().to_string()).collect();
    let series = |all: &BTreeMap<String, f64>| {
        let of = |path: &String| {
            let label = format!("path=\"{path}\"");
            all.keys()
                .any(|series| series.starts_with("fsynctop_file_syncs_total{") && series.contains(&label))
        };
        paths.iter().map(of).collect::<Vec<bool>>()
    };
    world.tick();
    assert_eq!(series(&world.tick()), [true, false]);
    for _ in 0..15 {
        world.sync(1, &[(10, 1_000_000)]);
        world.tick();
    }
    assert_eq!(series(&world.tick()), [true, true], "one has lost its place");
    world.servers[0].alive = false;
    for _ in 0..121 {
        // A series that ends takes its counter with it.
        world.before.clear();
        world.tick();
    }
    assert_eq!(series(&world.tick()), [false, true]);
}

#[test]
fn servers_are_bounded_and_those_that_run_have_a_label() {
    let mut world = World::new(Options::default());
    for n in 0..150u32 {
        let id = ServerId { pid: 1_000 + n, start_ns: u64::from(n) << 30 };
        let mut one = server(id, "mysqld", "MySQL 9.7.4", 10_000 + n as u16);
        one.datadir = Some(format!("/srv/{n}").into());
        if let Some(earlier) = world.servers.last_mut() {
            earlier.alive = n % 2 == 0;
        }
        world.servers.push(one);
        world.files.push(redo(id, 1, &[(1, 80_000)]));
        // Labels of servers that are long gone make room: their series end.
        world.before.clear();
        let all = world.tick();
        if n % 10 > 0 {
            continue;
        }
        let label = format!("server=\"{}\"", 10_000 + n);
        let shown = syncs(&all, &[&label]);
        assert!(shown == 1.0 || syncs(&all, &["server=\"other\""]) > 0.0, "{n}");
        assert!(sum(&all, "fsynctop_server_info", &[]) <= 64.0);
        assert!(all.len() < 64 * 220, "{}", all.len());
    }
}

#[test]
fn a_restart_makes_no_new_series() {
    let mut world = World::with_mysql();
    world.files.push(redo(MYSQL, 1, &[(5, 80_000)]));
    let before: Vec<String> = world.tick().into_keys().collect();
    world.servers[0].alive = false;
    world.tick();
    let again = ServerId { pid: MYSQL.pid + 7, start_ns: MYSQL.start_ns + 60_000_000_000 };
    world.servers = vec![server(again, "mysqld", "MySQL 9.7.4", 3306)];
    world.files = vec![redo(again, 1, &[(1, 80_000)])];
    let all = world.tick();
    assert_eq!(all["fsynctop_server_pid{server=\"3306\"}"], f64::from(again.pid));
    assert_eq!(all.into_keys().collect::<Vec<_>>(), before);
}

#[test]
fn a_server_has_zeros_for_the_roles_of_its_own_engine_alone() {
    let mut world = World::with_mysql();
    let id = ServerId { pid: 77, start_ns: 1 << 50 };
    let mut postgres = server(id, "postgres", "PostgreSQL 15.14", 5432);
    postgres.datadir = Some("/var/lib/postgresql/15/main".into());
    world.servers.push(postgres);
    // Not described yet, so it may be anything that calls itself so.
    let mut bare = Server::new(ServerId { pid: 78, start_ns: 1 << 51 }, "postgres".into());
    bare.engine = engine("postgres");
    world.servers.push(bare);
    // It is waited for what may still be found out about the other.
    (0..15).for_each(|_| drop(world.tick()));
    let all = world.tick();
    let roles = |family: &str, label: &str| -> Vec<String> {
        let of = |series: &&String| series.starts_with(family) && series.contains(label);
        let role = |series: &String| {
            let (_, rest) = series.split_once("role=\"").unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let mut roles: Vec<String> = all.keys().filter(of).map(role).collect();
        roles.dedup();
        roles.sort();
        roles.dedup();
        roles
    };
    let duration = "fsynctop_sync_duration_seconds_count{";
    assert_eq!(roles(duration, "server=\"5432\""), ["wal"]);
    assert_eq!(roles(duration, "server=\"3306\""), ["binlog", "redo"]);
    assert_eq!(roles("fsynctop_syncs_in_flight{", "server=\"5432\""), ["wal"]);
    let durable = roles("fsynctop_sync_errors_total{", "server=\"5432\"");
    assert_eq!(durable, ["commit_status", "control", "data", "wal"]);
    assert!(roles("fsynctop_sync_errors_total{", "server=\"3306\"").contains(&"relay_log".to_owned()));
    let of_others = all.keys().filter(|series| series.contains("role=\"wal\"")).count();
    let of_it = all.keys().filter(|series| series.contains("server=\"5432\",role=\"wal\"")).count();
    assert_eq!(of_others, of_it, "the one that is not described has none");
}
