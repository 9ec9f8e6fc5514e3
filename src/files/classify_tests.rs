//! Every name that the servers are known to give their files, and names that only look like them.

use std::cell::Cell;
use std::path::PathBuf;

use super::*;

const DATADIR: &str = "/var/lib/mysql";

/// Of a file of MySQL's.
fn role_of(path: &[u8], settings: &Settings, first_bytes: Option<&[u8]>) -> Role {
    role_for(Some("mysql"), path, settings, first_bytes)
}

/// `engine`: of its files; None: of a process that is none of them.
fn role_for(engine: Option<&str>, path: &[u8], settings: &Settings, first_bytes: Option<&[u8]>) -> Role {
    let path = Path::new(DATADIR).join(OsStr::from_bytes(path));
    let first_bytes = || first_bytes.map(<[u8]>::to_vec);
    let rules = Rules::builtin();
    let engine = engine.map(|name| rules.engines().by_name(name).expect("it is known"));
    rules.classify(&Candidate {
        path: &path,
        is_directory: false,
        engine: engine.as_deref(),
        settings,
        first_bytes: &first_bytes,
    })
}

fn check(settings: &[(&str, &str)], table: &[(&str, Role)]) {
    let settings = Settings::from_pairs(Path::new(DATADIR), settings.iter().copied());
    for (path, role) in table {
        assert_eq!(role_of(path.as_bytes(), &settings, None), *role, "{path} with {settings:?}");
    }
}

