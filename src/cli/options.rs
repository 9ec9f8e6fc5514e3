//! Options that several actions share. The ground of this room, with `exit.rs`: it imports none of the other
//! files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::engine::engines::Engines;
use crate::linux::PROC;
use crate::live::budget::Limit;
use crate::model::{AttachMode, Op};
use crate::render::Style;
use crate::server::who::filter::TargetFilter;
use crate::server::who::naming::GivenName;
use crate::server::who::selection;
use crate::text::escape;

/// Which processes.
#[derive(Args, Clone, Debug, Default)]
#[group(id = "targets", multiple = true)]
#[command(next_help_heading = "Which processes")]
pub struct TargetArgs {
    /// An engine, a process name or a PID: mysql, mysqld, 4711
    ///
    /// The short form of --engine, --comm or --pid.
    #[arg(index = 1, value_name = "SERVER", conflicts_with_all = ["server", "pid", "comm", "cgroup", "all", "engine"])]
    pub word: Option<String>,
    /// Servers by the names that every view, metric and alert has: 3306, orders
    ///
    /// As they run now; several with commas between them. `fsynctop status` lists them, where an exporter
    /// runs.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with_all = ["pid", "comm", "cgroup", "all"])]
    pub server: Vec<String>,
    /// These processes [default: the servers of every engine]
    ///
    /// A name is taken for a number where one server alone has it. The default of `stuck` is every process.
    #[arg(long, value_name = "PID", value_parser = pid, value_delimiter = ',', conflicts_with = "comm")]
    pub pid: Vec<u32>,
    /// Those whose main thread has this name
    ///
    /// Several with commas between them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub comm: Vec<String>,
    /// Those of this cgroup and of the ones below it
    ///
    /// By its path in the hierarchy or below /sys/fs/cgroup. Of a control group of version 1, those that are
    /// in it when tracing begins, and what they start.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Every process on the host
    #[arg(long)]
    pub all: bool,
    /// The servers of this engine: mysql, postgres, etcd, …
    ///
    /// mysql, mariadb, postgres, etcd, redis, valkey, kafka or zookeeper; several with commas between them. A
    /// server is known by the name of its main thread, which docs/engines.md lists, by that of its executable
    /// or, of a Java program that runs already, by its main class.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// A profile of your own for an engine
    ///
    /// May be given several times; docs/engines.md says how profiles are written. The servers of the engine
    /// are then found by default, too.
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub profile: Vec<PathBuf>,
}

impl TargetArgs {
    pub(crate) fn is_given(&self) -> bool {
        let lists = [self.comm.len(), self.engine.len(), self.pid.len(), self.server.len()];
        self.all || self.cgroup.is_some() || lists != [0; 4]
    }
}

/// Where the options of [`TraceArgs`] stand in the help.
const TRACING: &str = "How to trace";

/// How to trace.
#[derive(Args, Clone, Debug)]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    pub targets: TargetArgs,
    /// Calls to trace
    ///
    /// fentry cannot watch `sync`: asking for it moves all of the tracing to another mode.
    #[arg(long, value_delimiter = ',', value_name = "CALL,…", default_value = "fsync,fdatasync", help_heading = TRACING)]
    pub ops: Vec<Op>,
    /// Writes to trace
    ///
    /// `durable`: those that are durable when they return (O_DSYNC, O_SYNC, RWF_DSYNC, chattr +S, mount -o
    /// sync), and those that fail. `all`: every write to a file or a block device, with its bytes and its
    /// latency, which costs each write of a traced process what a sync costs.
    #[arg(long, value_enum, default_value_t, value_name = "WHICH", help_heading = TRACING)]
    pub writes: Writes,
    /// How to attach: auto tries, tests and falls back
    #[arg(long, value_enum, default_value_t, value_name = "MODE", help_heading = TRACING)]
    pub attach: Attach,
    /// Also print what libbpf and the verifier said while attaching
    ///
    /// With `explain`, the equations as well.
    #[arg(short, long, help_heading = TRACING)]
    pub verbose: bool,
    /// Rules of your own for the roles of files
    ///
    /// Looked at before the built-in ones; docs/roles.md says how they are written.
    #[arg(long, value_name = "FILE", help_heading = TRACING)]
    pub roles: Option<PathBuf>,
    /// Files that are kept apart at a time
    ///
    /// More are counted in their role.
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(16..=4_000_000), help_heading = TRACING)]
    pub max_files: u32,
    /// Files that have a histogram of their own at a time
    ///
    /// Others share their role's.
    #[arg(long, default_value_t = 4_096, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = TRACING)]
    pub max_histograms: u32,
}

