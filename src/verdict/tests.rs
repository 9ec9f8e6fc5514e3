//! Verdicts of snapshots made by hand: what hangs, fails, is slow, flaps, restarts and goes stale.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::model::fixture::{MARIADB, MYSQL, file, in_flight, quiet, row, server, stats};
use crate::model::*;

const SECOND: Duration = Duration::from_secs(1);
const REDO: &str = "/var/lib/mysql/#innodb_redo/#ib_redo5";

/// A host with servers whose rows grow, second by second.
struct Host {
    begin: Instant,
    second: u64,
    servers: Vec<Server>,
    files: Vec<FileRow>,
    failures: Vec<FileRow>,
    in_flight: Vec<InFlight>,
    refused: Vec<(ServerId, u64)>,
    before: Option<Snapshot>,
    judge: Judge,
    tracing: Tracing,
}

impl Host {
    fn new() -> Host {
        let redo = |id, inode| row(id, inode, REDO, Role::Redo, Op::Fdatasync, Stats::default());
        Host {
            begin: Instant::now(),
            second: 0,
            servers: vec![server(MYSQL, "mysqld", "MySQL 9.7.4", 3306)],
            files: vec![redo(MYSQL, 41), redo(MARIADB, 42)],
            failures: Vec::new(),
            in_flight: Vec::new(),
            refused: Vec::new(),
            before: None,
            judge: Judge::new(Thresholds::default()),
            tracing: Tracing::Running { interval: SECOND },
        }
    }

    fn now(&self) -> Instant {
        self.begin + SECOND * u32::try_from(self.second).unwrap()
    }

    /// Syncs of the first or the second file, of so many milliseconds each.
    fn sync(&mut self, at: usize, syncs: &[(u64, u64)]) {
        let syncs: Vec<_> = syncs.iter().map(|&(n, ms)| (n, ms * 1_000_000)).collect();
        self.files[at].stats.merge(&stats(&syncs));
    }

    fn fail(&mut self, op: Op, inode: u64, role: Role, errno: i32) {
        let stats = Stats { count: 1, errors: [(errno, 1)].into(), ..Stats::default() };
        let failed = row(MYSQL, inode, "/d/failed", role, op, stats);
        let rows = if op.makes_durable() { &mut self.files } else { &mut self.failures };
        match rows.iter_mut().find(|row| (row.target, row.op) == (failed.target, failed.op)) {
            Some(row) => row.stats.merge(&failed.stats),
            None => rows.push(failed),
        }
    }

    fn tick(&mut self) -> Arc<Verdicts> {
        self.second += 1;
        let snapshot = Snapshot {
            servers: self.servers.iter().cloned().map(Arc::new).collect(),
            files: self.files.clone(),
            failures: self.failures.clone(),
            in_flight: self.in_flight.clone(),
            refused: self.refused.clone(),
            ..Snapshot::empty(
                self.now(),
                SystemTime::UNIX_EPOCH + SECOND * u32::try_from(self.second).unwrap(),
                quiet().setup,
            )
        };
        let none = Snapshot::empty(snapshot.taken, snapshot.taken_wall, snapshot.setup.clone());
        let m = Interval::between(self.before.as_ref().unwrap_or(&none), &snapshot);
        self.before = Some(snapshot.clone());
        self.judge.enter(&Arc::new(snapshot), &m);
        self.judge.verdicts(&self.tracing)
    }

    fn state(&mut self) -> State {
        self.verdict().state
    }

    fn verdict(&mut self) -> Verdict {
        self.tick().of(MYSQL, self.now()).unwrap()
    }

    /// The states of so many seconds with these syncs in each, in their order and without repetition.
    fn states(&mut self, seconds: u64, syncs: impl Fn(u64) -> Vec<(u64, u64)>) -> Vec<State> {
        let mut states = Vec::new();
        for second in 0..seconds {
            self.sync(0, &syncs(second));
            states.push(self.state());
        }
        states.dedup();
        states
    }
}

#[test]
fn a_server_that_syncs_is_ok_and_idle_after_a_minute_without_a_sync() {
    let mut host = Host::new();
    assert_eq!(host.state(), State::Idle);
    host.sync(0, &[(10, 1)]);
    assert_eq!(host.state(), State::Ok);
    let states: Vec<State> = (0..60).map(|_| host.state()).collect();
    assert_eq!((states[58], states[59]), (State::Ok, State::Idle));
    host.sync(0, &[(1, 1)]);
    assert_eq!(host.state(), State::Ok);
}

