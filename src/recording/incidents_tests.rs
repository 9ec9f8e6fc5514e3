//! Incidents of intervals of a second each.

use super::*;
use crate::model::fixture::*;
use crate::model::{InFlight, NeighbourRow};
use crate::recording::incident::MAX_NEIGHBOURS;

const SECOND: Duration = Duration::from_secs(1);

fn second(number: u64, files: Vec<FileRow>, in_flight: Vec<InFlight>) -> Interval {
    let mut m = Interval { in_flight, ..with_files(quiet(), files, Vec::new()) };
    m.span.start += Duration::from_secs(number);
    m.span.duration = SECOND;
    m.span.end = m.span.start + SECOND;
    m
}

fn at(number: u64) -> SystemTime {
    quiet().span.start + Duration::from_secs(number)
}

fn redo(latencies: &[(u64, u64)]) -> FileRow {
    row(MYSQL, 1, "/d/#ib_redo7", Role::Redo, Op::Fdatasync, stats(latencies))
}

fn usual(number: u64) -> Interval {
    second(number, vec![redo(&[(100, 1_200_000)])], Vec::new())
}

fn hangs(role: Role, age: u64) -> InFlight {
    in_flight(role, "/d/log", Duration::from_secs(age))
}

fn of(moments: &[Interval]) -> Incidents {
    let mut incidents = Incidents::new(SECOND);
    moments.iter().for_each(|m| incidents.record(m));
    incidents
}

fn names(incidents: &Incidents) -> Vec<(What, u64, u64)> {
    let second = |time: SystemTime| time.duration_since(at(0)).unwrap().as_secs();
    let told = incidents.list().into_iter();
    told.map(|incident| (incident.what, second(incident.begin), second(incident.end))).collect()
}

#[test]
fn where_all_is_as_usual_there_is_no_incident() {
    let mut moments: Vec<_> = (0..100).map(usual).collect();
    // A sync of 2.3 ms, and one of 900 ms.
    moments[50] = second(50, vec![redo(&[(99, 1_200_000), (1, 2_300_000)])], Vec::new());
    moments[60] = second(60, vec![redo(&[(99, 1_200_000), (1, 900_000_000)])], Vec::new());
    assert!(of(&moments).list().is_empty(), "{:?}", of(&moments).list());
    assert!(of(&[]).list().is_empty());
}

#[test]
fn a_log_is_slow_by_its_median_or_by_its_tail() {
    let mixed = |n, ms: u64, of: u64| {
        second(n, vec![redo(&[(of - of / 20, 1_200_000), (of / 20, ms * 1_000_000)])], Vec::new())
    };
    let moments = |ms: u64, of: u64, for_seconds: u64| {
        let usual = (0..20).map(|n| mixed(n, 5, of));
        usual.chain((20..20 + for_seconds).map(move |n| mixed(n, ms, of))).collect::<Vec<_>>()
    };
    let incidents = of(&moments(29, 200, 30));
    let [slow] = incidents.list()[..] else { panic!("{incidents:?}") };
    assert!(slow.what == What::Slow && slow.worst.is_tail, "{slow:?}");
    let (took, usual) = (slow.worst.took.unwrap().ns, slow.usual_ns.unwrap());
    assert!(took.abs_diff(29_000_000) < 2_000_000 && usual.abs_diff(5_000_000) < 400_000, "{took} {usual}");
    // Not long enough, by too little, and of too few syncs.
    for (ms, of_syncs, for_seconds) in [(29, 200, 2), (19, 200, 30), (29, 80, 30)] {
        assert!(of(&moments(ms, of_syncs, for_seconds)).list().is_empty(), "{ms} {of_syncs} {for_seconds}");
    }
    // Half of the syncs outweigh a tail, however long that is.
    let mut both = moments(900, 200, 5);
    both.push(second(25, vec![redo(&[(100, 12_000_000)])], Vec::new()));
    let incidents = of(&both);
    let slow = incidents.list().into_iter().find(|one| one.what == What::Slow).expect("slow");
    assert!(!slow.worst.is_tail && slow.worst.took.unwrap().ns.abs_diff(12_000_000) < 800_000, "{slow:?}");
}

#[test]
fn that_no_log_was_slow_is_known_where_it_is_known_what_is_usual() {
    let usual = |seconds| (0..seconds).map(usual).collect::<Vec<_>>();
    assert_eq!(of(&usual(30)).tells_slow_logs(), Some(true));
    assert_eq!(of(&usual(5)).tells_slow_logs(), Some(false));
    assert_eq!(of(&[second(0, Vec::new(), Vec::new())]).tells_slow_logs(), None);
    let mut of_others = of(&usual(30));
    of_others.retain_servers(|server| server != MYSQL);
    assert_eq!(of_others.tells_slow_logs(), None);
}