#[test]
fn default_names_of_every_server_have_their_roles() {
    use Role::*;
    check(
        &[],
        &[
            ("#innodb_redo/#ib_redo5", Redo),
            ("#innodb_redo/#ib_redo12_tmp", Redo),
            ("ib_logfile0", Redo),
            ("ib_logfile101", Redo),
            ("binlog.000001", Binlog),
            ("binlog.1234567", Binlog),
            ("mysql-bin.000042", Binlog),
            ("db1-bin.000042", Binlog),
            ("mariadb-bin.000042", Binlog),
            ("mysqld-bin.000042", Binlog),
            ("binlog-000000.ibb", Binlog),
            ("binlog.index", BinlogIndex),
            ("binlog.~rec~", BinlogIndex),
            ("binlog.index_crash_safe", BinlogIndex),
            ("db1-bin.index", BinlogIndex),
            ("mariadb-bin.state", BinlogIndex),
            ("mariadb-bin.000001.idx", BinlogIndex),
            ("db1-relay-bin.000003", RelayLog),
            ("relay-bin.000003", RelayLog),
            ("mysqld-relay-bin.000003", RelayLog),
            ("db1-relay-bin-channel_a.000003", RelayLog),
            ("db1-relay-bin-group_replication_applier.000002", RelayLog),
            ("db1-relay-bin.index", ReplicationMetadata),
            ("db1-relay-bin-channel_a.index", ReplicationMetadata),
            ("db1-relay-bin.~rec~", ReplicationMetadata),
            ("master.info", ReplicationMetadata),
            ("master-west.info", ReplicationMetadata),
            ("relay-log.info", ReplicationMetadata),
            ("relay-log-west.info", ReplicationMetadata),
            ("multi-master.info", ReplicationMetadata),
            ("grastate.dat", ReplicationMetadata),
            ("gvwstate.dat", ReplicationMetadata),
            ("gvwstate.dat.tmp", ReplicationMetadata),
            ("#ib_16384_0.dblwr", Doublewrite),
            ("#ib_16384_1.bdblwr", Doublewrite),
            ("#ib_4096_15.dblwr", Doublewrite),
            ("xb_doublewrite", Doublewrite),
            ("undo_001", Undo),
            ("undo001", Undo),
            ("undo_1_trunc.log", Undo),
            ("mine.ibu", Undo),
            ("ibdata1", SystemTablespace),
            ("ibdata2", SystemTablespace),
            ("shop/products.ibd", Tablespace),
            ("shop/#sql-ib1063-2938475.ibd", Tablespace),
            ("shop/products#p#p0.ibd", Tablespace),
            ("mysql.ibd", Dictionary),
            ("shop/products.frm", Dictionary),
            ("shop/cheap_products.frm~", Dictionary),
            ("shop/products.TRG", Dictionary),
            ("shop/products.TRG~", Dictionary),
            ("shop/on_insert.TRN~", Dictionary),
            ("shop/products.isl", Dictionary),
            ("shop/db.opt", Dictionary),
            ("shop/products_376.sdi", Dictionary),
            ("ddl_recovery.log", Dictionary),
            ("ddl_recovery-backup.log", Dictionary),
            ("mysqld-auto.cnf", Dictionary),
            ("mysqld-auto.cnf.backup", Dictionary),
            ("ibtmp1", Temporary),
            ("#innodb_temp/temp_10.ibt", Temporary),
            ("/tmp/#762099", Temporary),
            // tmpdir is not set.
            ("/tmp/ib113rnF", Temporary),
            ("/tmp/MYXq81zA", Temporary),
            ("/tmp/#sql_1_0.MAI", Temporary),
            ("/tmp/ibdump", Other),
            ("/tmp/Innodb/ibdata1", SystemTablespace),
            ("#clone/#view_status", Clone),
            ("#ib_archive/page_group_1/page_0", Clone),
            ("#clone/#status_in_progress", Clone),
            ("shop/products.ibd.#clone", Clone),
            ("mysql.ibd.#clone", Clone),
            ("ibdata1.#clone", Clone),
            ("undo_001.#clone_save", Clone),
            ("shop/products.ibd.#clone_ddl", Clone),
            ("#innodb_redo/#ib_redo0.#clone", Clone),
            // A donor's redo log while it is cloned, and the recipient's own.
            ("#ib_archive/log_group_4711/file_0", Clone),
            ("#innodb_redo/#ib_redo0", Redo),
            ("/archive/archive.f0e1d2c3-0000-11ee-8000-00155d000001.000001.log", RedoArchive),
            ("aria_log.00000001", EngineLog),
            ("aria_log_control", EngineLog),
            ("mysql/db.MAI", EngineData),
            ("mysql/db.MAD", EngineData),
            ("shop/old.MYD", EngineData),
            ("shop/old.MYI", EngineData),
            ("mysql/general_log.CSV", EngineData),
            (".rocksdb/000012.log", EngineLog),
            ("#rocksdb/000012.log", EngineLog),
            (".rocksdb/MANIFEST-000005", EngineLog),
            (".rocksdb/000017.sst", EngineData),
            (".rocksdb/CURRENT", EngineData),
            (".rocksdb/OPTIONS-000007", EngineData),
            (".rocksdb/archive/000009.log", EngineLog),
            ("log000000000001.tokulog29", EngineLog),
            ("tokudb.directory", EngineData),
            ("tokudb.rollback", EngineLog),
            ("_shop_products_main_3_1d.tokudb", EngineData),
            ("galera.cache", EngineLog),
            ("gcache.page.000001", EngineLog),
            ("tc.log", EngineLog),
            ("audit.log", Audit),
            ("server_audit.log", Audit),
            ("server_audit.log.3", Audit),
            ("audit.20260102T030405.log", Audit),
            ("audit.log.gz", Audit),
            ("audit.log.20260102T030405-1.enc", Audit),
            ("audit.20260102T030405.log.gz.20260101T000000-2.enc", Audit),
            ("audit_filter.20260102T030405-1.log", Audit),
            ("auto.cnf", Other),
            ("ib_buffer_pool", Other),
            ("db1.err", Other),
        ],
    );
}

