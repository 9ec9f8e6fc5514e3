//! The pages of the actions that attach to the kernel, and of the program as a whole.

use super::page::{Manual, example};

pub(super) const DONE: (&str, &str) = ("0", "done");
pub(super) const FAILED: (&str, &str) = ("1", "failed");
pub(super) const BAD_USAGE: (&str, &str) =
    ("2", "a wrong option, environment variable or configuration file");
pub(super) const NOTHING: (&str, &str) =
    ("3", "nothing to trace: no server, process or control group of that kind");
pub(super) const SIGNAL: (&str, &str) = ("128 + signal", "a signal interrupted it");

const BTF: (&str, &str) =
    ("/sys/kernel/btf/vmlinux", "the kernel's own types, without which nothing can be attached");
const TRACEFS: (&str, &str) =
    ("/sys/kernel/tracing", "for tracepoints; where it is not mounted, it is mounted for fsynctop alone");
pub(super) const SOCKET: (&str, &str) =
    ("/run/fsynctop/exporter.sock", "where an exporter on this host is asked for what it remembers");
pub(super) const DEFAULTS: (&str, &str) = (
    "/etc/fsynctop/fsynctop.toml, ~/.config/fsynctop/fsynctop.toml",
    "the system's and the user's own defaults of the command line: fsynctop.toml(5)",
);
const CALIBRATION: (&str, &str) =
    ("/var/lib/fsynctop/calibrate-*.json", "what `fsynctop calibrate` has measured, to compare with");

/// Where the pages are that texts here refer to.
const DOCUMENTATION: (&str, &str) =
    ("/usr/share/doc/fsynctop/README.md, /usr/share/doc/fsynctop/docs", "the documentation, of a package");

pub(super) const NO_COLOR: (&str, &str) = ("NO_COLOR", "if it is set and not empty, there are no colours");
pub(super) const LOCALE: (&str, &str) =
    ("LC_ALL, LC_CTYPE, LANG", "the first that is set decides whether characters beyond ASCII are drawn");
const TERM: (&str, &str) =
    ("TERM, COLORTERM", "how many colours the terminal has; there is no live view on a dumb one");
const PASSWORD: (&str, &str) =
    ("MYSQL_PWD", "the password for the server's own counters, unless an option file or a prompt gives it");
const POSTGRES_PASSWORD: (&str, &str) =
    ("PGPASSWORD", "the same for PostgreSQL, unless a file of services or a prompt gives it");
const REDIS_PASSWORD: (&str, &str) =
    ("REDISCLI_AUTH", "the same for Redis and Valkey, unless a prompt gives it");

/// Held against docs/overhead.md by a test, as the other texts with figures.
pub(super) const TRACING: [&str; 2] = [
    "Each sync of any process on the host takes 150 to 300 ns longer while it is attached (Intel Xeon and AMD EPYC, \
     tracepoints), and each write some 80 ns. Attached by tracepoints, every other system call of the host takes 10 to \
     40 ns longer, too; by fentry, none does. All of it is gone when fsynctop ends.",
    "The process itself takes 0.2 to 0.4 % of one processor at an interval of a second, and some 25 MB of memory; its maps \
     take 46 MB of kernel memory. docs/overhead.md has all figures, and how they were measured.",
];
pub(super) const LIVE: &str = "With 50,000 syncs a second of 5,000 files, the live view takes 1 to 6 % of one processor, depending on the machine.";
pub(super) const WAITS: &str = "Beside that, hooks of the scheduler make each switch from one thread to another take some 400 ns longer, \
     of every thread on the host, for as long as it watches. Nothing of them is left when it ends.";

/// Of what one waits for.
const PROGRESS: &str = "On a terminal, a line says at once what is measured and for how long, and a bar how far it is. Where standard \
     error is no terminal, nothing of that is written.";