#[test]
fn a_hang_has_its_beginning_its_end_and_its_cause() {
    let mut moments: Vec<_> = (0..20).map(usual).collect();
    for n in 20..29 {
        let mut sync = hangs(Role::Redo, n - 19);
        sync.waits_for = (n > 21).then(|| "the journal commit".into());
        let mut m = second(n, Vec::new(), vec![sync]);
        m.neighbours = vec![neighbour("/dev/vda", "dd", &[(40, 9_000_000)])].into();
        moments.push(m);
    }
    let going_on = of(&moments);
    assert!(going_on.hangs() && going_on.has_hung());
    let [hang] = going_on.list()[..] else { panic!("{going_on:?}") };
    assert!(hang.goes_on && hang.worst.is_minimum);
    moments.push(second(29, vec![redo(&[(1, 9_300_000_000)])], Vec::new()));
    moments.extend((30..60).map(usual));
    let over = of(&moments);
    assert!(!over.hangs() && over.has_hung());
    let [hang] = over.list()[..] else { panic!("{:?}", over.list()) };
    assert_eq!((hang.what, hang.server, hang.begin, hang.end), (What::Hang, MYSQL, at(20), at(30)));
    assert_eq!(hang.worst.took.map(|took| took.ns), Some(9_300_000_000));
    assert!(!hang.worst.is_minimum && !hang.goes_on);
    assert_eq!(hang.worst.path.as_deref(), Some("/d/#ib_redo7".as_ref()));
    assert_eq!(hang.waited_for(), Some("the journal commit"));
    let (beside, syncs) = hang.busiest_neighbour().expect("dd");
    assert_eq!((&*beside.comm, beside.pid, &*beside.device, syncs), ("dd", None, "/dev/vda", 360));
    assert_eq!(hang.no_log_sync, 9 * SECOND);
    let usual = hang.usual_ns.expect("twenty seconds were usual");
    assert!(usual.abs_diff(1_200_000) < 80_000, "{usual}");
}

#[test]
fn hangs_of_two_logs_at_once_are_one_and_hangs_a_minute_apart_are_two() {
    let mut moments: Vec<_> = (0..10).map(usual).collect();
    moments.push(second(10, Vec::new(), vec![hangs(Role::Redo, 1), hangs(Role::Binlog, 2)]));
    moments.push(second(11, Vec::new(), vec![hangs(Role::Redo, 2), hangs(Role::Binlog, 3)]));
    // It ends for a moment.
    moments.push(usual(12));
    moments.push(second(13, Vec::new(), vec![hangs(Role::Redo, 1)]));
    moments.extend((14..74).map(usual));
    moments.push(second(74, Vec::new(), vec![hangs(Role::Redo, 1)]));
    let incidents = of(&moments);
    assert_eq!(names(&incidents), [(What::Hang, 9, 14), (What::Hang, 74, 75)]);
    assert_eq!(incidents.list()[0].roles, [Role::Redo, Role::Binlog].into());
    assert_eq!(incidents.list()[0].worst.role, Role::Binlog);
}

#[test]
fn a_log_whose_syncs_take_many_times_the_usual_is_slow_and_not_saturated_as_well() {
    let mut moments: Vec<_> = (0..60).map(usual).collect();
    moments.extend((60..90).map(|n| second(n, vec![redo(&[(8, 120_000_000)])], Vec::new())));
    moments.extend((90..100).map(usual));
    let incidents = of(&moments);
    assert_eq!(names(&incidents), [(What::Slow, 60, 90)]);
    let slow = incidents.list()[0];
    let (took, usual) = (slow.worst.took.unwrap().ns, slow.usual_ns.unwrap());
    assert!((95..105).contains(&(took / usual)), "{took} {usual}");
    // For two seconds it is none.
    moments.drain(62..90);
    for (n, m) in moments.iter_mut().enumerate() {
        (m.span.start, m.span.end) = (at(n as u64), at(n as u64 + 1));
    }
    assert!(of(&moments).list().is_empty(), "{:?}", of(&moments).list());
    // Without anything to compare with, it is known that the log is busy.
    let busy: Vec<_> = (0..30).map(|n| second(n, vec![redo(&[(8, 120_000_000)])], Vec::new())).collect();
    assert_eq!(names(&of(&busy)), [(What::Saturated, 0, 30)]);
}

