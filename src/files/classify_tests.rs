//! Every name that the servers are known to give their files, and names that only look like them.

use std::cell::Cell;
use std::path::PathBuf;

use super::*;

#[path = "classify_engines_tests.rs"]
mod engines;

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
