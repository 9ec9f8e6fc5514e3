//! Sentences that say that something was not there: that nothing failed, that nobody else synced. They are
//! made here and nowhere else, and each takes the evidence that it needs: where that does not suffice, there
//! are weaker words, or none. docs/absences.md is made of this table, and a test of `cli` holds all output
//! against it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{capitalize, counted, duration_in_words, interval, percent};
use crate::model::{Durability, Lost, Net};

/// What can be denied.
pub(crate) struct Denial {
    /// The strongest first; `{}` is a figure, a name or a list.
    words: &'static [&'static str],
    #[cfg(test)]
    looked_at: &'static str,
    #[cfg(test)]
    cannot_see: &'static str,
    /// What is said in place of it.
    #[cfg(test)]
    otherwise: &'static str,
}

impl Denial {
    fn say(&self, strength: usize, figures: &[&str]) -> String {
        let mut parts = self.words[strength].split("{}");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.zip(figures).fold(first, |text, (part, figure)| text + figure + part)
    }
}

/// Each denial as a constant, and the table of all of them.
macro_rules! denials {
    ($($name:ident: $words:expr, $looked_at:expr, $cannot_see:expr, $otherwise:expr;)*) => {
        $(const $name: Denial = Denial {
            words: &$words,
            #[cfg(test)]
            looked_at: $looked_at,
            #[cfg(test)]
            cannot_see: $cannot_see,
            #[cfg(test)]
            otherwise: $otherwise,
        };)*
        #[cfg(test)]
        pub(crate) const ALL: &[Denial] = &[$($name),*];
    };
}

