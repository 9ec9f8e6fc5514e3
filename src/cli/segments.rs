//! `fsynctop segments`: what a recording holds, how far back each detail reaches, and what is missing.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::exit::{CONDITION, Exit, NOTHING_TO_TRACE};
use super::options::{FormArgs, StyleArgs};
use super::output::print;
use crate::recording::folder::Tier;
use crate::recording::reader::{Entry, Missing, Recording};
use crate::render::grid::{Align, Cell, Column, layout};
use crate::render::{Style, json};
use crate::text::{absence, bytes, capitalize, count, counted, escape_sentence, interval, rfc3339};

/// Of what is missing so much is told one by one.
const MOST_TOLD: usize = 20;

#[derive(Args, Debug)]
pub struct Segments {
    /// The folder of the recording
    #[arg(value_name = "DIR")]
    pub recording: PathBuf,
    #[command(flatten)]
    pub form: FormArgs,
    #[command(flatten)]
    pub style: StyleArgs,
}

/// One line of the table.
#[derive(Serialize)]
struct OfTier {
    detail: &'static str,
    segments: usize,
    /// None: no interval of it is whole.
    start: Option<String>,
    end: Option<String>,
    intervals: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    details: Vec<OfTier>,
    servers: Vec<OfServer>,
    missing: Vec<String>,
}

/// How far back it reaches of one server.
#[derive(Serialize)]
struct OfServer {
    server: String,
    start: String,
    end: String,
}

fn detail(tier: Tier) -> &'static str {
    match tier {
        Tier::All => "all",
        Tier::TenSeconds => "10 s",
        Tier::Minute => "1 min",
    }
}

fn of_tier(recording: &Recording, tier: Tier) -> Option<OfTier> {
    let entries: Vec<&Entry> = recording.segments().iter().filter(|entry| entry.name.tier == tier).collect();
    let spans = || entries.iter().filter_map(|entry| entry.span);
    (!entries.is_empty()).then(|| OfTier {
        detail: detail(tier),
        segments: entries.len(),
        start: spans().map(|(start, _)| start).min().map(rfc3339),
        end: spans().map(|(_, end)| end).max().map(rfc3339),
        intervals: entries.iter().map(|entry| entry.intervals).fold(0, u64::saturating_add),
        bytes: entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add),
    })
}

pub fn run(arguments: &Segments) -> anyhow::Result<ExitCode> {
    let path = &arguments.recording;
    let recording =
        Recording::open(path).with_context(|| format!("cannot read the recording {}", path.display()))?;
    let details: Vec<OfTier> = Tier::ALL.into_iter().filter_map(|tier| of_tier(&recording, tier)).collect();
    if details.is_empty() {
        let message = format!("{} is no recording: it has no segment (all-….fst)", path.display());
        return Err(Exit { status: NOTHING_TO_TRACE, message }.into());
    }
    let missing = recording.missing();
    // Between two runs of a recorder nothing was recorded, and nothing of that is missing.
    let is_damaged = missing.iter().any(|missing| !matches!(missing, Missing::Gap { .. }));
    let servers: Vec<OfServer> = recording
        .servers()
        .into_iter()
        .map(|(server, (start, end))| OfServer { server, start: rfc3339(start), end: rfc3339(end) })
        .collect();
    let said: Vec<String> = missing.iter().map(sentence).collect();
    match arguments.form.is_json() {
        true => {
            let mut text = Vec::new();
            json::write_visible(&Report { schema: 1, details, servers, missing: said }, &mut text)?;
            print(&text)?;
        }
        false => {
            print(text(&details, &servers, &said, &arguments.style.apply(Style::for_stdout())).as_bytes())?
        }
    }
    Ok(if is_damaged { ExitCode::from(CONDITION) } else { ExitCode::SUCCESS })
}

