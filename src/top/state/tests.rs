//! What each key does, and what stays as it is whatever happens.

use std::collections::BTreeSet;

use super::*;
use crate::history::History;
use crate::once::fixture::{self, MARIADB, MYSQL};
use crate::snapshot::{Op, Role};
use crate::top::event::{Earlier, Mouse, MouseKind};
use crate::top::fixture::{Bench, SECOND, many_files, stuck};
use crate::top::keys::{EDIT_KEYS, KEYS};
use crate::top::screen::areas;
use crate::top::view::Column;

/// Keys, and what has to be true after them. Every key of the table has to be here.
type Check = (&'static [Press], fn(&[Press]));

const SECONDS: u32 = 12;

fn busy() -> Bench {
    Bench::busy(120, 40, SECONDS)
}

/// Each of the keys, on a view of its own.
fn each(keys: &[Press], prepare: impl Fn(&mut Bench), check: impl Fn(&mut Bench, Press)) {
    for &key in keys {
        let mut bench = busy();
        prepare(&mut bench);
        bench.press(key);
        check(&mut bench, key);
    }
}

fn shows(keys: &[Press], view: View) {
    let other = if view == View::Role { View::File } else { View::Role };
    each(keys, |bench| bench.state.show_view(other), |bench, _| assert_eq!(bench.state.view, view));
}

fn nothing(_: &mut Bench) {}

fn names(bench: &Bench) -> Vec<String> {
    bench.state.rows.iter().map(|row| row.name(&bench.state.style)).collect()
}

fn two_servers() -> Bench {
    let mut bench = Bench::new(120, 40);
    bench.apply_first();
    bench.seconds(3, &fixture::two_servers());
    bench
}

use Press::{Char, Ctrl, F};

const CHECKS: &[Check] = &[
    (&[Char('r'), Char('1')], |keys| shows(keys, View::Role)),
    (&[Char('f'), Char('2')], |keys| shows(keys, View::File)),
    (&[Char('t'), Char('3')], |keys| shows(keys, View::Thread)),
    (&[Char('s'), Char('4')], |keys| shows(keys, View::Server)),
    (&[Char('n'), Char('5')], |keys| shows(keys, View::Neighbour)),
    (&[Char('l'), Char('6')], |keys| shows(keys, View::Log)),
    (&[Press::Tab], |_| {
        let mut bench = two_servers();
        for wanted in [Some(MYSQL), Some(MARIADB), None] {
            bench.press(Press::Tab);
            assert_eq!(bench.state.scope.server, wanted);
            let of_others = |row: &Row| wanted.is_some() && row.key.server() != wanted;
            assert!(!bench.state.rows.iter().any(of_others));
        }
    }),
    (&[Press::BackTab], |_| {
        let mut bench = two_servers();
        bench.press(Press::BackTab);
        assert_eq!(bench.state.scope.server, Some(MARIADB));
        bench.press(Press::BackTab);
        assert_eq!(bench.state.scope.server, Some(MYSQL));
    }),
    (&[Char('K')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.overlay, Some(Overlay::Stacks));
            bench.press(Char('?'));
            assert_eq!(bench.state.overlay, Some(Overlay::Help));
            bench.press(key);
            bench.press(key);
            assert_eq!(bench.state.overlay, None);
        });
    }),
    (&[Char('d')], |keys| {
        each(keys, nothing, |bench, key| {
            let (without, page) = (areas(&bench.state).details, areas(&bench.state).page());
            bench.press(key);
            assert!(without.is_none() && areas(&bench.state).details.is_some());
            assert!(page > areas(&bench.state).page());
        });
    }),
    (&[Char('T')], |keys| {
        each(keys, nothing, |bench, _| {
            // The busy server is traced with threads already.
            assert!(matches!(bench.effects[..], [Effect::Restart { by_thread: false }]));
        });
    }),
    (&[Press::Down, Char('j')], |keys| {
        each(keys, nothing, |bench, _| assert_eq!(bench.selected_name(), "binlog"));
    }),
    (&[Press::Up, Char('k')], |keys| {
        each(keys, |bench| bench.keys("jj"), |bench, _| assert_eq!(bench.selected_name(), "binlog"));
    }),
    (&[Press::PageDown, Ctrl('f')], |keys| {
        each(keys, with_many_files, |bench, _| {
            let selection = &bench.state.table().selection;
            assert_eq!(selection.index, areas(&bench.state).page() - 1);
        });
    }),
    (&[Press::PageUp, Ctrl('b'), Char('b')], |keys| {
        let at_end = |bench: &mut Bench| {
            with_many_files(bench);
            bench.keys("G");
        };
        each(keys, at_end, |bench, _| {
            let page = areas(&bench.state).page();
            assert_eq!(bench.state.table().selection.index, bench.state.rows.len() - page);
        });
    }),
    (&[Press::Home, Char('g')], |keys| {
        each(keys, |bench| bench.keys("jjj"), |bench, _| assert_eq!(bench.selected_name(), "redo"));
    }),
    (&[Press::End, Char('G')], |keys| {
        each(keys, nothing, |bench, _| assert_eq!(bench.selected_name(), "directory"));
    }),
    (&[Press::Enter], |_| {
        let mut bench = two_servers();
        bench.keys("s");
        bench.press(Press::Enter);
        assert_eq!((bench.state.view, bench.state.scope.server), (View::Role, Some(MYSQL)));
        bench.press(Press::Enter);
        assert_eq!((bench.state.view, bench.state.scope.role), (View::File, Some(Role::Redo)));
        assert_eq!(bench.state.rows.len(), 2, "the two files of the redo log");
        bench.press(Press::Enter);
        assert_eq!(bench.state.message(), Some("there is nothing below this row"));
    }),
    (&[Press::Esc, Press::Backspace], |keys| {
        let narrowed = |bench: &mut Bench| {
            bench.press(Press::Enter);
            bench.keys("/redo5");
            bench.press(Press::Enter);
            bench.press(Char(' '));
        };
        each(keys, narrowed, |bench, key| {
            assert!(!bench.state.filter.is_on() && bench.state.scope.role == Some(Role::Redo));
            bench.press(key);
            assert_eq!((bench.state.scope.role, bench.state.view), (None, View::Role));
            assert!(bench.state.paused.is_some());
            bench.press(key);
            assert!(bench.state.paused.is_none() && bench.state.scope.server == Some(MYSQL));
            bench.press(key);
            assert_eq!(bench.state.scope.server, None);
            bench.press(key);
            assert_eq!(bench.state.message(), Some("q quits"));
        });
    }),
    (&[Char('>'), Char('.')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.table().sort.column, Column::Op);
            assert_eq!(names(bench)[0], "directory", "fsync comes before fdatasync");
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.table().sort.column, Column::Errors, "the last that sorts");
        });
    }),
    (&[Char('<'), Char(',')], |keys| {
        each(
            keys,
            |bench| bench.keys(">>>"),
            |bench, key| {
                assert_eq!(bench.state.table().sort.column, Column::Rate);
                assert_eq!(names(bench)[..2], ["redo", "binlog"]);
                (0..20).for_each(|_| bench.press(key));
                assert_eq!(bench.state.table().sort.column, Column::Name);
            },
        );
    }),
    (&[Char('R'), Char('I')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(names(bench)[0], "directory");
            bench.keys(">>");
            assert_eq!(names(bench)[0], "redo", "another column begins in its own order");
            bench.press(key);
            assert_eq!(names(bench)[0], "directory", "which has fewest");
        });
    }),
    (&[Char('/'), Char('&')], |keys| {
        each(
            keys,
            |bench| bench.keys("f"),
            |bench, key| {
                bench.keys("IBD");
                assert!(bench.state.rows.is_empty(), "upper case is told apart");
                (0..3).for_each(|_| bench.press(Press::Backspace));
                assert_eq!(bench.state.rows.len(), 6);
                bench.keys("ib_redo[56]");
                assert!(bench.state.rows.is_empty());
                bench.press(Press::Tab);
                assert_eq!(bench.state.rows.len(), 2, "as a regular expression");
                assert_eq!(bench.state.rows_before_filter, 6);
                bench.press(Press::Enter);
                assert!(bench.state.edit.is_none() && bench.state.filter.is_on());
                // Begun again and given up, it is as it was.
                bench.press(key);
                bench.keys("x(");
                assert!(bench.state.filter.error.is_some());
                bench.press(Press::Esc);
                assert_eq!((bench.state.filter.text.as_str(), bench.state.rows.len()), ("ib_redo[56]", 2));
                bench.press(key);
                bench.press(Ctrl('u'));
                bench.press(Press::Enter);
                assert_eq!(bench.state.rows.len(), 6);
            },
        );
    }),
    (&[Char('u')], |keys| {
        each(keys, nothing, |bench, key| {
            bench.assert_shows("1,700µs");
            bench.press(key);
            bench.assert_shows("1.70ms");
            bench.press(key);
            bench.assert_shows("0.0017s");
            bench.press(key);
            bench.assert_shows(" ≤1.7ms");
        });
    }),
    (&[Char('m')], |keys| {
        each(keys, nothing, |bench, key| {
            bench.assert_shows("max, ");
            bench.press(key);
            bench.assert_shows("/s, ");
            bench.press(key);
            bench.assert_shows("p99, ");
        });
    }),
    (&[Char('c')], |keys| {
        // Paused, it stays as it was: with every file, of which fewer are kept of the past.
        let mut bench = busy();
        bench.second(&many_files(200));
        bench.keys("f ");
        let sum = |bench: &Bench| bench.state.rows.iter().map(|row| row.stats.count).sum::<u64>();
        keys.iter().for_each(|&key| bench.press(key));
        let before = sum(&bench);
        assert_eq!((bench.state.rows.len(), before), (205, bench.state.summary().unwrap().total().count));
        bench.second(&many_files(200));
        assert_eq!(sum(&bench), before);
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.rows[0].stats.count, u64::from(SECONDS) * 3_237);
            bench.assert_shows("38,844");
            bench.assert_shows("since 03:00:00, 12.0 s");
            bench.press(key);
            assert_eq!(bench.state.rows[0].stats.count, 3_237);
        });
    }),
    (&[Char('0')], |keys| {
        each(keys, nothing, |bench, _| {
            assert!(bench.state.cumulative);
            bench.seconds(2, &fixture::busy());
            assert_eq!(bench.state.rows[0].stats.count, 2 * 3_237);
        });
    }),
    (&[Char(' '), Char('p')], |keys| {
        each(keys, nothing, |bench, key| {
            assert!(bench.state.paused.is_some());
            let before = bench.state.shown.as_ref().unwrap().tick;
            bench.seconds(3, &fixture::quiet());
            assert_eq!(bench.state.shown.as_ref().unwrap().tick, before);
            assert_eq!(bench.state.rows[0].stats.count, 3_237);
            bench.press(key);
            assert_eq!(bench.state.shown.as_ref().unwrap().tick, before + 3);
            assert_eq!(bench.state.rows[0].stats.count, 0);
        });
    }),
    (&[Press::Left], |keys| {
        each(
            keys,
            |bench| bench.second(&fixture::quiet()),
            |bench, key| {
                assert_eq!(bench.state.paused.as_ref().unwrap().tick, SECONDS);
                assert_eq!(bench.state.rows[0].stats.count, 3_237, "as it was");
                (0..100).for_each(|_| bench.press(key));
                assert_eq!(bench.state.paused.as_ref().unwrap().tick, 1);
                assert_eq!(bench.state.message(), Some("this is the oldest that is kept"));
            },
        );
    }),
    (&[Press::Right], |keys| {
        each(
            keys,
            |bench| (0..3).for_each(|_| bench.press(Press::Left)),
            |bench, key| {
                assert_eq!(bench.state.paused.as_ref().unwrap().tick, SECONDS - 2);
                bench.press(key);
                bench.press(key);
                bench.press(key);
                assert_eq!(bench.state.paused.as_ref().unwrap().tick, SECONDS);
                assert_eq!(bench.state.message(), Some("this is the newest; Space goes on"));
            },
        );
    }),
    (&[Char('{')], |keys| {
        let mut bench = Bench::busy(120, 40, 70);
        keys.iter().for_each(|&key| bench.press(key));
        assert_eq!(bench.state.paused.as_ref().unwrap().tick, 10);
    }),
    (&[Char('}')], |keys| {
        let mut bench = Bench::busy(120, 40, 70);
        bench.keys("{{");
        keys.iter().for_each(|&key| bench.press(key));
        assert_eq!(bench.state.paused.as_ref().unwrap().tick, 61);
    }),
    (&[Char('+'), Char('=')], |keys| {
        each(keys, nothing, |bench, key| {
            assert!(matches!(bench.effects[..], [Effect::Interval(interval)] if interval == 2 * SECOND));
            bench.assert_shows("every 2 s");
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.interval, 60 * SECOND);
        });
    }),
    (&[Char('-')], |keys| {
        each(keys, nothing, |bench, key| {
            assert!(matches!(bench.effects[..], [Effect::Interval(interval)] if interval == SECOND / 2));
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.interval, SECOND / 10);
        });
    }),
    (&[Char('[')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.each, 2);
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.each, 20);
        });
    }),
    (&[Char(']')], |keys| {
        each(
            keys,
            |bench| bench.keys("[["),
            |bench, key| {
                assert_eq!(bench.state.each, 2);
                (0..3).for_each(|_| bench.press(key));
                assert_eq!(bench.state.each, 1);
            },
        );
    }),
    (&[Char('w')], |keys| {
        each(
            keys,
            |bench| bench.keys("/binlog"),
            |bench, _| {
                assert!(bench.effects.is_empty(), "it is typed into the filter");
                bench.press(Press::Backspace);
                bench.press(Press::Enter);
                bench.press(Char('w'));
                let [Effect::Write(m)] = &bench.effects[..] else { panic!("{:?}", bench.effects) };
                let roles: Vec<Role> = m.roles.iter().map(|row| row.role).collect();
                assert_eq!(roles, [Role::Binlog], "as on the screen");
                assert_eq!(m.duration, SECOND);
                assert_eq!(m.files.len(), 6, "what the screen does not show is whole");
            },
        );
    }),
    (&[Char('M')], |keys| {
        each(keys, nothing, |bench, key| {
            bench.press(key);
            assert!(matches!(bench.effects[..], [Effect::Mouse(false), Effect::Mouse(true)]));
        });
    }),
    (&[Char('?'), Char('h'), F(1)], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.overlay, Some(Overlay::Help));
            bench.press(Char('q'));
            assert_eq!(bench.state.overlay, None);
            assert!(bench.effects.is_empty(), "that closed the help and nothing else");
            bench.press(key);
            bench.press(key);
            assert_eq!(bench.state.overlay, None);
        });
    }),
    (&[Ctrl('l')], |keys| {
        each(keys, nothing, |bench, _| assert!(matches!(bench.effects[..], [Effect::Redraw])));
    }),
    (&[Ctrl('z')], |keys| {
        each(keys, nothing, |bench, _| assert!(matches!(bench.effects[..], [Effect::Suspend])));
    }),
    (&[Char('q'), F(10)], |keys| {
        each(keys, nothing, |bench, _| assert!(matches!(bench.effects[..], [Effect::Quit])));
    }),
    (&[Ctrl('c')], |keys| {
        each(keys, nothing, |bench, _| assert!(matches!(bench.effects[..], [Effect::Quit])));
        // Whatever stands before the table.
        for before in ["?", "K", "/abc"] {
            each(
                keys,
                |bench| bench.keys(before),
                |bench, _| {
                    assert!(matches!(bench.effects[..], [Effect::Quit]), "{before}");
                },
            );
        }
    }),
];