pub(super) const PROGRAM: Manual = Manual {
    action: "",
    notes: &[
        "A word without an option names servers: an engine (`fsynctop mysql`), a process (`fsynctop mysqld`) or a PID \
         (`fsynctop 4711`), also behind an action (`fsynctop once mysql`). Options may stand before their action.",
    ],
    examples: &[
        example("fsynctop", "live, all servers; ? lists its keys"),
        example("fsynctop once mysql", "ten seconds of one engine's servers"),
        example("fsynctop check", "would tracing work here?"),
        example("fsynctop 4711", "live, one server"),
        example("fsynctop once", "ten seconds of all servers, by role"),
        example("fsynctop once -d 1m --by file", "a minute, by file"),
        example("fsynctop once -i 1 -n 60 --output csv", "a minute, a line per role and second"),
        example("fsynctop once --pid 4711 --histogram", "one server, its latencies drawn"),
        example("fsynctop once -- ./load.sh", "a command and all that it starts"),
        example("fsynctop history --last 10m", "what an exporter here has seen"),
        example("fsynctop explain -d 10", "what syncs waited for"),
        example("fsynctop stuck", "syncs that hang now; traces nothing"),
        example("fsynctop exporter", "for Prometheus, on 127.0.0.1:9871"),
        example("fsynctop verify -d 30", "is it what the server itself counts?"),
        example("fsynctop calibrate /srv/scratch", "what one sync costs there"),
    ],
    exit: &[
        DONE,
        FAILED,
        BAD_USAGE,
        ("3", "nothing to trace: no server, process or control group of that kind, or nothing remembered"),
        (
            "4",
            "a condition holds: what --fail-on names, a line of verify that differs, FAIL of calibrate --for",
        ),
        ("5", "stuck: a thread that could be a server's could not be examined"),
        ("6", "not enough to say: verify had nothing to compare, calibrate --for no limit"),
        SIGNAL,
    ],
    files: &[BTF, TRACEFS, SOCKET, CALIBRATION, DEFAULTS, DOCUMENTATION],
    environment: &[NO_COLOR, TERM, LOCALE],
    costs: &[TRACING[0], TRACING[1], LIVE],
    see_also: &["perf(1)", "strace(1)", "bpftrace(8)"],
    brief: Some(&[]), // the actions take the screen
    brief_examples: 2,
};

pub(super) const TOP: Manual = Manual {
    action: "top",
    notes: &[
        "Keys: ? lists them all. Without a terminal it does what `fsynctop once` does. When it ends, what was seen stays on \
         the terminal: a table of the whole session, and what went wrong in it, worst first.",
    ],
    examples: &[
        example("fsynctop top", "all servers on this host"),
        example("fsynctop top --by file -i 2", "by file, a snapshot every two seconds"),
        example("fsynctop top --by neighbour", "who else syncs on the same disks?"),
        example("fsynctop top --engine postgres", "the servers of one engine"),
        example("fsynctop top --no-mouse --color never", "plain; the terminal keeps the mouse"),
    ],
    exit: &[DONE, FAILED, BAD_USAGE, NOTHING, SIGNAL],
    files: &[BTF, TRACEFS, SOCKET, DEFAULTS],
    environment: &[NO_COLOR, TERM, LOCALE],
    costs: &[TRACING[0], TRACING[1], LIVE],
    see_also: &["top(1)"],
    brief: Some(&[
        "interval",
        "by",
        "stuck-after",
        "color",
        "no-unicode",
        "no-mouse",
        "pid",
        "comm",
        "cgroup",
        "all",
        "engine",
        "max-cpu",
    ]),
    brief_examples: 3,
};

pub(super) const ONCE: Manual = Manual {
    action: "once",
    notes: &[
        "Counts are exact: what could not be counted is itself counted and shown. The last line of a table names the ways of \
         making data durable that were not watched.",
        PROGRESS,
    ],
    examples: &[
        example("fsynctop once", "ten seconds of all servers, by role"),
        example("fsynctop once -d 1m --by file --limit 20", "a minute, the 20 busiest files"),
        example("fsynctop once -- ./load.sh", "for as long as a command runs"),
        example("fsynctop once -i 1 -n 60 --output csv", "a line per role and second"),
        example("fsynctop once -i 10 --output json | jq .servers", "a series for programs, until Ctrl-C"),
        example("fsynctop once 4711 --histogram", "one server, its latencies drawn"),
        example("fsynctop once --wait", "a server that starts later"),
        example("fsynctop once --replay before --at worst", "the worst second of a recording"),
        example("fsynctop once --ops fsync,fdatasync,msync,sync", "more calls than by default"),
        example("fsynctop once --all --by thread", "every process on the host, by thread"),
        example("fsynctop once --fail-on stalled,failing,slow=50ms", "status 4 if one of these holds"),
    ],
    exit: &[
        DONE,
        FAILED,
        BAD_USAGE,
        NOTHING,
        ("4", "--fail-on: what it names holds, whatever the status of a command"),
        SIGNAL,
        ("any", "with -- COMMAND, else the command's own; 128 + signal if a signal ended it"),
    ],
    files: &[BTF, TRACEFS, DEFAULTS],
    environment: &[NO_COLOR, ("TERM", "a dumb terminal has no colours"), LOCALE],
    costs: &TRACING,
    see_also: &["perf-trace(1)", "strace(1)"],
    brief: Some(&[
        "duration",
        "interval",
        "count",
        "wait",
        "by",
        "sort",
        "limit",
        "columns",
        "histogram",
        "output",
        "output-file",
        "pid",
        "comm",
        "cgroup",
        "all",
    ]),
    brief_examples: 3,
};

