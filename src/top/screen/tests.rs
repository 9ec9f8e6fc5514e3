//! What is drawn, on terminals of every size, of servers of every kind.

use std::sync::Arc;

use ratatui::style::Color;

use super::*;
use crate::model::figures::Figure;
use crate::model::fixture::{self, MARIADB, MYSQL, assert_expected, stats};
use crate::model::{FileRow, Interval, Lost, Op, Role, Stats, Table};
use crate::render::columns::Column;
use crate::top::event::{Event, Waiting};
use crate::top::fixture::{Bench, SECOND, many_files, stuck};
use crate::top::keys::{EDIT_KEYS, KEYS, Press};
use crate::top::palette::Colors;

pub(super) fn expected(bench: &Bench, name: &str) {
    assert_expected(&format!("src/top/screen/expected/{name}.txt"), &bench.screen());
}

fn nobody() -> Interval {
    Interval { servers: Table::default(), ..fixture::quiet() }
}

pub(super) const REDO: &str = "/var/lib/mysql/#innodb_redo/#ib_redo5";

/// The busy MySQL, whose redo log hangs.
pub(super) fn hanging(columns: u16, rows: u16) -> Bench {
    let mut bench = Bench::busy(columns, rows, 20);
    let mut m = fixture::quiet();
    m.in_flight = vec![stuck(MYSQL, REDO, 12 * SECOND)];
    bench.second(&m);
    bench
}

#[test]
fn without_a_server_it_says_what_it_waits_for() {
    let mut bench = Bench::new(80, 24);
    bench.assert_shows("Attaching");
    bench.apply(Event::Restarted);
    bench.assert_shows("Waiting for a process called mysqld or mariadbd.");
    bench.apply_first();
    bench.seconds(2, &nobody());
    expected(&bench, "waiting");
}

#[test]
fn one_server_on_a_small_and_on_a_large_screen() {
    expected(&Bench::busy(80, 24, 30), "busy_80x24");
    expected(&Bench::busy(200, 60, 90), "busy_200x60");
}

#[test]
fn what_durable_writes_write_has_a_column_where_there_are_any() {
    let mut bench = Bench::busy(140, 30, 10);
    assert!(!bench.screen().contains("BYTES/s"), "{}", bench.screen());
    let mut written = fixture::row(MYSQL, 77, REDO, Role::Redo, Op::DsyncWrite, stats(&[(9, 140_000)]));
    written.stats.bytes = 4_608;
    bench.second(&fixture::with_files(fixture::quiet(), vec![written], Vec::new()));
    let screen = bench.screen();
    let row = screen.lines().find(|line| line.contains("dsync_write")).unwrap_or_else(|| panic!("{screen}"));
    assert!(screen.contains("BYTES/s") && row.contains(" 4,608 "), "{screen}");
}

#[test]
fn before_the_first_interval_the_server_is_there_already() {
    let bench = Bench::busy(80, 24, 0);
    bench.assert_shows("mysqld 31960");
    bench.assert_shows("the first figures are on their way");
}

#[test]
fn a_sync_that_hangs_comes_first_grows_older_and_says_what_it_waits_for() {
    let mut bench = hanging(120, 30);
    assert!(
        bench.lines()[3].starts_with("STUCK for 12 s: redo fdatasync, thread ib_log_flush 31999, /var/lib")
    );
    bench.assert_shows("redo 100 % busy");
    // Each column has one unit; the age is in the line above.
    bench.assert_shows("100 %   1 STUCK");
    bench.wait(4 * SECOND);
    bench.assert_shows("STUCK for 16 s: redo");
    bench.apply(Event::Waits(vec![waiting_for_the_journal()]));
    bench.assert_shows(
        "STUCK for 16 s: redo fdatasync, waits for the journal commit, thread ib_log_flush 31999, …/mysql/",
    );
    bench.assert_shows("Every commit waits for the redo log.");
    expected(&bench, "stuck_120x30");
    bench.keys("K");
    bench.assert_shows("  > jbd2_log_wait_commit\n    do_fsync");
}

#[test]
fn many_stuck_syncs_leave_room_for_the_table() {
    let mut bench = Bench::busy(80, 24, 3);
    let mut m = fixture::quiet();
    m.in_flight = (0..40).map(|at| stuck(MYSQL, &format!("/f{at}"), (50 - at) * SECOND)).collect();
    bench.second(&m);
    bench.assert_shows("STUCK 38 more syncs (K shows where each waits)");
    bench.assert_shows("redo        fdatasync");
    m.in_flight.truncate(2);
    bench.apply(Event::Waits(vec![waiting_for_the_journal()]));
    bench.second(&m);
    bench.assert_shows("STUCK 1 more sync (K shows where each waits)");
}