#[test]
fn logs_that_settings_name_are_known_at_any_path() {
    use Role::*;
    check(
        &[("log-bin", "/logs/foo"), ("relay_log", "/logs/foo-relay")],
        &[
            ("/logs/foo.000123", Binlog),
            ("/logs/foo.index", BinlogIndex),
            ("/logs/foo.~rec~", BinlogIndex),
            ("/logs/foo-relay.000001", RelayLog),
            ("/logs/foo-relay-west.000001", RelayLog),
            ("/logs/foo-relay.index", ReplicationMetadata),
            ("/logs/foobar.000123", Other),
            ("/logs/foo.000123.gz", Other),
            ("/logs/foo", Other),
            ("/elsewhere/foo.000123", Other),
            ("foo.000123", Other),
        ],
    );
    check(&[("log_bin", "relay-bin")], &[("relay-bin.000001", Binlog), ("relay-bin.index", BinlogIndex)]);
    check(&[("log_bin", "/l/base.log")], &[("/l/base.000001", Binlog), ("/l/base.index", BinlogIndex)]);
    check(&[("log_bin", "logs/../b")], &[("b.000001", Binlog)]);
    check(
        &[("log_bin", "b"), ("log_bin_index", "/i/list"), ("relay_log_index", "/i/relays.index")],
        &[("/i/list.index", BinlogIndex), ("/i/relays.index", ReplicationMetadata)],
    );
    check(
        &[("log_bin", "ON"), ("master_info_file", "m"), ("relay_log_info_file", "r")],
        &[("db1-bin.000001", Binlog), ("m", ReplicationMetadata), ("r", ReplicationMetadata)],
    );
}

#[test]
fn data_files_that_settings_name_are_known() {
    use Role::*;
    check(
        &[
            ("innodb_data_file_path", "space_a:12M;/big/space_b:1G:autoextend"),
            ("innodb_temp_data_file_path", "scratch:12M:autoextend"),
            ("innodb_data_home_dir", "/home/inno"),
            ("innodb_doublewrite_dir", "/fast"),
            ("innodb_undo_directory", "/undo"),
            ("innodb_log_group_home_dir", "/redo"),
            ("tmpdir", "/tmp:/tmp2"),
            ("audit_log_file", "/audit/a.log"),
            ("server_audit_file_path", "/audit/b"),
            ("rocksdb_wal_dir", "/wal"),
            ("rocksdb_datadir", "/fast/myrocks"),
        ],
        &[
            ("/home/inno/space_a", SystemTablespace),
            ("/big/space_b", SystemTablespace),
            ("/home/inno/scratch", Temporary),
            ("/fast/#ib_16384_0.dblwr", Doublewrite),
            ("/undo/undo_001", Undo),
            ("/redo/#innodb_redo/#ib_redo1", Redo),
            ("/tmp2/ibXq81zA", Temporary),
            ("/tmp/#sql_1_0.MAI", Temporary),
            ("/tmp/mine.txt", Other),
            ("/audit/a.20260102.log", Audit),
            ("/audit/b", Audit),
            ("/wal/000001.log", EngineLog),
            ("/fast/myrocks/000012.log", EngineLog),
            ("/fast/myrocks/MANIFEST-000005", EngineLog),
            ("/fast/myrocks/CURRENT", EngineData),
            ("/fast/myrocks/OPTIONS-000007.dbtmp", EngineData),
            ("/fast/myrocks/000017.sst", EngineData),
            ("/fast/myrocks/notes.txt", Other),
        ],
    );
}