#[test]
fn a_server_of_whose_owner_something_had_no_room_is_unknown_until_it_is_heard_of_a_minute_later() {
    let mut host = Host::new();
    host.refused = vec![(MARIADB, 7)];
    assert_eq!(host.state(), State::Idle, "another's owner is meant");
    host.refused = vec![(MYSQL, 1)];
    let verdict = host.verdict();
    assert_eq!(verdict.state, State::Unknown);
    assert!(verdict.sentence().contains("than there is room for"), "{}", verdict.sentence());
    let states = host.states(120, |_| Vec::new());
    assert_eq!(states, [State::Unknown], "it may wait for what had no room");
    host.sync(0, &[(1, 1)]);
    assert_eq!(host.state(), State::Ok);
    host.refused = vec![(MYSQL, 2)];
    let states = host.states(60, |_| vec![(1, 1)]);
    assert_eq!(states, [State::Unknown], "again, for a minute");
    assert_eq!(host.state(), State::Ok);
    host.refused = vec![(MYSQL, 3)];
    assert_eq!(host.state(), State::Unknown, "again");
    host.fail(Op::Fsync, 41, Role::Redo, libc::EIO);
    assert_eq!(host.state(), State::Failing, "what is known counts first");
}

#[test]
fn a_sync_of_a_log_that_hangs_stalls_its_server_from_the_limit_on_and_no_longer_than_it_hangs() {
    let mut host = Host::new();
    host.sync(0, &[(10, 1)]);
    let hangs = |seconds, role| in_flight(role, REDO, SECOND * seconds);
    host.in_flight = vec![hangs(4, Role::Redo), hangs(900, Role::Tablespace)];
    assert_eq!(host.state(), State::Ok, "no commit waits for a tablespace");
    host.in_flight = vec![hangs(5, Role::Binlog), hangs(7, Role::Redo)];
    let verdict = host.verdict();
    assert_eq!((verdict.state, verdict.since), (State::Stalled, host.now()));
    let because = verdict.because.clone().unwrap();
    assert_eq!((because.role, because.age, because.more), (Some(Role::Redo), Some(7 * SECOND), 1));
    assert_eq!(
        verdict.sentence(),
        format!(
            "An fdatasync of the redo log has not returned for 7.0 s ({REDO}, thread ib_log_flush 31999); nor has 1 more."
        )
    );
    let since = verdict.since;
    host.in_flight = vec![hangs(8, Role::Redo)];
    assert_eq!(host.verdict().since, since, "the same stall");
    host.in_flight.clear();
    assert_eq!(host.state(), State::Ok);
}

#[test]
fn a_write_of_a_log_that_hangs_stalls_too() {
    let mut host = Host::new();
    host.in_flight = vec![InFlight { op: Op::Write, ..in_flight(Role::Redo, REDO, 6 * SECOND) }];
    assert_eq!(host.state(), State::Stalled);
}

#[test]
fn a_failure_stays_until_the_file_is_closed() {
    for op in [Op::Fsync, Op::IoUringFsync, Op::DsyncWrite, Op::Write, Op::Fallocate, Op::Writeback] {
        let mut host = Host::new();
        host.sync(0, &[(10, 1)]);
        assert_eq!(host.state(), State::Ok);
        host.fail(op, 9, Role::Tablespace, libc::EIO);
        assert_eq!(host.state(), State::Failing, "{op:?}");
        let verdict = host.verdict();
        assert_eq!(verdict.state, State::Failing, "it was an interval ago");
        let because = verdict.because.unwrap();
        assert_eq!((because.op, because.errno, because.more), (Some(op), Some(libc::EIO), 0));
        let Target::File(id) = file(9) else { unreachable!() };
        assert_eq!(host.judge.failed_files(), [(MYSQL, id)]);
        host.judge.closed(MARIADB, id);
        assert_eq!(host.state(), State::Failing, "another server's");
        host.judge.closed(MYSQL, id);
        assert_eq!(host.state(), State::Ok);
    }
}

#[test]
fn a_failure_is_over_when_it_is_acknowledged_and_the_next_one_counts_again() {
    let mut host = Host::new();
    for inode in 100..120 {
        host.fail(Op::Fsync, inode, Role::Tablespace, libc::EIO);
    }
    let verdict = host.verdict();
    assert_eq!(verdict.because.unwrap().more, 16, "16 files are told apart, the others are one");
    assert_eq!(host.judge.failed_files().len(), 16, "bounded");
    host.judge.failed_files().into_iter().for_each(|(id, file)| host.judge.closed(id, file));
    assert_eq!(host.state(), State::Failing, "of the other four it is not known whether they are open");
    assert_eq!(host.judge.acknowledge(MYSQL), 1);
    assert_ne!(host.state(), State::Failing);
    host.fail(Op::Fsync, 101, Role::Tablespace, libc::EIO);
    assert_eq!(host.state(), State::Failing);
}

