//! What stays as it is whatever happens.

use super::*;
use crate::model::figures::Figure;
use crate::model::fixture::{self, MARIADB, MYSQL};
use crate::model::{Interval, Op, Role};
use crate::recording::History;
use crate::render::columns::Column;
use crate::top::event::{Earlier, Mouse, MouseKind, Waiting};
use crate::top::fixture::{Bench, SECOND, stuck};
use crate::top::overlay::Topic;
use crate::top::view::Sort;
use Press::Char;

const SECONDS: u32 = 12;

fn busy() -> Bench {
    Bench::busy(120, 40, SECONDS)
}

#[test]
fn help_is_read_as_in_less_and_with_the_wheel() {
    let mut bench = Bench::busy(80, 24, 1);
    let at = |bench: &Bench| bench.state.overlay.unwrap().offset;
    bench.keys("?j");
    assert_eq!(at(&bench), 1);
    bench.keys("k G");
    let end = at(&bench);
    bench.assert_shows("Esc closes this");
    bench.assert_shows_not("more lines");
    bench.keys(" j");
    assert_eq!(at(&bench), end, "there is nothing after the end");
    bench.press(Press::PageUp);
    assert_eq!(at(&bench), end - 20);
    let wheel = |bench: &mut Bench, kind| bench.apply(Event::Mouse(Mouse { column: 0, row: 9, kind }));
    wheel(&mut bench, MouseKind::WheelUp);
    assert_eq!(at(&bench), end - 23);
    (0..9).for_each(|_| wheel(&mut bench, MouseKind::WheelDown));
    assert_eq!(at(&bench), end);
    // On a larger screen there is less above it.
    bench.apply(Event::Resize(80, 200));
    assert_eq!(at(&bench), 0);
    bench.keys("g");
    assert_eq!(bench.state.overlay, Some(Overlay::of(Topic::Help)));
}

#[test]
fn threads_since_the_start_are_not_kept_of_the_past_which_is_said() {
    let mut bench = busy();
    bench.keys("tc");
    assert!(!bench.state.shown.rows.is_empty());
    bench.press(Press::Left);
    bench.assert_shows("Rows by thread are kept of each interval of the past, but not since the start.");
    bench.keys("c");
    assert!(!bench.state.shown.rows.is_empty());
}

#[test]
fn a_key_without_meaning_says_so() {
    let mut bench = busy();
    bench.press(Char('x'));
    assert_eq!(bench.state.message.text(), Some("x does nothing; ? shows every key"));
    bench.wait(9 * SECOND);
    assert_eq!(bench.state.message.text(), None, "it does not stay for ever");
}

#[test]
fn the_selection_follows_the_row_wherever_it_moves() {
    let mut bench = busy();
    bench.keys("f<<");
    assert_eq!(bench.state.choice.table().sort.column, Column::Figure(Figure::Max));
    bench.keys("jj");
    let name = bench.selected_name();
    let place = bench.state.choice.table().selection.index;
    let mut m = fixture::busy();
    let at = m.files.iter().position(|row| name.ends_with(row.info.path.as_ref().unwrap().to_str().unwrap()));
    m.files[at.unwrap()].stats.merge(&fixture::stats(&[(1, 9_000_000_000)]));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    assert_eq!((bench.selected_name(), bench.state.choice.table().selection.index), (name.clone(), 0));
    assert_ne!(place, 0);
    // It is still selected when it was not there for a while.
    bench.keys("/nothing");
    bench.press(Press::Esc);
    assert_eq!(bench.selected_name(), name);
    // Each grouping has a selection of its own.
    bench.keys("rf");
    assert_eq!(bench.selected_name(), name);
}

#[test]
fn without_a_choice_the_first_row_is_selected_whichever_it_is() {
    let mut bench = busy();
    bench.keys("f");
    assert!(bench.selected_name().ends_with("binlog.000003"));
    let mut m = fixture::busy();
    m.files[4].stats.merge(&fixture::stats(&[(1, 9_000_000_000)]));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    assert!(bench.selected_name().ends_with("products.ibd"));
}