pub(super) const RECORD: Manual = Manual {
    action: "record",
    notes: &[
        "Each interval is written at once and never synced: a kill costs the one that had not ended, a power failure what \
         the kernel had not written yet. The disk of the recording delays no tracing: what it does not take at once waits \
         in memory.",
        "docs/recordings.md says what a recording holds and how it is looked at.",
    ],
    examples: &[
        example("fsynctop record", "until Ctrl-C, into a new folder here"),
        example("fsynctop record -o before -- ./load.sh", "for as long as a command runs"),
        example("fsynctop record -o /srv/fsynctop --limit 1G -d 8h", "eight hours, a gigabyte at most"),
        example("fsynctop record mysql --writes all", "one engine, and all of its writes"),
        example("fsynctop record --pid 4711 --counters", "beside what the server counts itself"),
        example("fsynctop record -o before --waits", "and what each sync waits for"),
    ],
    exit: &[
        DONE,
        ("1", "failed: among others, something could not be recorded"),
        BAD_USAGE,
        NOTHING,
        SIGNAL,
        ("any", "with -- COMMAND, else the command's own; 128 + signal if a signal ended it"),
    ],
    files: &[BTF, TRACEFS, DEFAULTS],
    environment: &[LOCALE, PASSWORD, POSTGRES_PASSWORD, REDIS_PASSWORD],
    costs: &[
        TRACING[0],
        TRACING[1],
        "With --waits, hooks of the scheduler cost what they cost `fsynctop explain`.",
    ],
    see_also: &[],
    brief: Some(&[
        "output-directory",
        "limit",
        "duration",
        "interval",
        "pid",
        "comm",
        "cgroup",
        "all",
        "writes",
    ]),
    brief_examples: 3,
};

pub(super) const EXPLAIN: Manual = Manual {
    action: "explain",
    notes: &[
        PROGRESS,
        "docs/explain.md says what each line means and how it was found. What is said of commits, throughput and settings is \
         said of one server: name it with --pid where several run. Of etcd, Redis and Valkey, settings alone are.",
    ],
    examples: &[
        example("fsynctop explain", "ten seconds of all servers"),
        example("fsynctop explain -d 1m --pid 4711", "a minute of one of several servers"),
        example("fsynctop explain --flamegraph waits.svg", "the waits as a flame graph"),
        example("fsynctop explain --output json", "one object, for programs"),
        example("fsynctop explain --user fsynctop --password", "an account for the server's counters"),
    ],
    exit: &[DONE, FAILED, BAD_USAGE, NOTHING, SIGNAL],
    files: &[
        BTF,
        TRACEFS,
        ("/proc/kallsyms", "the names of the kernel's functions, by which waits are told apart"),
        CALIBRATION,
        DEFAULTS,
    ],
    environment: &[PASSWORD, POSTGRES_PASSWORD, REDIS_PASSWORD, NO_COLOR, LOCALE],
    costs: &[TRACING[0], TRACING[1], WAITS],
    see_also: &["perf-record(1)"],
    brief: Some(&[
        "duration",
        "output",
        "folded",
        "flamegraph",
        "defaults-file",
        "socket",
        "user",
        "password",
        "pid",
        "comm",
        "cgroup",
        "all",
        "engine",
    ]),
    brief_examples: 3,
};