pub(super) fn waiting_for_the_journal() -> Waiting {
    let stack = vec!["jbd2_log_wait_commit".into(), "do_fsync".into()];
    let wait = crate::threads::waits_for(&stack, None);
    Waiting { pid: MYSQL.pid, tid: 31_999, stack, wait, state: 'D' }
}

#[test]
fn failures_stay_on_the_screen() {
    let mut bench = Bench::busy(100, 40, 3);
    let mut m = fixture::busy();
    m.files[0].stats.errors = [(libc::EIO, 2)].into();
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    bench.assert_shows("2 failed, last 03:00:04");
    bench.assert_shows("2 EIO");
    bench.assert_shows("Last 4 s: 2 syncs failed: 2 EIO on …/mysql/#innodb_redo/#ib_redo5 (redo fdatasync).");
    bench.apply(Event::Resize(80, 24));
    bench.assert_shows("Last 4 s: 2 syncs failed: 2 EIO on …/#innodb_redo/#ib_redo5 (redo fdatasync).");
    bench.apply(Event::Resize(100, 40));
    bench.seconds(20, &fixture::busy());
    bench.assert_shows("2 failed, last 03:00:04");
    // In the graph of the row, below the picture, and in the log.
    let marks = bench.screen().matches('!').count();
    assert!(marks >= 2, "{}", bench.screen());
    bench.keys("l>>");
    expected(&bench, "failed_log_100x40");
}

#[test]
fn a_second_population_is_seen_in_the_picture() {
    let mut bench = Bench::busy(100, 24, 20);
    let mut m = fixture::busy();
    // One sync in a thousand takes half a second: neither median nor 99th percentile tells.
    m.files[0].stats.merge(&stats(&[(3, 500_000_000)]));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.seconds(10, &fixture::with_files(m, files, threads));
    bench.assert_shows("100 %                0");
    expected(&bench, "second_population_100x24");
}

#[test]
fn several_servers_are_told_apart_in_every_grouping() {
    let mut bench = Bench::new(120, 30);
    bench.apply_first();
    let mut m = fixture::two_servers();
    m.neighbours = vec![
        fixture::neighbour("/dev/vda", "xtrabackup", &[(41, 20_000_000)]),
        fixture::neighbour("/dev/sdb", "rsyslogd", &[(3, 400_000)]),
    ]
    .into();
    bench.seconds(5, &m);
    expected(&bench, "two_servers_120x30");
    // The one that does nothing does not hide what the other one's figures say.
    bench.apply(Event::Resize(80, 24));
    bench.assert_shows("redo 88 % busy (3306)  binlog 95 % busy (3306)  0 in flight");
    bench.assert_shows("Last 5 s: 3306: The redo log is 88 % busy");
    let mut idle = m.clone();
    let others = |row: &FileRow| row.server == MARIADB;
    idle.files.retain(others);
    idle.roles.retain(|row| row.server == MARIADB);
    bench.seconds(10, &idle);
    bench.assert_shows("Last 10 s: 3307: ");
    bench.seconds(10, &m);
    bench.apply(Event::Resize(120, 30));
    bench.keys("f");
    bench.assert_shows("3307   /srv/mariadb/ib_logfile0");
    bench.keys("s");
    expected(&bench, "by_server_120x30");
    bench.keys("t");
    bench.assert_shows("ib_log_flush");
    bench.keys("n");
    expected(&bench, "by_neighbour_120x30");
    bench.press(Press::Tab);
    bench.assert_shows("only 3306");
    bench.keys("r");
    assert!(bench.state.shown.rows.iter().all(|row| row.key.server() == Some(MYSQL)));
    bench.assert_shows("also on /dev/vda, last 10 s: mariadbd 40112 410/s");
}

#[test]
fn rows_by_thread_that_are_not_kept_are_explained() {
    let mut bench = Bench::new(80, 24);
    let without = |m: Interval| {
        let mut setup = (*m.setup).clone();
        setup.by_thread = false;
        Interval { setup: Arc::new(setup), threads: Table::default(), ..m }
    };
    bench.world.snapshot.setup = without(fixture::quiet()).setup;
    bench.apply_first();
    bench.seconds(2, &without(fixture::busy()));
    bench.keys("t");
    bench.assert_shows("Rows by thread are not kept");
    bench.assert_shows("T attaches again with them");
}