#[test]
fn names_that_only_look_like_one_have_no_role_of_it() {
    use Role::*;
    check(
        &[],
        &[
            ("shop/mysql.ibd", Tablespace),
            ("#ib_redo", Other),
            ("#sql", Other),
            ("#ib_redo1_tmp2", Other),
            ("x#ib_redo1", Other),
            ("#ib_redo1\n", Other),
            ("ib_logfile", Other),
            ("ib_logfile0.bak", Other),
            ("shop/products.ibd~", Other),
            ("shop/products.ibd.#cloned", Other),
            ("OPTIONS-000007", Other),
            ("mysqld-auto.cnf.backup.1", Other),
            ("mysqld.cnf.backup", Other),
            ("audit.logs", Other),
            ("audit.log.20260102T030405-1.enc.old", Other),
            ("cabin.000001", Other),
            ("binlog.12345", Other),
            ("binlog.000001\nx", Other),
            ("binlog.000001 (deleted)", Other),
            ("undo_plan.txt", Other),
            (".ibd", Other),
            ("ibdata1/x", Other),
            ("shop/ibdata.ibd", Tablespace),
            ("shop/#clone", Other),
            ("aria_log.1", Other),
        ],
    );
    let none = Settings::default();
    assert_eq!(role_of(b"shop/\xff\xfe\n\x1b[2J.ibd", &none, None), Role::Tablespace);
    assert_eq!(role_of(b"\xff-bin.000001", &none, None), Role::Binlog);
    assert_eq!(role_of(b"\xff\xfe", &none, None), Role::Other);
    assert_eq!(role_of(b"/", &none, None), Role::Other);
    let mut root = Settings::from_pairs(Path::new("/"), [("log_bin", "/")]);
    assert_eq!(role_of(b"/.000001", &root, None), Role::Other);
    root = Settings::from_pairs(Path::new(DATADIR), [("log_bin", ".000001")]);
    assert_eq!(role_of(b".000001.000001", &root, None), Role::Binlog);
}

#[test]
fn first_bytes_settle_what_the_name_leaves_open() {
    let none = Settings::default();
    let page = |space: u32| {
        let mut page = vec![0u8; 64];
        page[0..4].copy_from_slice(&[9, 9, 9, 9]);
        page[25] = 8;
        page[34..38].copy_from_slice(&space.to_be_bytes());
        page[38..42].copy_from_slice(&space.to_be_bytes());
        page
    };
    let mut redo = vec![0u8; 512];
    redo[16..22].copy_from_slice(b"MySQL ");
    for (name, bytes, role) in [
        ("odd.000007", &b"\xfebin"[..], Role::Binlog),
        ("odd.000007", b"\xfdbin", Role::Binlog),
        ("odd-relay.000007", b"\xfebin", Role::RelayLog),
        ("odd_relays.000007", b"\xfdbin", Role::RelayLog),
        ("odd.000007", b"\xfebi", Role::Other),
        ("odd", b"\xfebin", Role::Other),
        ("redo_by_another_name", &redo, Role::Redo),
        ("space", &page(0), Role::SystemTablespace),
        ("space", &page(17), Role::Tablespace),
        ("space", &page(0xffff_fffe), Role::Dictionary),
        ("space", &page(17)[..25], Role::Other),
        ("zeroes", &[0; 64], Role::Other),
        ("ib_logfile0", &page(17), Role::Redo),
    ] {
        assert_eq!(role_of(name.as_bytes(), &none, Some(bytes)), role, "{name} {bytes:?}");
    }
}

#[test]
fn a_file_is_read_once_and_only_when_its_name_says_nothing() {
    let reads = Cell::new(0);
    let first_bytes = || {
        reads.set(reads.get() + 1);
        None
    };
    let rules = Rules::builtin();
    let settings = Settings::default();
    let classify = |path: &str, is_directory| {
        rules.classify(&Candidate {
            path: Path::new(path),
            is_directory,
            engine: None,
            settings: &settings,
            first_bytes: &first_bytes,
        })
    };
    assert_eq!(classify("/d/binlog.000001", false), Role::Binlog);
    assert_eq!(classify("/d/#innodb_redo", true), Role::Directory);
    assert_eq!(
        classify("/d/binlog.000001", true),
        Role::Directory,
        "a directory is no log, whatever its name"
    );
    assert_eq!(reads.get(), 0);
    assert_eq!(classify("/d/unknown", false), Role::Other);
    assert_eq!(reads.get(), 1);
}

