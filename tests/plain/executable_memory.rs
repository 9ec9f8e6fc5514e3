//! What the exporter refuses itself: memory that can be written and executed. It is tried in a process of its
//! own, since it cannot be taken back and goes to all that a process starts.

use std::process::Command;

const CHILD: &str = "FSYNCTOP_TEST_REFUSES";
/// 7 is PROT_READ | PROT_WRITE | PROT_EXEC.
const MAP: &str = "import mmap; mmap.mmap(-1, 4096, prot=7)";

fn may_map() -> bool {
    Command::new("/usr/bin/python3").args(["-c", MAP]).output().unwrap().status.success()
}

#[test]
fn no_data_can_be_made_code_afterwards_by_it_or_by_what_it_starts() {
    if std::env::var_os(CHILD).is_some() {
        let before = may_map();
        fsynctop::linux::executable_memory::refuse().expect("Linux 6.3 or later");
        std::process::exit(if before && !may_map() { 42 } else { 1 });
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", &name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    assert_eq!(output.status.code(), Some(42), "{}", String::from_utf8_lossy(&output.stderr));
}