#[test]
fn a_second_at_79_percent_does_not_cut_a_saturated_minute_in_two() {
    let busy = |n, ns| second(n, vec![redo(&[(1_000, ns)])], Vec::new());
    let mut moments: Vec<_> = (0..20).map(|n| busy(n, 100_000)).collect();
    moments.extend((20..50).map(|n| busy(n, 990_000)));
    moments.push(busy(50, 790_000));
    moments.extend((51..80).map(|n| busy(n, 990_000)));
    // A log in which a sync hangs is busy, and that is told as what it is.
    moments.extend((80..90).map(|n| second(n, Vec::new(), vec![hangs(Role::Redo, n - 79)])));
    moments.extend((90..120).map(|n| busy(n, 100_000)));
    let incidents = of(&moments);
    assert_eq!(names(&incidents), [(What::Saturated, 20, 90), (What::Hang, 80, 90)]);
    let share = incidents.list()[0].share();
    assert!((0.98..=1.0).contains(&share), "{share}");
}

#[test]
fn failures_are_summed_up_whoever_failed_and_told_of_the_worst_file() {
    let failing = |inode, role, op, errno, n| {
        let mut file = row(MYSQL, inode, &format!("/d/t{inode}"), role, op, stats(&[(3, 1_000)]));
        file.stats.errors = [(errno, n)].into();
        file
    };
    let mut moments: Vec<_> = (0..10).map(usual).collect();
    let redo = failing(1, Role::Redo, Op::Fdatasync, libc::EIO, 1);
    moments[3] = second(3, vec![redo, failing(2, Role::Tablespace, Op::Fsync, libc::EIO, 4)], Vec::new());
    moments[4].failures = vec![failing(3, Role::Undo, Op::Write, libc::ENOSPC, 2)].into();
    let incidents = of(&moments);
    assert_eq!(names(&incidents), [(What::Failure, 3, 5)]);
    let failure = incidents.list()[0];
    assert_eq!(failure.errors, [(libc::EIO, 5), (libc::ENOSPC, 2)].into());
    assert_eq!(failure.roles, [Role::Redo, Role::Tablespace, Role::Undo].into());
    assert_eq!(failure.worst.path.as_deref(), Some("/d/t2".as_ref()));
    // Of a file that is not told apart, too.
    let mut apart = usual(0);
    apart.roles[0].stats.errors = [(libc::EIO, 9)].into();
    assert_eq!(of(&[apart]).list()[0].errors, [(libc::EIO, 9)].into());
}

#[test]
fn memory_is_bounded_and_no_server_displaces_the_incidents_of_another() {
    let mut incidents = Incidents::new(SECOND);
    let mut time = 0;
    let mut hang = |incidents: &mut Incidents, server, seconds: u64| {
        for age in 1..=seconds {
            incidents.record(&second(time, Vec::new(), vec![InFlight { server, ..hangs(Role::Redo, age) }]));
            time += 1;
        }
        (0..10).for_each(|n| incidents.record(&second(time + n, Vec::new(), Vec::new())));
        time += 100;
    };
    hang(&mut incidents, MYSQL, 3);
    for _ in 0..3 * MAX_KEPT {
        hang(&mut incidents, MARIADB, 9);
    }
    let told = incidents.list();
    assert!(told.len() == MAX_KEPT && incidents.is_short_of_room());
    assert!(told.iter().any(|incident| incident.server == MYSQL), "its only one was dropped");
    // Nor do servers, neighbours and waits without end.
    let many = |pid: u32| InFlight {
        server: ServerId { pid, start_ns: 1 },
        waits_for: Some(pid.to_string()),
        ..hangs(Role::Redo, 5)
    };
    let mut m = second(0, Vec::new(), (1..5_000).map(many).collect());
    m.neighbours = (1..500).map(|n| neighbour("/dev/vda", &format!("n{n}"), &[(1, 1)])).collect();
    m.in_flight.extend((1..500).map(|n| InFlight { waits_for: Some(n.to_string()), ..hangs(Role::Redo, 3) }));
    let incidents = of(&[m]);
    assert_eq!(incidents.open.len(), MAX_OPEN);
    for incident in incidents.open.values() {
        assert!(incident.waits.len() <= MAX_WAITS && incident.neighbours.len() <= MAX_NEIGHBOURS);
    }
}

#[test]
fn a_clock_that_is_set_back_keeps_no_incident_open() {
    let mut incidents = of(&[second(1_000, Vec::new(), vec![hangs(Role::Redo, 3)])]);
    assert!(incidents.hangs());
    incidents.record(&usual(10));
    assert!(incidents.hangs() && incidents.open.is_empty(), "nobody saw it end: {incidents:?}");
    assert_eq!(incidents.list().len(), 1);
}