fn with_many_files(bench: &mut Bench) {
    bench.keys("f");
    bench.second(&many_files(1_000));
}

#[test]
fn every_key_does_what_its_help_says() {
    for (keys, check) in CHECKS {
        check(keys);
    }
}

#[test]
fn every_key_of_the_table_is_tested() {
    let tested: BTreeSet<Press> = CHECKS.iter().flat_map(|(keys, _)| *keys).copied().collect();
    let all: BTreeSet<Press> = KEYS.iter().flat_map(|binding| binding.keys).copied().collect();
    assert_eq!(tested, all);
}

/// Each with what it makes of a filter that says `redo`.
const EDIT_CHECKS: &[(&[Press], &str, bool, bool)] = &[
    (&[Press::Tab, Ctrl('r')], "redo", true, true),
    (&[Press::Enter], "redo", false, false),
    (&[Press::Esc], "", false, false),
    (&[Press::Backspace, Ctrl('h')], "red", false, true),
    (&[Ctrl('u')], "", false, true),
];

#[test]
fn every_key_of_the_filter_does_what_its_help_says() {
    for &(keys, text, is_regex, is_typed) in EDIT_CHECKS {
        each(
            keys,
            |bench| bench.keys("/redo"),
            |bench, key| {
                let filter = &bench.state.filter;
                assert_eq!((filter.text.as_str(), filter.is_regex), (text, is_regex), "{key}");
                assert_eq!(bench.state.edit.is_some(), is_typed, "{key}");
            },
        );
    }
    let tested: BTreeSet<Press> = EDIT_CHECKS.iter().flat_map(|(keys, ..)| *keys).copied().collect();
    let all: BTreeSet<Press> = EDIT_KEYS.iter().flat_map(|binding| binding.keys).copied().collect();
    assert_eq!(tested, all);
}

