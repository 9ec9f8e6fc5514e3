use super::*;
use crate::explain::audit::{Finding, Standing, render};
use crate::explain::factors::{Edges, InFlightSamples, Uncertain};
use crate::explain::waits::{Account, Part, Phase, Processors, Who};
use crate::linux::storage::{Storage, WriteCache};
use crate::model::fixture::{self, MYSQL};
use crate::model::{Durability, Interval, Op, Role, Server, Stats, durability};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

type Pairs<'a> = &'a [(&'static str, &'static str)];

fn server(notes: &[&str]) -> Server {
    let notes = notes.iter().map(|&note| note.to_owned()).collect();
    Server { notes, ..fixture::server(MYSQL, "mysqld", "MySQL 9.7.4", 3306) }
}

fn measurement(redo: u64, binlog: u64, doublewrite: u64) -> Interval {
    let row = |inode, role, n| {
        fixture::row(MYSQL, inode, "/d/x", role, Op::Fdatasync, fixture::stats(&[(n, 1_000_000)]))
    };
    let files =
        vec![row(1, Role::Redo, redo), row(2, Role::Binlog, binlog), row(3, Role::Doublewrite, doublewrite)];
    let files = Vec::from_iter(files.into_iter().filter(|row| row.stats.count > 0));
    fixture::lasting(Duration::from_secs(10), fixture::with_files(fixture::quiet(), files, Vec::new()))
}

/// 1,000 transactions in ten seconds.
fn status(status: Pairs, variables: Pairs) -> (Reading, Reading) {
    let defaults = [
        ("log_bin", "ON"),
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
        ("innodb_flush_method", "O_DIRECT"),
        ("innodb_doublewrite", "ON"),
    ];
    let at = |commits: &'static str, uptime: &'static str| {
        let counters = [("Binlog_commits", commits), ("Uptime", uptime)];
        Reading::from_pairs(
            counters.into_iter().chain(status.iter().copied()),
            defaults.into_iter().chain(variables.iter().copied()),
        )
    };
    let from = at("0", "1");
    let to = Reading { counted: from.counted + Duration::from_secs(10), ..at("1000", "11") };
    (from, to)
}

/// So many bytes to either log, where all writes are watched.
fn write(measurement: &mut Interval, bytes: u64) {
    std::sync::Arc::make_mut(&mut measurement.setup).ops.push(Op::Write);
    let row = |inode, role| {
        let stats = Stats { bytes, ..fixture::stats(&[(9, 1_000)]) };
        fixture::row(MYSQL, inode, "/d/x", role, Op::Write, stats)
    };
    measurement.writes = vec![row(1, Role::Redo), row(2, Role::Binlog)].into();
}

fn ext4(options: &[&str], write_cache: Option<WriteCache>) -> Storage {
    Storage::example(options, write_cache, Durability::Yes)
}

fn findings(
    server: &Server,
    measurement: &Interval,
    status: &(Reading, Reading),
    storage: Storage,
) -> Vec<Finding> {
    let storage = [storage];
    audit(&Evidence {
        server,
        measurement,
        status: Some((&status.0, &status.1)),
        storage: &storage,
        flush_waits: BTreeMap::from([(Role::Redo, 300), (Role::Wal, 300)]),
    })
}

fn standing(findings: &[Finding], setting: &str) -> Standing {
    let found = findings.iter().find(|finding| finding.setting.starts_with(setting));
    found.unwrap_or_else(|| panic!("{setting}: {findings:?}")).standing
}

fn with(variables: Pairs, counters: Pairs) -> Vec<Finding> {
    let status = status(counters, variables);
    findings(&server(&[]), &measurement(200, 180, 3), &status, ext4(&["rw"], Some(WriteCache::Volatile)))
}

#[test]
fn what_is_promised_and_seen_is_consistent() {
    let findings = with(&[], &[]);
    let is_fine = |finding: &Finding| matches!(finding.standing, Standing::Consistent | Standing::Kept);
    assert!(findings.iter().all(is_fine), "{findings:#?}");
    assert_eq!(findings.len(), 4);
    assert!(findings[0].seen.contains("200 syncs for 1,000 transactions"), "{findings:#?}");
}

