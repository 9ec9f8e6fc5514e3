//! `stuck` on a sync that really hangs, in D state: needs root, a loop device and mkfs.ext4, no BPF.
//!
//! An ext4 filesystem lies in a file on another one, which is frozen: the inner one's data cannot be written, so
//! its fdatasync waits for as long as the freeze lasts. (On a frozen filesystem itself nothing is dirty to sync.)

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use fsynctop::once::Style;
use fsynctop::snapshot::{Op, Role};
use fsynctop::stuck::{self, Looks, Processes, Scan, Standing, waits_for};

fn run(command: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(command.split(' ').next().unwrap_or(command))
        .args(command.split(' ').skip(1))
        .args(arguments)
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{command}: {}", message.trim()))
}

/// Two ext4 filesystems, the inner one in a file of the outer one. Thawed and unmounted in the end, whatever
/// happens: a filesystem left frozen would block the machine's next `sync`.
struct Nested {
    directory: tempfile::TempDir,
}

impl Nested {
    fn new() -> Result<Nested, String> {
        let nested = Nested { directory: tempfile::tempdir().map_err(|error| error.to_string())? };
        make_filesystem(&nested.directory.path().join("outer.img"), 48 << 20, &nested.outer())?;
        make_filesystem(&nested.outer().join("inner.img"), 16 << 20, &nested.inner())?;
        Ok(nested)
    }

    fn outer(&self) -> PathBuf {
        self.directory.path().join("outer")
    }

    fn inner(&self) -> PathBuf {
        self.directory.path().join("inner")
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let _ = run("fsfreeze -u", &[&self.outer()]);
        // the hung thread closes its file a moment after the thaw
        for _ in 0..100 {
            if run("umount", &[&self.inner()]).is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = run("umount", &[&self.outer()]);
    }
}

fn make_filesystem(image: &Path, size: u64, point: &Path) -> Result<(), String> {
    File::create(image).and_then(|file| file.set_len(size)).map_err(|error| error.to_string())?;
    fs::create_dir(point).map_err(|error| error.to_string())?;
    run("mkfs.ext4 -q", &[image])?;
    run("mount -o loop", &[image, point])
}

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
    let nested = match Nested::new() {
        Ok(nested) => nested,
        Err(why) => {
            eprintln!("SKIPPED root_a_sync_that_hangs_is_found_with_its_file_and_a_minimum_age: {why}");
            return;
        }
    };
    let path = nested.inner().join("ib_logfile0");
    let mut file = File::create(&path).unwrap();
    file.write_all(&[7; 8192]).unwrap();
    run("fsfreeze -f", &[&nested.outer()]).unwrap();

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
    assert_eq!((mount.point.as_path(), mount.filesystem.as_str()), (nested.inner().as_path(), "ext4"));
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
    run("fsfreeze -u", &[&nested.outer()]).unwrap();
    let ended = hung.join().unwrap();
    assert!(ended - began >= before_scan);
    let after = scan_in_time(Processes::These(vec![std::process::id()]), Looks::once());
    assert!(after.syncs.iter().all(|sync| sync.tid != tid), "{after:?}");
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}