#[test]
fn the_users_rules_stand_in_front() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("rules.toml");
    std::fs::write(
        &path,
        "[[rule]]\nrole = \"audit\"\nname = 'binlog\\..*'\n\
         [[rule]]\nrole = \"clone\"\npath = '/backup(/.*)?'\ndirectory = true\n\
         [[rule]]\nrole = \"undo\"\ncontent = [{ offset = 2, hex = \"61 62\" }]\n",
    )
    .unwrap();
    let rules = Rules::with_user_file(&path).unwrap();
    let settings = Settings::default();
    let classify = |path: &str, is_directory| {
        let first_bytes = || Some(b"xxabc".to_vec());
        rules.classify(&Candidate {
            path: Path::new(path),
            is_directory,
            engine: None,
            settings: &settings,
            first_bytes: &first_bytes,
        })
    };
    assert_eq!(classify("/d/binlog.000001", false), Role::Audit);
    assert_eq!(classify("/backup/x", true), Role::Clone);
    assert_eq!(classify("/backup/x", false), Role::Undo);
    assert_eq!(classify("/d/ib_logfile0", false), Role::Undo, "by its content, before its name");
    assert_eq!(classify("/other", true), Role::Directory);
}

/// Names that PostgreSQL 15 was seen to sync (tables, VACUUM, a tablespace, slots, prepared transactions, an
/// archive, a base backup, a crash, a standby that is promoted), and a few of later versions.
#[test]
fn names_of_postgresql_have_their_roles() {
    use Role::*;
    let role = |name: &str| role_for(Some("postgres"), name.as_bytes(), &Settings::default(), None);
    for (name, expected) in [
        ("pg_wal/000000010000000000000003", Wal),
        ("pg_wal/0000000100000000000000A3.partial", Wal),
        ("pg_wal/xlogtemp.4711", Wal),
        ("pg_wal/00000002.history", Wal),
        ("pg_wal/RECOVERYXLOG", Wal),
        ("pg_wal/RECOVERYHISTORY", Wal),
        ("pg_wal/archive_status/000000010000000000000003.ready", Wal),
        ("pg_wal/archive_status/000000010000000000000003.done", Wal),
        ("pg_wal/archive_status/00000002.history.ready", Wal),
        ("pg_wal/archive_status/000000010000000000000009.000000D8.backup.done", Wal),
        ("pg_wal/000000010000000000000009.000000D8.backup", Wal),
        ("pg_wal/summaries/0000000100000000010000280000000001000128.summary", Wal),
        // pg_wal is a link to a filesystem of its own.
        ("/wal/000000010000000000000003", Wal),
        ("/wal/xlogtemp.4711", Wal),
        ("/wal/archive_status/000000010000000000000003.done", Wal),
        ("/wal/00000002.history", Wal),
        ("base/5/16385", Data),
        ("base/5/16385.1", Data),
        ("base/5/16385_fsm", Data),
        ("base/5/16385_vm.2", Data),
        ("base/5/16385_init", Data),
        ("base/16425/pg_filenode.map", Data),
        ("base/16425/PG_VERSION", Data),
        ("global/1262", Data),
        ("global/1213_vm", Data),
        ("global/pg_filenode.map", Data),
        ("global/pg_filenode.map.tmp", Data),
        ("global/pg_control", Control),
        ("/ts/PG_15_202209061/16384/16390", Data),
        ("pg_tblspc/16390/PG_18_202506291/16384/16390_fsm", Data),
        ("base/pgsql_tmp/pgsql_tmp4711.0", Temporary),
        ("base/pgsql_tmp/pgsql_tmp4711.0.fileset/0.0", Temporary),
        ("/ts/PG_15_202209061/pgsql_tmp/pgsql_tmp4711.3", Temporary),
        ("base/5/t3_16400", Temporary),
        ("base/5/t12_16400_fsm", Temporary),
        ("base/5/t12_16400.1", Temporary),
        ("pg_xact/0000", CommitStatus),
        ("pg_commit_ts/0000", CommitStatus),
        ("pg_subtrans/0000", CommitStatus),
        ("pg_multixact/offsets/0000", CommitStatus),
        ("pg_multixact/members/0000", CommitStatus),
        ("pg_multixact/members/0000000000A1F", CommitStatus),
        ("pg_twophase/000002E4", CommitStatus),
        ("pg_twophase/000002E4.tmp", CommitStatus),
        ("pg_twophase/00000000000002E4", CommitStatus),
        ("pg_replslot/s1/state", ReplicationSlot),
        ("pg_replslot/s1.tmp/state.tmp", ReplicationSlot),
        ("pg_replslot/pg_basebackup_3769.tmp/state", ReplicationSlot),
        ("pg_logical/replorigin_checkpoint", ReplicationSlot),
        ("pg_logical/replorigin_checkpoint.tmp", ReplicationSlot),
        ("pg_logical/snapshots/0-1A2B3C8.snap", ReplicationSlot),
        ("pg_stat/pgstat.stat", Statistics),
        ("pg_stat_tmp/pgss_query_texts.stat", Statistics),
        ("log/postgresql-2026-11-26_234032.log", Log),
        // What docs/engines.md lists.
        ("postgresql.auto.conf", Other),
        ("postgresql.auto.conf.tmp", Other),
        ("postmaster.pid", Other),
        (".s.PGSQL.5432.lock", Other),
        ("backup_label", Other),
        ("backup_label.old", Other),
        ("standby.signal", Other),
        ("PG_VERSION", Other),
        // What only looks like them.
        ("pg_wal/00000001000000000000000", Other),
        ("pg_wal/0000000100000000000000a3", Other),
        ("base/5/16385x", Other),
        ("base/5/t_16400", Other),
        ("pg_control", Other),
        ("pg_xact/000", Other),
        ("ib_logfile0", Other),
        ("binlog.000001", Other),
        ("shop/products.ibd", Other),
        ("000123.log", Other),
    ] {
        assert_eq!(role(name), expected, "{name}");
    }
}