#[test]
fn a_promise_without_syncs_is_broken_unless_something_explains_it() {
    let status_ = status(&[], &[]);
    let storage = || ext4(&["rw"], Some(WriteCache::Volatile));
    let mut none = measurement(0, 0, 0);
    write(&mut none, 90_000);
    let found = findings(&server(&[]), &none, &status_, storage());
    assert_eq!(standing(&found, "innodb_flush_log_at_trx_commit=1"), Standing::Broken);
    assert_eq!(standing(&found, "sync_binlog=1"), Standing::Broken);
    // No conclusion is possible if the probes may have missed syncs, or if the server was idle.
    let mut lossy = none.clone();
    lossy.lost.preempted = 1;
    assert_eq!(
        standing(&findings(&server(&[]), &lossy, &status_, storage()), "sync_binlog=1"),
        Standing::Unseen
    );
    // Nor if the server syncs by other calls.
    let mut otherwise = none.clone();
    otherwise.lost.unwatched = 1;
    let found = findings(&server(&[]), &otherwise, &status_, storage());
    assert_eq!(standing(&found, "sync_binlog=1"), Standing::Unseen);
    let (_, idle) = status(&[], &[]);
    let found = findings(&server(&[]), &none, &(idle.clone(), idle), storage());
    assert_eq!(standing(&found, "sync_binlog=1"), Standing::Unseen);
    // Where each write is durable no sync is due, and a commit that waits for a write waits long enough.
    for value in ["1", "2"] {
        let settings = [("innodb_flush_method", "O_DSYNC"), ("innodb_flush_log_at_trx_commit", value)];
        let found = findings(&server(&[]), &none, &status(&[], &settings), storage());
        let setting = format!("innodb_flush_log_at_trx_commit={value}");
        assert_eq!(standing(&found, &setting), Standing::Unseen);
        let finding = found.iter().find(|finding| finding.setting == setting).unwrap();
        assert!(finding.promise.contains("is durable"), "{finding:?}");
        assert!(finding.seen.contains("innodb_flush_method=O_DSYNC, and not watched here"), "{finding:?}");
    }
}

#[test]
fn a_log_that_was_not_written_breaks_no_promise_by_being_without_syncs() {
    let redo = |measurement: &Interval| {
        let found = findings(&server(&[]), measurement, &status(&[], &[]), ext4(&["rw"], None));
        found.into_iter().find(|finding| finding.setting.starts_with("innodb_flush_log")).unwrap()
    };
    // MyISAM, Aria, MEMORY, temporary tables.
    let mut others = measurement(0, 1_000, 0);
    assert_eq!(redo(&others).standing, Standing::Unseen);
    let not_known = "0 syncs for 1,000 transactions; whether the log grew is not known";
    assert_eq!(redo(&others).seen, not_known);
    write(&mut others, 900);
    let finding = redo(&others);
    assert_eq!(
        (finding.standing, &*finding.seen),
        (Standing::Unseen, "0 syncs for 1,000 transactions, but the log grew by 900 B only")
    );
    write(&mut others, 90_000);
    let finding = redo(&others);
    assert_eq!(
        (finding.standing, &*finding.seen),
        (Standing::Broken, "0 syncs for 1,000 transactions, and the log grew by 90 kB")
    );
}

#[test]
fn more_commits_than_the_syncs_can_have_released_did_not_all_wait() {
    let redo = |syncs, connected, came| {
        let status = |connections| {
            let counters = [("Threads_connected", connected), ("Connections", connections)];
            status(&counters, &[])
        };
        let (from, to) = (status("100").0, status(came).1);
        let storage = ext4(&["rw"], None);
        let found = findings(&server(&[]), &measurement(syncs, 1_000, 0), &(from, to), storage);
        found.into_iter().find(|finding| finding.setting.starts_with("innodb_flush_log")).unwrap()
    };
    // Eight are the server's own.
    let finding = redo(10, "2", "102");
    assert_eq!(finding.standing, Standing::Unclear, "{finding:?}");
    let said = "10 syncs for 1,000 transactions of 12 sessions at most: not every commit waited; transactions on MyISAM,";
    assert!(finding.seen.starts_with(said), "{finding:?}");
    assert_eq!(redo(10, "90", "102").standing, Standing::Consistent);
    assert_eq!(redo(10, "2", "190").standing, Standing::Consistent, "many came and went");
    assert_eq!(redo(200, "2", "102").standing, Standing::Consistent);
}