#[test]
fn a_logs_failure_is_told_before_those_of_other_files() {
    let mut host = Host::new();
    host.fail(Op::Fdatasync, 41, Role::Redo, libc::EIO);
    host.files[0].stats.errors = [(libc::EIO, 1)].into();
    host.tick();
    host.fail(Op::Write, 9, Role::Tablespace, libc::ENOSPC);
    let verdict = host.verdict();
    let sentence = verdict.sentence();
    assert!(sentence.starts_with("An fdatasync of the redo log failed with EIO ("), "{sentence}");
    assert!(sentence.ends_with("; so has another file."), "{sentence}");
}

#[test]
fn what_a_program_did_wrong_is_no_failure() {
    let mut host = Host::new();
    host.fail(Op::Write, 9, Role::Redo, libc::EFAULT);
    host.fail(Op::Fsync, 9, Role::Redo, libc::EINVAL);
    host.fail(Op::Write, 10, Role::Temporary, libc::ENOSPC);
    host.fail(Op::Write, 11, Role::Other, libc::ENOSPC);
    assert_ne!(host.state(), State::Failing);
}

#[test]
fn a_log_is_slow_when_it_has_been_for_a_minute_and_no_longer_when_the_minute_is_not() {
    let mut host = Host::new();
    let fast = |_| vec![(100, 1)];
    let slow = |_| vec![(90, 1), (10, 150)];
    assert_eq!(host.states(90, fast), [State::Ok]);
    assert_eq!(host.states(50, slow), [State::Ok], "not yet for a minute");
    assert_eq!(host.states(22, slow), [State::Ok, State::Slow]);
    let verdict = host.verdict();
    let because = verdict.because.clone().unwrap();
    assert!((140..160).contains(&because.p99.unwrap().as_millis()), "{because:?}");
    assert!((90.0..110.0).contains(&because.per_second.unwrap()), "{because:?}");
    assert!(
        verdict
            .sentence()
            .starts_with("The redo log is slow: one sync in a hundred takes longer than 147 ms, at ")
    );
    assert_eq!(host.states(30, fast), [State::Slow], "of the last minute, half is slow");
    assert_eq!(host.states(40, fast), [State::Slow, State::Ok]);
}

#[test]
fn a_log_that_flaps_has_one_state() {
    let flapping = |second: u64| if second.is_multiple_of(20) { vec![(100, 150)] } else { vec![(100, 1)] };
    assert_eq!(Host::new().states(300, flapping), [State::Ok]);
    let mut host = Host::new();
    assert_eq!(host.states(80, |_| vec![(100, 150)]), [State::Ok, State::Slow]);
    assert_eq!(host.states(300, flapping), [State::Slow]);
}

#[test]
fn three_syncs_of_a_checkpoint_are_not_slow_however_long_they_take() {
    let mut host = Host::new();
    let checkpoint = |second: u64| if second.is_multiple_of(10) { vec![(3, 400)] } else { vec![] };
    assert_eq!(host.states(200, checkpoint), [State::Ok]);
    let mut host = Host::new();
    assert_eq!(host.states(200, |_| vec![(1, 400)]), [State::Ok], "one a second is not enough");
    assert_eq!(host.states(200, |_| vec![(3, 400)]), [State::Ok, State::Slow]);
    // What takes a second each cannot be more than one a second.
    let mut host = Host::new();
    assert_eq!(host.states(200, |_| vec![(1, 900)]), [State::Ok, State::Slow]);
    assert_eq!(host.states(200, |_| vec![(1, 1)]), [State::Slow, State::Ok]);
}

#[test]
fn each_server_has_a_verdict_of_its_own_and_the_worst_is_known() {
    let mut host = Host::new();
    host.servers.push(server(MARIADB, "mariadbd", "MariaDB 11.8.3", 3307));
    host.sync(1, &[(5, 1)]);
    host.in_flight = vec![in_flight(Role::Redo, REDO, 9 * SECOND)];
    let verdicts = host.tick();
    let states: Vec<_> = verdicts.servers.iter().map(|v| (v.server, v.state)).collect();
    assert_eq!(states, [(MYSQL, State::Stalled), (MARIADB, State::Ok)]);
    assert_eq!(verdicts.worst(host.now()), State::Stalled);
    let name = |id| (id == MARIADB).then(|| "mariadb:3307".to_owned());
    let report = serde_json::to_value(verdicts.report(host.now(), name)).unwrap();
    assert_eq!((&report["state"], &report["servers"][0]["server"]), (&"ok".into(), &"mariadb:3307".into()));
    assert_eq!(report["servers"].as_array().unwrap().len(), 1);
}

