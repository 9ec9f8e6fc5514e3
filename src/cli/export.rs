//! `fsynctop export`: a recording for somebody else, or for another program.

use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::exit::{BAD_USAGE, Exit};
use super::options::TargetArgs;
use super::output::print;
use super::replay::ReplayArgs;
use super::signals::End;
use crate::engine::engines::Engines;
use crate::export::{hdr, table};
use crate::model::Interval;
use crate::once;
use crate::recording::History;
use crate::recording::redact::Redactor;
use crate::recording::writer::{LIMIT, Writer};
use crate::render::{Options, Output};
use crate::text::{bytes, counted};

#[derive(Args, Debug)]
#[command(next_help_heading = "What to export")]
pub struct Export {
    /// Where to write: a new file, or a new folder
    ///
    /// A recording and the logs of HdrHistogram are a folder. In place of a file, - is standard output, for
    /// CSV and JSON. What is there already stays as it is.
    #[arg(short, long, value_name = "PATH", required = true)]
    pub output_path: PathBuf,
    /// The form of what is written
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Replace names of hosts, servers, users, processes, files and devices
    ///
    /// By words with numbers, the same one wherever a name stood: server-1, name-7.ibd. Roles, operations,
    /// versions and all figures stay.
    #[arg(long)]
    pub redact: bool,
    #[command(flatten)]
    pub replay: ReplayArgs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A recording, which every view shows by --replay
    #[default]
    Recording,
    /// One table: a row for each interval, server, role, file and operation
    Csv,
    /// An object on one line for each interval, as `once --output json` has it
    Json,
    /// Interval logs of HdrHistogram: a file for each server and role
    Hdr,
    /// The table of CSV in a file of Parquet, with histograms; in builds with --features parquet
    Parquet,
}

pub fn run(arguments: &Export) -> anyhow::Result<ExitCode> {
    export_until(&End::watch()?, arguments)
}