#[test]
fn help_is_read_as_in_less_and_with_the_wheel() {
    let mut bench = Bench::busy(80, 24, 1);
    let at = |bench: &Bench| bench.state.overlay_offset;
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
    assert_eq!((at(&bench), bench.state.overlay), (0, Some(Overlay::Help)));
}

#[test]
fn threads_since_the_start_are_not_kept_of_the_past_which_is_said() {
    let mut bench = busy();
    bench.keys("tc");
    assert!(!bench.state.rows.is_empty());
    bench.press(Press::Left);
    bench.assert_shows("Rows by thread are kept of each interval of the past, but not since the start.");
    bench.keys("c");
    assert!(!bench.state.rows.is_empty());
}

#[test]
fn a_key_without_meaning_says_so() {
    let mut bench = busy();
    bench.press(Char('x'));
    assert_eq!(bench.state.message(), Some("x does nothing; ? shows every key"));
    bench.wait(9 * SECOND);
    assert_eq!(bench.state.message(), None, "it does not stay for ever");
}

#[test]
fn the_selection_follows_the_row_wherever_it_moves() {
    let mut bench = busy();
    bench.keys("f<");
    assert_eq!(bench.state.table().sort.column, Column::Max);
    bench.keys("jj");
    let name = bench.selected_name();
    let place = bench.state.table().selection.index;
    let mut m = fixture::busy();
    let at = m.files.iter().position(|row| name.ends_with(row.info.path.as_ref().unwrap().to_str().unwrap()));
    m.files[at.unwrap()].stats.merge(&fixture::stats(&[(1, 9_000_000_000)]));
    let (files, threads) = (m.files.clone(), m.threads.clone());
    bench.second(&fixture::with_files(m, files, threads));
    assert_eq!((bench.selected_name(), bench.state.table().selection.index), (name.clone(), 0));
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
fn a_filter_leaves_every_figure_as_it_is() {
    let mut bench = busy();
    bench.keys("f");
    let before: Vec<(String, u64)> =
        bench.state.rows.iter().map(|row| (row.name(&bench.state.style), row.stats.count)).collect();
    bench.keys("/binlog");
    bench.press(Press::Enter);
    bench.seconds(2, &fixture::busy());
    let [row] = &bench.state.rows[..] else { panic!("{:?}", bench.state.rows) };
    assert_eq!(row.stats.count, 2_980);
    bench.press(Press::Esc);
    let after: Vec<(String, u64)> =
        bench.state.rows.iter().map(|row| (row.name(&bench.state.style), row.stats.count)).collect();
    assert_eq!(before, after);
}

#[test]
fn the_mouse_selects_rows_columns_and_groupings() {
    let mut bench = busy();
    let press = |bench: &mut Bench, column, row| {
        bench.apply(Event::Mouse(Mouse { column, row, kind: MouseKind::Press }));
    };
    let at = areas(&bench.state);
    press(&mut bench, 3, at.rows.y + 2);
    assert_eq!(bench.selected_name(), "doublewrite");
    press(&mut bench, 3, at.rows.y + 30);
    assert_eq!(bench.selected_name(), "doublewrite", "there is no row there");

    let heading = bench.lines()[usize::from(at.heading.y)].clone();
    let syncs = heading.chars().position(|c| c == '/').unwrap() as u16;
    press(&mut bench, syncs, at.heading.y);
    assert_eq!(bench.state.table().sort, Sort { column: Column::Rate, reverse: false });
    press(&mut bench, syncs, at.heading.y);
    assert!(bench.state.table().sort.reverse);

    let tabs = bench.lines()[usize::from(at.tabs.y)].clone();
    press(&mut bench, tabs.find("file").unwrap() as u16, at.tabs.y);
    assert_eq!(bench.state.view, View::File);
    let wheel = |bench: &mut Bench, kind| {
        bench.apply(Event::Mouse(Mouse { column: 0, row: at.rows.y, kind }));
        bench.state.table().selection.index
    };
    assert_eq!(wheel(&mut bench, MouseKind::WheelDown), 3);
    assert_eq!(wheel(&mut bench, MouseKind::WheelUp), 0);
    // The help is not clicked through.
    bench.keys("?");
    press(&mut bench, 3, at.rows.y + 2);
    assert_eq!(bench.state.table().selection.index, 0);
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
    assert!(bench.state.waits.is_empty(), "it is not stuck any more");
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
    assert_eq!(bench.state.rows[0].stats.count, 3_237, "not less than nothing, and not all");
    assert_eq!(bench.state.past.newest().unwrap().number, SECONDS + 1);
    bench.keys("c");
    assert_eq!(bench.state.rows[0].stats.count, 3_237);
}

#[test]
fn what_an_exporter_remembers_can_be_stepped_into() {
    let mut history = History::new(crate::history::Options::default());
    for number in 0..60 {
        let mut m = fixture::busy();
        m.duration = SECOND;
        m.end = std::time::UNIX_EPOCH + SECOND * (1_779_937_070 + number);
        m.start = m.end - SECOND;
        history.push(&m);
    }
    let mut bench = Bench::new(120, 40);
    bench.apply(Event::Earlier(Box::new(Earlier { history, servers: [MYSQL].into() })));
    bench.world.snapshot.servers = fixture::quiet().servers;
    bench.apply_first();
    bench.seconds(8, &fixture::busy());
    bench.assert_shows("exporter, then 71 s unseen│");
    bench.press(Press::Left);
    bench.assert_shows_not("told by");
    for _ in 0..16 {
        bench.press(Press::Left);
    }
    assert_eq!(bench.state.rows[0].stats.count, 3_237);
    bench.assert_shows("PAUSED at 02:58:40, told by the exporter");
    let redo = crate::top::rows::Key::Role(MYSQL, Role::Redo, Op::Fdatasync);
    assert_eq!(bench.state.past.trails.points(&redo).count(), 68);
}

#[test]
fn a_busy_log_whose_sync_hangs_is_busy_all_the_time() {
    let mut bench = busy();
    let mut m = fixture::quiet();
    m.in_flight = vec![stuck(MYSQL, "/var/lib/mysql/#innodb_redo/#ib_redo5", 5 * SECOND)];
    bench.second(&m);
    let redo = bench.state.rows.iter().find(|row| row.role == Some(Role::Redo)).unwrap();
    assert_eq!((redo.busy(SECOND), redo.in_flight), (Some(1.0), 1));
    bench.keys("f");
    let stuck = bench.state.rows.iter().find(|row| row.in_flight == 1).unwrap();
    assert!(stuck.name(&bench.state.style).ends_with("#ib_redo5"));
    bench.second(&fixture::busy());
    assert!(bench.state.rows.iter().all(|row| row.in_flight == 0));
}
