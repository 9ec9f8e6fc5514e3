//! `stuck` on a sync that really hangs, in D state: needs root, a loop device and mkfs.ext4, no BPF.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::nested::Nested;
use fsynctop::once::Style;
use fsynctop::snapshot::{Op, Role};
use fsynctop::stuck::{self, Looks, Processes, Scan, Standing, waits_for};

/// The scan, or a failed test if it does not come back: it must never wait for what hangs.
fn scan_in_time(processes: Processes, looks: Looks) -> Scan {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(stuck::scan(Path::new("/proc"), &processes, &looks)));
    let outcome = receiver.recv_timeout(Duration::from_secs(20)).expect("the scan blocked on a hung sync");
    outcome.expect("/proc can be listed")
}

#[test]
fn root_a_sync_that_hangs_is_found_with_its_file_and_a_minimum_age() {
    if !is_root() {
        eprintln!("SKIPPED root_a_sync_that_hangs_is_found_with_its_file_and_a_minimum_age: needs root");
        return;
    }
    let nested = Nested::new().expect("loop devices, mkfs.ext4 and fsfreeze");
    let path = nested.inner().join("ib_logfile0");
    let mut file = File::create(&path).unwrap();
    file.write_all(&[7; 8192]).unwrap();
    nested.freeze();

    let (announce, announced) = mpsc::channel();
    let hung = thread::Builder::new()
        .name("ib_log_flush".into())
        .spawn(move || {
            announce.send((fs::read_link("/proc/thread-self").unwrap(), Instant::now())).unwrap();
            file.sync_data().unwrap();
            Instant::now()
        })
        .unwrap();
    let (own, began) = announced.recv().unwrap();
    let tid: u32 = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
    thread::sleep(Duration::from_millis(1500));

    let before_scan = began.elapsed();
    let scan = scan_in_time(Processes::These(vec![std::process::id()]), Looks::default());
    let oldest_possible = began.elapsed();
    let sync = scan.syncs.iter().find(|sync| sync.tid == tid).unwrap_or_else(|| panic!("{scan:?}"));
    assert_eq!(
        (sync.pid, sync.op, sync.thread.as_str()),
        (std::process::id(), Op::Fdatasync, "ib_log_flush")
    );
    assert_eq!(sync.path.as_deref(), Some(path.as_path()));
    assert_eq!((sync.state, sync.standing), ('D', Standing::Unmoved));
    let mount = sync.mount.as_ref().unwrap();
    assert_eq!((mount.mount_point.as_path(), mount.filesystem.as_str()), (nested.inner().as_path(), "ext4"));
    let (age, _) = sync.age.unwrap();
    assert!(age <= oldest_possible, "at least {age:?}, but it began {oldest_possible:?} ago");
    if fs::read_to_string("/proc/thread-self/sched").is_ok_and(|text| text.contains("se.exec_start")) {
        // it blocked at once; a hypervisor may have stolen some of the time
        assert!(age > before_scan / 2, "at least {age:?} only, but it began {before_scan:?} before the scan");
    } else {
        assert!(age >= Looks::default().apart);
    }
    let wait = waits_for(&sync.stack, sync.wait_channel.as_deref()).unwrap();
    assert_eq!(wait.what, "its data pages to be written", "{:?}", sync.stack);

    // the whole host, at a single look, as the tracer does it when it attaches
    let whole_host = scan_in_time(Processes::All, Looks::once());
    assert!(whole_host.syncs.iter().any(|sync| sync.tid == tid));
    let text = stuck::table(&scan, &|_, _| Role::Redo, &Style::default());
    assert!(text.contains("ib_logfile0") && text.contains("its data pages to be written"), "{text}");
    println!("{text}");

    assert!(!hung.is_finished(), "the sync was to hang");
    nested.thaw();
    let ended = hung.join().unwrap();
    assert!(ended - began >= before_scan);
    let after = scan_in_time(Processes::These(vec![std::process::id()]), Looks::once());
    assert!(after.syncs.iter().all(|sync| sync.tid != tid), "{after:?}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