denials! {
    FAILURE: ["nothing failed", "no watched call failed", "no counted call failed"],
        "the results of all watched calls, the writes that fail and the kernel's writeback errors of the interval \
         that is named; the calls that were missed, and those that are known to have been made and are not watched",
        "what failed before the interval (where an exporter remembers it, that is said below), what comes of an \
         operation that hangs, ways of making data durable that are listed as not watched and not counted either",
        "the failures; nothing while something hangs";
    HANG: ["nothing is stuck", "no watched call is stuck", "no counted call is stuck",
           "nothing is stuck of what was seen to begin"],
        "the watched calls in flight at the end of the interval, with `--stuck-after`",
        "calls that are not watched, and what hung before its process was known to be a server's; with `--all` the last \
         words are used, as of a process that is none it is not known what hung before",
        "what hangs, and for how long";
    HANG_BEFORE: ["nothing was stuck", "no watched call was stuck", "no counted call was stuck",
                  "nothing was stuck of what was seen to begin"],
        "the same at the end of each interval of the window, and the longest of its calls",
        "the same",
        "what hung, for how long and when";
    MISS: ["no watched call was missed"],
        "the kernel's own count of probes that it skipped, and the programs' count of what had no room",
        "calls that are not watched: those that are counted are told after it; by fentry, one that was in flight while \
         another tool attached to its function, of a thread that has made no sync since",
        "how many were missed, by the reason";
    STUCK_NOW: ["nothing is stuck", "nothing is stuck of what was seen to begin"],
        "the watched calls in flight at the last look of the live view",
        "calls that are not watched: `fsynctop stuck` looks at all threads",
        "the stacks of what hangs";
    NEIGHBOUR: ["no other sync seen", "no other watched sync seen"],
        "the watched calls of all processes on the devices of the server and on others of their disks, what reaches a \
         filesystem there outside of them (where the server's own does not show that, the weaker words are used), and \
         `sync` and `syncfs` of anybody",
        "syncs from outside of this kernel, and those of libaio that a thread of the kernel makes for a process that is \
         not traced",
        "who syncs there, how often and how long";
    SYNC: ["No sync in {} ({} watched)", "No sync was counted in {} ({} watched)", "No watched sync in {} ({})", "No sync finished in {}"],
        "the watched calls of the server, those in flight, those that were missed, and its syncs outside of the watched \
         calls",
        "calls that are listed as not watched",
        "its syncs";
    YET: ["No sync has finished yet", "Nothing has been written yet", "No sync that was counted has failed or taken {} yet"],
        "the watched calls since the live view began",
        "what finished before",
        "the slowest syncs and those that failed; the files that are written";
    ROW: ["nothing of this row in the time that would be drawn here"],
        "the intervals that the live view, or the exporter, keeps of that time",
        "times of which none is kept",
        "the row's latencies";
    LOG_SYNC: ["No binary-log sync", "no redo sync"],
        "the watched calls of the server by the roles of their files; the other log was synced in the interval",
        "calls that were missed, which is said below; why, as no setting was read: what it can come from is listed",
        "how many syncs of one log there were for each of the other";
    COUNTED_SYNC: ["No sync was counted of {}", "There is no row of {}"],
        "the watched calls of these servers, their syncs outside of those, and what is in flight, in the interval",
        "calls that are neither watched nor counted; where some were missed, or rows of several servers are one, the \
         weaker words are used",
        "a table for each";
    SYNC_PROBLEM: ["Syncs are not the problem"],
        "the syncs of all roles that ended in the window, and those in flight at its end: none took a second, and none of \
         the roles, logs or not, had one in flight for half of the time; that no watched call was missed, and that nothing was made durable by other calls",
        "what the server waits for beside its syncs",
        "how busy the logs are, and no more; what hung, or is the limit";
    LOG_SYNC_END: ["No sync of its logs ended for {}"],
        "the log's syncs that ended in each interval of the hang, where one was in flight throughout",
        "calls that were missed, which is said below",
        "the log's syncs, interval by interval";
    SATURATION: [": not saturated ({})", ": neither is saturated ({})", ": they overlap, and neither is saturated ({})"],
        "the time in the log's syncs during the interval, with those in flight",
        "what a shorter time within the interval was like",
        "that it is saturated, and who queues";
    SLOW_LOG: ["No log was slow ({}) or saturated ({})", "No log was saturated ({})"],
        "the syncs of each log in all intervals of the window, against the median and the p99 of that log's intervals, \
         where that is known; that no watched call was missed",
        "what was over sooner, what had been slow since before the window for longer than it was not, and calls that are \
         not watched",
        "the incidents; nothing where calls were missed, or there was no room for all logs";
    TRACED_SYNC: ["No sync of a traced process was seen in these {}"],
        "the stacks and clocks of all watched calls that ended in the window, and those in flight",
        "calls that are not watched",
        "how many operations have hung since before the window";
    DOUBLEWRITE: ["nothing was written to it, inside ibdata1"],
        "all writes to the system tablespace in the window, by their offsets, told apart from its beginning on; that none \
         of them was durable, and that no watched call was missed",
        "writes by mmap",
        "that it cannot be told, and why";
    LOG_TRACED: ["no sync of {} was traced"],
        "the watched calls of the server by role, in the window",
        "calls that are not watched",
        "the figure that these syncs give";
    COMMIT_GROUP: ["no commit group was counted"],
        "the server's own counter, at both ends of the window",
        "commits that it does not count in groups",
        "how many transactions there were in a group";
    FLUSH_WAIT: ["no wait of the server's own syncs for a flush was seen"],
        "the kernel stacks in which the server's syncs waited, in the window",
        "flushes that took less than a wait, and those of other processes",
        "how long they waited for flushes";
    UNSYNCED: ["All that was written of {} was synced{}: a power cut would have cost what the server had not written \
                yet",
               "All that was counted of {} was synced{}: a power cut would have cost what was missed, and what the \
                server had not written yet"],
        "every write and every successful sync of the log's files since tracing began, and that the storage below \
         makes a sync durable, as far as it says so",
        "what was written before tracing began, or through a memory map, and what the server holds in its own memory",
        "how much a power cut would have cost; that it is not known, where the storage is not";
    DURABLE: ["None of its syncs makes anything durable: {}", "no sync makes anything durable{}: {}"],
        "what the files lie on, down to the device, and options that leave out flushes",
        "what the device does with a flush",
        "that it is not known, and why";
    OPEN: ["that no traced process was seen to have open"],
        "the descriptors of all traced processes, within a second of the error",
        "files that were closed before, and what one search may not reach in that time",
        "whose file it is, and its path";
    THREAD: ["No thread is inside a sync call right now, and no write hangs",
             "No thread that could be examined is inside a sync call right now, and no write hangs"],
        "all threads of /proc, with the system call that each is in, and once more those that were in one",
        "requests of io_uring and libaio, which have no thread; a write hangs only where it was seen twice",
        "the threads; below it, what could not be examined";
    VERDICT_OK: ["No operation of its logs has been in flight for too long, and no failure is known to be outstanding"],
        "the operations in flight, and all failures since the exporter, or the tracing, began",
        "failures before that, and calls that are not watched",
        "the state that it is in, and what that follows from";
    VERDICT_IDLE: ["It makes nothing durable at present, and nothing of it is known to be in flight"],
        "the watched calls and the syncs outside of them in the last interval, and what is in flight",
        "calls that are neither watched nor counted",
        "the state that it is in, and what that follows from";
    SERVER: ["No server was seen in the last {}"],
        "the exporter's history of that time",
        "servers that ran while it did not, or that it does not select",
        "their figures";
    IN_FLIGHT: ["No watched call of the recorded servers was in flight", "No call that was counted was in flight"],
        "the watched calls in flight at the end of the interval",
        "calls that are not watched; of a call that was missed it is not known",
        "the oldest of each role";
    RECORDING: ["Nothing of it is missing"],
        "the checksums of all frames, the numbers of the segments, and whether intervals follow each other",
        "segments before the first and behind the last, and a time at its end that was never written",
        "what is damaged or missing, and of which time";
    DIFFERENCE: ["All {} counts agree", "{} of {} counts agree, the others are undecided"],
        "fsynctop's counts and the server's own, at both ends of the window",
        "counts that the server does not keep: they have a dash",
        "how many differ";
}