/// As etcd 3.4 syncs them, with a defragmentation and snapshots.
#[test]
fn names_of_etcd_have_their_roles() {
    use Role::*;
    let role = |name: &str| role_for(Some("etcd"), name.as_bytes(), &Settings::default(), None);
    for (name, expected) in [
        ("member/wal/0000000000000001-000000000000c3f0.wal", Wal),
        ("member/wal.tmp/0000000000000000-0000000000000000.wal", Wal),
        ("member/wal/0.tmp", Wal),
        ("member/wal/1.tmp", Wal),
        ("/wal/0000000000000001-000000000000c3f0.wal", Wal),
        ("member/snap/0000000000000002-00000000000186a1.snap", Snapshot),
        ("member/snap/00000000000186a1.snap.db", Snapshot),
        ("member/snap/tmp123456", Snapshot),
        ("member/snap/db", Backend),
        ("member/snap/db.tmp.918245562", Backend),
        ("member/snap/db.bak", Other),
        ("member/wal/x.tmp", Other),
        ("0000000000000001-c3f0.wal", Other),
        ("binlog.000001", Other),
    ] {
        assert_eq!(role(name), expected, "{name}");
    }
}

/// As Redis 7.0 syncs them, with BGSAVE and BGREWRITEAOF, and the one file of earlier versions.
#[test]
fn names_of_redis_and_valkey_have_their_roles() {
    use Role::*;
    for engine in ["redis", "valkey"] {
        let role = |name: &str, content: &[u8]| {
            role_for(Some(engine), name.as_bytes(), &Settings::default(), Some(content))
        };
        for (name, expected) in [
            ("appendonlydir/appendonly.aof.1.incr.aof", Aof),
            ("appendonlydir/appendonly.aof.2.base.rdb", Aof),
            ("appendonlydir/appendonly.aof.2.base.aof", Aof),
            ("aofs/mine.5.incr.aof", Aof),
            ("aofs/mine.5.base.rdb", Aof),
            ("aofs/mine.manifest", AofManifest),
            ("mine.aof", Aof),
            ("aofs/mine.aof.5.incr.aof", Aof),
            ("appendonly.aof", Aof),
            ("appendonlydir/appendonly.aof.manifest", AofManifest),
            ("appendonlydir/temp-appendonly.aof.manifest", AofManifest),
            ("dump.rdb", Rdb),
            ("temp-8744.rdb", Rdb),
            ("temp-rewriteaof-9857.aof", Temporary),
            ("temp-rewriteaof-bg-9857.aof", Temporary),
            ("nodes.conf", Other),
        ] {
            assert_eq!(role(name, b""), expected, "{engine} {name}");
        }
        assert_eq!(role("shop6380", b"REDIS0011\xfa"), Rdb);
        assert_eq!(role("shop6380", b"VALKEY080\xfa"), Rdb);
        assert_eq!(role("shop6380", b"REDIS11"), Other);
    }
}

