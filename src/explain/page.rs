//! The page that `explain` prints: plain English, the most important first.

use std::fmt::Write;

use super::commits::Commits;
use super::waits::{Journal, Part, Who, facts};
use super::{Explanation, head};
use crate::model::Role;
use crate::render::{Options, Paint, Style, header, reading};
use crate::text;

/// The parts of a call's time are measured by other hooks than the call: more of a difference than this is
/// said.
const ADDS_UP: f64 = 0.05;
/// Phases below this share of the time are summed up in one line.
const MIN_SHARE: f64 = 0.005;
/// Of what a journal and its device did, where a server's writes are durable by themselves and not all seen.
const OWN_WRITES: &str =
    " Some of the commits, flushes and changes may be for the server's own durable writes.";

/// Columns of the line below the first sentences.
const RULE: usize = 60;

const THROUGHPUT: &str = "Why transactions per second differ from syncs per second";
const WRITTEN: &str = "What was written:";
const AUDIT: &str = "What the settings promise, and what was seen of it:";

/// `equations`: with what the sentences are calculated from.
pub fn page(explanation: &Explanation, style: &Style, equations: bool) -> String {
    let commits = explanation.commits.as_ref();
    let is_broken = commits.is_some_and(Commits::is_broken);
    let section = |heading: &str, text: String| {
        let wrapped =
            text.lines().flat_map(|text| style.wrap(text, text.len() - text.trim_start().len() + 2));
        std::iter::once(style.paint(Paint::Heading, heading)).chain(wrapped).collect::<Vec<_>>().join("\n")
    };
    let audit = commits.map(Commits::audit_in_words).filter(|text| !text.is_empty());
    let audit = audit.map(|text| section(AUDIT, text));
    let (first, later) = if is_broken { (audit, None) } else { (None, audit) };
    let throughput = commits.map(|commits| commits.throughput_in_words(equations));
    let heading = format!("{THROUGHPUT}{}:", if equations { "" } else { " (-v: by factors)" });
    let throughput = throughput.filter(|text| !text.is_empty()).map(|text| section(&heading, text));

    let options = Options { style: *style, ..Options::default() };
    let head = head::head(explanation, style);
    let head = head.iter().flat_map(|line| style.wrap(line, 2)).collect::<Vec<_>>().join("\n");
    let mut parts: Vec<String> = Vec::new();
    parts.extend((!head.is_empty()).then(|| format!("{head}\n{}", rule(style))));
    parts.extend(failures(explanation, &options).into_iter().chain(first));
    let incidents = head::incidents(explanation, style);
    // Of a recording, only what was recorded: most have no waits.
    if incidents.is_none() || explanation.waits.total().measured > 0 {
        parts.extend(waits(explanation, style));
    }
    parts.extend(incidents.into_iter().flatten());
    parts.extend(slower_than_they_may_be(explanation, &options));
    parts.extend(throughput);
    parts.extend(written(explanation, &options));
    parts.extend(later);
    let mut notes =
        explanation.not_measurable.iter().map(|what| format!("Not measurable here: {what}.")).collect();
    confidence(explanation, &mut notes);
    notes.extend(reading::unwatched(&explanation.measurement, &options));
    let notes: Vec<String> = notes.iter().flat_map(|note| style.wrap(note, 2)).collect();
    parts.extend((!notes.is_empty()).then(|| notes.join("\n")));
    style.finish(
        parts.iter().map(|part| format!("{}\n", part.trim_end_matches('\n'))).collect::<Vec<_>>().join("\n"),
    )
}

/// Between what matters and the measurements behind it.
fn rule(style: &Style) -> String {
    "─".repeat(style.width.unwrap_or(RULE).min(RULE))
}

/// Where all writes were watched.
fn written(explanation: &Explanation, options: &Options) -> Option<String> {
    let said = reading::written(&explanation.measurement, options);
    let mut lines = vec![options.style.paint(Paint::Heading, WRITTEN)];
    let each = explanation.bytes_per_transaction().map(|bytes| {
        let of =
            |(role, bytes): (&Role, &u64)| format!("{} of {}", text::bytes(*bytes), role.in_a_sentence());
        let logs: Vec<String> = bytes.logs.iter().map(of).collect();
        format!(
            "Each transaction is {}: {}, and what follows from it.",
            text::bytes(bytes.all),
            logs.join(", ")
        )
    });
    lines.extend(each.into_iter().flat_map(|text| options.style.wrap(&text, 2)));
    for sentence in &said {
        let wrapped = options.style.wrap(&sentence.text, 2);
        lines.extend(wrapped.iter().map(|line| options.style.paint(sentence.paint, line)));
    }
    (lines.len() > 1).then(|| lines.join("\n"))
}

