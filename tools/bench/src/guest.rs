//! The same on kernels that this machine does not run: guests under software emulation, in which only the ratios
//! between what was measured side by side mean anything.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::context::Context;
use crate::progress;
use crate::section::Section;

/// Debian's kernel as tools/kernels/fetch calls it, QEMU's processor, and why it is looked at.
const GUESTS: [(&str, &str, &str); 2] = [
    ("6.12", "max,-cx16", "has fentry"),
    ("7.2", "max", "preempts programs, and has kprobe.multi that is not preempted"),
];
/// Static, as a guest needs them: `make bench` puts them there.
const PROGRAMS: &str = "target/bench/guest";
/// By the guest's clock.
const SECONDS: u32 = 420;
/// By this machine's: a second of the guest's is 10^9 instructions, which take it several.
const SECONDS_AT_MOST: u32 = 3_600;

/// What runs in a guest: a script of tools/kernels/guest, and what it needs.
struct Scenario {
    name: &'static str,
    /// Of the bench, which leave a file each.
    parts: &'static [&'static str],
    programs: &'static [&'static str],
    /// This machine's, with their libraries.
    borrowed: &'static str,
    /// Brings a database server.
    server: bool,
}

const SCENARIOS: [Scenario; 2] = [
    Scenario {
        name: "bench",
        parts: &["sync", "getppid", "instructions"],
        programs: &["fsynctop", "bench"],
        borrowed: "bpftrace",
        server: false,
    },
    Scenario {
        name: "bench-server",
        parts: &["server"],
        programs: &["fsynctop", "bench", "insert-load"],
        borrowed: "mariadbd",
        server: true,
    },
];
/// Without its messages a server does not start.
const MESSAGES: &str = "/usr/share/mysql/english/errmsg.sys";

pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let mut section = Section {
        title: "On other kernels".into(),
        about: vec![
            "The first two parts again, in guests with one processor under QEMU's software emulation, whose clock counts \
             the guest's instructions and takes each for a nanosecond (`-icount shift=0`). So the figures are instructions, \
             and the same whatever else the machine does; on a processor an instruction costs now less, now much more: \
             reading the clock, an addition that other processors see, a line that is in no cache. Only the ratios of \
             what was measured within one guest count. A server's throughput is measured there, too: in turns as above, \
             of MariaDB with its data in memory, so that all that it does are instructions. On a kernel that preempts programs, fsynctop's entries are kprobe's \
             whatever the mode, and so are the floor's: they are on the same hooks."
                .into(),
        ],
        values: serde_json::json!({}),
        ..Section::default()
    };
    for (kernel, _, about) in GUESTS {
        progress!("booting {kernel}, which {about}");
    }
    let template = server_template()?;
    let place = |kernel: &str, scenario: &Scenario| out.join(format!("guest-{kernel}")).join(scenario.name);
    for scenario in &SCENARIOS {
        // At once: each has one processor, and its own turns.
        thread::scope(|scope| {
            let template = &template;
            let boots = GUESTS.map(|(kernel, cpu, _)| {
                scope.spawn(move || {
                    boot(context.quick, kernel, cpu, scenario, template, &place(kernel, scenario))
                })
            });
            boots
                .into_iter()
                .try_for_each(|boot| boot.join().map_err(|_| anyhow!("booting a guest panicked"))?)
        })?;
    }
    for (kernel, ..) in GUESTS {
        for scenario in &SCENARIOS {
            add(&mut section, kernel, scenario, &place(kernel, scenario))?;
        }
    }
    Ok(section)
}

/// What a guest has brought back, under its name.
fn add(section: &mut Section, kernel: &str, scenario: &Scenario, from: &Path) -> Result<()> {
    let release = std::fs::read_to_string(from.join("release")).context("the guest's release")?;
    let name = format!("{} (guest)", release.trim());
    for &part in scenario.parts {
        let mut of_guest = Section::read(&from.join("bench").join(format!("{part}.json")))?;
        for table in &mut of_guest.tables {
            let what = if table.caption.is_empty() { &of_guest.title } else { &table.caption };
            table.caption = match part {
                "sync" | "getppid" => format!("{name}, {part}: {what}"),
                _ => format!("{name}: {what}"),
            };
        }
        // The functions are the same everywhere.
        of_guest.tables.truncate(1);
        for bar in &mut of_guest.bars {
            bar.what = format!("{name}: {}", bar.what);
        }
        section.tables.append(&mut of_guest.tables);
        section.bars.append(&mut of_guest.bars);
        section.values[kernel][part] = of_guest.values;
    }
    Ok(())
}

/// The data directory that throw-away servers begin with.
fn server_template() -> Result<PathBuf> {
    let prepared = Command::new("tools/throwaway-server")
        .args(["prepare", "mariadb"])
        .output()
        .context("cannot run tools/throwaway-server; is this the top of the repository?")?;
    ensure!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr).trim());
    let said = String::from_utf8(prepared.stdout).context("the cache's path")?;
    let template = said.lines().find_map(|line| line.strip_prefix("TEMPLATE="));
    Ok(template.context("tools/throwaway-server names no template")?.into())
}

fn boot(quick: bool, kernel: &str, cpu: &str, scenario: &Scenario, template: &Path, to: &Path) -> Result<()> {
    let fetched = Command::new("tools/kernels/fetch")
        .arg(kernel)
        .output()
        .context("cannot run tools/kernels/fetch; is this the top of the repository?")?;
    ensure!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr).trim());
    let tree = String::from_utf8(fetched.stdout).context("the cache's path")?;
    if to.exists() {
        std::fs::remove_dir_all(to).with_context(|| format!("cannot empty {}", to.display()))?;
    }
    let programs: Vec<_> =
        scenario.programs.iter().map(|program| Path::new(PROGRAMS).join(program)).collect();
    if let Some(missing) = programs.iter().find(|program| !program.is_file()) {
        bail!("{} is not there: `make bench` makes it", missing.display());
    }
    let options = if quick { " bench_options=--quick" } else { "" };
    let mut command = Command::new("tools/kernels/boot");
    command
        .arg(tree.trim_end())
        .arg(to)
        .arg(scenario.name)
        .args(programs)
        .env("CPU", cpu)
        .env("APPEND", format!("seconds={SECONDS}{options}"))
        .env("SECONDS_AT_MOST", SECONDS_AT_MOST.to_string())
        .env("COUNTED", "1")
        .env("MEMORY", "3072")
        .env("BORROW", scenario.borrowed);
    if scenario.server {
        command.arg(MESSAGES).env("TREE", template);
    }
    let booted = command.output().context("cannot run tools/kernels/boot")?;
    ensure!(booted.status.success(), "{}", String::from_utf8_lossy(&booted.stderr).trim());
    let status = std::fs::read_to_string(to.join("bench.status")).unwrap_or_default();
    let said = std::fs::read_to_string(to.join("bench.err")).unwrap_or_default();
    ensure!(status.trim() == "0", "in the guest with {kernel}, the bench ended with {status}{said}");
    Ok(())
}