#[test]
fn a_server_that_restarts_begins_anew() {
    let mut host = Host::new();
    host.fail(Op::Fsync, 9, Role::Redo, libc::EIO);
    assert_eq!(host.state(), State::Failing);
    host.servers[0].alive = false;
    let restarted = ServerId { start_ns: MYSQL.start_ns + 1_000_000_000, ..MYSQL };
    host.servers.push(server(restarted, "mysqld", "MySQL 9.7.4", 3306));
    let verdicts = host.tick();
    let states: Vec<_> = verdicts.servers.iter().map(|v| (v.server, v.state)).collect();
    assert_eq!(states, [(restarted, State::Idle)]);
    assert_eq!(host.judge.failed_files(), []);
    // Forgotten: its rows are another server's by then.
    host.servers.remove(0);
    host.files.iter_mut().for_each(|row| row.server = ServerId::ENDED);
    assert_eq!(host.tick().worst(host.now()), State::Idle);
}

#[test]
fn what_is_too_old_or_not_traced_is_unknown_whoever_asks() {
    let mut host = Host::new();
    host.sync(0, &[(10, 1)]);
    host.in_flight = vec![in_flight(Role::Redo, REDO, 9 * SECOND)];
    let verdicts = host.tick();
    let at = |seconds| host.now() + SECOND * seconds;
    assert_eq!((verdicts.worst(at(5)), verdicts.worst(at(6))), (State::Stalled, State::Unknown));
    assert_eq!(verdicts.of(MYSQL, at(6)).unwrap().state, State::Unknown);
    let report = serde_json::to_value(verdicts.report(at(6), |_| Some("a".into()))).unwrap();
    assert_eq!((&report["stale"], &report["state"]), (&true.into(), &"unknown".into()));
    assert_eq!(report["age_seconds"], 6.0);
    assert_eq!(report["servers"][0]["for_seconds"], 1.0);

    host.tracing = Tracing::Not { why: "paused: it took too much of a processor".into() };
    let verdict = host.verdict();
    assert_eq!(verdict.state, State::Unknown);
    assert_eq!(verdict.sentence(), "Nothing can be said of it: paused: it took too much of a processor.");
    host.tracing = Tracing::Running { interval: SECOND };
    assert_eq!(host.state(), State::Stalled);
    host.servers.clear();
    assert_eq!(host.tick().worst(host.now()), State::Unknown, "there is no server");
}

#[test]
fn what_was_seen_counts_before_a_server_is_described_and_nothing_else_does() {
    let mut host = Host::new();
    host.servers[0].known_by.described = false;
    host.sync(0, &[(10, 1)]);
    assert_eq!(host.state(), State::Unknown);
    host.in_flight = vec![in_flight(Role::Redo, REDO, 9 * SECOND)];
    assert_eq!(host.state(), State::Stalled);
}

#[test]
fn a_file_that_lost_its_row_has_not_failed_again() {
    let mut host = Host::new();
    host.fail(Op::Fsync, 9, Role::Tablespace, libc::EIO);
    assert_eq!(host.state(), State::Failing);
    host.judge.acknowledge(MYSQL);
    let moved = host.files.last_mut().unwrap();
    moved.target = Target::Gone(Role::Tablespace);
    assert_ne!(host.state(), State::Failing);
}