#[test]
fn the_sickest_server_comes_first_and_of_it_what_hangs() {
    let mut bench = Bench::new(120, 30);
    bench.apply_first();
    bench.seconds(5, &fixture::two_servers());
    let busiest = bench.state.shown.rows[0].server();
    let other = if busiest == Some(MYSQL) { MARIADB } else { MYSQL };
    let mut m = fixture::two_servers();
    let mut hangs = fixture::in_flight(Role::Tablespace, "/d/t.ibd", 9 * SECOND);
    hangs.server = other;
    m.in_flight = vec![hangs];
    bench.second(&m);
    let selected = bench.state.selected().unwrap();
    assert_eq!((selected.server(), selected.role()), (Some(other), Some(Role::Tablespace)));
    // A row that was chosen stays so, and in another order it is the column that counts.
    bench.keys("jj");
    let name = bench.selected_name();
    bench.second(&fixture::two_servers());
    assert_eq!(bench.selected_name(), name);
}

#[test]
fn a_filter_leaves_every_figure_as_it_is() {
    let mut bench = busy();
    bench.keys("f");
    let before: Vec<(String, u64)> =
        bench.state.shown.rows.iter().map(|row| (row.name(&bench.state.style), row.stats.count)).collect();
    bench.keys("/binlog");
    bench.press(Press::Enter);
    bench.seconds(2, &fixture::busy());
    let [row] = &bench.state.shown.rows[..] else { panic!("{:?}", bench.state.shown.rows) };
    assert_eq!(row.stats.count, 2_980);
    bench.press(Press::Esc);
    let after: Vec<(String, u64)> =
        bench.state.shown.rows.iter().map(|row| (row.name(&bench.state.style), row.stats.count)).collect();
    assert_eq!(before, after);
}

#[test]
fn the_mouse_selects_rows_columns_and_groupings() {
    let mut bench = busy();
    let press = |bench: &mut Bench, column, row| {
        bench.apply(Event::Mouse(Mouse { column, row, kind: MouseKind::Press }));
    };
    let at = bench.state.areas();
    press(&mut bench, 3, at.rows.y + 2);
    assert_eq!(bench.selected_name(), "doublewrite");
    press(&mut bench, 3, at.rows.y + 30);
    assert_eq!(bench.selected_name(), "doublewrite", "there is no row there");

    let heading = bench.lines()[usize::from(at.heading.y)].clone();
    let syncs = heading.chars().position(|c| c == '/').unwrap() as u16;
    press(&mut bench, syncs, at.heading.y);
    assert_eq!(
        bench.state.choice.table().sort,
        Sort { column: Column::Figure(Figure::Rate), reverse: false }
    );
    press(&mut bench, syncs, at.heading.y);
    assert!(bench.state.choice.table().sort.reverse);

    let tabs = bench.lines()[usize::from(at.tabs.y)].clone();
    press(&mut bench, tabs.find("file").unwrap() as u16, at.tabs.y);
    assert_eq!(bench.state.choice.view, View::File);
    let wheel = |bench: &mut Bench, kind| {
        bench.apply(Event::Mouse(Mouse { column: 0, row: at.rows.y, kind }));
        bench.state.choice.table().selection.index
    };
    assert_eq!(wheel(&mut bench, MouseKind::WheelDown), 3);
    assert_eq!(wheel(&mut bench, MouseKind::WheelUp), 0);
    // The help is not clicked through.
    bench.keys("?");
    press(&mut bench, 3, at.rows.y + 2);
    assert_eq!(bench.state.choice.table().selection.index, 0);
}

#[test]
fn stuck_threads_are_looked_at_now_and_then_and_no_others() {
    let mut bench = busy();
    assert!(bench.effects.is_empty());
    let mut m = fixture::quiet();
    m.in_flight = vec![stuck(MYSQL, "/f", SECOND / 2)];
    bench.second(&m);
    assert!(bench.effects.is_empty(), "it is not stuck yet");
    m.in_flight = vec![stuck(MYSQL, "/f", 2 * SECOND)];
    bench.second(&m);
    let [Effect::Look(threads)] = &bench.effects[..] else { panic!("{:?}", bench.effects) };
    assert_eq!(threads[..], [(MYSQL.pid, 31_999)]);
    let waiting = Waiting { pid: MYSQL.pid, tid: 31_999, stack: vec![], wait: None, state: 'D' };
    bench.apply(Event::Waits(vec![waiting]));
    bench.effects.clear();
    bench.second(&m);
    assert!(bench.effects.is_empty(), "once a second is too often");
    bench.second(&m);
    assert_eq!(bench.effects.len(), 1);
    bench.second(&fixture::quiet());
    assert!(bench.state.waits.known.is_empty(), "it is not stuck any more");
}