#[test]
fn a_neighbour_of_another_device_is_no_cause() {
    let elsewhere = NeighbourRow { device_number: 7, ..neighbour("/dev/sdz", "dd", &[(40, 9_000_000)]) };
    let mut m = second(0, vec![redo(&[(1, 1_000)])], vec![hangs(Role::Binlog, 3)]);
    m.neighbours = vec![elsewhere].into();
    assert_eq!(of(&[m]).list()[0].busiest_neighbour(), None);
}

#[test]
fn a_log_that_is_busy_for_a_second_in_five_is_not_saturated() {
    let busy = |n, ns| second(n, vec![redo(&[(1_000, ns)])], Vec::new());
    let batch: Vec<_> = (0..300).map(|n| busy(n, if n % 5 == 0 { 950_000 } else { 10_000 })).collect();
    assert!(of(&batch).list().is_empty(), "{:?}", of(&batch).list());
    // Four seconds in five are, and what is told of it is true of all of the time.
    let dense: Vec<_> = (0..300).map(|n| busy(n, if n % 5 == 4 { 500_000 } else { 900_000 })).collect();
    let incidents = of(&dense);
    let [saturated] = incidents.list()[..] else { panic!("{:?}", incidents.list()) };
    assert!((0.80..0.84).contains(&saturated.share()), "{}", saturated.share());
}

#[test]
fn two_logs_that_are_busy_one_after_the_other_are_two_incidents() {
    let of_role = |n, role| {
        let row = row(MYSQL, 1, "/d/log", role, Op::Fdatasync, stats(&[(1_000, 950_000)]));
        second(n, vec![row], Vec::new())
    };
    let redo = (0..12).map(|n| of_role(n, Role::Redo));
    let moments: Vec<_> = redo.chain((12..24).map(|n| of_role(n, Role::Binlog))).collect();
    let incidents = of(&moments);
    let told: Vec<_> = incidents.list().iter().map(|one| (one.worst.role, one.share() > 0.9)).collect();
    assert_eq!(told, [(Role::Redo, true), (Role::Binlog, true)]);
}

#[test]
fn a_hang_that_ended_and_a_failure_do_not_go_on() {
    let mut failing = redo(&[(1, 9_300_000_000)]);
    failing.stats.errors = [(libc::EIO, 1)].into();
    let ended =
        of(&[second(0, Vec::new(), vec![hangs(Role::Redo, 8)]), second(1, vec![failing], Vec::new())]);
    assert!(ended.list().iter().all(|incident| !incident.goes_on), "{:?}", ended.list());
    assert!(ended.has_hung() && !ended.hangs());
}

#[test]
fn what_stands_for_many_servers_is_no_log() {
    let many = |server| FileRow { server, ..redo(&[(1_000, 990_000)]) };
    let moments: Vec<_> =
        (0..30).map(|n| second(n, vec![many(ServerId::NONE), many(ServerId::ENDED)], Vec::new())).collect();
    assert!(of(&moments).list().is_empty());
}

#[test]
fn a_hang_makes_room_by_what_weighs_less_and_covers_a_time_once() {
    let busy = |pid| FileRow { server: ServerId { pid, start_ns: 1 }, ..redo(&[(1_000, 990_000)]) };
    let m = second(0, (1..1_000).map(busy).collect(), vec![hangs(Role::Redo, 5)]);
    let incidents = of(&[m]);
    assert!(incidents.has_hung() && incidents.hangs() && incidents.is_short_of_room());
    assert!(incidents.open.values().any(|incident| incident.what == What::Hang));
    assert_eq!(incidents.open.len(), MAX_OPEN);
}

#[test]
fn a_saturated_time_that_is_covered_for_less_than_its_most_is_told() {
    let busy = |n, ns| second(n, vec![redo(&[(1_000, ns)])], Vec::new());
    let mut moments: Vec<_> = (0..60).map(|n| busy(n, 10_000)).collect();
    moments.extend((60..160).map(|n| busy(n, 950_000)));
    // A hang and a slow phase in the same forty seconds.
    for n in 60..100 {
        moments[n as usize] = second(n, vec![redo(&[(8, 120_000_000)])], vec![hangs(Role::Redo, n - 58)]);
    }
    let whats: Vec<What> = of(&moments).list().iter().map(|incident| incident.what).collect();
    assert!(whats.contains(&What::Saturated), "{whats:?}");
}
