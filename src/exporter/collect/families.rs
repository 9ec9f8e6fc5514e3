//! Every metric that is exported, in one table: the exposition takes its names, types and labels from here,
//! and `docs/metrics.md` is made of it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// As all forms call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub unit: &'static str,
    pub labels: &'static [&'static str],
    /// One sentence, as Prometheus shows it.
    pub help: &'static str,
    /// Notes on its use, for the page.
    pub notes: &'static str,
}

const fn family(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    labels: &'static [&'static str],
) -> Family {
    Family { name, kind, unit, labels, help: "", notes: "" }
}

/// Declares the families, and `ALL` of them in the order of their declarations, which is that of the page.
macro_rules! families {
    ($(pub(crate) static $name:ident: Family = $family:expr;)*) => {
        $(pub(crate) static $name: Family = $family;)*
        #[cfg(test)]
        pub(crate) static ALL: [&Family; [$(stringify!($name)),*].len()] = [$(&$name),*];
    };
}

families! {
    pub(crate) static SYNC_DURATION: Family = Family {
        help: "How long the syncs of a server took, by what the file is to it.",
        notes: "`rate()` of `_sum` is the mean number in flight; for the logs that commits wait for (`redo`, `binlog`, \
                `wal`, `aof`), of which a server syncs each one call at a time, it is how busy the log is, 0 to 1. `_count` is every sync whose latency is known: all, unless \
                `fsynctop_lost_total{kind=\"events\"}` grows. `op=\"dsync_write\"` is a write that is durable when it \
                returns. `via` says how it was asked for: `call`, a system call of its own, is there at zero for the \
                logs of its engine; `io_uring` and `aio` from the first such request.",
        ..family("fsynctop_sync_duration_seconds", Kind::Histogram, "seconds", &["server", "role", "op", "via"])
    };
    pub(crate) static SYNC_ERRORS: Family = Family {
        help: "Syncs that failed, by errno; they are in the histogram, too.",
        notes: "By whichever operation; there from the start, at zero, for each role that holds committed data, for other roles \
                from their first sync. `fsynctop history` and `fsynctop events` name the operation and each errno.",
        ..family("fsynctop_sync_errors_total", Kind::Counter, "syncs", &["server", "role", "errno"])
    };
    pub(crate) static DURABLE_BYTES: Family = Family {
        help: "Bytes that durable writes wrote, as the kernel returned them.",
        notes: "Of the writes that are `op=\"dsync_write\"` above: through descriptors with O_DSYNC or O_SYNC, with \
                RWF_DSYNC, to synchronous files and mounts. Data that is written first and synced later is in \
                `fsynctop_written_bytes_total` alone. There from the start, at zero, for `via=\"call\"` and each role that holds committed data; absent under \
                `--writes off`.",
        ..family("fsynctop_durable_written_bytes_total", Kind::Counter, "bytes", &["server", "role", "via"])
    };
    pub(crate) static WRITE_DURATION: Family = Family {
        help: "How long the writes of a server to its files took, durable or not.",
        notes: "Only with `--writes all`. Of regular files and block devices; writes to mapped memory are not seen. `op` is \
                `write`, by whichever call or request; `dsync_write`, which is in `fsynctop_sync_duration_seconds` as well; \
                and `fallocate`, which makes room and writes nothing. `write` by a call is there at zero for each \
                role that holds committed data.",
        ..family("fsynctop_write_duration_seconds", Kind::Histogram, "seconds", &["server", "role", "op", "via"])
    };
    pub(crate) static WRITTEN_BYTES: Family = Family {
        help: "Bytes that a server wrote to its files, as the kernel returned them.",
        notes: "Only with `--writes all`, of the same writes. Divided by the rate of the logs that commits wait for \
                (`role=~\"redo|binlog|wal|aof\"`): how much is written for each byte of the logs. `write` by a call is there \
                from the start, at zero, for each role that holds committed data.",
        ..family("fsynctop_written_bytes_total", Kind::Counter, "bytes", &["server", "role", "op", "via"])
    };
    pub(crate) static FAILED_WRITES: Family = Family {
        help: "Writes that are not durable and failed, by errno.",
        notes: "A server whose writes fail may never come to its sync: InnoDB that finds the filesystem full tries again \
                for ever. There from the start, at zero, as `fsynctop_sync_errors_total`; not with `--writes off`. Durable \
                writes that fail are syncs (`op=\"dsync_write\"`).",
        ..family("fsynctop_failed_writes_total", Kind::Counter, "writes", &["server", "role", "errno"])
    };
    pub(crate) static WRITEBACK_ERRORS: Family = Family {
        help: "Changes of the writeback errors of files: what the kernel could not write later.",
        notes: "Counted when it happens, also if no sync ever asks; a sync that does reports the same error once more. One \
                change may stand for any number of lost pages. `server=\"unknown\"`: of a device's metadata, or of files \
                that no traced server has open. There from the start, at zero, as `fsynctop_sync_errors_total`.",
        ..family("fsynctop_writeback_errors_total", Kind::Counter, "errors", &["server", "role", "errno"])
    };
    pub(crate) static UNSYNCED_BYTES: Family = Family {
        help: "Bytes written and not covered by a successful sync: the most in the last interval.",
        notes: "Only with `--writes all`. What a power failure would take of files that nothing makes again: of the \
                logs that commits wait for, which are there from the start, these bytes are lost, besides whatever the server \
                has not written yet; data files are made again out of them, as far as an engine has both. Never too small \
                ([unsynced.md](unsynced.md)), except while `fsynctop_unsynced_unknown_bytes_total` grows: then there may be more, also where this is zero. Of a \
                role, the sum of the greatest of each file.",
        ..family("fsynctop_unsynced_bytes", Kind::Gauge, "bytes", &["server", "role"])
    };
    pub(crate) static UNSYNCED_OLDEST: Family = Family {
        help: "Age of the oldest of these bytes: the greatest in the last interval; 0 where there are none.",
        notes: "With `innodb_flush_log_at_trx_commit=1` about as long as a commit takes, with 2 about a second; of the \
                binary log with `sync_binlog=1` the same, with 0 as long as the kernel and the server like.",
        ..family("fsynctop_unsynced_oldest_seconds", Kind::Gauge, "seconds", &["server", "role"])
    };
    pub(crate) static UNSYNCED_UNKNOWN: Family = Family {
        help: "Bytes of which it is no longer known whether they are synced: too many files were being written.",
        notes: "Only with `--writes all`. Where room is short, the files of whichever process has most of them are given up \
                first ([unsynced.md](unsynced.md)).",
        ..family("fsynctop_unsynced_unknown_bytes_total", Kind::Counter, "bytes", &[])
    };
    pub(crate) static IN_FLIGHT: Family = Family {
        help: "Syncs that had begun and not ended when the snapshot was taken.",
        notes: "Durable writes are among them, and any other write to a file once it has hung for a second; unless \
                `--writes off`.",
        ..family("fsynctop_syncs_in_flight", Kind::Gauge, "syncs", &["server", "role"])
    };
    pub(crate) static OLDEST_IN_FLIGHT: Family = Family {
        help: "Age of the oldest sync in flight; 0 where there is none.",
        notes: "Of a sync that began before the exporter did, the age that is certain: it can be older.",
        ..family("fsynctop_sync_oldest_in_flight_seconds", Kind::Gauge, "seconds", &["server", "role"])
    };
    pub(crate) static FILE_SYNCS: Family = Family {
        help: "Syncs by file.",
        notes: "The busiest 200 paths of each server (`--file-limit`) have series of their own, by the [time spent in \
                syncs](#which-files-and-neighbours-have-series-of-their-own), the logs and InnoDB's own files among them in \
                any case; all others are `path=\"other\"`. Files that take each other's place share one path: `binlog.*`, \
                `#ib_redo*`. `--no-file-metrics` leaves both families out.",
        ..family("fsynctop_file_syncs_total", Kind::Counter, "syncs", &["server", "role", "op", "via", "path"])
    };
    pub(crate) static FILE_SYNC_SECONDS: Family = Family {
        help: "Time spent in syncs, by file.",
        notes: "As `fsynctop_file_syncs_total`; the quotient of the two rates is the mean latency.",
        ..family("fsynctop_file_sync_seconds_total", Kind::Counter, "seconds", &["server", "role", "op", "via", "path"])
    };
    pub(crate) static NEIGHBOUR_SYNCS: Family = Family {
        help: "Syncs of processes that are not traced, by device and command.",
        notes: "The busiest 20 pairs have series of their own, by the [time spent in \
                syncs](#which-files-and-neighbours-have-series-of-their-own); all others are `comm=\"other\"`, and beyond 16 \
                devices `device=\"other\"`. `mount` is where the exporter's own root shows the device, empty where it does not.",
        ..family("fsynctop_neighbour_syncs_total", Kind::Counter, "syncs", &["device", "mount", "comm"])
    };
    pub(crate) static NEIGHBOUR_SYNC_SECONDS: Family = Family {
        help: "Time that processes which are not traced spent in syncs, by device and command.",
        ..family("fsynctop_neighbour_sync_seconds_total", Kind::Counter, "seconds", &["device", "mount", "comm"])
    };
    pub(crate) static NEIGHBOUR_UNTIMED_SYNCS: Family = Family {
        help: "Durable writes and syncs, by calls that are not watched, of processes that are not traced, by device and command.",
        notes: "As `fsynctop_neighbour_syncs_total`, and not among them: writes to a file opened with O_DSYNC, requests of io_uring, \
                msync, and sync and syncfs where these are not watched. They are counted where they reach the filesystem (ext4, XFS, \
                btrfs, f2fs), and have no latency. `device=\"any\"` is whoever called sync, which writes all filesystems.",
        ..family("fsynctop_neighbour_untimed_syncs_total", Kind::Counter, "syncs", &["device", "mount", "comm"])
    };
    pub(crate) static SERVER_UP: Family = Family {
        help: "1 while the server's process runs, 0 once it has ended.",
        ..family("fsynctop_server_up", Kind::Gauge, "", &["server"])
    };
    pub(crate) static VERDICT: Family = Family {
        help: "1 for the state that the server's durability is in, 0 for the others.",
        notes: "`state` is `ok`, `idle`, `slow`, `unknown`, `stalled` or `failing`; all are there from the start. \
                [verdicts.md](verdicts.md) says what each means. `/api/v1/verdict` says the same without \
                Prometheus, and why.",
        ..family("fsynctop_verdict", Kind::Gauge, "", &["server", "state"])
    };
    pub(crate) static VERDICT_SINCE: Family = Family {
        help: "Since when the server has been in that state.",
        ..family("fsynctop_verdict_since_timestamp_seconds", Kind::Gauge, "seconds", &["server"])
    };
    pub(crate) static SERVER_INFO: Family = Family {
        help: "What is known of a server, as labels; always 1.",
        notes: "Of the process that runs it, or ran it last. What is not known is empty. `server_uuid` is MySQL's \
                (`auto.cnf`), `server_id` the one it was told; `device` and `mount` are what the data directory lies on, the \
                mount point as the server sees it, or, of an overlay, where the host has the layer that is written to. A \
                restart changes no label, unless it changed the server: the pid and the start are metrics of their own.",
        ..family(
            "fsynctop_server_info",
            Kind::Gauge,
            "",
            &[
                "server",
                "version",
                "comm",
                "server_uuid",
                "server_id",
                "datadir",
                "socket",
                "port",
                "container",
                "device",
                "mount",
                "filesystem",
            ],
        )
    };
    pub(crate) static STORAGE_INFO: Family = Family {
        help: "What a server's data directory and logs lie on, and whether a sync makes anything durable there, as labels; always 1.",
        notes: "One for each mount. `durable` is `yes`, `no` or `unknown` ([storage.md](storage.md) says how that is found \
                out); where it is `no`, what `fsynctop_unsynced_bytes` does not count can be lost as well in a power failure. \
                `layers` are the filesystems and devices, from the top. Absent until the server has been looked at.",
        ..family("fsynctop_storage_info", Kind::Gauge, "", &["server", "mount", "layers", "durable"])
    };
    pub(crate) static SERVER_PID: Family = Family {
        help: "The pid of the process that runs the server, or ran it last.",
        notes: "In the pid namespace of the exporter.",
        ..family("fsynctop_server_pid", Kind::Gauge, "", &["server"])
    };
    pub(crate) static SERVER_START: Family = Family {
        help: "When the server's process was started, in seconds since 1970.",
        ..family("fsynctop_server_start_time_seconds", Kind::Gauge, "seconds", &["server"])
    };
    pub(crate) static UP: Family = Family {
        help: "1 while syncs are traced, 0 when tracing has ended or failed.",
        ..family("fsynctop_up", Kind::Gauge, "", &[])
    };
    pub(crate) static LOST: Family = Family {
        help: "What could not be counted or attributed, by kind; zero means that it was checked.",
        notes: "`preempted`, `threads`, `unreported`: syncs that are counted nowhere, because the kernel skipped a program, had no \
                memory, or was not told how a request of io_uring or libaio ended. `files`: counted under `server=\"unknown\"`, because no row was free. `events`: counted by file, \
                but not in the histogram. `errors`: failures whose errno is not known. \
                `writeback_errors`: changes of writeback errors that are counted for no file, at most: their map was \
                full, or the kernel skipped the program. `processes`: processes of a \
                traced command that were not followed. `unwatched` is no loss of the watched calls: how often \
                servers made data durable by others: msync, on filesystems that \
                show it (ext4, XFS, btrfs, f2fs), sync and syncfs. Neither is `answered`: calls that returned without having been \
                entered, because a seccomp filter answered them.",
        ..family("fsynctop_lost_total", Kind::Counter, "events", &["kind"])
    };
    pub(crate) static PAUSED: Family = Family {
        help: "Time in which nothing was traced, because tracing took more processor time than it may (--max-cpu).",
        ..family("fsynctop_paused_seconds_total", Kind::Counter, "seconds", &[])
    };
    pub(crate) static NAMELESS_FILES: Family = Family {
        help: "Files that are counted and whose name is not known.",
        notes: "New ones are asked for and counted here for an instant; where it stays above zero, names were lost.",
        ..family("fsynctop_files_without_name", Kind::Gauge, "files", &[])
    };
    pub(crate) static ATTACH_INFO: Family = Family {
        help: "How the probes are attached, as labels; always 1.",
        notes: "`ops` are the calls that are traced, `not_chosen` says why the other modes were not taken.",
        ..family("fsynctop_attach_info", Kind::Gauge, "", &["mode", "kernel", "ops", "not_chosen"])
    };
    pub(crate) static SELF_TEST: Family = Family {
        help: "When calls of the exporter's own were last seen to be counted, in seconds since 1970.",
        notes: "Tested when the probes are attached and every minute: an old time means that syncs may go uncounted, \
                because somebody has switched the kernel's tracing off.",
        ..family("fsynctop_self_test_timestamp_seconds", Kind::Gauge, "seconds", &[])
    };
    pub(crate) static SNAPSHOT_TIME: Family = Family {
        help: "When the snapshot that this was made of was taken, in seconds since 1970: every sync that had ended by then is in it.",
        ..family("fsynctop_snapshot_timestamp_seconds", Kind::Gauge, "seconds", &[])
    };
    pub(crate) static SNAPSHOT_INTERVAL: Family = Family {
        help: "From one regular snapshot to the next; longer than configured where the host is busy.",
        ..family("fsynctop_snapshot_interval_seconds", Kind::Gauge, "seconds", &[])
    };
    pub(crate) static BUILD_INFO: Family = Family {
        help: "What fsynctop this is, as labels; always 1.",
        notes: "The same as `fsynctop --version` says. `commit` and `commit_date` are empty where the sources did not \
                know them; `bpf_objects` is a hash of the compiled BPF programs.",
        ..family(
            "fsynctop_build_info",
            Kind::Gauge,
            "",
            &["version", "architecture", "target", "commit", "commit_date", "libbpf", "bpf_objects"],
        )
    };
    pub(crate) static SCRAPES: Family = Family {
        help: "Expositions that were made, but for this one; those who ask at the same time share one.",
        ..family("fsynctop_exporter_expositions_total", Kind::Counter, "expositions", &[])
    };
    pub(crate) static SCRAPE_SECONDS: Family = Family {
        help: "Time spent on making expositions, the wait for a fresh snapshot included.",
        ..family("fsynctop_exporter_exposition_seconds_total", Kind::Counter, "seconds", &[])
    };
    pub(crate) static EXPOSITION_BYTES: Family = Family {
        help: "Size of the exposition before this one.",
        notes: "In whichever form it was asked for.",
        ..family("fsynctop_exporter_exposition_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static SAMPLES: Family = Family {
        help: "Samples of this exposition.",
        notes: "As lines of text, also in the other forms. A native histogram is one sample more for Prometheus.",
        ..family("fsynctop_exporter_samples", Kind::Gauge, "samples", &[])
    };
    pub(crate) static REQUESTS: Family = Family {
        help: "HTTP requests by the status code that they were answered with.",
        ..family("fsynctop_exporter_http_requests_total", Kind::Counter, "requests", &["code"])
    };
    pub(crate) static CONNECTIONS: Family = Family {
        help: "Connections that were accepted.",
        ..family("fsynctop_exporter_connections_total", Kind::Counter, "connections", &[])
    };
    pub(crate) static CONNECTIONS_DROPPED: Family = Family {
        help: "Connections that were ended before their time, by reason.",
        notes: "`refused`: too many were waiting already. `gave_way`: to a new one. `timed_out`: the client was too slow. \
                `failed_handshake`: no TLS, or no certificate that counts.",
        ..family("fsynctop_exporter_connections_dropped_total", Kind::Counter, "connections", &["reason"])
    };
    pub(crate) static DENIED: Family = Family {
        help: "Requests with a wrong name or password, or without one.",
        ..family("fsynctop_exporter_denied_requests_total", Kind::Counter, "requests", &[])
    };
    pub(crate) static RELOADS: Family = Family {
        help: "Times that the web configuration was read anew, by result.",
        notes: "After `failed`, the configuration before stays in use.",
        ..family("fsynctop_exporter_web_config_reloads_total", Kind::Counter, "reloads", &["result"])
    };
    pub(crate) static MAP_BYTES: Family = Family {
        help: "Kernel memory that the maps of the probes may take.",
        notes: "Beside `process_resident_memory_bytes`: maps are no memory of the process, but of its control group.",
        ..family("fsynctop_exporter_map_memory_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static HISTORY_BYTES: Family = Family {
        help: "Memory that the history for `fsynctop history` takes.",
        ..family("fsynctop_exporter_history_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static HISTORY_SECONDS: Family = Family {
        help: "How far back the history reaches.",
        ..family("fsynctop_exporter_history_seconds", Kind::Gauge, "seconds", &[])
    };
    pub(crate) static HISTORY_SHORT: Family = Family {
        help: "1 if the history reaches back less far than it should, because there was more to remember than memory.",
        ..family("fsynctop_exporter_history_is_short", Kind::Gauge, "", &[])
    };
    pub(crate) static WEB_CPU: Family = Family {
        help: "Processor time of the process that serves clients.",
        ..family("fsynctop_exporter_web_cpu_seconds_total", Kind::Counter, "seconds", &[])
    };
    pub(crate) static WEB_RESIDENT: Family = Family {
        help: "Resident memory of the process that serves clients.",
        ..family("fsynctop_exporter_web_resident_memory_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static RECORDING_FAILING: Family = Family {
        help: "1 if the last interval could not be recorded, or the recording's disk does not answer.",
        notes: "All `recording_` metrics are there where it records (--record, or systemd's StateDirectory). `/status` \
                and the log say why.",
        ..family("fsynctop_exporter_recording_is_failing", Kind::Gauge, "", &[])
    };
    pub(crate) static RECORDING_WRITTEN: Family = Family {
        help: "Bytes that were written to the recording.",
        ..family("fsynctop_exporter_recording_written_bytes_total", Kind::Counter, "bytes", &[])
    };
    pub(crate) static RECORDING_SIZE: Family = Family {
        help: "Size of the recording.",
        ..family("fsynctop_exporter_recording_size_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static RECORDING_INTERVALS: Family = Family {
        help: "Intervals that were recorded, those that are forgotten by now among them.",
        ..family("fsynctop_exporter_recording_intervals_total", Kind::Counter, "intervals", &[])
    };
    pub(crate) static RECORDING_LOST: Family = Family {
        help: "Intervals that could not be recorded.",
        ..family("fsynctop_exporter_recording_lost_intervals_total", Kind::Counter, "intervals", &[])
    };
    pub(crate) static RECORDING_WAITING: Family = Family {
        help: "Intervals that wait to be recorded.",
        notes: "Up to 600, or fewer with many rows, while the disk does not answer; of more, the latest become one.",
        ..family("fsynctop_exporter_recording_waiting_intervals", Kind::Gauge, "intervals", &[])
    };
    pub(crate) static RECORDING_LAST: Family = Family {
        help: "End of the last interval that was recorded, since unix epoch in seconds.",
        ..family("fsynctop_exporter_recording_last_timestamp_seconds", Kind::Gauge, "seconds", &[])
    };
    pub(crate) static RECORDER_CPU: Family = Family {
        help: "Processor time of the process that records.",
        ..family("fsynctop_exporter_recorder_cpu_seconds_total", Kind::Counter, "seconds", &[])
    };
    pub(crate) static RECORDER_RESIDENT: Family = Family {
        help: "Resident memory of the process that records.",
        ..family("fsynctop_exporter_recorder_resident_memory_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static PROCESS_CPU: Family = Family {
        help: "Total user and system CPU time spent in seconds.",
        notes: "All `process_` metrics are about the process that traces; the one that serves has \
                `fsynctop_exporter_web_` metrics. What the probes cost is time of the threads that sync.",
        ..family("process_cpu_seconds_total", Kind::Counter, "seconds", &[])
    };
    pub(crate) static PROCESS_RESIDENT: Family = Family {
        help: "Resident memory size in bytes.",
        ..family("process_resident_memory_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static PROCESS_VIRTUAL: Family = Family {
        help: "Virtual memory size in bytes.",
        ..family("process_virtual_memory_bytes", Kind::Gauge, "bytes", &[])
    };
    pub(crate) static PROCESS_FDS: Family = Family {
        help: "Number of open file descriptors.",
        ..family("process_open_fds", Kind::Gauge, "descriptors", &[])
    };
    pub(crate) static PROCESS_MAX_FDS: Family = Family {
        help: "Maximum number of open file descriptors.",
        ..family("process_max_fds", Kind::Gauge, "descriptors", &[])
    };
    pub(crate) static PROCESS_THREADS: Family =
        Family { help: "Number of threads.", ..family("process_threads", Kind::Gauge, "threads", &[]) };
    pub(crate) static PROCESS_START: Family = Family {
        help: "Start time of the process since unix epoch in seconds.",
        ..family("process_start_time_seconds", Kind::Gauge, "seconds", &[])
    };
}