#[test]
fn another_session_goes_on_where_the_last_ended() {
    let mut bench = busy();
    bench.apply(Event::Restarted);
    bench.world.snapshot.files.clear();
    bench.world.snapshot.threads.clear();
    let event = bench.world.take();
    bench.apply(event);
    bench.second(&fixture::busy());
    assert_eq!(bench.state.shown.rows[0].stats.count, 3_237, "not less than nothing, and not all");
    assert_eq!(bench.state.record.past.newest().unwrap().number, SECONDS + 1);
    bench.keys("c");
    assert_eq!(bench.state.shown.rows[0].stats.count, 3_237);
}

#[test]
fn what_an_exporter_remembers_can_be_stepped_into() {
    let mut history = History::new(crate::recording::Options::default());
    for number in 0..60 {
        let mut m = fixture::busy();
        m.span.duration = SECOND;
        m.span.end = std::time::UNIX_EPOCH + SECOND * (1_779_937_070 + number);
        m.span.start = m.span.end - SECOND;
        history.push(&m);
    }
    let mut bench = Bench::new(120, 40);
    bench.apply(Event::Earlier(Box::new(Earlier { history, servers: [MYSQL].into() })));
    bench.world.snapshot.servers = fixture::quiet().servers.to_vec();
    bench.apply_first();
    bench.seconds(8, &fixture::busy());
    bench.assert_shows("exporter's history, then 71 s untraced│");
    bench.press(Press::Left);
    bench.assert_shows_not("told by");
    for _ in 0..16 {
        bench.press(Press::Left);
    }
    assert_eq!(bench.state.shown.rows[0].stats.count, 3_237);
    bench.assert_shows("PAUSED at 02:58:40, from the exporter's history");
    let redo = crate::render::row::Key::Role(MYSQL, Role::Redo, Op::Fdatasync);
    assert_eq!(bench.state.record.past.trails.points(&redo).count(), 68);
}

#[test]
fn a_busy_log_whose_sync_hangs_is_busy_all_the_time() {
    let mut bench = busy();
    let mut m = fixture::quiet();
    m.in_flight = vec![stuck(MYSQL, "/var/lib/mysql/#innodb_redo/#ib_redo5", 5 * SECOND)];
    bench.second(&m);
    let redo = bench.state.shown.rows.iter().find(|row| row.role() == Some(Role::Redo)).unwrap();
    assert_eq!((redo.busy(SECOND), redo.in_flight), (Some(1.0), 1));
    bench.keys("f");
    let stuck = bench.state.shown.rows.iter().find(|row| row.in_flight == 1).unwrap();
    assert!(stuck.name(&bench.state.style).ends_with("#ib_redo5"));
    bench.second(&fixture::busy());
    assert!(bench.state.shown.rows.iter().all(|row| row.in_flight == 0));
}

#[test]
fn as_many_are_in_flight_in_the_past_as_were_then() {
    let mut bench = Bench::busy(100, 24, 2);
    let hangs = |tid| {
        let sync = fixture::in_flight(Role::Redo, "/var/lib/mysql/#innodb_redo/#ib_redo5", 3 * SECOND);
        InFlight { tid, ..sync }
    };
    bench.second(&Interval { in_flight: (1..=12).map(hangs).collect(), ..fixture::busy() });
    bench.assert_shows("12 in flight");
    bench.second(&fixture::busy());
    bench.assert_shows("0 in flight");
    bench.press(Press::Left);
    bench.assert_shows("12 in flight");
    let redo = bench.state.shown.rows.iter().find(|row| row.role() == Some(Role::Redo)).unwrap();
    assert_eq!(redo.in_flight, 12);
}