fn export_until(end: &End, arguments: &Export) -> anyhow::Result<ExitCode> {
    let wrong = |message: String| Err(Exit { status: BAD_USAGE, message }.into());
    let (path, format) = (&arguments.output_path, arguments.format);
    if format == Format::Parquet && cfg!(not(feature = "parquet")) {
        return wrong(
            "this build cannot write Parquet; `cargo install fsynctop --features parquet` builds one that can"
                .into(),
        );
    }
    let is_stdout = path.as_os_str() == "-";
    if is_stdout && !matches!(format, Format::Csv | Format::Json) {
        return wrong("only CSV and JSON are written to standard output".into());
    }
    let Some(history) = arguments.replay.history(&TargetArgs::default())? else {
        return wrong("which recording? --replay DIR names it".into());
    };
    if !is_stdout && path.symlink_metadata().is_ok() {
        return wrong(format!("{} is there already, and nothing is replaced", path.display()));
    }
    let mut moments = Moments { history: &history, redact: arguments.redact, end, written: 0 };
    let written = moments.write(format, path).with_context(|| format!("cannot write {}", path.display()));
    if end.is_requested() {
        return Ok(ExitCode::from(end.status()));
    }
    if let Some(written) = written? {
        let length = crate::text::interval(history.length().max(Duration::from_millis(1)));
        let intervals = counted(moments.written, "interval", "intervals");
        print(format!("{intervals}, {length} in all: {written} in {}.\n", path.display()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The intervals that are exported, one after the other.
struct Moments<'a> {
    history: &'a History,
    redact: bool,
    end: &'a End,
    written: u64,
}

impl Moments<'_> {
    /// Says what was written; None: to standard output.
    fn write(&mut self, format: Format, path: &Path) -> anyhow::Result<Option<String>> {
        match format {
            Format::Recording => {
                let mut writer = Writer::open(path, LIMIT)?;
                self.each(|_, moment| Ok(writer.push(moment)?))?;
                writer.finish()?;
                Ok(Some(bytes(writer.written().size)))
            }
            Format::Csv => to_file(path, |out| {
                self.each(|number, moment| Ok(table::write_csv(moment, number == 0, &mut &mut *out)?))
            }),
            Format::Json => to_file(path, |out| {
                let options = Options { output: Output::Json, ..Options::default() };
                self.each(|_, moment| Ok(once::render(moment, &options, &mut &mut *out)?))
            }),
            Format::Hdr => {
                let folder = beside(0o750).tempdir_in(folder_of(path))?;
                let mut logs = hdr::Logs::new(folder.path());
                self.each(|_, moment| Ok(logs.push(moment)?))?;
                std::fs::rename(folder.path(), path)?;
                // It has another name by now.
                let _ = folder.keep();
                Ok(Some(counted(logs.len() as u64, "log", "logs")))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => to_file(path, |out| {
                let mut file = crate::export::parquet::Table::begin(out)?;
                self.each(|_, moment| Ok(file.push(moment)?))?;
                Ok(file.finish()?)
            }),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => anyhow::bail!("this build cannot"),
        }
    }

    /// Until Ctrl-C, which leaves nothing of a file.
    fn each(&mut self, mut write: impl FnMut(u64, &Interval) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut redactor = self.redact.then(|| {
            let engines = Engines::builtin();
            Redactor::new(engines.profiles().iter().map(|profile| profile.engine.clone()).collect())
        });
        for mut moment in self.history.moments() {
            anyhow::ensure!(!self.end.is_requested(), "it was interrupted");
            if let Some(redactor) = &mut redactor {
                moment = redactor.interval(moment);
            }
            write(self.written, &moment)?;
            self.written += 1;
        }
        Ok(())
    }
}

/// Writes a file that has its name only once it is complete. `-`: to standard output.
fn to_file(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<Option<String>> {
    if path.as_os_str() == "-" {
        let mut out = BufWriter::with_capacity(PRINTED_AT_ONCE, Printed);
        write(&mut out)?;
        out.flush()?;
        return Ok(None);
    }
    let mut file = BufWriter::new(beside(0o640).tempfile_in(folder_of(path))?);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?.persist_noclobber(path)?;
    Ok(Some(bytes(file.metadata()?.len())))
}

const PRINTED_AT_ONCE: usize = 64 << 10;

/// Standard output, whose reader may have seen enough.
struct Printed;

impl Write for Printed {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        print(text).map_err(|error| error.downcast().unwrap_or_else(io::Error::other))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What has no name yet lies beside its place, and is hidden.
fn beside(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fsynctop-export-").permissions(Permissions::from_mode(mode));
    builder
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::model::fixture::{busy, two_servers};

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        export: Export,
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn recorded(path: &Path) -> Vec<Interval> {
        let mut writer = Writer::open(path, LIMIT).unwrap();
        let intervals = (0..5).map(|n| {
            let mut m = if n % 2 == 0 { busy() } else { two_servers() };
            m.span.start += n * SECOND;
            (m.span.end, m.span.duration) = (m.span.start + SECOND, SECOND);
            (m.span.monotonic, m.span.sequence, m.span.parts) = ((1_000 + n) * SECOND, n.into(), 1);
            m
        });
        let intervals: Vec<Interval> = intervals.collect();
        intervals.iter().for_each(|m| writer.push(m).unwrap());
        writer.finish().unwrap();
        intervals
    }

    fn export(recording: &Path, out: &Path, more: &[&str]) -> anyhow::Result<ExitCode> {
        let [recording, out] = [recording, out].map(|path| path.to_str().unwrap());
        let words = [&["export", "--replay", recording, "-o", out][..], more].concat();
        export_until(&End::default(), &Program::try_parse_from(words).unwrap().export)
    }

    fn status(result: anyhow::Result<ExitCode>) -> u8 {
        result.unwrap_err().downcast_ref::<Exit>().unwrap().status
    }

    #[test]
    fn each_form_has_what_was_recorded() {
        let folder = tempfile::tempdir().unwrap();
        let [recording, csv, json, logs, copy] =
            ["recording", "a.csv", "a.json", "logs", "copy"].map(|name| folder.path().join(name));
        let intervals = recorded(&recording);
        let count: u64 = intervals.iter().map(|m| m.total().count).sum();
        for (out, format) in [(&csv, "csv"), (&json, "json"), (&logs, "hdr"), (&copy, "recording")] {
            export(&recording, out, &["--format", format]).unwrap();
        }
        let mut table = csv::Reader::from_path(&csv).unwrap();
        let at = table.headers().unwrap().iter().position(|name| name == "operations").unwrap();
        let counts = table.records().map(|row| row.unwrap()[at].parse::<u64>().unwrap());
        assert_eq!(counts.sum::<u64>(), count);
        let lines = std::fs::read_to_string(&json).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), intervals.len());
        let counts = |line: &serde_json::Value| {
            let roles = line["roles"].as_array().unwrap().clone();
            roles.iter().map(|row| row["count"].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(lines.iter().map(counts).sum::<u64>(), count);
        let logs = std::fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path());
        let lines = logs.map(|log| std::fs::read_to_string(log).unwrap().matches("Tag=").count());
        assert_eq!(lines.sum::<usize>(), intervals.iter().map(|m| m.roles.len()).sum::<usize>());
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&csv) & !0o640, mode(&json) & !0o640), (0, 0));
        // Nothing is left beside them.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn a_part_and_no_names_hold_for_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("recording");
        let intervals = recorded(&recording);
        let path = |name: &str| folder.path().join(name);
        let at = humantime::format_rfc3339(intervals[1].span.start).to_string();
        for format in ["csv", "json"] {
            export(&recording, &path(format), &["--format", format, "--redact", "--at", &at]).unwrap();
            let text = std::fs::read_to_string(path(format)).unwrap();
            assert!(text.contains("server-1") && !text.contains("binlog."), "{text}");
            assert!(text.contains(&crate::text::rfc3339(intervals[1].span.start)));
            assert!(!text.contains(&crate::text::rfc3339(intervals[3].span.start)));
        }
        export(&recording, &path("logs"), &["--format", "hdr", "--redact", "--from", &at]).unwrap();
        let names = std::fs::read_dir(path("logs")).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.map(|name| name.into_string().unwrap()).all(|name| name.starts_with("server-")));
    }

    #[test]
    fn nothing_that_is_there_is_replaced_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("recording");
        recorded(&recording);
        let [link, target, file] = ["link", "target", "file"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        std::fs::write(&file, "mine").unwrap();
        for format in ["csv", "json", "hdr", "recording"] {
            for out in [&link, &file] {
                assert_eq!(status(export(&recording, out, &["--format", format])), BAD_USAGE);
            }
        }
        // Whoever puts something there meanwhile keeps it.
        let later = |path: &Path| to_file(path, |out| Ok(out.write_all(b"text")?));
        assert!(later(&link).is_err() && later(&file).is_err());
        assert_eq!((target.exists(), std::fs::read_to_string(&file).unwrap()), (false, "mine".into()));
        let failed = to_file(&target, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("no room")
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "a failed export left something");
    }

    #[test]
    fn what_cannot_be_written_is_said_before_anything_is() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("recording");
        recorded(&recording);
        for format in ["recording", "hdr"] {
            assert_eq!(status(export(&recording, Path::new("-"), &["--format", format])), BAD_USAGE);
        }
        #[cfg(not(feature = "parquet"))]
        {
            let error = export(&recording, &folder.path().join("p"), &["--format", "parquet"]).unwrap_err();
            assert!(error.to_string().contains("cargo install fsynctop --features parquet"), "{error}");
            assert_eq!(status(Err(error)), BAD_USAGE);
        }
    }
}