/// What decides whether something went well.
pub(crate) struct Seen<'a> {
    pub lost: &'a Lost,
    /// Calls that something else than the kernel's code may have answered.
    pub answered: bool,
    /// Processes are traced of which nobody looked for what hung before.
    pub of_anybody: bool,
    pub failed: bool,
    /// Something was in flight for too long.
    pub hung: bool,
    /// It still is: how that will end is not known.
    pub hangs: bool,
}

impl Seen<'_> {
    /// Of calls that were made and are in no figure it is not known how they went.
    fn strength(&self) -> usize {
        match self.lost.unwatched {
            _ if self.answered || self.lost.is_incomplete() => 2,
            1.. => 1,
            0 => 0,
        }
    }

    /// `In these 3.01 s nothing failed, nothing is stuck, no watched call was missed.`, as far as it is true.
    /// `whole`: "these 3.01 s".
    pub fn fine(&self, whole: &str, is_past: bool) -> Option<String> {
        let strength = self.strength();
        let hang = if is_past { HANG_BEFORE } else { HANG };
        let failed = (!self.failed && !self.hangs).then(|| FAILURE.say(strength, &[]));
        // What is now needs no length; what was does.
        let has_length = is_past || failed.is_some();
        let of_hang = if strength == 0 && self.of_anybody { 3 } else { strength };
        let hung = (!self.hung).then(|| hang.say(of_hang, &[]));
        let missed = self.lost.is_zero().then(|| MISS.say(0, &[]));
        let fine: Vec<String> = [failed, hung, missed].into_iter().flatten().collect();
        let fine = (!fine.is_empty()).then(|| fine.join(", "))?;
        Some(if has_length { format!("In {whole} {fine}.") } else { format!("{}.", capitalize(&fine)) })
    }
}

/// `is_empty`: no watched call is in flight for too long.
pub(crate) fn stuck_now(is_empty: bool, of_anybody: bool) -> Option<String> {
    is_empty.then(|| format!("{}.", capitalize(&STUCK_NOW.say(usize::from(of_anybody), &[]))))
}

/// Where no other process was counted: what was looked for decides what can be said. `filesystems`: those of
/// the files that are spoken of, as far as they are known.
pub(crate) fn neighbour(net: &Net, filesystems: &BTreeSet<&str>) -> String {
    let all_counted =
        !filesystems.is_empty() && filesystems.iter().all(|name| net.counts_neighbours_on(name));
    NEIGHBOUR.say(usize::from(!all_counted), &[])
}

/// Why a server without syncs has none, as far as that is seen.
pub(crate) enum NoSync {
    Hangs,
    Unwatched,
    Seen,
}

