//! The events of a recording, judged anew by the thresholds of now, from one interval to the next. What a
//! recording cannot tell, such as when a file was closed, is in docs/recordings.md.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::{Event, Watch};
use crate::model::{FileInfo, FileRow, Interval, RoleRow, Server, Snapshot, Target};
use crate::recording::joined;
use crate::verdict::{Judge, Thresholds, Tracing};

pub(crate) struct Recorded {
    judge: Judge,
    watch: Watch,
    /// All so far: a judge wants totals.
    total: Option<Interval>,
    /// The end of the last interval, and the same as a moment of this process's.
    last: Option<(SystemTime, Instant)>,
}

/// What one interval had.
pub(crate) struct Moment {
    pub events: Vec<Event>,
    pub servers: Vec<Arc<Server>>,
    /// Its end, by both clocks.
    pub now: (Instant, SystemTime),
}

impl Recorded {
    pub fn new(thresholds: Thresholds, above: Duration) -> Recorded {
        Recorded { judge: Judge::new(thresholds), watch: Watch::new(above), total: None, last: None }
    }

    /// To be given all intervals in their order.
    pub fn follow(&mut self, m: &Interval) -> Moment {
        // What lies between two intervals has passed as well, whatever was set meanwhile.
        let taken = match self.last {
            Some((end, taken)) => {
                let gap = m.span.start.duration_since(end).unwrap_or_default();
                taken + gap.min(MAX_GAP) + m.span.duration
            }
            None => Instant::now(),
        };
        self.last = Some((m.span.end, taken));
        let total = joined(self.total.take(), m);
        let snapshot = Arc::new(Snapshot {
            servers: m.servers.iter().cloned().collect(),
            files: total.files.iter().cloned().chain(total.roles.iter().map(of_role)).collect(),
            failures: total.failures.iter().cloned().collect(),
            writes: total.writes.iter().cloned().collect(),
            in_flight: m.in_flight.clone(),
            ..Snapshot::empty(taken, m.span.end, m.setup.clone())
        });
        self.total = Some(total);
        self.judge.enter(&snapshot, m);
        let verdicts = self.judge.verdicts(&Tracing::Running { interval: m.span.duration });
        let mut events = self.watch.verdicts(verdicts.at(taken));
        events.extend(self.watch.operations(m));
        Moment { events, servers: snapshot.servers.clone(), now: (taken, m.span.end) }
    }
}

/// Of the files of an interval not all have rows, and an idle server is known by its totals.
fn of_role(row: &RoleRow) -> FileRow {
    FileRow {
        server: row.server,
        target: Target::Gone(row.role),
        op: row.op,
        info: Arc::new(FileInfo::nameless(row.role)),
        stats: row.stats.clone(),
    }
}

/// A longer time in which nothing was recorded says no more.
const MAX_GAP: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Span;
    use crate::model::fixture::{busy, quiet};

    #[test]
    fn what_is_slow_or_in_flight_is_told_at_the_end_of_its_interval() {
        let mut recorded = Recorded::new(Thresholds::default(), Duration::from_millis(1));
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let at = |m: Interval, second: u64| {
            let start = begin + Duration::from_secs(second);
            let duration = Duration::from_secs(1);
            Interval { span: Span { start, end: start + duration, duration, ..m.span }, ..m }
        };
        let first = recorded.follow(&at(busy(), 0));
        assert!(first.events.iter().any(|event| event.kind() == "verdict"), "{:?}", first.events);
        assert!(first.events.iter().any(|event| event.kind() == "slow"), "{:?}", first.events);
        assert_eq!(first.now.1, begin + Duration::from_secs(1));
        let second = recorded.follow(&at(quiet(), 3));
        assert_eq!(second.now.0 - first.now.0, Duration::from_secs(3));
        assert!(second.events.iter().all(|event| event.kind() != "slow"), "{:?}", second.events);
    }
}