/// By what the engines' makers say.
fn slower_than_they_may_be(explanation: &Explanation, options: &Options) -> Option<String> {
    let said = reading::slower_than_they_may_be(&explanation.measurement, options);
    let lines: Vec<String> = said.iter().flat_map(|sentence| options.style.wrap(&sentence.text, 2)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Before anything else: how long commits take matters little where they are lost.
fn failures(explanation: &Explanation, options: &Options) -> Option<String> {
    let said = reading::failed_beside_syncs(&explanation.measurement, options);
    let line = |sentence: &reading::Sentence| {
        let lines = options.style.wrap(&sentence.text, 2);
        lines.iter().map(|line| options.style.paint(sentence.paint, line)).collect::<Vec<_>>()
    };
    (!said.is_empty()).then(|| said.iter().flat_map(line).collect::<Vec<_>>().join("\n"))
}

/// No wait of a sync was seen, which one that has hung since before the beginning has not either.
fn not_in_a_sync(explanation: &Explanation, window: &str) -> String {
    let m = &explanation.measurement;
    let hang = m.in_flight.iter().filter(|sync| sync.age >= explanation.waits.window).collect::<Vec<_>>();
    let Some(oldest) = hang.first() else {
        return text::absence::traced_sync(window);
    };
    let age = text::duration_in_words(u64::try_from(oldest.age.as_nanos()).unwrap_or(u64::MAX));
    let hang = text::counted(hang.len() as u64, "operation has", "operations have");
    format!(
        "{hang} hung since before this began ({}, {age}): `fsynctop stuck` shows each.",
        oldest.role.name()
    )
}

/// What the syncs waited for: a summary, a table for each kind, a line for each journal.
fn waits(explanation: &Explanation, style: &Style) -> Vec<String> {
    let waits = &explanation.waits;
    let total = waits.total();
    let window = text::interval(waits.window);
    if total.measured == 0 {
        return vec![not_in_a_sync(explanation, &window)];
    }
    let heading = format!(
        "In {window}, the traced syncs took {} in total. Where the time went:",
        text::duration(total.measured)
    );
    let durable_writes = explanation.unseen_durable_writes();
    let facts =
        facts(waits, &explanation.processors, &explanation.journals, durable_writes.as_deref(), style);
    let facts = facts.iter().enumerate().flat_map(|(i, fact)| style.wrap(&format!("{}. {fact}", i + 1), 3));
    let summary: Vec<String> = std::iter::once(style.paint(Paint::Heading, &heading)).chain(facts).collect();
    let mut parts = vec![summary.join("\n")];
    for (who, part) in &waits.parts {
        let mut text = String::new();
        table(&mut text, explanation, who, part, style);
        parts.push(text);
    }
    for journal in &explanation.journals {
        let mut sentences = journal_sentences(journal, style);
        if durable_writes.is_some() {
            sentences.push_str(OWN_WRITES);
        }
        parts.push(style.wrap(&sentences, 2).join("\n"));
    }
    parts
}

/// One (server, role, operation): its phases, the longest first, each with the committer's states under it.
fn table(page: &mut String, explanation: &Explanation, who: &Who, part: &Part, style: &Style) {
    let m = &explanation.measurement;
    let row = m.roles.iter().find(|row| (row.server, row.role, row.op) == (who.server, who.role, who.op));
    let count = row.map_or(0, |row| row.stats.count);
    let process = match m.servers.iter().find(|server| server.id == who.server) {
        Some(_) => format!(" of {}", header::name(m, who.server, style)),
        None => String::new(),
    };
    let each = match count {
        0 => String::new(),
        n => format!(", {} each", text::duration(part.measured / n)),
    };
    let what = if who.op.writes() { "writes" } else { "syncs" };
    let heading =
        format!("{} {}{process}: {} {what}{each}", who.role.name(), who.op.name(), text::count(count));
    let _ = writeln!(page, "{}", style.paint(Paint::Heading, &heading));
    let all = part.accounted().max(1);
    let mut phases: Vec<_> = part.phases.iter().collect();
    phases.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let small = |ns: u64, of: u64| (ns as f64) < MIN_SHARE * of as f64;
    let mut rest = 0;
    for (phase, &ns) in phases {
        if small(ns, all) {
            rest = ns.saturating_add(rest);
            continue;
        }
        entry(page, 2, phase.title(), ns, all);
        let mut under: Vec<_> = part.under.iter().filter(|((wait, _), _)| wait == phase).collect();
        under.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
        let of: u64 = under.iter().fold(0, |sum, (_, ns)| sum.saturating_add(**ns));
        for ((_, state), ns) in under.into_iter().filter(|(_, ns)| !small(**ns, of)) {
            entry(page, 4, state.title(), *ns, of);
        }
    }
    if rest > 0 {
        entry(page, 2, "everything else", rest, all);
    }
    let flush = part.flush();
    if flush > 0 && part.under.values().any(|ns| *ns > 0) {
        entry(page, 2, "= device cache flush, both levels", flush, all);
    }
}

fn entry(page: &mut String, indent: usize, title: &str, ns: u64, of: u64) {
    let share = text::percent(ns as f64 / of.max(1) as f64);
    let width = 44 - indent;
    let _ =
        writeln!(page, "{:indent$}{title:<width$} {:>8} s {share:>7}", "", format!("{:.3}", ns as f64 / 1e9));
}

fn journal_sentences(journal: &Journal, style: &Style) -> String {
    let mut text = style.name(journal.device.as_bytes());
    if let (Some(filesystem), Some(mount)) = (&journal.filesystem, &journal.mount) {
        let mount = style.name(mount.as_os_str().as_encoded_bytes());
        let _ = write!(text, " ({} on {mount})", style.name(filesystem.as_bytes()));
    }
    let _ = write!(text, ": {} traced syncs", text::count(journal.syncs));
    if journal.durable_writes > 0 {
        let _ = write!(text, " ({} of them durable writes)", text::count(journal.durable_writes));
    }
    if let Some((name, n)) = journal.neighbours.first() {
        let others = journal.neighbour_syncs();
        let _ = write!(text, " and {} of untraced processes", text::count(others));
        let name = style.name(name.as_bytes());
        let _ = match *n == others {
            true => write!(text, " ({name})"),
            false => write!(text, " (most by {name}, {})", text::count(*n)),
        };
    }
    if journal.unattributed > 0 {
        let n = text::count(journal.unattributed);
        let _ = write!(text, "; {n} more on this host were not attributed to a command and a device");
    }
    if let Some(commits) = journal.commits {
        let _ = write!(text, "; {} journal commits", text::count(commits));
        if let Some(each) = journal.syncs_per_commit() {
            let _ = write!(text, ", {each:.1} syncs per commit");
        }
    }
    let _ = write!(text, "; {} device flushes", text::count(journal.device_flushes));
    if let Some(each) = journal.syncs_per_device_flush() {
        let _ = write!(text, ", {each:.1} syncs per flush");
    }
    text.push('.');
    if let (Some(share), Some(writers)) = (journal.traced_share(), &journal.writers) {
        let _ = write!(
            text,
            " The traced processes made {} of the changes that the commits wrote",
            text::percent(share)
        );
        let others: u64 = writers.iter().filter(|writer| !writer.traced).map(|writer| writer.handles).sum();
        let first = writers.iter().find(|writer| !writer.traced);
        if let Some(writer) = first.filter(|_| share < 0.995 && others > 0) {
            let name = style.name(writer.comm.as_bytes());
            let _ = write!(text, ", and {name} most of the rest");
        }
        text.push('.');
    }
    text
}

/// How reliable the measurements are.
fn confidence(explanation: &Explanation, notes: &mut Vec<String>) {
    let waits = &explanation.waits;
    if let Some(share) = waits.accounted_share().filter(|share| (share - 1.0).abs() > ADDS_UP) {
        notes.push(format!(
            "The parts add up to {:.1} % of the time measured in the calls themselves.",
            share * 100.0
        ));
    }
    let lost = &waits.lost;
    for (n, what) in [
        (lost.stacks, "waits have no stack and are counted as other"),
        (lost.waits, "waits could not be attributed to a file and are counted as other, under no server"),
        (lost.unplaced, "waits did not fit into the map and are missing"),
        (lost.writers, "changes could not be attributed to a process"),
        (lost.syncs, "syncs are missing, because there was no memory for them"),
        (lost.skipped, "probe runs were skipped by the kernel, so some waits may have wrong limits"),
        (
            explanation.measurement.lost.writeback_errors,
            "writeback errors at most belong to files that are not known",
        ),
    ] {
        if n > 0 {
            notes.push(format!("Lost: {} {what}.", text::count(n)));
        }
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