/// `ops`: the watched calls.
pub(crate) fn sync(why: &NoSync, lost: &Lost, over: Duration, ops: &[&str]) -> String {
    let (over, ops) = (interval(over), ops.join(", "));
    match why {
        NoSync::Seen => SYNC.say(usize::from(lost.is_incomplete()), &[&over, &ops]),
        NoSync::Unwatched => SYNC.say(2, &[&over, &ops]),
        NoSync::Hangs => SYNC.say(3, &[&over]),
    }
}

/// `rows`: of syncs, or of writes, that the live view has seen.
pub(crate) fn yet(rows: usize, are_writes: bool) -> Option<String> {
    (rows == 0).then(|| format!("{}.", YET.say(usize::from(are_writes), &[])))
}

/// The same of syncs that failed, or took `at_least`.
pub(crate) fn slow_yet(entries: usize, at_least: Duration) -> Option<String> {
    (entries == 0).then(|| format!("{}.", YET.say(2, &[&duration_in_words(at_least.as_nanos() as u64)])))
}

pub(crate) fn row() -> String {
    ROW.say(0, &[])
}

/// Where redo was synced `redo` times and the binary log `binlog` times; None where both were, or neither.
pub(crate) fn log_sync(redo: u64, binlog: u64) -> Option<String> {
    match (redo, binlog) {
        (1.., 0) => Some(LOG_SYNC.say(0, &[])),
        (0, 1..) => Some(LOG_SYNC.say(1, &[])),
        _ => None,
    }
}

/// `servers` of which no watched call, and nothing else that syncs, was counted.
/// `is_all_counted`: none was missed, and each row is of one server.
pub(crate) fn counted_sync(servers: usize, is_all_counted: bool) -> Option<String> {
    let strength = usize::from(!is_all_counted);
    (servers > 0).then(|| COUNTED_SYNC.say(strength, &[&counted(servers as u64, "server", "servers")]))
}

/// Where no sync hangs, or hung. `is_busy`: a role was, half of the time; `is_all_counted`: all that makes
/// durable was.
pub(crate) fn sync_problem(is_busy: bool, is_all_counted: bool, lost: &Lost) -> Option<String> {
    (!is_busy && is_all_counted && !lost.is_incomplete() && lost.unwatched == 0)
        .then(|| SYNC_PROBLEM.say(0, &[]))
}

/// `silent`: the intervals in which a log's sync was in flight throughout and none ended.
pub(crate) fn end_of_log_sync(silent: Duration) -> Option<String> {
    (silent >= Duration::from_secs(1)).then(|| LOG_SYNC_END.say(0, &[&interval(silent)]))
}

/// Of logs that were synced, in a window without an incident. `slow`, `saturated`: when a log is, in words;
/// no `slow` where it is not known what is usual.
pub(crate) fn slow_log(slow: Option<&str>, saturated: &str, lost: &Lost) -> Option<String> {
    let said = match slow {
        Some(slow) => SLOW_LOG.say(0, &[slow, saturated]),
        None => SLOW_LOG.say(1, &[saturated]),
    };
    (!lost.is_incomplete() && lost.unwatched == 0).then(|| format!("{said}."))
}

/// At the end of a recorded interval.
pub(crate) fn in_flight_then(lost: &Lost) -> String {
    IN_FLIGHT.say(usize::from(lost.is_incomplete() || lost.unwatched > 0), &[])
}

/// Of a recording of which all that is there is whole.
pub(crate) fn of_recording() -> String {
    format!("{}.", RECORDING.say(0, &[]))
}

/// `log`: "the redo log is 3 % busy".
pub(crate) fn saturation(log: &str, limit: f64) -> String {
    log.to_owned() + &SATURATION.say(0, &[&percent(limit)])
}

/// `logs`: two of them, with their shares; `overlap`: certainly, as these exceed the whole.
pub(crate) fn saturation_of_both(logs: &str, overlap: bool, limit: f64) -> String {
    logs.to_owned() + &SATURATION.say(1 + usize::from(overlap), &[&percent(limit)])
}

/// Where nothing has hung for the whole window either.
pub(crate) fn traced_sync(window: &str) -> String {
    format!("{}.", TRACED_SYNC.say(0, &[window]))
}

