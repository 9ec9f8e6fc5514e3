//! The pages of the actions that measure nothing by tracing: `check` attaches only to try it.

use super::page::{Manual, example};
use super::tracing::{BAD_USAGE, DEFAULTS, DONE, FAILED, LOCALE, NO_COLOR, NOTHING, SIGNAL, SOCKET};

pub(super) const HISTORY: Manual = Manual {
    action: "history",
    notes: &[
        "It begins with the worst moments of the window: the longest syncs, failures, the most saturated second.",
    ],
    examples: &[
        example("fsynctop history", "the last ten minutes"),
        example("fsynctop history --last 90s -i 1", "second by second"),
        example("fsynctop history --pid 4711", "one server"),
        example("fsynctop history --output csv", "for programs; also json"),
        example("fsynctop history --replay before", "what was recorded"),
        example(
            "fsynctop history --socket /run/other/exporter.sock",
            "of an exporter whose socket is elsewhere",
        ),
    ],
    exit: &[
        DONE,
        ("1", "failed: among others, no exporter answers"),
        BAD_USAGE,
        ("3", "nothing is remembered, or no such server"),
        SIGNAL,
    ],
    files: &[SOCKET, DEFAULTS],
    environment: &[NO_COLOR, LOCALE],
    costs: &["Nothing is traced: the exporter is asked once, over its local socket."],
    see_also: &[],
    brief: None,
    brief_examples: 3,
};

pub(super) const SEGMENTS: Manual = Manual {
    action: "segments",
    notes: &[
        "Older times are kept in less detail: as intervals of ten seconds, then of a minute. A time without a recorder is \
         told as well, and counts as whole.",
    ],
    examples: &[
        example("fsynctop segments before", "what it holds, what is missing"),
        example("fsynctop segments before --output json", "for programs"),
    ],
    exit: &[
        ("0", "what there is of it is whole"),
        FAILED,
        BAD_USAGE,
        ("3", "it is no recording"),
        ("4", "something is damaged or missing"),
        SIGNAL,
    ],
    files: &[DEFAULTS],
    environment: &[NO_COLOR],
    costs: &["All files of the folder are read once."],
    see_also: &[],
    brief: None,
    brief_examples: 2,
};

pub(super) const EXPORT: Manual = Manual {
    action: "export",
    notes: &[
        "What is copied is a recording again: every view shows it by --replay. docs/recordings.md describes the other formats.",
    ],
    examples: &[
        example("fsynctop export --replay before --redact -o public", "to attach to a report"),
        example("fsynctop export --replay before --from 14:40 --to 14:50 -o part", "ten minutes of it"),
        example(
            "fsynctop export --replay before --format csv -o before.csv",
            "one table of all files and operations",
        ),
        example(
            "fsynctop export --replay before --format json -o -",
            "a line for each interval, to another program",
        ),
        example(
            "fsynctop export --replay before --format hdr -o logs",
            "interval logs, a file for each server and role",
        ),
    ],
    exit: &[("0", "done"), FAILED, BAD_USAGE, ("3", "there is nothing of that time"), SIGNAL],
    files: &[DEFAULTS],
    environment: &[],
    costs: &["All files of the folder are read."],
    see_also: &[],
    brief: None,
    brief_examples: 2,
};

pub(super) const CHECK: Manual = Manual {
    action: "check",
    notes: &["Each way of attaching is tried for real, and detached again."],
    examples: &[
        example("fsynctop check", "would tracing work here?"),
        example("fsynctop check -v", "what libbpf and the verifier said"),
        example("fsynctop check --ops fsync,fdatasync,msync", "with other calls"),
        example("fsynctop check --output json", "one object, for programs"),
    ],
    exit: &[
        ("0", "tracing works here"),
        ("1", "it does not, or the check itself failed"),
        BAD_USAGE,
        NOTHING,
        SIGNAL,
    ],
    files: &[
        ("/sys/kernel/btf/vmlinux", "the kernel's own types, without which nothing can be attached"),
        ("/sys/kernel/tracing", "for tracepoints"),
        ("/proc/config.gz, /boot/config-*", "how the kernel was built"),
        DEFAULTS,
    ],
    environment: &[NO_COLOR],
    costs: &["A second or two of processor time, and 46 MB of kernel memory while each way is tried."],
    see_also: &["capabilities(7)"],
    brief: Some(&["output", "color", "pid", "comm", "cgroup", "all", "ops", "attach", "verbose", "roles"]),
    brief_examples: 2,
};