/// Which writes are traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Writes {
    /// None
    Off,
    /// Durable ones, and failures
    #[default]
    Durable,
    /// All, with their bytes and latencies
    All,
}

impl Writes {
    /// The operations that are watched for it.
    pub fn ops(self) -> &'static [Op] {
        match self {
            Writes::Off => &[],
            Writes::Durable => &[Op::DsyncWrite],
            Writes::All => &[Op::DsyncWrite, Op::Write, Op::Fallocate],
        }
    }
}

/// For what tells one server from another.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NameArgs {
    /// What a server is called: 3306=orders
    ///
    /// May be given several times; by the port, the data directory (/var/lib/mysql2=billing), the socket or
    /// the container. Without it, the first that a server has of container, port, socket, data directory.
    #[arg(long, value_name = "WHICH=NAME", value_delimiter = ',')]
    pub server_name: Vec<GivenName>,
}

/// For what runs for long: a series of intervals, the live view, the exporter.
#[derive(Args, Clone, Debug)]
pub(crate) struct LongRunArgs {
    /// Processor time that fsynctop itself may use, or off
    ///
    /// Percent of one processor, averaged over a minute or over /TIME (2%/5m). Above it, intervals get
    /// longer; if that is not enough, tracing pauses until there is room again. Reported on standard error
    /// and in the figures. The cost of the exporter's clients, of describing servers and of naming files is
    /// limited separately and not counted here.
    #[arg(long, value_name = "PERCENT", default_value_t = MaxCpu(Some(Limit::default())), help_heading = TRACING)]
    pub max_cpu: MaxCpu,
}

/// None: off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxCpu(pub Option<Limit>);

impl std::str::FromStr for MaxCpu {
    type Err = String;

    fn from_str(text: &str) -> Result<MaxCpu, String> {
        if text == "off" { Ok(MaxCpu(None)) } else { text.parse().map(|limit| MaxCpu(Some(limit))) }
    }
}

impl std::fmt::Display for MaxCpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("off"),
            Some(limit) => limit.fmt(f),
        }
    }
}

/// How many rows are printed. None: all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLimit(pub Option<usize>);

impl std::str::FromStr for RowLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<RowLimit, String> {
        match text.parse() {
            _ if text == "all" => Ok(RowLimit(None)),
            Ok(rows) if rows > 0 => Ok(RowLimit(Some(rows))),
            _ => Err("a number of rows is expected, or all".into()),
        }
    }
}

/// For what prints no series and so has no CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table, for people
    #[default]
    Table,
    /// One JSON object, for programs
    Json,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "What to print")]
pub(crate) struct FormArgs {
    /// A table for people, JSON for programs
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Form,
}