/// To a doublewrite buffer that was told apart throughout a window, of which everything is known.
pub(crate) fn doublewrite() -> String {
    DOUBLEWRITE.say(0, &[])
}

/// `log`: "the redo log", whose traced syncs are none.
pub(crate) fn log_traced(log: &str) -> String {
    LOG_TRACED.say(0, &[log])
}

/// By a server that counts its groups; None where there were some.
pub(crate) fn commit_group(per_second: f64) -> Option<String> {
    (per_second <= 0.0).then(|| COMMIT_GROUP.say(0, &[]))
}

/// Of files that were looked for among those that are open.
pub(crate) fn open() -> String {
    OPEN.say(0, &[])
}

/// None where they waited.
pub(crate) fn flush_wait(waited_ns: u64) -> Option<String> {
    (waited_ns == 0).then(|| FLUSH_WAIT.say(0, &[]))
}

/// `logs`: "the redo log", whose writes and syncs were all seen. `at_end`: in between, something was not.
pub(crate) fn unsynced(logs: &str, at_end: bool, lost: &Lost) -> String {
    format!(
        "{}.",
        UNSYNCED.say(usize::from(lost.is_incomplete()), &[logs, if at_end { " at the end" } else { "" }])
    )
}

/// Of a server's syncs; None where they are durable. `because`: harmless already.
pub(crate) fn durable(durability: &Durability, because: &str) -> Option<String> {
    match durability {
        Durability::Yes => None,
        Durability::No(_) => Some(format!("{}.", DURABLE.say(0, &[because]))),
        Durability::Unknown(_) => {
            Some(format!("Whether its syncs make anything durable is not known: {because}."))
        }
    }
}

/// Of a place, without a full stop. `there`: empty, or " there".
pub(crate) fn durable_on(durability: &Durability, there: &str, because: &str) -> Option<String> {
    match durability {
        Durability::Yes => None,
        Durability::No(_) => Some(DURABLE.say(1, &[there, because])),
        Durability::Unknown(_) => {
            Some(format!("whether a sync makes anything durable{there} is not known: {because}"))
        }
    }
}

/// `is_complete`: every thread that was to be looked at could be.
pub(crate) fn thread(is_complete: bool) -> String {
    format!("{}.", THREAD.say(usize::from(!is_complete), &[]))
}

/// Of a server that is judged to be well, which is the evidence; `is_idle`: and makes nothing durable.
pub(crate) fn trouble(is_idle: bool) -> String {
    format!("{}.", if is_idle { VERDICT_IDLE.say(0, &[]) } else { VERDICT_OK.say(0, &[]) })
}

/// In the history of so long.
pub(crate) fn server(over: Duration) -> String {
    format!("{}.", SERVER.say(0, &[&interval(over)]))
}

