//! The names of files of each engine but InnoDB's, with the roles that they have.

use super::*;

#[track_caller]
fn assert_role(engine: Option<&str>, name: &str, expected: Role) {
    let role = role_for(engine, name.as_bytes(), &Settings::default(), None);
    assert_eq!(role, expected, "{engine:?} {name}");
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
            assert_role(engine, name, expected);
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
            assert_role(engine, name, expected);
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