/// A second in which a server that is watched whole wrote its logs and two files more.
fn writing() -> Interval {
    let mut m = fixture::quiet();
    Arc::make_mut(&mut m.setup).ops.extend([Op::DsyncWrite, Op::Write]);
    let written = |inode, path, role, op, n, bytes| {
        let stats = Stats { bytes, ..stats(&[(n, 140_000)]) };
        fixture::row(MYSQL, inode, path, role, op, stats)
    };
    let durable = written(77, REDO, Role::Redo, Op::DsyncWrite, 9, 4_608);
    let mut m = fixture::with_files(m, vec![durable], Vec::new());
    m.writes = vec![
        written(78, "/d/undo_001", Role::Undo, Op::Write, 2, 32_768),
        written(79, "/d/shop/a.ibd", Role::Tablespace, Op::Write, 5, 81_920),
    ]
    .into();
    m
}

#[test]
fn all_writes_have_a_table_of_their_own_by_bytes() {
    let mut bench = Bench::new(120, 40);
    bench.world.snapshot.setup = writing().setup;
    bench.apply_first();
    bench.seconds(3, &writing());
    bench.keys("W");
    let names: Vec<String> = bench.state.shown.rows.iter().map(|row| row.name(&bench.state.style)).collect();
    assert_eq!(names, ["/d/shop/a.ibd", "/d/undo_001", REDO]);
    let screen = bench.screen();
    let line = screen.lines().find(|line| line.contains("undo_001")).unwrap_or_else(|| panic!("{screen}"));
    assert!(screen.contains("BYTES/s▼") && line.contains(" write ") && line.contains(" 32,768 "), "{screen}");
    assert!(screen.contains(" role file thread server neighbour log[Write]"), "{screen}");
    let details = screen.lines().find(|line| line.contains("5 writes")).unwrap_or_else(|| panic!("{screen}"));
    assert!(details.contains("/d/shop/a.ibd write "), "{details}");
    assert!(screen.contains("writes in last 1"), "{screen}");
    // No table of syncs has them.
    bench.keys("f");
    assert_eq!(bench.state.shown.rows.len(), 1);
    // Paused, the past has them as well.
    bench.keys("W");
    bench.press(Press::Left);
    assert_eq!(bench.state.shown.rows.len(), 3);
}

#[test]
fn writes_that_are_not_watched_are_explained() {
    let mut bench = Bench::busy(100, 30, 2);
    bench.keys("W");
    bench.assert_shows("Of writes only those that are durable, and those that fail, are watched");
    bench.assert_shows("A attaches again with them");
}

#[test]
fn of_thousands_of_files_only_those_on_the_screen_are_formatted() {
    let mut bench = Bench::new(80, 24);
    bench.apply_first();
    let mut m = many_files(5_000);
    m.servers = fixture::quiet().servers;
    bench.seconds(2, &m);
    bench.keys("fG");
    assert_eq!(bench.state.shown.rows.len(), 5_000);
    bench.assert_shows("5,000");
    for _ in 0..100 {
        bench.press(Press::PageUp);
        let plan = bench.state.plan();
        assert_eq!(plan.cells.len(), bench.state.areas().page());
    }
    expected(&bench, "thousands_80x24");
}

#[test]
fn names_chosen_by_an_attacker_reach_no_terminal_as_they_are() {
    for unicode in [true, false] {
        let mut bench = Bench::with(120, 40, |options| options.unicode = unicode);
        bench.apply_first();
        bench.seconds(3, &fixture::hostile());
        let evil: String = "\u{1b}[31m\u{202e}x\n".into();
        bench.apply(Event::Waits(vec![Waiting {
            pid: MYSQL.pid,
            tid: 31_999,
            stack: vec![evil],
            wait: None,
            state: 'D',
        }]));
        for keys in ["", "f", "t", "s", "n", "l", "K"] {
            bench.keys(keys);
            let screen = bench.screen();
            let bad = screen.chars().find(|c| *c != '\n' && crate::text::is_deceptive(*c));
            assert_eq!(bad, None, "{keys}:\n{screen}");
            assert!(unicode || screen.is_ascii(), "{keys}:\n{screen}");
        }
    }
}

