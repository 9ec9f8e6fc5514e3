//! The same on kernels that this machine does not run: guests under software emulation, in which only the
//! ratios between what was measured side by side mean anything.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use crate::by_kernel;
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
const SECONDS_AT_MOST: u32 = 1_200;

pub fn section(context: &Context, out: &Path) -> Result<Section> {
    let mut section = Section {
        title: "On other kernels".into(),
        about: vec![
            "The first two parts again, in guests with one processor under QEMU's software emulation, whose clock counts \
             the guest's instructions and takes each for a nanosecond (`-icount shift=0`). So the figures are instructions, \
             and the same whatever else the machine does; on a processor an instruction costs now less, now much more: \
             reading the clock, an addition that other processors see, a line that is in no cache. Only the ratios of \
             what was measured within one guest count. On a kernel that preempts programs, fsynctop's entries are kprobe's \
             whatever the mode, and so are the floor's: they are on the same hooks. The last table takes the calls that \
             each server above made in a second, times what each call costs here; reading the clock and lines that are in \
             no cache are worth more than an instruction, on either side."
                .into(),
        ],
        values: serde_json::json!({}),
        ..Section::default()
    };
    for (kernel, _, about) in GUESTS {
        progress!("booting {kernel}, which {about}");
    }
    let place = |kernel: &str| out.join(format!("guest-{kernel}"));
    // At once: each has one processor, and its own turns.
    thread::scope(|scope| {
        let boots = GUESTS
            .map(|(kernel, cpu, _)| scope.spawn(move || boot(context.quick, kernel, cpu, &place(kernel))));
        boots.into_iter().try_for_each(|boot| boot.join().map_err(|_| anyhow!("booting a guest panicked"))?)
    })?;
    for (kernel, ..) in GUESTS {
        let to = place(kernel);
        let release = std::fs::read_to_string(to.join("release")).context("the guest's release")?;
        let name = format!("{} (guest)", release.trim());
        for part in ["sync", "getppid", "instructions"] {
            let mut of_guest = Section::read(&to.join("bench").join(format!("{part}.json")))?;
            for table in &mut of_guest.tables {
                let what = if table.caption.is_empty() { &of_guest.title } else { &table.caption };
                table.caption = match part {
                    "instructions" => format!("{name}: {what}"),
                    _ => format!("{name}, {part}: {what}"),
                };
            }
            // The functions are the same everywhere.
            of_guest.tables.truncate(1);
            for goal in &mut of_guest.goals {
                goal.what = format!("{name}: {}", goal.what);
            }
            section.tables.append(&mut of_guest.tables);
            section.goals.append(&mut of_guest.goals);
            section.values[kernel][part] = of_guest.values;
        }
    }
    if let Ok(servers) = Section::read(&out.join("server.json")) {
        let kernels = GUESTS.map(|(kernel, ..)| kernel);
        section.tables.extend(by_kernel::table(&servers.values, &section.values, &kernels));
    }
    Ok(section)
}

fn boot(quick: bool, kernel: &str, cpu: &str, to: &Path) -> Result<()> {
    let fetched = Command::new("tools/kernels/fetch")
        .arg(kernel)
        .output()
        .context("cannot run tools/kernels/fetch; is this the top of the repository?")?;
    ensure!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr).trim());
    let tree = String::from_utf8(fetched.stdout).context("the cache's path")?;
    if to.exists() {
        std::fs::remove_dir_all(to).with_context(|| format!("cannot empty {}", to.display()))?;
    }
    let programs = ["fsynctop", "bench"].map(|program| Path::new(PROGRAMS).join(program));
    if let Some(missing) = programs.iter().find(|program| !program.is_file()) {
        bail!("{} is not there: `make bench` makes it", missing.display());
    }
    let options = if quick { " bench_options=--quick" } else { "" };
    let booted = Command::new("tools/kernels/boot")
        .arg(tree.trim_end())
        .arg(to)
        .arg("bench")
        .args(programs)
        .env("CPU", cpu)
        .env("APPEND", format!("seconds={SECONDS}{options}"))
        .env("SECONDS_AT_MOST", SECONDS_AT_MOST.to_string())
        .env("COUNTED", "1")
        .env("MEMORY", "3072")
        .env("BORROW", "bpftrace")
        .output()
        .context("cannot run tools/kernels/boot")?;
    ensure!(booted.status.success(), "{}", String::from_utf8_lossy(&booted.stderr).trim());
    let status = std::fs::read_to_string(to.join("bench.status")).unwrap_or_default();
    let said = std::fs::read_to_string(to.join("bench.err")).unwrap_or_default();
    ensure!(status.trim() == "0", "in the guest with {kernel}, the bench ended with {status}{said}");
    Ok(())
}