#[test]
fn a_window_is_judged_as_a_whole() {
    let thresholds = Thresholds::default();
    let now = Instant::now();
    let of = |m: &Interval, states: &[State]| of_window(m, &thresholds, states, now).servers[0].state;
    let state = |m: &Interval| of(m, &State::ALL);
    let with = |syncs: &[(u64, u64)]| {
        let files = vec![row(MYSQL, 41, REDO, Role::Redo, Op::Fdatasync, stats(syncs))];
        let servers = vec![Arc::new(server(MYSQL, "mysqld", "MySQL 9.7.4", 3306))];
        Interval { servers: servers.into(), ..crate::model::fixture::with_files(quiet(), files, Vec::new()) }
    };
    assert_eq!(state(&with(&[(200, 1_000_000)])), State::Ok);
    assert_eq!(state(&with(&[])), State::Idle);
    assert_eq!(state(&with(&[(200, 1_000_000), (20, 150_000_000)])), State::Slow);
    assert_eq!(state(&with(&[(3, 150_000_000)])), State::Ok, "too few to say");
    assert_eq!(state(&with(&[(9, 150_000_000)])), State::Slow, "as many as there is time for");
    assert_eq!(state(&with(&[(200, 1_000_000), (1, 5_100_000_000)])), State::Stalled, "it has ended");
    let mut failed = with(&[(200, 1_000_000)]);
    failed.files[0].stats.errors = [(libc::EIO, 1)].into();
    Arc::make_mut(&mut failed.servers[0]).alive = false;
    assert_eq!(state(&failed), State::Failing, "and the server has ended by it");
    failed.in_flight = vec![in_flight(Role::Redo, REDO, 9 * SECOND)];
    assert_eq!(state(&failed), State::Failing);
    assert_eq!(
        of(&failed, &[State::Stalled, State::Slow]),
        State::Stalled,
        "what was asked for is not hidden"
    );
    assert_eq!(of(&failed, &[State::Slow]), State::Ok);
}

#[test]
fn of_what_is_in_flight_only_what_hangs_is_told() {
    let now = (Instant::now(), SystemTime::UNIX_EPOCH);
    let hangs = |role, seconds| in_flight(role, REDO, SECOND * seconds);
    let told = |sync| of_in_flight(&[sync], 5 * SECOND, now.0, now.1).servers.len();
    assert_eq!(told(hangs(Role::Redo, 5)), 1);
    assert_eq!(told(hangs(Role::Redo, 4)), 0);
    assert_eq!(told(hangs(Role::Other, 50)), 0);
}

#[test]
fn states_have_their_names_in_json_and_the_order_of_the_page() {
    for state in State::ALL {
        assert_eq!(serde_json::to_value(state).unwrap(), state.name());
    }
    assert!(State::ALL.is_sorted());
}

#[test]
fn failures_that_another_process_has_seen_go_on_with_their_time_until_they_are_over() {
    let mut first = Host::new();
    first.fail(Op::Fsync, 9, Role::Binlog, libc::EIO);
    let before = first.verdict();
    (0..30).for_each(|_| drop(first.tick()));
    let remembered = first.judge.remembered();
    assert_eq!(remembered.servers.len(), 1);
    let bytes = postcard::to_stdvec(&remembered).unwrap();

    let restored = |alter: &dyn Fn(&mut remembered::OfServer)| {
        let mut remembered: remembered::Remembered = postcard::from_bytes(&bytes).unwrap();
        alter(&mut remembered.servers[0]);
        let mut host = Host::new();
        host.second = 100;
        host.judge.restore(remembered);
        host
    };
    let mut next = restored(&|_| {});
    let verdict = next.verdict();
    assert_eq!((verdict.state, verdict.since_wall), (State::Failing, before.since_wall));
    assert_eq!(next.now() - verdict.since, SECOND * 100);
    let because = verdict.because.unwrap();
    assert_eq!((because.errno, because.role), (Some(libc::EIO), Some(Role::Binlog)));
    assert_eq!(because.path.as_deref(), Some(std::path::Path::new("/d/failed")));
    assert_eq!(next.judge.remembered(), remembered, "the next one after it goes on with them, too");
    for (server, file) in next.judge.failed_files() {
        next.judge.closed(server, file);
    }
    assert_ne!(next.state(), State::Failing, "the file is closed");
    assert_eq!(next.judge.remembered().servers, []);

    // A tick of a clock more or less is the same process; another process of the same pid is not, and what is
    // remembered of it waits.
    assert_eq!(restored(&|one| one.server.start_ns += 9_999_999).state(), State::Failing);
    let mut other = restored(&|one| one.server.start_ns += 10_000_000);
    assert_ne!(other.state(), State::Failing);
    assert_eq!(other.judge.remembered().servers.len(), 1);
    let mut acknowledged = restored(&|_| {});
    assert_eq!(acknowledged.state(), State::Failing);
    assert_eq!(acknowledged.judge.acknowledge(MYSQL), 1);
    assert_ne!(acknowledged.state(), State::Failing);
    // A pause of the tracing does not make it young.
    let mut paused = restored(&|_| {});
    paused.tracing = Tracing::Not { why: "paused".into() };
    assert_eq!(paused.state(), State::Unknown);
    paused.tracing = Tracing::Running { interval: SECOND };
    assert_eq!(paused.verdict().since_wall, before.since_wall);
}