#[test]
fn without_unicode_everything_is_ascii_and_as_wide() {
    let mut bench = Bench::with(100, 40, |options| options.unicode = false);
    bench.apply_first();
    bench.seconds(20, &fixture::busy());
    let mut m = fixture::busy();
    m.in_flight = vec![stuck(MYSQL, "/var/lib/mysql/bücher.ibd", 3 * SECOND)];
    bench.second(&m);
    expected(&bench, "ascii_100x40");
    for key in ["f", "l", "n", "?", "?", "K", "/", "ü"] {
        bench.keys(key);
        assert!(bench.screen().is_ascii(), "{key}:\n{}", bench.screen());
    }
}

#[test]
fn no_size_makes_it_panic_and_a_tiny_one_says_so() {
    let mut bench = hanging(80, 24);
    let mut m = fixture::two_servers();
    m.files[0].stats.errors = [(libc::EIO, 1)].into();
    m.in_flight = vec![stuck(MARIADB, "/srv/mariadb/ib_logfile0", 12 * SECOND)];
    bench.second(&m);
    let sizes = (1..=60).step_by(3).flat_map(|columns| (1..=40).step_by(3).map(move |rows| (columns, rows)));
    for (columns, rows) in sizes.chain([(500, 3), (3, 200), (600, 200), (65_535, 1)]) {
        bench.apply(Event::Resize(columns, rows));
        for key in [Press::Char('f'), Press::Char('l'), Press::Char('?'), Press::Esc, Press::Char('r')] {
            bench.press(key);
            let _ = bench.terminal();
        }
    }
    bench.apply(Event::Resize(20, 5));
    assert_eq!(bench.screen(), "1 FAILED\n1 STUCK\n20x5 is too small\n40x10 is needed\nq quits\n");
    bench.apply(Event::Resize(80, 24));
    bench.assert_shows("STUCK for 12 s");
}

#[test]
fn no_line_is_wider_than_the_screen_and_nothing_overlaps_at_any_width() {
    let mut bench = hanging(80, 24);
    bench.seconds(3, &fixture::two_servers());
    for columns in 40..220 {
        bench.apply(Event::Resize(columns, 40));
        for keys in ["r", "f", "t", "s", "n", "l", "W"] {
            bench.keys(keys);
            let plan = bench.state.plan();
            let mut end = 0;
            for placed in &plan.columns {
                assert!(placed.x >= end, "{columns} {keys}: {plan:?}");
                end = placed.x + placed.columns + 1;
            }
            assert!(end <= columns + 1, "{columns} {keys}: {:?}", plan.columns);
            let has = |column| plan.columns.iter().any(|placed| placed.column == column);
            assert!(
                bench.state.choice.view == View::Log || has(Column::Figure(Figure::Max)),
                "{columns} {keys}"
            );
            let of_one = matches!(bench.state.choice.view, View::Server | View::Neighbour);
            assert!(of_one || has(Column::Server), "{columns} {keys}: {:?}", plan.columns);
        }
    }
}

#[test]
fn the_help_has_every_key() {
    let mut bench = Bench::busy(100, 90, 1);
    bench.keys("?");
    let screen = bench.screen();
    let all = KEYS.iter().map(|binding| (binding.keys, binding.help));
    for (keys, help) in all.chain(EDIT_KEYS.iter().map(|binding| (binding.keys, binding.help))) {
        let line = screen.lines().find(|line| line.ends_with(help));
        let line = line.unwrap_or_else(|| panic!("{help:?} is not in the help:\n{screen}"));
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        assert!(line.contains(&keys.join(" ")), "{line}");
    }
    // On a small screen it is read in two pages.
    bench.apply(Event::Resize(80, 24));
    bench.assert_shows("more lines: Space, Down; Esc closes this");
    (0..4).for_each(|_| bench.press(Press::Char(' ')));
    bench.assert_shows("its slowest sync.");
    bench.press(Press::Esc);
    bench.assert_shows("redo");
}

#[test]
fn what_was_lost_is_said_beside_the_totals() {
    let mut bench = Bench::busy(120, 30, 2);
    assert!(!bench.lines().join("\n").contains("lost"), "nobody acts on it");
    bench.world.snapshot.lost = Lost { preempted: 12, ..Lost::default() };
    bench.second(&fixture::busy());
    bench.assert_shows("12 missed");
    bench.assert_shows("12 because the kernel skipped a probe");
    bench.seconds(20, &fixture::busy());
    bench.assert_shows("12 missed before");
}

