//! What must not be lost on a terminal of 80x24, and what the lines above the table say.

use std::sync::Arc;

use super::tests::{REDO, expected, hanging, waiting_for_the_journal};
use crate::model::fixture::{self, MYSQL, stats};
use crate::model::{Interval, Op, Role, Server, ServerId};
use crate::top::event::Event;
use crate::top::fixture::{Bench, SECOND, stuck};
use crate::top::keys::Press;
use crate::top::palette::{Colors, Ink};

#[test]
fn on_a_small_screen_a_stuck_sync_still_has_its_file_its_thread_and_what_it_waits_for() {
    let mut bench = hanging(80, 24);
    bench.apply(Event::Waits(vec![waiting_for_the_journal()]));
    let lines = bench.lines();
    assert_eq!(
        lines[3..5],
        [
            "STUCK for 12 s: redo fdatasync, /var/lib/mysql/#innodb_redo/#ib_redo5",
            "  waits for the journal commit, thread ib_log_flush 31999"
        ]
    );
    bench.assert_shows("K kernel stacks");
    expected(&bench, "stuck_80x24");
    // However long the name of its directory is.
    let mut m = fixture::quiet();
    let deep = format!("/var/lib/{}/#innodb_redo/#ib_redo5", "d".repeat(100));
    m.in_flight = vec![stuck(MYSQL, &deep, 12 * SECOND)];
    bench.second(&m);
    bench.assert_shows("STUCK for 12 s: redo fdatasync, …/#innodb_redo/#ib_redo5");
    bench.assert_shows("  waits for the journal commit, thread ib_log_flush 31999");
}

#[test]
fn a_hang_is_the_most_striking_column_of_the_heat_map_and_the_legend_explains_it() {
    let mut bench = Bench::with(80, 30, |options| options.colors = Colors::TwoHundredFiftySix);
    bench.world.snapshot.servers = fixture::quiet().servers.into();
    bench.apply_first();
    bench.seconds(20, &fixture::busy());
    for age in 1..=8 {
        let mut m = fixture::quiet();
        m.in_flight = vec![stuck(MYSQL, REDO, age * SECOND)];
        bench.second(&m);
    }
    // Of the role, of its file and of its server.
    for key in ["r", "f", "s"] {
        bench.keys(key);
        let picture = bench.state.areas().details.unwrap();
        let lines = bench.lines()[usize::from(picture.y)..usize::from(picture.bottom())].to_vec();
        let marks = |line: &String| line.matches('║').count();
        let high: Vec<usize> = lines.iter().map(marks).filter(|n| *n > 0).collect();
        // From eight seconds down, and the legend.
        assert!(high.len() > 4 && high.is_sorted_by(|a, b| a <= b || *b == 1), "{key}: {lines:#?}");
        assert!(high.contains(&8), "{key}: {lines:#?}");
        let legend = lines.last().unwrap();
        assert!(legend.starts_with("        ║ in flight throughout  syncs: ░ 1+  ▒ "), "{legend}");
        assert!(legend.contains("█ ") && legend.contains(" to "), "{legend}");
        let terminal = bench.terminal();
        let cells = terminal.backend().buffer().content();
        let mut hung = cells.iter().filter(|cell| cell.symbol() == "║");
        let alarm = Colors::TwoHundredFiftySix.style(Ink::Alarm);
        assert!(hung.all(|cell| Some(cell.bg) == alarm.bg), "{key}");
    }
    // Once it has ended it is where it belongs, and the time before stays as it was.
    let mut m = fixture::busy();
    m.files[0].stats.merge(&stats(&[(1, 8_500_000_000)]));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    bench.keys("r");
    bench.assert_shows("║ in flight throughout");
    bench.assert_shows("║║║║║║║║█ │");
    // What is not drawn is not explained.
    bench.seconds(60, &fixture::busy());
    bench.assert_shows_not("║");
}

#[test]
fn after_a_hang_no_sentence_says_that_the_log_was_idle() {
    let mut bench = hanging(120, 30);
    let mut m = fixture::quiet();
    for age in 13..25 {
        m.in_flight = vec![stuck(MYSQL, REDO, age * SECOND)];
        bench.second(&m);
        // Of before it hung, too: nobody commits now.
        bench.assert_shows_not("saturated");
    }
    let mut m = fixture::busy();
    m.files[0].stats.merge(&stats(&[(1, 25_000_000_000)]));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    bench.assert_shows("The redo log is 100 % busy");
    bench.seconds(3, &fixture::busy());
    bench.assert_shows("Last 3 s: The redo log is 88 % busy and the binary log is 95 % busy");
}

