//! A recording in the live view.

use std::time::{Duration, SystemTime};

use super::Event;
use crate::model::Interval;
use crate::model::fixture::{busy, quiet, two_servers};
use crate::recording::{History, Options};
use crate::top::fixture::{Bench, SECOND};
use crate::top::keys::Press::{self, Char};

fn at(second: u64, mut m: Interval) -> Interval {
    m.span.start += Duration::from_secs(second);
    m.span.duration = SECOND;
    m.span.end = m.span.start + SECOND;
    m
}

fn recording(moments: impl Iterator<Item = Interval>) -> Box<History> {
    let unlimited = Options { length: Duration::MAX, bytes: usize::MAX, files: usize::MAX };
    let mut history = History::new(unlimited);
    moments.for_each(|m| history.push(&m));
    Box::new(history)
}

fn shown(at: Option<SystemTime>) -> Bench {
    let moments = (0..30).map(|second| self::at(second, if second < 20 { busy() } else { two_servers() }));
    let mut bench = Bench::new(120, 30);
    bench.apply(Event::Recording(recording(moments), at));
    bench
}

/// How long the intervals before the one that is shown take.
fn second(bench: &Bench) -> u64 {
    let begin = bench.state.shown.figures.as_ref().unwrap().m.span.start;
    begin.duration_since(quiet().span.start).unwrap().as_secs()
}

#[test]
fn a_recording_is_shown_at_its_end_or_at_a_moment_and_played_to_its_end() {
    let mut bench = shown(None);
    assert_eq!(second(&bench), 29);
    bench.assert_shows("RECORDING of 2026-05-28 at ");
    bench.press(Press::Left);
    assert_eq!(second(&bench), 28);

    let mut bench = shown(Some(quiet().span.start + Duration::from_millis(12_500)));
    assert_eq!(second(&bench), 12);
    bench.wait(SECOND);
    assert_eq!(second(&bench), 12, "it plays by itself");
    bench.press(Char(' '));
    bench.assert_shows("PLAYING of ");
    bench.wait(2 * SECOND);
    assert_eq!(second(&bench), 13);
    bench.keys("++");
    assert_eq!(bench.state.message.text(), Some("5 intervals a second"));
    (0..3).for_each(|n| bench.wait((3 + n) * SECOND));
    assert_eq!(second(&bench), 28);
    bench.wait(9 * SECOND);
    assert_eq!((second(&bench), bench.state.message.text()), (29, Some("this is the end of the recording")));
    bench.assert_shows("RECORDING of ");
    // Then from its beginning.
    bench.press(Char(' '));
    assert_eq!(second(&bench), 0);
}

#[test]
fn what_needs_tracing_is_refused_and_nothing_leads_out_of_a_recording() {
    let mut bench = shown(None);
    for key in ['A', 'T', '0'] {
        bench.press(Char(key));
        assert_eq!(
            bench.state.message.text(),
            Some("this is a recording: it cannot be changed any more"),
            "{key}"
        );
    }
    bench.press(Press::Esc);
    assert!(bench.state.record.paused.is_some() && bench.effects.is_empty());
    bench.keys("c");
    let all = bench.state.shown.figures.as_ref().unwrap().m.total().count;
    assert_eq!(all, 20 * busy().total().count + 10 * two_servers().total().count);
}

#[test]
fn of_a_long_recording_some_intervals_are_one_and_its_sums_are_whole() {
    let mut bench = Bench::new(120, 30);
    bench.apply(Event::Recording(recording((0..3_000).map(|second| at(second, busy()))), None));
    bench.keys("c");
    assert_eq!(bench.state.shown.figures.as_ref().unwrap().m.total().count, 3_000 * busy().total().count);
    assert!(bench.state.record.past.newest().unwrap().duration >= 5 * SECOND);
}