/// As Kafka 4.1 syncs them (transactions, compaction, snapshots of the metadata, an orderly end), and what it
/// renames before it deletes it.
#[test]
fn names_of_kafka_have_their_roles() {
    use Role::*;
    for engine in [Some("kafka"), None] {
        for (name, expected) in [
            ("__cluster_metadata-0/00000000000000000000.log", Wal),
            ("__cluster_metadata-0/00000000000000001204.log.deleted", Wal),
            ("__cluster_metadata-0/00000000000000000083-0000000001.checkpoint", Snapshot),
            ("__cluster_metadata-0/00000000000000000083-0000000001-4711.checkpoint.part", Snapshot),
            ("__cluster_metadata-0/00000000000000000083.snapshot", Snapshot),
            ("__cluster_metadata-0/00000000000000000000.timeindex", Data),
            ("__cluster_metadata-0/quorum-state.tmp", ReplicationMetadata),
            ("__cluster_metadata-0/partition.metadata.tmp", ReplicationMetadata),
            ("orders-0/00000000000000000000.log", Data),
            ("orders-11/00000000000000000618.index", Data),
            ("orders-11/00000000000000000618.txnindex", Data),
            ("orders-0/00000000000000000206.snapshot", Snapshot),
            ("orders-0.5b1d-delete/00000000000000000206.snapshot.deleted", Snapshot),
            ("__consumer_offsets-3/00000000000000000000.log.cleaned", Data),
            ("__consumer_offsets-3/00000000000000000000.timeindex.swap", Data),
            ("orders-0/leader-epoch-checkpoint.tmp", ReplicationMetadata),
            ("recovery-point-offset-checkpoint.tmp", ReplicationMetadata),
            ("replication-offset-checkpoint", ReplicationMetadata),
            ("log-start-offset-checkpoint.tmp", ReplicationMetadata),
            ("cleaner-offset-checkpoint.tmp", ReplicationMetadata),
            (".kafka_cleanshutdown", Other),
            (".lock", Other),
            ("orders-0/00000000000000000206.log.bak", Other),
            ("orders-0/quorum", Other),
        ] {
            let role = role_for(engine, name.as_bytes(), &Settings::default(), None);
            assert_eq!(role, expected, "{engine:?} {name}");
        }
    }
    let role = |engine, name: &str| role_for(engine, name.as_bytes(), &Settings::default(), None);
    for name in ["meta.properties.tmp", "bootstrap.checkpoint"] {
        assert_eq!((role(Some("kafka"), name), role(None, name)), (ReplicationMetadata, Other), "{name}");
    }
    // Of RocksDB, in which Kafka Streams keeps its state; a broker has none.
    for name in ["rocksdb/000014.log", "00000000000000000.log"] {
        assert_eq!((role(None, name), role(Some("kafka"), name)), (Wal, Other), "{name}");
    }
}

