//! What a scan could not examine, and whether that matters.

use crate::engine::engines::Engines;
use crate::text::{capitalize, count, escape};
use crate::threads::{Scan, Unexamined};

/// Whose rights the scan had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Root,
    /// Root without CAP_SYS_PTRACE, as in a container.
    LesserRoot,
    User,
}

/// Whether a sync of a server may have been missed. `are_selected`: the processes were asked for by name or
/// number; else a server is told by the name of its process or of its executable.
pub fn may_miss_server(scan: &Scan, are_selected: bool, engines: &Engines) -> bool {
    let may_be_server = |process: &Unexamined| {
        let names = std::iter::once(&process.comm).chain(&process.program);
        // A name that cannot be read rules out nothing.
        process.comm.is_empty() || names.into_iter().any(|name| engines.by_command(name).is_some())
    };
    // Who is hidden or did not answer is not known.
    scan.hidden || scan.blocked > 0 || scan.unexamined.iter().any(|one| are_selected || may_be_server(one))
}

/// The last line below the result; None: everything was examined, or did not answer.
pub(super) fn sentence(scan: &Scan, reader: Reader) -> Option<String> {
    let counted = |n: usize, one: &str, many: &str| match n {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{} {many}", count(n as u64))),
    };
    let threads = counted(scan.unreadable, "thread", "threads");
    let processes = counted(scan.closed, "process", "processes").map(|closed| format!("all of {closed}"));
    let hidden = scan.hidden.then(|| "other users' processes (/proc is mounted with hidepid)".to_owned());
    let unseen: Vec<String> = [threads, processes, hidden].into_iter().flatten().collect();
    if unseen.is_empty() {
        return None;
    }
    let first = scan.unexamined.first().map(|one| {
        let comm = if one.comm.is_empty() { "process" } else { &one.comm };
        format!(" (first: {} {})", escape(comm.as_bytes()), one.pid)
    });
    let why = match reader {
        Reader::Root if unseen.len() == 1 && scan.unreadable == 1 => "hides even from root",
        Reader::Root => "hide even from root",
        Reader::LesserRoot => "could not be examined without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
        Reader::User => "could not be examined without root",
    };
    Some(format!("{} {why}{}.", capitalize(&unseen.join(" and ")), first.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(comm: &str, program: Option<&str>) -> Scan {
        let one = Unexamined { pid: 7, comm: comm.into(), program: program.map(str::to_owned) };
        Scan { unreadable: 13, unexamined: vec![one], ..Scan::default() }
    }

    #[test]
    fn what_cannot_be_a_server_is_missed_by_nobody() {
        let engines = Engines::builtin();
        let misses = |scan: &Scan| may_miss_server(scan, false, &engines);
        assert!(!misses(&Scan::default()));
        assert!(!misses(&process("process_api", None)));
        assert!(!misses(&process("systemd", Some("systemd"))));
        for server in [process("mysqld", None), process("pg", Some("postgres")), process("", None)] {
            assert!(misses(&server), "{server:?}");
        }
        assert!(misses(&Scan { hidden: true, ..Scan::default() }));
        assert!(misses(&Scan { blocked: 1, ..Scan::default() }));
        assert!(may_miss_server(&process("process_api", None), true, &engines), "it was asked for");
        assert!(!may_miss_server(&Scan::default(), true, &engines));
    }

    #[test]
    fn what_hides_is_a_line_that_names_the_first() {
        let said = |scan: &Scan, reader| sentence(scan, reader).unwrap_or_default();
        let one = process("process_api", None);
        assert_eq!(said(&one, Reader::Root), "13 threads hide even from root (first: process_api 7).");
        assert_eq!(
            said(&Scan { closed: 1, ..one }, Reader::User),
            "13 threads and all of 1 process could not be examined without root (first: process_api 7)."
        );
        let nameless = said(&process("", None), Reader::User);
        assert!(nameless.ends_with(" (first: process 7)."), "{nameless}");
        let hostile = Scan { unreadable: 1, ..process("a\u{1b}", None) };
        assert_eq!(said(&hostile, Reader::Root), "1 thread hides even from root (first: a\\x1b 7).");
        assert_eq!(said(&Scan { blocked: 1, ..Scan::default() }, Reader::User), "");
    }
}