#[test]
fn a_setting_that_was_changed_meanwhile_is_held_against_nothing() {
    let of = |value| status(&[], &[("innodb_flush_log_at_trx_commit", value), ("sync_binlog", value)]);
    let changed = (of("0").0, of("1").1);
    let mut none = measurement(0, 0, 0);
    write(&mut none, 90_000);
    let found = findings(&server(&[]), &none, &changed, ext4(&["rw"], None));
    assert!(found.iter().all(|finding| !finding.setting.contains("=1")), "{found:?}");
}

#[test]
fn durable_writes_keep_the_redo_logs_promise_and_their_absence_breaks_it() {
    let at = |value, redo: u64| {
        let mut measurement = measurement(redo, 180, 3);
        std::sync::Arc::make_mut(&mut measurement.setup).ops.push(Op::DsyncWrite);
        let redo = measurement.roles.iter_mut().filter(|row| row.role == Role::Redo);
        redo.for_each(|row| row.op = Op::DsyncWrite);
        write(&mut measurement, 90_000);
        let status =
            status(&[], &[("innodb_flush_method", "O_DSYNC"), ("innodb_flush_log_at_trx_commit", value)]);
        let found = findings(&server(&[]), &measurement, &status, ext4(&["rw"], Some(WriteCache::Volatile)));
        let setting = format!("innodb_flush_log_at_trx_commit={value}");
        found.into_iter().find(|finding| finding.setting == setting).unwrap()
    };
    for value in ["1", "2"] {
        let kept = at(value, 200);
        assert_eq!(kept.standing, Standing::Consistent, "{kept:?}");
        assert_eq!(kept.seen, "200 durable writes for 1,000 transactions, innodb_flush_method=O_DSYNC");
        assert_eq!(at(value, 0).standing, Standing::Broken);
    }
    assert_eq!(at("0", 200).standing, Standing::Weak);
}

#[test]
fn settings_that_are_weaker_say_so_but_replicas_and_clusters_are_not_scolded() {
    for (variable, value) in [
        ("innodb_flush_log_at_trx_commit", "2"),
        ("innodb_flush_log_at_trx_commit", "0"),
        ("sync_binlog", "0"),
        ("sync_binlog", "100"),
    ] {
        let is = |more: Pairs, counters: Pairs| {
            standing(&with(&[&[(variable, value)], more].concat(), counters), &format!("{variable}={value}"))
        };
        assert_eq!(is(&[], &[]), Standing::Weak, "{variable}={value}");
        assert_eq!(is(&[("wsrep_on", "ON")], &[]), Standing::Usual);
        assert_eq!(is(&[("super_read_only", "ON")], &[]), Standing::Usual);
        assert_eq!(is(&[], &[("Slave_running", "ON")]), Standing::Usual);
    }
    assert_eq!(
        standing(&with(&[("innodb_doublewrite", "OFF")], &[]), "innodb_doublewrite=OFF"),
        Standing::Weak
    );
    let detect = with(&[("innodb_doublewrite", "DETECT_ONLY")], &[]);
    assert_eq!(standing(&detect, "innodb_doublewrite"), Standing::Weak);
    assert_eq!(
        standing(&with(&[("innodb_flush_method", "nosync")], &[]), "innodb_flush_method"),
        Standing::Broken
    );
}