const COLUMNS: [Column; 6] = [
    Column { title: "DETAIL", align: Align::Left, roomy: 0, drop_at: None, flexible: false },
    Column { title: "FROM (UTC)", align: Align::Left, roomy: 0, drop_at: None, flexible: false },
    Column { title: "TO (UTC)", align: Align::Left, roomy: 0, drop_at: None, flexible: false },
    Column { title: "INTERVALS", align: Align::Right, roomy: 0, drop_at: Some(0), flexible: false },
    Column { title: "SEGMENTS", align: Align::Right, roomy: 0, drop_at: Some(1), flexible: false },
    Column { title: "SIZE", align: Align::Right, roomy: 0, drop_at: None, flexible: false },
];

const OF_SERVERS: [Column; 3] = [
    Column { title: "SERVER", align: Align::Left, roomy: 0, drop_at: None, flexible: true },
    Column { title: "FROM (UTC)", align: Align::Left, roomy: 0, drop_at: None, flexible: false },
    Column { title: "TO (UTC)", align: Align::Left, roomy: 0, drop_at: None, flexible: false },
];

fn text(details: &[OfTier], servers: &[OfServer], missing: &[String], style: &Style) -> String {
    let moment = |time: &Option<String>| {
        time.as_ref().map_or_else(|| "–".to_owned(), |time| time[..19].replace('T', " "))
    };
    let row = |tier: &OfTier| -> Vec<Cell> {
        vec![
            tier.detail.to_owned().into(),
            moment(&tier.start).into(),
            moment(&tier.end).into(),
            count(tier.intervals).into(),
            tier.segments.to_string().into(),
            bytes(tier.bytes).into(),
        ]
    };
    let rows: Vec<Vec<Cell>> = details.iter().map(row).collect();
    let mut out = layout(&COLUMNS, &rows, style);
    out.push('\n');
    let row = |of: &OfServer| -> Vec<Cell> {
        let [start, end] = [&of.start, &of.end].map(|time| time[..19].replace('T', " "));
        vec![escape_sentence(&of.server).into(), start.into(), end.into()]
    };
    let rows: Vec<Vec<Cell>> = servers.iter().map(row).collect();
    if !rows.is_empty() {
        out.push_str(&layout(&OF_SERVERS, &rows, style));
        out.push('\n');
    }
    if missing.is_empty() {
        let _ = writeln!(out, "{}", absence::of_recording());
    }
    for sentence in missing.iter().take(MOST_TOLD) {
        for line in style.wrap(sentence, 2) {
            let _ = writeln!(out, "{line}");
        }
    }
    if let Some(more @ 1..) = missing.len().checked_sub(MOST_TOLD) {
        let _ = writeln!(out, "And {} more.", counted(more as u64, "place", "places"));
    }
    style.finish(out)
}

fn sentence(missing: &Missing) -> String {
    let time = |time: SystemTime| rfc3339(time).get(..19).unwrap_or_default().replace('T', " ");
    match missing {
        Missing::Damaged { name, bytes: number, span } => {
            let when = span.map(|(from, to)| format!(", of {} to {} UTC", time(from), time(to)));
            format!(
                "{name}: {} damaged or incomplete{}.",
                counted(*number as u64, "byte is", "bytes are"),
                when.unwrap_or_default()
            )
        }
        Missing::Segments { tier, first, last } if first == last => {
            format!("Segment {first} of the detail \"{}\" is missing.", detail(*tier))
        }
        Missing::Segments { tier, first, last } => {
            format!("Segments {first} to {last} of the detail \"{}\" are missing.", detail(*tier))
        }
        Missing::Unreadable { name, why } => capitalize(&format!("{name} cannot be read: {why}.")),
        Missing::Gap { from, to } => {
            let length = to.duration_since(*from).unwrap_or_default();
            format!("Nothing was recorded for {} from {} UTC on.", interval(length), time(*from))
        }
        Missing::TooMany(number) => {
            format!("{} are more than are read.", counted(*number as u64, "segment", "segments"))
        }
    }
}