/// Where none differs; `agree` of `all` do, and of the others it cannot be told.
pub(crate) fn difference(agree: usize, all: usize) -> String {
    let (agreeing, all_of_them) = (agree.to_string(), all.to_string());
    match agree == all {
        true => format!("{}.", DIFFERENCE.say(0, &[&all_of_them])),
        false => format!("{}.", DIFFERENCE.say(1, &[&agreeing, &all_of_them])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::assert_expected;
    use std::fmt::Write as _;

    impl Denial {
        pub(crate) fn words(&self) -> &'static [&'static str] {
            self.words
        }
    }

    const HEAD: &str = "\
# What is denied, and on what evidence

That something was not there is the hardest thing to say: a look sees what it looks for, where and while it looks. So \
fsynctop makes each sentence of that kind in one place (`src/text/absence.rs`), out of the evidence that it needs. Where \
that does not suffice, it uses weaker words, or none. This page is made from that place: \
`FSYNCTOP_UPDATE_EXPECTED=1 cargo test --lib the_page_of_the_absences` writes it, and a test fails where it differs. \
Another test fails for any such sentence elsewhere.

Words that are separated by slashes are weaker from left to right; `…` is a figure, a name or a list.

| it says | looked at | not seen by that | said instead |
|---|---|---|---|
";

    #[test]
    fn the_page_of_the_absences_is_made_of_the_table() {
        let mut page = HEAD.to_owned();
        for denial in ALL {
            let words: Vec<String> = denial.words.iter().map(|words| words.replace("{}", "…")).collect();
            let Denial { looked_at, cannot_see, otherwise, .. } = denial;
            let _ = writeln!(page, "| {} | {looked_at} | {cannot_see} | {otherwise} |", words.join(" / "));
        }
        assert_expected("docs/absences.md", &page);
    }

    #[test]
    fn what_was_missed_makes_the_words_weaker() {
        let said = |lost: Lost| {
            let (answered, of_anybody) = (false, false);
            let seen = Seen { lost: &lost, answered, of_anybody, failed: false, hung: false, hangs: false };
            seen.fine("these 3.01 s", false).unwrap()
        };
        let all = "In these 3.01 s nothing failed, nothing is stuck, no watched call was missed.";
        assert_eq!(said(Lost::default()), all);
        assert_eq!(
            said(Lost { files: 1, ..Lost::default() }),
            "In these 3.01 s nothing failed, nothing is stuck."
        );
        let watched =
            "In these 3.01 s no watched call failed, no watched call is stuck, no watched call was missed.";
        assert_eq!(said(Lost { unwatched: 1, ..Lost::default() }), watched);
        let counted = "In these 3.01 s no counted call failed, no counted call is stuck.";
        let paused = Duration::from_secs(1);
        for lost in [
            Lost { preempted: 1, ..Lost::default() },
            Lost { threads: 1, ..Lost::default() },
            Lost { processes: 1, unwatched: 1, ..Lost::default() },
            Lost { unreported: 1, ..Lost::default() },
            Lost { paused, ..Lost::default() },
        ] {
            assert_eq!(said(lost), counted);
        }
    }

    #[test]
    fn nobody_is_denied_only_where_others_are_counted() {
        let net = Net { filesystems: vec!["ext4".into()], syncs_of_all: true, ..Net::default() };
        let said = |net: &Net, filesystems: &[&str]| neighbour(net, &filesystems.iter().copied().collect());
        let (all, watched) = ("no other sync seen", "no other watched sync seen");
        assert_eq!(said(&net, &["ext4"]), all);
        assert_eq!(said(&net, &["ext4", "fuse"]), watched);
        assert_eq!(said(&net, &[]), watched, "it is not known what was looked at");
        assert_eq!(said(&Net { syncs_of_all: false, ..net.clone() }, &["ext4"]), watched);
        assert_eq!(said(&Net { refused: Some("why".into()), ..net }, &["ext4"]), watched);
    }

    #[test]
    fn what_may_have_been_missed_is_not_denied() {
        let missed = Lost { preempted: 1, ..Lost::default() };
        let over = Duration::from_secs(1);
        assert_eq!(
            sync(&NoSync::Seen, &Lost::default(), over, &["fsync"]),
            "No sync in 1.00 s (fsync watched)"
        );
        assert_eq!(
            sync(&NoSync::Seen, &missed, over, &["fsync"]),
            "No sync was counted in 1.00 s (fsync watched)"
        );
        assert!(unsynced("x", false, &Lost::default()).starts_with("All that was written of x was synced: "));
        assert!(
            unsynced("x", true, &missed).starts_with("All that was counted of x was synced at the end: ")
        );
    }

    #[test]
    fn of_what_hangs_it_is_not_denied_that_it_fails() {
        let lost = Lost::default();
        let (answered, of_anybody) = (false, false);
        let seen = Seen { lost: &lost, answered, of_anybody, failed: false, hung: true, hangs: true };
        assert_eq!(seen.fine("x", false).as_deref(), Some("No watched call was missed."));
        let ended = Seen { hangs: false, ..seen };
        assert_eq!(
            ended.fine("x", true).as_deref(),
            Some("In x nothing failed, no watched call was missed.")
        );
        let anybody = Seen { of_anybody: true, hung: false, ..ended };
        assert_eq!(
            anybody.fine("x", false).as_deref(),
            Some(
                "In x nothing failed, nothing is stuck of what was seen to begin, no watched call was missed."
            )
        );
        let answered = Seen { answered: true, hung: false, ..ended };
        let said = "In x no counted call failed, no counted call is stuck, no watched call was missed.";
        assert_eq!(answered.fine("x", false).as_deref(), Some(said));
    }
}