#[test]
fn two_servers_are_told_apart_on_the_narrowest_screen() {
    let mut bench = Bench::new(40, 24);
    bench.apply_first();
    bench.seconds(3, &fixture::two_servers());
    for key in ["r", "f", "l"] {
        bench.keys(key);
        let lines = bench.lines();
        let heading = lines.iter().find(|line| line.starts_with("PID") || line.starts_with("TIME"));
        assert!(heading.is_some_and(|line| line.contains("PID ")), "{key}:\n{}", lines.join("\n"));
        for pid in ["31960 ", "40112 "] {
            let rows =
                || lines.iter().filter(|line| line.starts_with(pid) || line.contains(&format!(":03 {pid}")));
            assert!(rows().count() > 0, "{key} {pid}:\n{}", lines.join("\n"));
        }
    }
    // What failed is seen beside it, and a name that is long enough to tell the files apart.
    bench.keys("f");
    bench.assert_shows("MAX ERRORS");
    bench.assert_shows("…/#ib_redo6");
    // Sorted by it, it still says so.
    bench.keys("r");
    bench.keys("<");
    bench.assert_shows("PID▲");
    bench.apply(Event::Resize(120, 24));
    bench.assert_shows("SERVER▲");
}

#[test]
fn who_else_syncs_on_the_device_is_said_on_every_view() {
    let mut bench = Bench::busy(80, 24, 3);
    let line = bench.lines()[2].clone();
    assert!(line.starts_with("also on /dev/vda, last 3 s: no other sync seen"), "{line}");
    let mut m = fixture::busy();
    let backup = [(120, 20_000_000), (80, 90_000_000)];
    m.neighbours = vec![
        fixture::neighbour("/dev/vda", "xtrabackup", &backup),
        fixture::neighbour("/dev/vda", "rsyslogd", &[(3, 400_000)]),
        fixture::neighbour("/dev/sdb", "dd", &[(900, 400_000)]),
    ]
    .into();
    bench.seconds(10, &m);
    assert_eq!(
        bench.lines()[2],
        "also on /dev/vda, last 10 s: xtrabackup 200/s, p99 90 ms; 1 more     refresh 1 s"
    );
    for key in ["f", "t", "s", "l"] {
        bench.keys(key);
        bench.assert_shows("also on /dev/vda, last 10 s: xtrabackup 200/s");
    }
    bench.apply(Event::Resize(120, 24));
    bench.assert_shows("xtrabackup 200/s, p99 90 ms; rsyslogd 3.0/s, max 400 µs ");
    bench.keys("c");
    bench.assert_shows("also on /dev/vda: xtrabackup ");
    // Also while nothing of the server's own finishes.
    bench.keys("c");
    let mut m = fixture::quiet();
    m.in_flight = vec![stuck(MYSQL, REDO, 12 * SECOND)];
    bench.second(&m);
    bench.assert_shows("also on /dev/vda, last 10 s: xtrabackup 180/s, p99 90 ms");
}

#[test]
fn a_small_screen_has_all_that_the_header_should_have() {
    let mut bench = Bench::busy(80, 24, 3);
    let mut m = fixture::busy();
    m.files[0].stats.merge(&stats(&[(1, 900_000_000)]));
    m.files[2].stats.merge(&stats(&[(1, 900_000_000)]));
    m.in_flight = (0..12).map(|_| stuck(MYSQL, REDO, SECOND / 20)).collect();
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    let header = bench.lines()[..3].join("\n");
    let both = "6,250 syncs/s  redo 100 % busy  binlog 100 % busy  12 in flight";
    for part in ["3306  ok", "mysqld 31960", "MySQL 9.7.4", "ext4 on /dev/vda", both, "refresh 1 s"] {
        assert!(header.contains(part), "{part:?}:\n{header}");
    }
}

