//! What an exporter costs beside processes that are called like servers and do nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::context::Context;
use crate::proc;
use crate::progress;
use crate::section::{Section, Table};
use crate::stats::median;

/// Whoever has no rights can start as many.
const USER: u32 = 4_711;
const NUMBERS: [usize; 3] = [0, 500, 2_000];

/// Killed when it goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn section(context: &Context) -> Result<Section> {
    let rounds = context.or_quick(3, 1);
    let seconds = context.or_quick(40, 20);
    let mut shares = vec![Vec::new(); NUMBERS.len()];
    // In turns, so that the machine's mood is everybody's.
    for round in 0..rounds {
        for (number, shares) in NUMBERS.into_iter().zip(&mut shares) {
            progress!("round {} beside {number} idle processes", round + 1);
            shares.push(share(context, number, Duration::from_secs(seconds))?);
        }
    }
    let mut medians: Vec<f64> = shares.iter_mut().map(|shares| median(shares)).collect();
    let mut table = Table::new("Processor time of an exporter", &["idle processes", "of one processor"]);
    for (number, share) in NUMBERS.iter().zip(&medians) {
        table.row([number.to_string(), format!("{share:.3} %")]);
    }
    let (least, most) = (medians.remove(0), medians.pop().unwrap_or_default());
    let each = (most - least) / (NUMBERS[2] as f64 / 1_000.0);
    Ok(Section {
        title: "Idle processes".into(),
        about: vec![format!(
            "An exporter beside processes called mysqld of a user without rights, which do nothing at all: medians of {rounds} \
             rounds of {seconds} s in turns, each from half a minute after its start on, when all have been described. Each \
             thousand takes {each:.2} % of a processor; 0.1 % was the goal."
        )],
        tables: vec![table],
        values: json!({ "numbers": NUMBERS, "rounds": shares, "percent_for_each_thousand": each }),
        ..Section::default()
    })
}

/// Percent of one processor.
fn share(context: &Context, number: usize, time: Duration) -> Result<f64> {
    let directory = tempfile::tempdir_in("/var/tmp")?;
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o755))?;
    let program = directory.path().join("mysqld");
    std::fs::copy("/usr/bin/sleep", &program).context("cannot copy sleep")?;
    let idle = || Ok(Running(Command::new(&program).arg("1000").uid(USER).gid(USER).spawn()?));
    let idle = (0..number).map(|_| idle()).collect::<Result<Vec<_>>>()?;
    let mut exporter = Command::new(&context.fsynctop);
    exporter.args(["exporter", "--listen", "127.0.0.1:0", "--no-socket", "--max-cpu", "off"]);
    exporter.env("FSYNCTOP_NO_CONFIG", "true").stdout(Stdio::null()).stderr(Stdio::null());
    let exporter = Running(exporter.spawn()?);
    sleep(Duration::from_secs(30));
    let (before, began) = (proc::cpu_time(exporter.0.id())?, Instant::now());
    sleep(time);
    let spent = proc::cpu_time(exporter.0.id())? - before;
    drop(idle);
    Ok(spent.as_secs_f64() / began.elapsed().as_secs_f64() * 100.0)
}