pub(super) const STATUS: Manual = Manual {
    action: "status",
    notes: &[
        "The exporter tells it from its memory; without one, it traces for two seconds, which needs root.",
    ],
    examples: &[
        example("fsynctop status", "every server, the worst first"),
        example("fsynctop status mysql", "one engine's servers"),
        example("fsynctop status --fail-on failing,stalled,slow", "status 4 for a slow one, too"),
        example("fsynctop status --output json", "one object, for programs"),
    ],
    exit: &[
        ("0", "--fail-on holds of no server"),
        FAILED,
        BAD_USAGE,
        ("3", "no server is known"),
        ("4", "a server is in a state of --fail-on"),
        SIGNAL,
    ],
    files: &[SOCKET, DEFAULTS],
    environment: &[NO_COLOR, LOCALE],
    costs: &["The exporter answers from memory; without one, as much as two seconds of `fsynctop once`."],
    see_also: &["fsynctop-exporter(1)"],
    brief: Some(&["output", "fail-on", "socket", "pid", "comm", "engine"]),
    brief_examples: 3,
};

pub(super) const ACK: Manual = Manual {
    action: "ack",
    notes: &[
        "For root, and for the user that the exporter runs as if nothing else does. The exporter's log says who did it.",
    ],
    examples: &[
        example("fsynctop ack 3306", "the server that is called so in `fsynctop status`"),
        example("fsynctop ack 3306 --socket /run/other/exporter.sock", "of another exporter"),
    ],
    exit: &[
        DONE,
        ("1", "failed: no exporter answers, no server has that name, or not for this user"),
        BAD_USAGE,
        SIGNAL,
    ],
    files: &[SOCKET, DEFAULTS],
    environment: &[LOCALE],
    costs: &["One question to the exporter."],
    see_also: &["fsynctop-status(1)"],
    brief: None,
    brief_examples: 2,
};

pub(super) const STUCK: Manual = Manual {
    action: "stuck",
    notes: &["It works where tracing does not: it reads /proc alone, and waits for no process and no disk."],
    examples: &[
        example("fsynctop stuck", "every process on the host"),
        example("fsynctop stuck --watch 5s", "what stands still for five seconds"),
        example("fsynctop stuck --comm mysqld,mariadbd", "the servers alone"),
        example("fsynctop stuck --fail-on stalled=5s", "status 4 if a log hangs that long"),
        example("fsynctop stuck --output json", "one object, for programs"),
    ],
    exit: &[
        ("0", "every server was examined, whether or not a sync hangs; with --fail-on, no log hangs"),
        FAILED,
        BAD_USAGE,
        ("3", "no such process"),
        ("4", "--fail-on: a log's operation has not returned for that long, whatever else could be examined"),
        (
            "5",
            "a thread that could be a server's, or that was asked for, could not be examined; the last line says what",
        ),
        SIGNAL,
    ],
    files: &[
        ("/proc/PID/task/TID/syscall, stack", "the call that a thread is in, and where it waits"),
        DEFAULTS,
    ],
    environment: &[NO_COLOR, LOCALE],
    costs: &["It goes through the threads of /proc twice; nothing is attached and no process is stopped."],
    see_also: &["proc(5)", "ps(1)"],
    brief: None,
    brief_examples: 2,
};

pub(super) const CALIBRATE: Manual = Manual {
    action: "calibrate",
    notes: &["docs/calibrate.md says what each line is. It needs neither root nor tracing."],
    examples: &[
        example("fsynctop calibrate /srv/scratch", "half a minute"),
        example("fsynctop calibrate /srv/scratch --each 5s", "quieter figures"),
        example("fsynctop calibrate /srv/scratch --threads 16", "fewer threads"),
        example("fsynctop calibrate /srv/scratch --for etcd", "PASS, MARGINAL or FAIL"),
        example("fsynctop calibrate /srv/scratch --output json", "one object, for programs"),
        example(
            "fsynctop calibrate /var/lib/mysql --production /var/lib/mysql",
            "a server's own; its commits wait",
        ),
    ],
    exit: &[
        DONE,
        ("1", "failed or refused: a server's directory, or a disk that others sync on"),
        BAD_USAGE,
        ("4", "--for: FAIL"),
        ("6", "--for: nobody gives a limit"),
        SIGNAL,
    ],
    files: &[
        ("/var/lib/fsynctop/calibrate-*.json", "root's results, for `fsynctop explain`"),
        ("$XDG_STATE_HOME/fsynctop/calibrate-*.json", "those of other users (~/.local/state/fsynctop)"),
    ],
    environment: &[
        ("STATE_DIRECTORY", "where results are kept, before both of these"),
        ("XDG_STATE_HOME", "where other users than root keep state"),
    ],
    costs: &[
        "It syncs as often as the disk can, so everybody else who syncs there waits behind it for half a minute. At most \
         64 MB are written to at a time, and nothing stays.",
    ],
    see_also: &["fio(1)"],
    brief: None,
    brief_examples: 3,
};