#[test]
fn facts_of_the_selected_row_go_whole_or_not_at_all() {
    let mut bench = Bench::busy(80, 24, 3);
    bench.keys("f");
    for columns in 40..160 {
        bench.apply(Event::Resize(columns, 24));
        let at = bench.state.areas().details.expect("there is room").y;
        let title = bench.lines()[usize::from(at)].clone();
        let facts = title.trim_end_matches(['─', ' ']);
        let last = facts.rsplit("  ").next().unwrap();
        let whole = ["/s", "µs", "ms", "syncs", "ext4 on /dev/vda", "fdatasync", "mysqld 31960"];
        assert!(whole.iter().any(|end| last.ends_with(end)), "{columns}: {title}");
        assert!(title.contains("binlog.000003"), "{columns}: {title}");
    }
    bench.apply(Event::Resize(80, 24));
    bench.assert_shows("…/mysql/binlog.000003 fdatasync  2,980/s  p99 737 µs  max up to 3.1 ms ──");
}

#[test]
fn the_times_below_the_heat_map_are_read_also_where_syncs_failed() {
    let mut failing = fixture::busy();
    failing.files[0].stats.errors = [(libc::EIO, 1)].into();
    let (files, threads) = (failing.files.clone(), failing.threads.clone());
    let failing = fixture::with_files(failing, files, threads);
    let bench = Bench::busy(80, 24, 5);
    let picture = |bench: &Bench| {
        let area = bench.state.areas().details.unwrap();
        bench.lines()[usize::from(area.y)..usize::from(area.bottom())].to_vec()
    };
    let before = picture(&bench);
    assert!(before[before.len() - 3].starts_with("  ≥66µs│"), "{before:?}");
    let mut bench = Bench::new(80, 24);
    bench.world.snapshot.servers = fixture::quiet().servers.into();
    bench.apply_first();
    bench.second(&failing);
    bench.seconds(8, &fixture::busy());
    bench.second(&failing);
    let with_marks = picture(&bench);
    assert_eq!(with_marks.len(), before.len());
    let [.., marks, times, _] = &with_marks[..] else { panic!("{with_marks:?}") };
    assert_eq!(*marks, format!(" failed{:>43}{:>9}", "!", "!"));
    assert_eq!(*times, format!("{:>53}   now syncs in last 1 s", "-10s"));
}

#[test]
fn the_heat_map_says_whose_latencies_it_shows_where_there_are_several_servers() {
    let mut bench = Bench::new(120, 30);
    bench.apply_first();
    bench.seconds(3, &fixture::two_servers());
    bench.keys("f/ib_logfile");
    bench.press(Press::Enter);
    bench.assert_shows("\n3307: /srv/mariadb/ib_logfile0 fdatasync  410 syncs");
    bench.apply(Event::Resize(40, 24));
    bench.assert_shows("\n3307: …/mariadb/ib_logfile0 fdatasync");
    // Its own row says so itself, and of one server there is nothing to tell.
    bench.apply(Event::Resize(120, 30));
    bench.press(Press::Esc);
    bench.keys("s");
    bench
        .assert_shows("\n3306  6,248 syncs  6,248/s  p50 225 µs  p99 737 µs  max up to 3.1 ms  mysqld 31960");
    bench.press(Press::Tab);
    bench.keys("r");
    bench.assert_shows("\nredo fdatasync  3,237 syncs");
}

