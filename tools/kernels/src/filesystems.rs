//! Filesystems that are modules of the kernel: their files are told apart, too, by what only the modules'
//! types tell, as root and with the capabilities of the shipped unit.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::diff::differences;
use crate::expect::attached_as;
use crate::guests::Guest;
use crate::measured::{device, nothing_is_lost, number, rows, text};
use crate::outcome::{Findings, Outcome};

/// As tools/kernels/boot is told to load them.
pub const MODULES: [&str; 2] = ["btrfs", "overlay"];

/// Each load of guest/filesystems.sh, and the filesystem that it is on.
const LOADS: [(&str, &str); 4] =
    [("one", "btrfs"), ("two", "btrfs"), ("first", "overlay"), ("second", "overlay")];

pub fn expect(guest: &Guest, outcome: &Outcome, findings: &mut Findings) {
    findings.run("modules", |findings| {
        let described = outcome.text("described")?;
        for module in MODULES {
            let is_module = described.lines().any(|name| name == module);
            findings.check(is_module, || format!("{module} is no module here, so that nothing is tested"));
        }
        Ok(())
    });
    for &mode in guest.modes() {
        for name in [mode.to_owned(), format!("minimum-{mode}")] {
            findings.run(&name, |findings| one_run(outcome, mode, &name, findings));
        }
    }
}

fn one_run(outcome: &Outcome, mode: &str, name: &str, findings: &mut Findings) -> Result<()> {
    let complaints = outcome.text(&format!("{name}.err"))?;
    findings
        .check(outcome.status(name)? == 0 && complaints.is_empty(), || format!("it complains: {complaints}"));
    let measured = outcome.json(&format!("{name}.out"))?;
    attached_as(mode, &text(&measured["attach"]), findings)?;
    nothing_is_lost(&measured, findings);

    let mut expected = BTreeMap::new();
    let mut inodes = BTreeMap::<_, Vec<_>>::new();
    for (part, filesystem) in LOADS {
        let load = outcome.load(&format!("{name}.{part}"))?;
        for file in rows(&load["files"]) {
            let inode = number(&file["inode"]);
            inodes.entry(filesystem).or_default().push(inode);
            let device = device(number(&file["device"]));
            let calls = number(&file["ops"]["fsync"]["calls"]);
            expected.insert(text(&file["path"]), ((filesystem.to_owned(), inode, device), calls));
        }
    }
    for (filesystem, inodes) in inodes {
        let same = inodes.len() == 2 && inodes[0] == inodes[1];
        findings.check(same, || format!("{filesystem}: the files do not share a number: {inodes:?}"));
    }
    let row = |row: &serde_json::Value| {
        let place = (text(&row["filesystem"]), number(&row["inode"]), text(&row["device_number"]));
        (text(&row["path"]), (place, number(&row["count"])))
    };
    let found = rows(&measured["files"]).map(row).collect();
    differences(&expected, &found).into_iter().for_each(|line| findings.fail(line));
    Ok(())
}
