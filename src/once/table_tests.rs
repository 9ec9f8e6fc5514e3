//! The table as people see it, in expected texts, and what must hold for every one of them.

use crate::model::Figure;
use crate::model::figures::Fit;
use crate::render::columns::Column;
use crate::render::row::{About, Key, Row};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;

use crate::model::fixture;
use crate::model::{Backlog, FileRow, Interval, Max, Op, Role, Stats, UnsyncedRow};
use crate::once::render;
use crate::render::{By, Options, Output, Shown, Sort, Style};
use crate::text::{is_deceptive, width};

fn options(by: By, columns: Option<usize>) -> Options {
    Options { by, style: Style { color: false, unicode: true, width: columns }, ..Options::default() }
}

fn rendered(m: &Interval, options: &Options) -> String {
    let mut out = Vec::new();
    render(m, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn incident() -> Interval {
    let mut m = fixture::busy();
    let path = "/var/lib/mysql/#innodb_redo/#ib_redo5";
    m.in_flight = vec![fixture::in_flight(Role::Redo, path, Duration::from_secs(12))];
    m.in_flight[0].age_is_minimum = true;
    m.in_flight.push(fixture::in_flight(
        Role::Binlog,
        "/var/lib/mysql/binlog.000003",
        Duration::from_micros(200),
    ));
    m.files[4].stats.errors = [(libc::EIO, 2)].into();
    m.files[2].stats.max.exact = false;
    m.lost.preempted = 3;
    m.neighbours = vec![
        fixture::neighbour("/dev/vda", "xtrabackup", &[(400, 90_000_000)]),
        fixture::neighbour("/dev/vda", "rsyslogd", &[(3, 900_000)]),
    ]
    .into();
    let (files, threads) = (m.files.clone(), m.threads.clone());
    fixture::with_files(m, files, threads)
}

#[test]
fn nobody_is_said_to_be_alone_while_others_sync_in_ways_that_are_not_watched() {
    let mut m = fixture::busy();
    m.neighbours = vec![
        fixture::untimed_neighbour("/dev/vda", "dd", 1_370),
        fixture::untimed_neighbour("", "backupjob", 137),
        fixture::untimed_neighbour("", crate::model::OTHER_NEIGHBOURS, 14),
    ]
    .into();
    let text = rendered(&m, &options(By::Role, Some(120)));
    let line = "also on /dev/vda: dd 1,001 untimed syncs/s; backupjob 100 untimed syncs/s (any device); other 10 untimed \
                syncs/s (any device)\n";
    assert!(text.replace("\n  ", " ").contains(line), "{text}");
    assert!(!text.contains("no other process"), "{text}");
    // Where nothing looked for them, nothing is said of them.
    let mut m = fixture::busy();
    let setup = std::sync::Arc::make_mut(&mut m.setup);
    setup.net.syncs_of_all = false;
    let text = rendered(&m, &options(By::Role, Some(120)));
    assert!(text.contains("no other watched sync seen\n"), "{text}");
}

#[test]
fn the_columns_that_were_asked_for_are_shown_in_their_order() {
    let titles = |by, columns: &[Shown], width| {
        let options = Options { columns: columns.to_vec(), ..options(by, width) };
        let text = rendered(&fixture::busy(), &options);
        let title =
            |line: &&str| ["ROLE", "FILE", "THREAD", "SERVER"].iter().any(|title| line.starts_with(title));
        let line = text.lines().find(title).expect("titles").to_owned();
        line.split("  ").map(str::trim).filter(|title| !title.is_empty()).collect::<Vec<_>>().join(" | ")
    };
    let some = [Shown::Figure(Figure::Max), Shown::Op, Shown::Figure(Figure::InFlight)];
    assert_eq!(titles(By::Role, &some, None), "ROLE | MAX | OP | IN FLIGHT");
    assert_eq!(titles(By::File, &[Shown::Figure(Figure::Errors), Shown::Role], None), "FILE | ERRORS | ROLE");
    assert_eq!(titles(By::File, &some, None), "FILE | MAX | OP | IN FLIGHT");
    // The first column of a table by role is the role already; a thread's number belongs to its name.
    assert_eq!(titles(By::Role, &[Shown::Role, Shown::Figure(Figure::Rate)], None), "ROLE | /s");
    assert_eq!(titles(By::Thread, &[Shown::Figure(Figure::Syncs)], None), "THREAD | TID | SYNCS");
    // Nobody asks for a column to see it left out.
    assert_eq!(
        titles(By::Role, &[Shown::Figure(Figure::P50), Shown::Figure(Figure::Mean), Shown::Op], Some(20)),
        "ROLE | P50 | MEAN | OP"
    );
    assert!(!titles(By::Role, &[], Some(60)).contains("P50"));
}

#[test]
fn every_column_can_be_asked_for() {
    let all = Shown::value_variants();
    for by in [By::Role, By::File, By::Thread, By::Server] {
        let options = |columns: &[Shown]| Options { columns: columns.to_vec(), ..options(by, None) };
        let titles = |columns: &[Shown]| {
            let text = rendered(&fixture::busy(), &options(columns));
            text.lines().find(|line| line.contains("SYNCS")).map(|line| line.split_whitespace().count())
        };
        // Bytes are a column of their own accord only where something was written.
        let is_there = |column: &Shown| match column {
            Shown::Role => by == By::File,
            Shown::Figure(Figure::Bytes) | Shown::Unsynced => false,
            Shown::Figure(figure) => figure.line().once != Fit::Never,
            Shown::Op => true,
        };
        let columns: Vec<_> = all.iter().copied().filter(is_there).collect();
        assert_eq!(titles(&columns), titles(&[]), "{by:?}");
        let syncs = Shown::Figure(Figure::Syncs);
        for shown in
            all.iter().filter(|shown| matches!(shown, Shown::Figure(figure) if *figure != Figure::Syncs))
        {
            let Shown::Figure(figure) = shown else { continue };
            let words = figure.line().title.split_whitespace().count();
            assert_eq!(titles(&[syncs, *shown]), titles(&[syncs]).map(|count| count + words), "{shown:?}");
        }
    }
}

#[test]
fn what_is_unsynced_stands_once_by_each_file_and_is_summed_up() {
    let mut m = fixture::busy();
    let of = |role| m.files.iter().find(|row| row.info.role == role).expect("a file of it").clone();
    let (redo, table) = (of(Role::Redo), of(Role::Tablespace));
    let write = |of: &FileRow, op, bytes| {
        let mut row = FileRow { op, ..of.clone() };
        row.stats.bytes = bytes;
        row
    };
    m.writes =
        vec![write(&redo, Op::Write, 9_000), write(&redo, Op::AioWrite, 512), write(&table, Op::Write, 1)]
            .into();
    let now = Backlog { bytes: 8_488, age: Duration::from_micros(2_100) };
    m.unsynced.rows = vec![UnsyncedRow {
        server: redo.server,
        target: redo.target,
        info: redo.info.clone(),
        now,
        most: now,
        possibly_lost: 0,
    }]
    .into();
    let text = rendered(&m, &options(By::Writes, Some(140)));
    let last = |line: &str| line.rsplit("  ").next().unwrap_or_default().trim().to_owned();
    let cells: Vec<_> =
        text.lines().skip_while(|line| !line.contains("UNSYNCED")).take(5).map(last).collect();
    assert_eq!(cells, ["UNSYNCED", "8,488 (2.1ms)", "512", "0", "8,488 (2.1ms)"], "{text}");
}

#[test]
fn tables_look_as_expected_at_every_width() {
    let ascii = |columns| Options {
        style: Style { color: false, unicode: false, width: Some(columns) },
        ..options(By::Role, None)
    };
    let (busy, incident, two, hostile) =
        (fixture::busy(), incident(), fixture::two_servers(), fixture::hostile());
    for (file, m, options) in [
        ("role_pipe", &busy, options(By::Role, None)),
        ("role_60", &busy, options(By::Role, Some(60))),
        ("role_80", &busy, options(By::Role, Some(80))),
        ("role_80_ascii", &busy, ascii(80)),
        ("role_120", &busy, options(By::Role, Some(120))),
        ("incident_80", &incident, options(By::Role, Some(80))),
        ("incident_120", &incident, options(By::Role, Some(120))),
        ("incident_120_ascii", &incident, ascii(120)),
        ("file_80", &incident, options(By::File, Some(80))),
        ("file_120", &incident, options(By::File, Some(120))),
        ("thread_80", &busy, options(By::Thread, Some(80))),
        ("two_servers_120", &two, options(By::Role, Some(120))),
        ("server_120", &two, options(By::Server, Some(120))),
        ("hostile_120", &hostile, options(By::File, Some(120))),
        ("hostile_80_ascii", &hostile, Options { by: By::File, ..ascii(80) }),
        ("quiet", &fixture::quiet(), options(By::Role, Some(80))),
    ] {
        fixture::assert_expected(&format!("src/once/expected/{file}.txt"), &rendered(m, &options));
    }
}

#[test]
fn the_table_of_a_pipe_is_one_line_per_row_with_every_column() {
    let text = rendered(&fixture::busy(), &options(By::Role, None));
    let heading =
        "ROLE         OP          SYNCS      /s    MEAN     P50     P99     MAX  IN FLIGHT   ERRORS\n";
    assert!(text.contains(heading), "{text}");
    assert!(text.contains("redo         fdatasync   3,237   2,366"), "{text}");
    assert!(text.starts_with(
        "3306 is ok · mysqld 31960 · MySQL 9.7.4 · port 3306 · /var/lib/mysql · ext4 on /dev/vda · 1.37 s\n\n"
    ));
    assert!(text.ends_with("no watched call was missed.\nNot watched: io_uring, libaio, O_DSYNC writes, RWF_DSYNC writes, msync, sync_file_range, syncfs, sync.\n"), "{text}");
}

#[test]
fn no_hostile_name_reaches_the_terminal() {
    let m = fixture::hostile();
    for by in [By::Role, By::File, By::Thread, By::Server] {
        for unicode in [true, false] {
            let style = Style { color: false, unicode, width: None };
            let text = rendered(&m, &Options { by, style, histogram: true, ..Options::default() });
            assert!(text.chars().all(|c| c == '\n' || !is_deceptive(c)), "{by:?}: {text}");
            assert!(unicode || text.is_ascii(), "{text}");
            assert_eq!(text.matches("owned").count() > 0, by == By::File || text.contains("EIO"), "{text}");
        }
    }
}

#[test]
fn tables_of_roles_fit_sixty_columns_and_more() {
    for columns in 60..130 {
        let style = Style { color: false, unicode: true, width: Some(columns) };
        let options = Options { style, histogram: true, ..Options::default() };
        for m in [fixture::busy(), fixture::two_servers()] {
            for line in rendered(&m, &options).lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
        }
    }
}

#[test]
fn stuck_syncs_stand_above_the_table() {
    let text = rendered(&incident(), &options(By::Role, None));
    let (stuck, table) =
        (text.find("STUCK for at least 12 s: redo fdatasync").unwrap(), text.find("ROLE").unwrap());
    assert!(stuck < table);
    assert_eq!(text.matches("STUCK").count(), 1, "200 µs is not stuck");
    let patient = Options { stuck_after: Duration::from_secs(60), ..options(By::Role, None) };
    assert!(!rendered(&incident(), &patient).contains("STUCK"));
}

#[test]
fn many_stuck_syncs_are_counted_beyond_the_tenth() {
    let mut m = fixture::quiet();
    m.in_flight = vec![fixture::in_flight(Role::Tablespace, "/x.ibd", Duration::from_secs(3)); 14];
    let text = rendered(&m, &options(By::Role, None));
    assert_eq!(text.matches("STUCK for 3.0 s").count(), 10);
    assert!(text.contains("STUCK 4 more syncs\n"));
    m.in_flight.truncate(11);
    assert!(rendered(&m, &options(By::Role, None)).contains("STUCK 1 more sync\n"));
}

#[test]
fn colour_only_marks_what_the_text_says_and_never_alone() {
    let plain = rendered(&incident(), &options(By::Role, None));
    let style = Style { color: true, unicode: true, width: None };
    let painted = rendered(&incident(), &Options { style, ..options(By::Role, None) });
    assert!(painted.contains("\u{1b}[31m2 EIO\u{1b}[0m"), "{painted}");
    assert!(painted.contains("\u{1b}[1m\u{1b}[31mSTUCK"), "{painted}");
    let mut stripped = painted;
    for code in ["\u{1b}[31m", "\u{1b}[1m", "\u{1b}[0m"] {
        stripped = stripped.replace(code, "");
    }
    assert_eq!(stripped, plain);
}

#[test]
fn errors_are_named_where_there_is_room() {
    let mut failed = fixture::stats(&[(9, 1_000)]);
    let narrow = Style { width: Some(80), ..Style::default() };
    failed.errors = [(libc::EIO, 1)].into();
    assert_eq!(super::errors(&failed.errors, &narrow).text, "1 EIO");
    failed.errors.insert(libc::ENOSPC, 1_200);
    assert_eq!(super::errors(&failed.errors, &narrow).text, "1,201");
    assert_eq!(super::errors(&failed.errors, &Style::default()).text, "1 EIO 1,200 ENOSPC");
}

#[test]
fn rows_beyond_the_limit_are_counted_below() {
    let limited = Options { limit: Some(2), ..options(By::File, None) };
    let text = rendered(&fixture::busy(), &limited);
    assert!(
        text.contains("4 more rows with 1,168 syncs are left out here (--limit); the total counts them\n"),
        "{text}"
    );
    assert!(text.contains("binlog.000003") && text.contains("#ib_redo5") && !text.contains("#ib_redo6"));
    let all_but_one = Options { limit: Some(5), ..options(By::File, None) };
    let text = rendered(&fixture::busy(), &all_but_one);
    assert!(
        text.contains("1 more row with 4 syncs is left out here (--limit); the total counts it\n"),
        "{text}"
    );
    let enough = Options { limit: Some(6), ..options(By::File, None) };
    assert!(!rendered(&fixture::busy(), &enough).contains("left out"));
}

#[test]
fn a_file_that_is_made_anew_again_and_again_is_one_row_that_says_of_how_many_files() {
    let mut m = fixture::quiet();
    for inode in 0..400 {
        let stats = fixture::stats(&[(2, 250_000)]);
        let path = "/srv/app/orders.db-journal";
        let mut row = fixture::row(fixture::MYSQL, inode, path, Role::Other, Op::Fdatasync, stats);
        Arc::make_mut(&mut row.info).unlinked = inode > 0;
        m.files.push(row);
    }
    let (files, threads) = (m.files.clone(), Vec::new());
    let mut m = fixture::with_files(m, files, threads);
    let text = rendered(&m, &options(By::File, None));
    assert_eq!(text.matches("orders.db-journal").count(), 1, "{text}");
    assert!(text.contains("/srv/app/orders.db-journal (400 files)"), "{text}");
    let syncs_of = |what: &str| {
        let line = text.lines().find(|line| line.starts_with(what)).unwrap();
        line.split_whitespace().any(|word| word == "800")
    };
    assert!(syncs_of("total"), "{text}");
    m.files.iter_mut().for_each(|row| Arc::make_mut(&mut row.info).unlinked = true);
    let text = rendered(&m, &options(By::File, None));
    assert!(text.contains("/srv/app/orders.db-journal (400 gone)"), "{text}");
}

#[test]
fn a_maximum_that_is_only_an_edge_says_so() {
    assert_eq!(super::maximum(Max { ns: 3_100_000, exact: true }), "3.1ms");
    assert_eq!(super::maximum(Max { ns: 3_100_000, exact: false }), "≤3.1ms");
    assert_eq!(super::maximum(Max { ns: u64::MAX, exact: false }), "≥18m20s");
}

#[test]
fn below_a_hundred_syncs_there_is_no_p99() {
    let m = fixture::busy();
    let cells = |stats: &Stats| {
        let row = Row::new(Key::Log(0), About::Server(None), stats.clone());
        let figures = [Figure::Syncs, Figure::Rate, Figure::Mean, Figure::P50, Figure::P99, Figure::Max];
        figures.map(|figure| super::cell(&row, Column::Figure(figure), &m, &Style::default()).text)
    };
    assert_eq!(cells(&fixture::stats(&[(99, 250_000)]))[4], "–");
    assert_eq!(cells(&fixture::stats(&[(100, 250_000)]))[4], "250µs");
    assert_eq!(cells(&Stats::default()), ["0", "0", "–", "–", "–", "–"]);
}

#[test]
fn a_log_is_never_more_than_100_percent_busy() {
    let mut m = fixture::quiet();
    let slow = fixture::stats(&[(1, 30_000_000_000)]);
    m.files =
        vec![fixture::row(fixture::MYSQL, 1, "/ib_logfile0", Role::Redo, crate::model::Op::Fsync, slow)]
            .into();
    m.roles = crate::model::roles_of(&m.files);
    assert!(rendered(&m, &options(By::Role, None)).contains("100 % busy"));
}

#[test]
fn what_is_not_known_of_a_server_is_left_out() {
    let mut m = fixture::quiet();
    let server = Arc::make_mut(&mut m.servers[0]);
    (server.version, server.datadir, server.device, server.filesystem) = (None, None, None, None);
    (server.ports, server.socket, server.alive) = (vec![], Some("/run/mysqld/mysqld.sock".into()), false);
    let text = rendered(&m, &options(By::Role, None));
    assert_eq!(
        text.lines().next(),
        Some("3306 has exited · mysqld 31960 · socket /run/mysqld/mysqld.sock · 1.37 s")
    );
    assert!(!text.contains("also on"));
}

#[test]
fn a_series_says_when_each_interval_ended_and_sets_them_apart() {
    let second = rendered(&fixture::busy(), &Options { interval: Some(1), ..options(By::Role, None) });
    assert!(second.starts_with("\n3306 is ok · mysqld 31960"), "{second}");
    assert!(
        second.lines().nth(1).unwrap().ends_with(" · 1.37 s · until 2026-05-28T10:03:02.618000Z"),
        "{second}"
    );
}

#[test]
fn without_rows_by_thread_or_without_a_server_the_table_says_so() {
    let mut m = fixture::busy();
    Arc::make_mut(&mut m.setup).by_thread = false;
    assert!(rendered(&m, &options(By::Thread, None)).contains("no rows by thread"));
    let mut nobody = fixture::quiet();
    nobody.servers.clear();
    assert!(rendered(&nobody, &options(By::Role, None)).starts_with("no server traced"));
}

#[test]
fn json_keeps_everything_unless_a_limit_was_asked_for() {
    let files = |limit| {
        let options = Options { output: Output::Json, limit, ..options(By::File, None) };
        let json: serde_json::Value = serde_json::from_str(&rendered(&fixture::busy(), &options)).unwrap();
        json["files"].as_array().unwrap().len()
    };
    assert_eq!((files(None), files(Some(2))), (6, 2));
}

#[test]
fn every_output_renders_every_measurement() {
    for m in [fixture::quiet(), fixture::busy(), fixture::two_servers(), fixture::hostile(), incident()] {
        for output in [Output::Table, Output::Json, Output::Csv] {
            for by in [By::Role, By::File, By::Thread, By::Server] {
                for sort in [None, Some(Sort::Figure(Figure::Errors)), Some(Sort::Figure(Figure::P99))] {
                    let text = rendered(&m, &Options { output, sort, ..options(by, Some(80)) });
                    assert!(text.ends_with('\n'), "{output:?} {by:?}");
                }
            }
        }
    }
}

#[test]
fn durable_writes_have_bytes_and_failed_ones_a_sentence() {
    let mut durable = fixture::row(
        fixture::MYSQL,
        5,
        "/d/#ib_redo5",
        Role::Redo,
        Op::DsyncWrite,
        fixture::stats(&[(9, 140_000)]),
    );
    durable.stats.bytes = 4_608;
    let sync = fixture::row(
        fixture::MYSQL,
        6,
        "/d/a.ibd",
        Role::Tablespace,
        Op::Fsync,
        fixture::stats(&[(2, 90_000)]),
    );
    let mut failed = sync.clone();
    (failed.op, failed.stats.errors) = (Op::IoUringWrite, [(libc::ENOSPC, 2)].into());
    let mut m = fixture::with_files(fixture::quiet(), vec![durable, sync], Vec::new());
    m.failures = vec![failed].into();
    let text = super::table(&m, &Options::default());
    let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap().to_owned();
    assert!(row("ROLE").ends_with("BYTES") && row("redo").ends_with("4,608"), "{text}");
    assert!(row("total").ends_with("4,608") && row("tablespace").ends_with("0"), "{text}");
    assert!(text.contains("2 writes failed: 2 ENOSPC on /d/a.ibd (tablespace io_uring write)."), "{text}");
    assert!(!text.contains("Nothing failed"), "{text}");
    m.failures.clear();
    m.roles.retain(|row| row.op != Op::DsyncWrite);
    assert!(!super::table(&m, &Options::default()).contains("BYTES"));
}

#[test]
fn requests_that_no_thread_makes_are_said_to_be_in_the_total_alone() {
    let by_thread = Options { by: By::Thread, ..Options::default() };
    let mut m = fixture::with_files(fixture::quiet(), vec![], Vec::new());
    Arc::make_mut(&mut m.setup).by_thread = true;
    let request = |n| {
        let stats = fixture::stats(&[(n, 90_000)]);
        fixture::row(fixture::MYSQL, 6, "/d/a.ibd", Role::Tablespace, Op::IoUringFsync, stats)
    };
    let text = super::table(&fixture::with_files(m.clone(), vec![request(3)], Vec::new()), &by_thread);
    assert!(
        text.contains("\n3 asynchronous requests are in the total and in no row: they have no thread\n"),
        "{text}"
    );
    let text = super::table(&fixture::with_files(m.clone(), vec![request(1)], Vec::new()), &by_thread);
    assert!(
        text.contains("\n1 asynchronous request is in the total and in no row: it has no thread\n"),
        "{text}"
    );
    let calls = FileRow { op: Op::Fsync, ..request(3) };
    let m = fixture::with_files(m, vec![calls, request(2)], Vec::new());
    assert!(!super::table(&m, &Options::default()).contains("no thread"));
}