impl FormArgs {
    pub(crate) fn is_json(&self) -> bool {
        self.output == Form::Json
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct ColorArgs {
    /// Colours [NO_COLOR is honoured]
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub color: Color,
}

impl ColorArgs {
    /// `style` as it would be by itself.
    pub(crate) fn apply(self, style: Style) -> Style {
        match self.color {
            Color::Auto => style,
            Color::Always => Style { color: true, ..style },
            Color::Never => Style { color: false, ..style },
        }
    }
}

#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct StyleArgs {
    #[command(flatten)]
    pub color: ColorArgs,
    /// Draw with ASCII only
    #[arg(long)]
    pub no_unicode: bool,
}

impl StyleArgs {
    pub(crate) fn apply(self, style: Style) -> Style {
        let style = self.color.apply(style);
        Style { unicode: style.unicode && !self.no_unicode, ..style }
    }
}

/// A mode, or the best one that works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attach(pub Option<AttachMode>);

impl ValueEnum for Attach {
    fn value_variants<'a>() -> &'a [Attach] {
        &[
            Attach(None),
            Attach(Some(AttachMode::Fentry)),
            Attach(Some(AttachMode::Kprobe)),
            Attach(Some(AttachMode::Tracepoint)),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self.0 {
            None => Some(PossibleValue::new("auto")),
            Some(mode) => mode.to_possible_value(),
        }
    }
}

/// Some clocks end after some centuries.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// "10" (seconds), "0.5", "90s", "5m", "1m 30s".
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || "a time is expected, such as 10 (seconds), 90s, 5m or 1m 30s".to_owned();
    let parsed = match text.parse::<f64>() {
        Ok(seconds) if seconds.is_nan() => return Err(expected()),
        Ok(seconds) => {
            let limit = LONGEST.as_secs_f64() + 1.0;
            Duration::try_from_secs_f64(seconds.clamp(0.0, limit)).map_err(|_| expected())?
        }
        Err(_) => humantime::parse_duration(text).map_err(|_| expected())?,
    };
    if parsed < Duration::from_millis(1) {
        return Err("at least a millisecond".into());
    }
    if parsed > LONGEST {
        return Err("at most ten years".into());
    }
    Ok(parsed)
}

/// "4096" (bytes), "64M", "1G".
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => Some(0),
        "K" | "KB" | "KIB" => Some(10),
        "M" | "MB" | "MIB" => Some(20),
        "G" | "GB" | "GIB" => Some(30),
        _ => None,
    };
    let size =
        number.parse::<u64>().ok().zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    size.ok_or_else(|| "a size is expected, such as 64M or 1G".to_owned())
}

/// A default as it is typed: the help says what the code goes by.
pub(crate) fn typed(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// The number of a process, or of the one server that has this name.
pub(crate) fn pid(text: &str) -> Result<u32, String> {
    if let Ok(pid) = text.parse() {
        return Ok(pid);
    }
    let named = TargetFilter::comms(&[text.to_owned()]).map_err(|error| error.to_string())?;
    match &selection::list(Path::new(PROC), &Engines::builtin(), &named)[..] {
        [] => Err("a number is expected, and no process here has this name".into()),
        [one] => Ok(one.pid),
        several => {
            let pids = several.iter().take(MOST_PIDS).map(|process| process.pid.to_string());
            let (pids, more) = (pids.collect::<Vec<_>>().join(", "), several.len().saturating_sub(MOST_PIDS));
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Err(format!(
                "{} processes have this name ({pids}{more}): --comm {} selects all of them",
                several.len(),
                escape(text.as_bytes())
            ))
        }
    }
}

/// How many processes of one name are listed in an error.
const MOST_PIDS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_the_number_of_the_only_process_that_has_it() {
        assert_eq!(pid("4711"), Ok(4711));
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        // Another test program of this name may run beside this one.
        match pid(own.trim_end()) {
            Ok(number) => assert_eq!(number, std::process::id()),
            Err(message) => assert!(message.contains(&std::process::id().to_string()), "{message}"),
        }
        assert_eq!(
            pid("no-such-process"),
            Err("a number is expected, and no process here has this name".into())
        );
        assert!(pid("").is_err() && pid("a-name-of-more-than-fifteen").is_err());
    }

    #[test]
    fn a_limit_of_rows_is_a_number_or_all() {
        let limit = |text: &str| text.parse::<RowLimit>();
        assert_eq!((limit("20"), limit("all")), (Ok(RowLimit(Some(20))), Ok(RowLimit(None))));
        for wrong in ["0", "-1", "some", ""] {
            assert_eq!(limit(wrong), Err("a number of rows is expected, or all".to_owned()));
        }
    }

    #[test]
    fn times_are_seconds_or_carry_their_unit() {
        assert_eq!(duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(duration("0").is_err());
        assert!(duration("-1").is_err());
        assert!(duration("soon").is_err());
        for too_long in ["1e19", "1e99", "inf"] {
            assert_eq!(duration(too_long), Err("at most ten years".into()));
        }
        assert!(duration("NaN").is_err());
    }
}