pub(super) const EXPORTER: Manual = Manual {
    action: "exporter",
    notes: &[
        "Each option can also be given by an environment variable (--max-files: FSYNCTOP_MAX_FILES; several values with \
         commas between them) and in the file of --config (max-files = 65536; listen = [\"127.0.0.1:9871\"]). The \
         command line comes before the environment, and that before the file.",
        "Pages: /metrics, /status (the verdicts of `fsynctop check` as JSON), /-/healthy, /-/ready. SIGHUP reads the web \
         configuration anew; so does a change of its files. SIGTERM ends it.",
    ],
    examples: &[
        example("fsynctop exporter", "on 127.0.0.1:9871, all servers"),
        example("fsynctop exporter --listen :9871", "on all addresses of the host"),
        example("fsynctop exporter --config /etc/fsynctop/exporter.toml", "options from a file"),
        example("fsynctop exporter --web-config-file /etc/fsynctop/web.yml", "TLS and users"),
        example(
            "fsynctop exporter --user 998:998 --server-name 3306=orders",
            "as a user of its own; a server's name",
        ),
        example("FSYNCTOP_MAX_CPU=0.5% fsynctop exporter", "an option in the environment"),
    ],
    exit: &[
        ("0", "ended by SIGTERM or SIGINT"),
        ("1", "failed, or the process that serves has ended"),
        BAD_USAGE,
        NOTHING,
    ],
    files: &[
        BTF,
        TRACEFS,
        (
            "/run/fsynctop/exporter.sock",
            "where `fsynctop history` and the live view ask for the last minutes",
        ),
        ("/etc/fsynctop/fsynctop.toml", "what is traced, unless it is said elsewhere: fsynctop.toml(5)"),
    ],
    environment: &[
        ("FSYNCTOP_*", "an option each: the command line comes before it, the file of --config behind it"),
        ("LISTEN_FDS", "sockets that systemd has opened, if there is no --listen"),
        ("NOTIFY_SOCKET, WATCHDOG_USEC", "systemd's: told when it traces, and that it still does"),
        ("JOURNAL_STREAM", "where standard error is the journal, each line has its level in front"),
    ],
    costs: &[
        TRACING[0],
        TRACING[1],
        "--max-cpu bounds its processor time; what the history takes is 4 MB at most, what clients may take has limits of its \
         own (docs/exporter.md).",
    ],
    see_also: &["prometheus(1)", "systemd.exec(5)"],
    brief: Some(&[
        "listen",
        "web-config-file",
        "user",
        "config",
        "interval",
        "file-limit",
        "no-file-metrics",
        "history",
        "max-cpu",
        "pid",
        "comm",
        "cgroup",
        "all",
        "engine",
    ]),
    brief_examples: 3,
};

pub(super) const EVENTS: Manual = Manual {
    action: "events",
    notes: &[
        "docs/verdicts.md says what the verdicts mean, and what a line has. Single operations are told at the end of the \
         interval in which they ended: of each file and call the longest, and how many were long.",
    ],
    examples: &[
        example("fsynctop events", "all servers, until Ctrl-C"),
        example("fsynctop events --above 200ms", "what takes a fifth of a second"),
        example("fsynctop events --journal", "to systemd's journal"),
        example("fsynctop events --sessions", "with the connection that waits"),
        example("fsynctop events | jq -r .sentence", "JSON, as in any pipe"),
    ],
    exit: &[("0", "a signal ended it"), FAILED, BAD_USAGE, NOTHING],
    files: &[BTF, TRACEFS, ("/run/systemd/journal/socket", "where --journal sends to"), DEFAULTS],
    environment: &[PASSWORD, NO_COLOR, LOCALE],
    costs: &TRACING,
    see_also: &["journalctl(1)"],
    brief: Some(&[
        "above",
        "stalled",
        "slow",
        "slow-for",
        "interval",
        "per-minute",
        "output",
        "journal",
        "pid",
        "comm",
    ]),
    brief_examples: 3,
};

pub(super) const VERIFY: Manual = Manual {
    action: "verify",
    notes: &[
        PROGRESS,
        "docs/verify.md says which counters there are, how they are reached and what the account needs.",
    ],
    examples: &[
        example("fsynctop verify", "half a minute of the one server"),
        example("fsynctop verify -d 5m --pid 4711", "five minutes of one of several"),
        example("fsynctop verify -- ./load.sh", "as long as a load runs"),
        example("fsynctop verify --user fsynctop --password", "an account for its counters"),
        example("fsynctop verify --defaults-file ./client.cnf", "the same, from an option file"),
        example("fsynctop verify --service-file ./pg.conf", "PostgreSQL, by its services"),
        example("fsynctop verify --engine etcd --port 2381", "etcd, by its own port for metrics"),
        example("fsynctop verify --output json", "one object, for programs"),
        example("fsynctop verify --replay before", "what was recorded with --counters"),
    ],
    exit: &[
        ("0", "what was traced is what the server counts"),
        FAILED,
        BAD_USAGE,
        (
            "3",
            "nothing to trace, or the process is neither MySQL, MariaDB, PostgreSQL, etcd, Redis nor Valkey",
        ),
        ("4", "a line differs"),
        ("6", "there was no count to compare with, or only ranges that exclude too little"),
        SIGNAL,
    ],
    files: &[BTF, TRACEFS, DEFAULTS],
    environment: &[PASSWORD, POSTGRES_PASSWORD, REDIS_PASSWORD],
    costs: &[TRACING[0], TRACING[1], "The server answers a few queries on one connection."],
    see_also: &["mysql(1)", "mariadb(1)", "psql(1)"],
    brief: Some(&[
        "duration",
        "output",
        "defaults-file",
        "service-file",
        "socket",
        "host",
        "port",
        "user",
        "password",
        "ssl-mode",
        "pid",
        "comm",
    ]),
    brief_examples: 3,
};