#[test]
fn a_doublewrite_buffer_inside_of_a_tablespace_is_told_by_its_bytes_or_not_at_all() {
    let known = Some(Duration::ZERO);
    let of = |version: &str, since, written: Option<u64>, variables: Pairs| {
        let server = Server { version: Some(version.into()), doublewrite_apart_since: since, ..server(&[]) };
        let mut measurement = measurement(200, 180, 0);
        measurement.servers = vec![std::sync::Arc::new(server.clone())].into();
        measurement.span.monotonic = measurement.span.duration;
        std::sync::Arc::make_mut(&mut measurement.setup).ops.extend([Op::IoUringWrite, Op::AioWrite]);
        if let Some(bytes) = written {
            write(&mut measurement, 90_000);
            let row = fixture::row(
                MYSQL,
                3,
                "/d/ibdata1",
                Role::Doublewrite,
                Op::Write,
                Stats { bytes, ..fixture::stats(&[(u64::from(bytes > 0), 1_000)]) },
            );
            measurement.writes = measurement.all_writes().cloned().chain([row]).collect::<Vec<_>>().into();
        }
        let found = findings(&server, &measurement, &status(&[], variables), ext4(&["rw"], None));
        let finding = found.into_iter().find(|finding| finding.setting == "innodb_doublewrite=ON").unwrap();
        (finding.standing, finding.seen)
    };
    let unseen = |seen: &str| (Standing::Unseen, seen.to_owned());
    let mariadb = |doublewrite, written| of("MariaDB 10.11.14", doublewrite, written, &[]);
    assert_eq!(
        mariadb(known, Some(1 << 20)),
        (Standing::Consistent, "1.0 MB written to it, inside ibdata1".into())
    );
    assert_eq!(mariadb(known, Some(0)), unseen("nothing was written to it, inside ibdata1"));
    assert_eq!(
        mariadb(known, None),
        unseen("cannot be told with --writes off: MariaDB's doublewrite buffer is inside ibdata1")
    );
    assert_eq!(
        mariadb(None, Some(0)),
        unseen(
            "cannot be told, because not all writes to it can be told from others: MariaDB's doublewrite buffer is inside \
             ibdata1"
        )
    );
    let durable = [("innodb_data_file_write_through", "ON")];
    assert_eq!(
        of("MariaDB 11.8.2", known, Some(0), &durable),
        unseen(
            "cannot be told where innodb_data_file_write_through=ON makes each write durable: MariaDB's doublewrite \
             buffer is inside ibdata1"
        )
    );
    assert_eq!(
        of("MySQL 5.6.51", known, None, &[]),
        unseen("cannot be told with --writes off: MySQL's doublewrite buffer is inside ibdata1")
    );
    assert_eq!(of("MySQL 8.0.36", None, Some(0), &[]), unseen("0 syncs of doublewrite files"));
}

#[test]
fn what_makes_every_promise_void_comes_first() {
    let first = |notes: &[&str], counters: Pairs, storage| {
        let status = status(counters, &[("sync_binlog", "0")]);
        findings(&server(notes), &measurement(200, 180, 3), &status, storage).swap_remove(0)
    };
    let storage = || ext4(&["rw"], Some(WriteCache::Volatile));
    let eatmydata = first(&[durability::SYNCS_DO_NOTHING], &[], storage());
    assert_eq!((eatmydata.setting.as_str(), eatmydata.standing), ("libeatmydata", Standing::Broken));
    let off = first(&[], &[("Innodb_redo_log_enabled", "OFF")], storage());
    assert_eq!(off.setting, "innodb_redo_log_enabled=OFF");
    let no = || Durability::No("ext4 is mounted with nobarrier".into());
    let nobarrier = first(
        &[],
        &[],
        Storage { durability: no(), ..ext4(&["nobarrier", "rw"], Some(WriteCache::Volatile)) },
    );
    assert_eq!(nobarrier.setting, "nobarrier (ext4 on /dev/vda)");
    // A device that needs no flush misses none.
    let protected = first(&[], &[], ext4(&["nobarrier", "rw"], Some(WriteCache::None)));
    assert_eq!((protected.setting.as_str(), protected.standing), ("sync_binlog=0", Standing::Weak));
}