#[test]
fn the_slowest_syncs_beside_the_table_are_those_of_what_the_table_shows() {
    let mut bench = Bench::new(120, 40);
    bench.apply_first();
    bench.seconds(3, &fixture::two_servers());
    let slowest = |bench: &Bench| {
        let lines = bench.lines().into_iter().skip_while(|line| !line.starts_with("Incidents,"));
        lines.take_while(|line| !line.starts_with("q quit")).collect::<Vec<_>>()
    };
    let whole = slowest(&bench);
    assert!(
        whole[0]
            .starts_with("Incidents, failed syncs, and those of 1.0 µs or more, newest first (l: more) ─"),
        "{whole:?}"
    );
    assert!(whole[2].starts_with("03:00:03 3307   ≤500µs"), "{whole:?}");
    bench.apply(Event::Resize(80, 40));
    let narrow = slowest(&bench);
    assert!(narrow[2].starts_with("03:00:03 40112   ≤500µs"), "{narrow:?}");
    bench.apply(Event::Resize(120, 40));
    // A filter, …
    bench.keys("/binlog");
    bench.press(Press::Enter);
    let filtered = slowest(&bench);
    assert!(filtered[0].contains(", newest first, 3 of 21 (l: more)"), "{filtered:?}");
    assert_eq!(filtered.iter().filter(|line| line.contains(" binlog ")).count(), 3, "{filtered:?}");
    assert!(!filtered.iter().any(|line| line.contains("redo")), "{filtered:?}");
    bench.keys("/ of no file");
    bench.press(Press::Enter);
    bench.assert_shows("no entry for what is shown of the table");
    bench.press(Press::Esc);
    // … one server, …
    bench.keys("s");
    bench.press(Press::Down);
    bench.press(Press::Enter);
    let of_one = slowest(&bench);
    assert!(of_one[1].starts_with("03:00:03   ≤500µs"), "{of_one:?}");
    assert!(!of_one.iter().any(|line| line.contains("binlog")), "{of_one:?}");
    // … and the files of one role.
    bench.press(Press::Tab);
    bench.press(Press::Tab);
    bench.keys("rg");
    bench.press(Press::Enter);
    let of_role = slowest(&bench);
    assert!(of_role[1].contains(" redo "), "{of_role:?}");
    assert!(!of_role.iter().any(|line| line.contains("binlog")), "{of_role:?}");
}

#[test]
fn on_a_small_screen_nothing_that_hides_rows_goes_unsaid() {
    let mut bench = Bench::busy(80, 24, 5);
    bench.keys("f/ib_redo");
    bench.press(Press::Enter);
    bench.keys(" ");
    bench.assert_shows("/ib_redo: 2 of 6  PAUSED 03:00:05");
    bench.keys(" c");
    bench.assert_shows("/ib_redo: 2 of 6  since 03:00:00");
}

#[test]
fn the_log_is_sorted_by_server_too() {
    let mut bench = Bench::new(120, 24);
    bench.apply_first();
    bench.seconds(3, &fixture::two_servers());
    bench.keys("l>");
    bench.assert_shows("SERVER▲");
    let servers: Vec<_> = bench.state.shown.rows.iter().map(|row| row.server().unwrap()).collect();
    assert!(servers.is_sorted() && servers.first() != servers.last(), "{servers:?}");
    bench.keys("R");
    let reversed: Vec<_> = bench.state.shown.rows.iter().map(|row| row.server().unwrap()).collect();
    assert!(reversed.iter().rev().is_sorted(), "{reversed:?}");
}

/// Forty servers, each of which commits a little more than the one before.
fn forty_servers() -> Interval {
    let id = |pid| ServerId { pid, start_ns: 1 };
    let quiet = fixture::quiet();
    let server = |pid| {
        Arc::new(Server { id: id(pid), name: format!("shop{pid}").into(), ..(*quiet.servers[0]).clone() })
    };
    let file = |pid: u32| {
        let path = format!("/srv/{pid}/ib_logfile0");
        let stats = stats(&[(u64::from(pid), 100_000)]);
        fixture::row(id(pid), u64::from(pid), &path, Role::Redo, Op::Fdatasync, stats)
    };
    let servers = (1_001..=1_040).map(server).collect();
    fixture::with_files(
        Interval { servers, ..quiet.clone() },
        Vec::from_iter((1_001..=1_040).map(file)),
        Vec::new(),
    )
}

#[test]
fn forty_servers_are_counted_scrolled_and_told_apart() {
    let mut bench = Bench::new(80, 24);
    bench.apply_first();
    bench.seconds(3, &forty_servers());
    expected(&bench, "forty_servers_80x24");
    // The busiest is named where there is room for its name.
    bench.apply(Event::Resize(200, 24));
    bench.assert_shows("redo 10 % busy (shop1040)");
    bench.apply(Event::Resize(80, 24));
    bench.keys("sG");
    assert_eq!(bench.selected_name(), "shop1040");
    bench.assert_shows(" of 40");
    bench.press(Press::Enter);
    bench.assert_shows("only shop1040");
    assert_eq!(bench.state.shown.rows.len(), 1);
    assert!(bench.lines()[0].starts_with("shop1040  ok  mysqld 1040  MySQL 9.7.4  "));
}