#[test]
fn what_is_not_watched_is_said_beside_the_totals_and_of_the_neighbours() {
    let mut bench = Bench::busy(120, 30, 2);
    bench.world.snapshot.lost = Lost { unwatched: 12, neighbours_unwatched: 7, ..Lost::default() };
    bench.world.snapshot.unwatched = vec![(fixture::MYSQL, 12)];
    let mut m = fixture::busy();
    m.neighbours = vec![fixture::untimed_neighbour("/dev/vda", "dd", 7)].into();
    bench.second(&m);
    bench.assert_shows("  12 not watched");
    bench.assert_shows("The server also made data durable 12 times by calls that are not watched");
    bench.assert_shows("also on /dev/vda, last 3 s: dd 2.3/s, not timed");
    bench.keys("n");
    let lines = bench.lines();
    let row = lines.iter().find(|line| line.trim_start().starts_with("dd ")).expect("a row of it");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..4], ["dd", "/dev/vda", "yes", "7.0"], "{row}");
}

#[test]
fn syncs_that_were_not_counted_are_not_called_counted() {
    let shown_with = [
        (Lost { processes: 3, ..Lost::default() }, "3 processes not followed"),
        (Lost { paused: 5 * SECOND, ..Lost::default() }, "not traced for a while"),
        (Lost { files: 1, ..Lost::default() }, "counted, not all attributed"),
    ];
    for (lost, shown) in shown_with {
        let mut bench = Bench::busy(120, 30, 2);
        bench.world.snapshot.lost = lost;
        bench.second(&fixture::busy());
        bench.assert_shows(shown);
    }
}

#[test]
fn a_server_that_ended_and_a_sampling_that_ended_are_told() {
    let mut bench = Bench::busy(120, 30, 2);
    let mut gone = fixture::quiet();
    Arc::make_mut(&mut gone.servers[0]).alive = false;
    bench.second(&gone);
    bench.assert_shows("3306  exited  mysqld 31960");
    bench.wait(10 * SECOND);
    bench.assert_shows("No new figures for 10.0 s.");
    bench.apply(Event::Sampling(crate::live::State::Failed {
        why: "reading what was counted: \u{1b}x".into(),
    }));
    bench.assert_shows("Nothing is traced any more: reading what was counted: \\x1bx");
}

#[test]
fn without_colours_no_cell_has_one_and_with_them_alarms_stand_out() {
    for (colors, any) in [(Colors::None, false), (Colors::Sixteen, true), (Colors::TwoHundredFiftySix, true)]
    {
        let mut bench = Bench::with(100, 40, |options| options.colors = colors);
        bench.apply_first();
        bench.seconds(5, &fixture::busy());
        let mut m = fixture::busy();
        m.in_flight = vec![stuck(MYSQL, REDO, 3 * SECOND)];
        bench.second(&m);
        let terminal = bench.terminal();
        let cells = terminal.backend().buffer().content();
        let coloured = cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count();
        assert_eq!(coloured > 0, any, "{colors:?}");
        bench.assert_shows("STUCK for 3.0 s");
    }
}

#[test]
fn a_row_is_there_although_nothing_happened_in_its_interval() {
    let mut bench = Bench::busy(100, 30, 5);
    bench.second(&fixture::quiet());
    let line = bench.lines().into_iter().find(|line| line.starts_with("binlog")).expect("it keeps its row");
    let cells: Vec<&str> = line.split_whitespace().take(7).collect();
    assert_eq!(cells, ["binlog", "fdatasync", "0", "–", "–", "–", "–"]);
    assert!(
        bench
            .state
            .shown
            .rows
            .iter()
            .any(|row| row.role() == Some(Role::Binlog) && row.op() == Some(Op::Fdatasync))
    );
}

#[test]
fn what_is_shown_of_the_past_says_when_it_was() {
    let mut bench = Bench::busy(120, 30, 20);
    bench.second(&many_files(200));
    bench.second(&fixture::quiet());
    bench.keys("f");
    bench.press(Press::Left);
    bench.assert_shows("PAUSED at 03:00:21");
    bench.assert_shows("150 more files, 470 syncs");
    expected(&bench, "past_120x30");
}

#[test]
fn the_head_has_the_logs_of_the_servers_engines() {
    let mut bench = Bench::new(120, 30);
    bench.world.snapshot.servers = fixture::of_postgres(fixture::quiet()).servers.into();
    bench.apply_first();
    bench.seconds(2, &fixture::of_postgres(fixture::quiet()));
    bench.assert_shows("0 syncs/s  wal 0 % busy  0 in flight");
}