#[test]
fn nothing_is_called_kept_of_which_nothing_was_seen() {
    let settings = [("innodb_flush_method", "O_DIRECT_NO_FSYNC")];
    for transactions in [0, 1_000] {
        let (from, to) = status(&[], &settings);
        let status = if transactions > 0 { (from, to) } else { (to.clone(), to) };
        for cache in [Some(WriteCache::Volatile), Some(WriteCache::None), None] {
            for options in [&["rw"][..], &["nobarrier", "rw"]] {
                let found = findings(&server(&[]), &measurement(0, 0, 0), &status, ext4(options, cache));
                let is_kept =
                    |finding: &&Finding| matches!(finding.standing, Standing::Kept | Standing::Consistent);
                let kept = found.iter().find(is_kept);
                assert_eq!(kept, None, "{transactions} {cache:?} {options:?}");
            }
        }
    }
    // Nor what a sync does to the device, by another server's syncs.
    let mut others = measurement(0, 0, 0);
    let row = fixture::row(fixture::MARIADB, 1, "/d/x", Role::Redo, Op::Fsync, fixture::stats(&[(9, 1_000)]));
    others.files.push(row);
    others.roles = crate::model::roles_of(&others.files);
    let storage = ext4(&["rw"], Some(WriteCache::Volatile));
    let found = findings(&server(&[]), &others, &status(&[], &[]), storage);
    assert_eq!(standing(&found, "ext4 on /dev/vda"), Standing::Unseen);
    // With syncs, a cache needs flushes that they were seen to wait for.
    let volatile = |flush_waits: &[(Role, u64)]| {
        let storage = [ext4(&["rw"], Some(WriteCache::Volatile))];
        let (server, measurement) = (server(&[]), measurement(5, 5, 0));
        let evidence = Evidence {
            server: &server,
            measurement: &measurement,
            status: None,
            storage: &storage,
            flush_waits: flush_waits.iter().copied().collect(),
        };
        audit(&evidence).swap_remove(0).standing
    };
    assert_eq!(volatile(&[(Role::Redo, 3)]), Standing::Kept);
    assert_eq!([volatile(&[(Role::Redo, 0)]), volatile(&[])], [Standing::Unseen, Standing::Unseen]);
}

#[test]
fn without_a_connection_the_storage_is_still_looked_at() {
    let (server, measurement) = (server(&[]), measurement(5, 5, 0));
    let durability = Durability::No("ext4 is mounted with barrier=0".into());
    let storage = [Storage { durability, ..ext4(&["barrier=0"], Some(WriteCache::Volatile)) }];
    let evidence = Evidence {
        server: &server,
        measurement: &measurement,
        status: None,
        storage: &storage,
        flush_waits: BTreeMap::new(),
    };
    let findings = audit(&evidence);
    assert_eq!(findings.len(), 1);
    assert!(render(&findings).starts_with("BROKEN     barrier=0 (ext4 on /dev/vda): no sync makes"));
}

#[test]
fn no_promise_is_kept_where_nothing_below_makes_it_durable_or_that_is_not_known() {
    let kept = |durability| {
        let storage = Storage { durability, ..ext4(&["rw"], Some(WriteCache::Volatile)) };
        let settings =
            [("sync_binlog", "1"), ("innodb_flush_log_at_trx_commit", "1"), ("innodb_doublewrite", "ON")];
        let found = findings(&server(&[]), &measurement(200, 180, 3), &status(&[], &settings), storage);
        let is_kept = |finding: &&Finding| matches!(finding.standing, Standing::Kept | Standing::Consistent);
        (found.iter().filter(is_kept).count(), render(&found))
    };
    assert!(kept(Durability::Yes).0 > 1);
    let (n, said) = kept(Durability::No("tmpfs keeps files in memory only".into()));
    assert_eq!(n, 0, "{said}");
    assert!(
        said.contains("BROKEN     ext4 on /dev/vda: no sync makes anything durable: tmpfs keeps"),
        "{said}"
    );
    let (n, said) = kept(Durability::Unknown("nothing was seen".into()));
    assert_eq!(n, 0, "{said}");
    assert!(
        said.contains("unseen     ext4 on /dev/vda: whether a sync makes anything durable is not known"),
        "{said}"
    );
}

