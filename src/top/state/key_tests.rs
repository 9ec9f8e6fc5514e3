//! What each key does.

use std::collections::BTreeSet;

use super::*;
use crate::model::Role;
use crate::model::figures::Figure;
use crate::model::fixture::{self, MARIADB, MYSQL};
use crate::render::columns::Column;
use crate::render::row::Row;
use crate::top::event::Extras;
use crate::top::fixture::{Bench, SECOND, many_files};
use crate::top::keys::{EDIT_KEYS, KEYS};
use crate::top::overlay::Topic;

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
    each(keys, |bench| bench.state.show_view(other), |bench, _| assert_eq!(bench.state.choice.view, view));
}

fn nothing(_: &mut Bench) {}

fn topic(bench: &Bench) -> Option<Topic> {
    bench.state.overlay.map(|overlay| overlay.topic)
}

fn names(bench: &Bench) -> Vec<String> {
    bench.state.shown.rows.iter().map(|row| row.name(&bench.state.style)).collect()
}

fn an_entry_of_the_log_leads_to_its_time() {
    let mut bench = busy();
    bench.keys("lG");
    let oldest = bench.state.selected().unwrap();
    let (role, op, at) = (oldest.role(), oldest.op(), oldest.time().unwrap().0);
    bench.press(Press::Enter);
    let tick = bench.state.record.paused_at().unwrap();
    assert_eq!((tick.number, tick.end), (1, at));
    assert_eq!(bench.state.shown.figures.as_ref().unwrap().m.span.end, at);
    let selected = bench.state.selected().unwrap();
    assert_eq!((bench.state.choice.view, selected.role(), selected.op()), (View::Role, role, op));
    bench.press(Char(' '));
    assert!(
        bench.state.record.paused.is_none() && bench.state.shown.figures.as_ref().unwrap().m.span.end > at
    );

    // Failures stay in the log for longer than intervals are kept.
    let mut bench = Bench::new(120, 40);
    bench.apply_first();
    let mut failed = fixture::busy();
    failed.files[0].stats.errors = [(libc::EIO, 1)].into();
    bench.second(&failed);
    bench.seconds(2 * crate::top::trail::TICKS, &fixture::quiet());
    bench.keys("l");
    bench.press(Press::Enter);
    assert_eq!(bench.state.message.text(), Some("what else was going on then is not kept any more"));
    assert!(bench.state.record.paused.is_none());
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
            assert_eq!(bench.state.choice.scope.server, wanted);
            let of_others = |row: &Row| wanted.is_some() && row.key.server() != wanted;
            assert!(!bench.state.shown.rows.iter().any(of_others));
        }
    }),
    (&[Press::BackTab], |_| {
        let mut bench = two_servers();
        bench.press(Press::BackTab);
        assert_eq!(bench.state.choice.scope.server, Some(MARIADB));
        bench.press(Press::BackTab);
        assert_eq!(bench.state.choice.scope.server, Some(MYSQL));
    }),
    (&[Char('W'), Char('7')], |keys| shows(keys, View::Write)),
    (&[Char('K')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(topic(bench), Some(Topic::Stacks));
            bench.press(Char('?'));
            assert_eq!(topic(bench), Some(Topic::Help));
            bench.press(key);
            bench.press(key);
            assert_eq!(bench.state.overlay, None);
        });
    }),
    (&[Char('d')], |keys| {
        each(keys, nothing, |bench, key| {
            let (without, page) = (bench.state.areas().details, bench.state.areas().page());
            bench.press(key);
            assert!(without.is_none() && bench.state.areas().details.is_some());
            assert!(page > bench.state.areas().page());
        });
    }),
    (&[Char('T')], |keys| {
        each(keys, nothing, |bench, _| {
            // The busy server is traced with threads already.
            assert!(matches!(
                bench.effects[..],
                [Effect::Restart(Extras { by_thread: false, all_writes: false })]
            ));
        });
    }),
    (&[Char('A')], |keys| {
        each(keys, nothing, |bench, _| {
            assert!(matches!(
                bench.effects[..],
                [Effect::Restart(Extras { by_thread: true, all_writes: true })]
            ));
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
            let selection = &bench.state.choice.table().selection;
            assert_eq!(selection.index, bench.state.areas().page() - 1);
        });
    }),
    (&[Press::PageUp, Ctrl('b'), Char('b')], |keys| {
        let at_end = |bench: &mut Bench| {
            with_many_files(bench);
            bench.keys("G");
        };
        each(keys, at_end, |bench, _| {
            let page = bench.state.areas().page();
            assert_eq!(bench.state.choice.table().selection.index, bench.state.shown.rows.len() - page);
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
        assert_eq!((bench.state.choice.view, bench.state.choice.scope.server), (View::Role, Some(MYSQL)));
        bench.press(Press::Enter);
        assert_eq!((bench.state.choice.view, bench.state.choice.scope.role), (View::File, Some(Role::Redo)));
        assert_eq!(bench.state.shown.rows.len(), 2, "the two files of the redo log");
        bench.press(Press::Enter);
        assert_eq!(bench.state.message.text(), Some("there is nothing below this row"));
        an_entry_of_the_log_leads_to_its_time();
    }),
    (&[Press::Esc, Press::Backspace], |keys| {
        let narrowed = |bench: &mut Bench| {
            bench.press(Press::Enter);
            bench.keys("/redo5");
            bench.press(Press::Enter);
            bench.press(Char(' '));
        };
        each(keys, narrowed, |bench, key| {
            assert!(!bench.state.choice.filter.is_on() && bench.state.choice.scope.role == Some(Role::Redo));
            bench.press(key);
            assert_eq!((bench.state.choice.scope.role, bench.state.choice.view), (None, View::Role));
            assert!(bench.state.record.paused.is_some());
            bench.press(key);
            assert!(bench.state.record.paused.is_none() && bench.state.choice.scope.server == Some(MYSQL));
            bench.press(key);
            assert_eq!(bench.state.choice.scope.server, None);
            bench.press(key);
            assert_eq!(bench.state.message.text(), Some("q quits"));
        });
    }),
    (&[Char('>'), Char('.')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.choice.table().sort.column, Column::Op);
            assert_eq!(names(bench)[0], "directory", "fsync comes before fdatasync");
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(
                bench.state.choice.table().sort.column,
                Column::Figure(Figure::Errors),
                "the last that sorts"
            );
        });
    }),
    (&[Char('<'), Char(',')], |keys| {
        each(
            keys,
            |bench| bench.keys(">>>"),
            |bench, key| {
                assert_eq!(bench.state.choice.table().sort.column, Column::Figure(Figure::Rate));
                assert_eq!(names(bench)[..2], ["redo", "binlog"]);
                (0..20).for_each(|_| bench.press(key));
                assert_eq!(bench.state.choice.table().sort.column, Column::Name);
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
                assert!(bench.state.shown.rows.is_empty(), "upper case is told apart");
                (0..3).for_each(|_| bench.press(Press::Backspace));
                assert_eq!(bench.state.shown.rows.len(), 6);
                bench.keys("ib_redo[56]");
                assert!(bench.state.shown.rows.is_empty());
                bench.press(Press::Tab);
                assert_eq!(bench.state.shown.rows.len(), 2, "as a regular expression");
                assert_eq!(bench.state.shown.rows_before_filter, 6);
                bench.press(Press::Enter);
                assert!(bench.state.choice.edit.is_none() && bench.state.choice.filter.is_on());
                // Begun again and given up, it is as it was.
                bench.press(key);
                bench.keys("x(");
                assert!(bench.state.choice.filter.error.is_some());
                bench.press(Press::Esc);
                assert_eq!(
                    (bench.state.choice.filter.text.as_str(), bench.state.shown.rows.len()),
                    ("ib_redo[56]", 2)
                );
                bench.press(key);
                bench.press(Ctrl('u'));
                bench.press(Press::Enter);
                assert_eq!(bench.state.shown.rows.len(), 6);
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
        let sum = |bench: &Bench| bench.state.shown.rows.iter().map(|row| row.stats.count).sum::<u64>();
        keys.iter().for_each(|&key| bench.press(key));
        let before = sum(&bench);
        assert_eq!(
            (bench.state.shown.rows.len(), before),
            (205, bench.state.record.summary().unwrap().total().count)
        );
        bench.second(&many_files(200));
        assert_eq!(sum(&bench), before);
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.shown.rows[0].stats.count, u64::from(SECONDS) * 3_237);
            bench.assert_shows("38,844");
            bench.assert_shows("since 03:00:00, 12.0 s");
            bench.press(key);
            assert_eq!(bench.state.shown.rows[0].stats.count, 3_237);
        });
    }),
    (&[Char('0')], |keys| {
        each(keys, nothing, |bench, _| {
            assert!(bench.state.choice.cumulative);
            bench.seconds(2, &fixture::busy());
            assert_eq!(bench.state.shown.rows[0].stats.count, 2 * 3_237);
        });
        // What is paused was before: from now on is live.
        each(
            keys,
            |bench| bench.keys(" "),
            |bench, _| {
                assert!(bench.state.choice.cumulative && bench.state.record.paused.is_none());
                bench.seconds(2, &fixture::busy());
                assert_eq!(bench.state.shown.rows[0].stats.count, 2 * 3_237);
            },
        );
        each(
            keys,
            |bench| {
                bench.keys(" ");
                bench.second(&fixture::busy());
            },
            |bench, _| {
                assert_eq!(bench.state.shown.rows.iter().map(|row| row.stats.count).sum::<u64>(), 0);
                bench.seconds(2, &fixture::busy());
                assert_eq!(bench.state.shown.rows[0].stats.count, 2 * 3_237);
            },
        );
    }),
    (&[Char(' '), Char('p')], |keys| {
        each(keys, nothing, |bench, key| {
            assert!(bench.state.record.paused.is_some());
            let before = bench.state.shown.figures.as_ref().unwrap().tick;
            bench.seconds(3, &fixture::quiet());
            assert_eq!(bench.state.shown.figures.as_ref().unwrap().tick, before);
            assert_eq!(bench.state.shown.rows[0].stats.count, 3_237);
            bench.press(key);
            assert_eq!(bench.state.shown.figures.as_ref().unwrap().tick, before + 3);
            assert_eq!(bench.state.shown.rows[0].stats.count, 0);
        });
    }),
    (&[Press::Left], |keys| {
        each(
            keys,
            |bench| bench.second(&fixture::quiet()),
            |bench, key| {
                assert_eq!(bench.state.record.paused.as_ref().unwrap().tick, SECONDS);
                assert_eq!(bench.state.shown.rows[0].stats.count, 3_237, "as it was");
                (0..100).for_each(|_| bench.press(key));
                assert_eq!(bench.state.record.paused.as_ref().unwrap().tick, 1);
                assert_eq!(bench.state.message.text(), Some("this is the oldest that is kept"));
            },
        );
    }),
    (&[Press::Right], |keys| {
        each(
            keys,
            |bench| (0..3).for_each(|_| bench.press(Press::Left)),
            |bench, key| {
                assert_eq!(bench.state.record.paused.as_ref().unwrap().tick, SECONDS - 2);
                bench.press(key);
                bench.press(key);
                bench.press(key);
                assert_eq!(bench.state.record.paused.as_ref().unwrap().tick, SECONDS);
                assert_eq!(bench.state.message.text(), Some("this is the newest; Space goes on"));
            },
        );
    }),
    (&[Char('{')], |keys| {
        let mut bench = Bench::busy(120, 40, 70);
        keys.iter().for_each(|&key| bench.press(key));
        assert_eq!(bench.state.record.paused.as_ref().unwrap().tick, 10);
    }),
    (&[Char('}')], |keys| {
        let mut bench = Bench::busy(120, 40, 70);
        bench.keys("{{");
        keys.iter().for_each(|&key| bench.press(key));
        assert_eq!(bench.state.record.paused.as_ref().unwrap().tick, 61);
    }),
    (&[Char('+'), Char('=')], |keys| {
        each(keys, nothing, |bench, key| {
            assert!(matches!(bench.effects[..], [Effect::Interval(interval)] if interval == 2 * SECOND));
            bench.assert_shows("refresh 2 s");
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.tracing.interval, 60 * SECOND);
        });
    }),
    (&[Char('-')], |keys| {
        each(keys, nothing, |bench, key| {
            assert!(matches!(bench.effects[..], [Effect::Interval(interval)] if interval == SECOND / 2));
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.tracing.interval, SECOND / 10);
        });
    }),
    (&[Char('[')], |keys| {
        each(keys, nothing, |bench, key| {
            assert_eq!(bench.state.choice.each, 2);
            (0..20).for_each(|_| bench.press(key));
            assert_eq!(bench.state.choice.each, 20);
        });
    }),
    (&[Char(']')], |keys| {
        each(
            keys,
            |bench| bench.keys("[["),
            |bench, key| {
                assert_eq!(bench.state.choice.each, 2);
                (0..3).for_each(|_| bench.press(key));
                assert_eq!(bench.state.choice.each, 1);
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
                assert_eq!(m.span.duration, SECOND);
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
            assert_eq!(topic(bench), Some(Topic::Help));
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
                let filter = &bench.state.choice.filter;
                assert_eq!((filter.text.as_str(), filter.is_regex), (text, is_regex), "{key}");
                assert_eq!(bench.state.choice.edit.is_some(), is_typed, "{key}");
            },
        );
    }
    let tested: BTreeSet<Press> = EDIT_CHECKS.iter().flat_map(|(keys, ..)| *keys).copied().collect();
    let all: BTreeSet<Press> = EDIT_KEYS.iter().flat_map(|binding| binding.keys).copied().collect();
    assert_eq!(tested, all);
}