/// As ZooKeeper 3.9 syncs them, and its snapshots, which it only writes.
#[test]
fn names_of_zookeeper_have_their_roles() {
    use Role::*;
    for engine in [Some("zookeeper"), None] {
        for (name, expected) in [
            ("version-2/log.1", Wal),
            ("/fast/version-2/log.1000001bc", Wal),
            ("version-2/snapshot.0", Snapshot),
            ("version-2/snapshot.1000001ba.tmp", Snapshot),
            ("version-2/snapshot.1000001ba.snappy", Snapshot),
            ("version-2/currentEpoch.tmp", ReplicationMetadata),
            ("version-2/acceptedEpoch", ReplicationMetadata),
            ("version-2/log.x", Other),
            ("version-2/log.1.gz", Other),
            ("version-3/log.1", Other),
            ("log.1000001bc", Other),
            ("myid", Other),
        ] {
            let role = role_for(engine, name.as_bytes(), &Settings::default(), None);
            assert_eq!(role, expected, "{engine:?} {name}");
        }
    }
}

/// As RocksDB 7.8 and SQLite 3.40 sync them, in a process that is no engine's.
#[test]
fn files_of_libraries_have_their_roles_in_any_other_process() {
    use Role::*;
    let journal_once_it_is_synced = b"\0\0\0\0\0\0\0\0";
    for (name, content, expected) in [
        ("db/000014.log", &b""[..], Wal),
        ("db/000120.sst", b"", Sst),
        ("db/000013.blob", b"", Sst),
        ("db/MANIFEST-000005", b"", Manifest),
        ("db/000002.dbtmp", b"", Manifest),
        ("db/CURRENT", b"", Manifest),
        ("db/OPTIONS-000006.dbtmp", b"", Options),
        ("db/OPTIONS-000007", b"", Options),
        ("db/LOG", b"", Other),
        ("a.db", b"SQLite format 3\0\x10", Database),
        ("history", b"SQLite format 3\0\x10", Database),
        ("a.db", b"SQLite format 3", Other),
        ("a.db-wal", b"\x37\x7f\x06\x82\0", Wal),
        ("a.db-wal", b"\x37\x7f\x06\x83\0", Wal),
        ("a.db-wal", b"", Other),
        ("a.db-journal", journal_once_it_is_synced, Journal),
        ("a.db-mjFB0D9A9C9", b"a.db-journal", Journal),
        ("a.db-shm", b"", Shm),
        // Other engines' files too, where no setting is needed and no other program has such names.
        ("ib_logfile0", b"", Redo),
        ("binlog.000001", b"", Binlog),
        (".rocksdb/000012.log", b"", EngineLog),
        ("base/5/16385", b"", Data),
        ("global/pg_control", b"", Control),
        ("pg_wal/000000010000000000000003", b"", Wal),
        ("/wal/000000010000000000000003", b"\x10\xd1\x02\0", Wal),
        ("/wal/000000010000000000000003", b"\x10\xd2\x02\0", Other),
        ("member/wal/0000000000000001-000000000000c3f0.wal", b"", Wal),
        ("member/snap/db", b"", Backend),
        ("appendonlydir/appendonly.aof.1.incr.aof", b"", Aof),
        ("log/messages", b"", Other),
    ] {
        let role = role_for(None, name.as_bytes(), &Settings::default(), Some(content));
        assert_eq!(role, expected, "{name} {content:?}");
    }
}

#[test]
fn a_users_rule_may_be_about_one_engine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rules.toml");
    std::fs::write(&path, "[[rule]]\nrole = \"audit\"\nengine = \"postgres\"\nname = '.*'\n").unwrap();
    let rules = Rules::with_user_file(&path).unwrap();
    let settings = Settings::default();
    let role = |engine: Option<&str>| {
        let engine = engine.and_then(|name| rules.engines().by_name(name));
        let (engine, path) = (engine.as_deref(), Path::new("/d/pg_wal/000000010000000000000003"));
        rules.classify(&Candidate {
            path,
            is_directory: false,
            engine,
            settings: &settings,
            first_bytes: &|| None,
        })
    };
    assert_eq!((role(Some("postgres")), role(Some("mysql"))), (Role::Audit, Role::Other));
    assert_eq!(role(None), Role::Audit, "it may be one");
}