#[test]
fn only_flushes_that_the_servers_own_syncs_waited_for_on_that_mount_prove_anything() {
    let at = |mount: &str| Storage { mount: mount.into(), ..ext4(&["rw"], Some(WriteCache::Volatile)) };
    let (server, measurement) = (server(&[]), measurement(5, 5, 0));
    let storage = [at("/"), at("/elsewhere")];
    let evidence = Evidence {
        server: &server,
        measurement: &measurement,
        status: None,
        storage: &storage,
        flush_waits: BTreeMap::from([(Role::Redo, 7)]),
    };
    let standings: Vec<_> = audit(&evidence).iter().map(|finding| finding.standing).collect();
    assert_eq!(standings, [Standing::Kept, Standing::Unseen]);
}

#[test]
fn seccomp_filters_are_named_where_no_sync_was_seen() {
    let of = |seccomp_filters| {
        let server = Server { seccomp_filters, ..server(&[]) };
        let settings = [("innodb_flush_log_at_trx_commit", "1")];
        let storage = ext4(&["rw"], Some(WriteCache::Volatile));
        render(&findings(&server, &measurement(0, 0, 0), &status(&[], &settings), storage))
    };
    assert!(!of(0).contains("seccomp"), "{}", of(0));
    assert!(of(2).contains("2 seccomp filters of the server may answer syncs itself"), "{}", of(2));
}

fn throughput(redo: u64, binlog: u64, counters: Pairs) -> Throughput {
    let (from, to) = status(counters, &[("innodb_log_file_size", "100663296")]);
    let mut samples = InFlightSamples::new(MYSQL, LOGS);
    let start = Instant::now();
    (1..201).for_each(|n| samples.add(&[], start + Duration::from_millis(50 * n)));
    let measurement = measurement(redo, binlog, 0);
    measure(&Window {
        server: &server(&[]),
        measurement: &measurement,
        edges: Edges { begun: &[], until: &measurement, unsure: &Uncertain::default() },
        status: Some((&from, &to)),
        in_flight: &samples,
    })
}

#[test]
fn advice_needs_its_figure() {
    // Each sync takes a millisecond, and the window ten seconds.
    let advise = |throughput: &Throughput, idle| {
        advice::advise(throughput, &Processors::new(idle, &Account::default()))
    };
    let roomy = throughput(2_000, 3_000, &[]);
    let advice = advise(&roomy, Some(0.6));
    assert_eq!(advice[0].what, "More connections would help.");
    assert!(advice[0].because.contains("20 %") && advice[0].because.contains("30 %"), "{advice:?}");
    assert_eq!(advise(&roomy, Some(0.1)), [], "the CPUs are busy");
    assert_eq!(advise(&roomy, None), [], "idle time was not measured");
    let part = Part { phases: [(Phase::RunQueue, 1), (Phase::DeviceFlush, 4)].into(), ..Part::default() };
    let who = Who { server: MYSQL, role: Role::Redo, op: Op::Fdatasync };
    let queues = Account { parts: [(who, part)].into(), ..Account::default() };
    assert_eq!(
        advice::advise(&roomy, &Processors::new(Some(0.6), &queues)),
        [],
        "the syncs waited for a CPU all the same"
    );
    let full = throughput(2_000, 9_000, &[]);
    assert!(advise(&full, Some(0.6))[0].what.contains("Faster syncs of the binary log"));
    assert_eq!(advise(&throughput(0, 0, &[]), Some(0.9)), []);
    let mut unseen = throughput(0, 3_000, &[]);
    assert!(!advise(&unseen, Some(0.6)).is_empty());
    unseen.factors.form.waits_unseen = true;
    assert_eq!(advise(&unseen, Some(0.6)), [], "how busy the redo log is, is not seen");

    let status = [("Innodb_checkpoint_age", "60000000"), ("Innodb_checkpoint_max_age", "80000000")];
    let mut small = throughput(2_000, 3_000, &status);
    assert_eq!(advise(&small, None), [], "nothing was written");
    small.factors.redo.hours_held = Some(0.2);
    small.factors.redo.an_hour_needs_bytes = Some(1 << 30);
    let advice = advise(&small, None);
    assert!(advice[0].what.contains("1.0 GB") && advice[0].because.contains("75 %"), "{advice:?}");
}
