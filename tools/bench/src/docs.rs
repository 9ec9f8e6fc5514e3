//! Puts docs/overhead.md together from what the parts have left.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::context::Machine;
use crate::section::{Section, bars};

/// The parts' files are in the order of the page. Returns the bars, as the page has them.
pub fn write(machine: &Path, parts: &[PathBuf], page: &Path) -> Result<String> {
    let machine = std::fs::read(machine)
        .with_context(|| format!("{} is not there: measure something first", machine.display()))?;
    let machine: Machine = serde_json::from_slice(&machine).context("the description of the machine")?;
    let sections: Vec<Section> = parts.iter().map(|part| Section::read(part)).collect::<Result<_>>()?;
    let text = render(&machine, &sections);
    std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))?;
    Ok(verdict(&sections))
}

fn render(machine: &Machine, sections: &[Section]) -> String {
    let Machine { kernel, processor, cpus, load_average, .. } = machine;
    let mut text = format!(
        "# Overhead\n\nMade by `make bench`, on a virtual machine or a real one as it comes: {processor}, {cpus} CPUs, \
         Linux {kernel}, load average {load_average} at the start. Absolute figures are this machine's; what is compared \
         was measured in turns within one run. `make bench ONLY=sync` measures one part, `QUICK=1` roughly.\n\n"
    );
    if sections.iter().any(|section| section.rough) {
        text.push_str(
            "**These figures are rough: they are from a quick run or a build that is not optimised.**\n\n",
        );
    }
    if !machine.others.is_empty() {
        let others = machine.others.join(", ");
        text.push_str(&format!("Somebody else's programs were attached all the time: {others}.\n\n"));
    }
    text.push_str(&format!("## The bars\n\n{}\n", verdict(sections)));
    for section in sections {
        let section = Section { bars: Vec::new(), ..section.clone() };
        text.push_str(&section.markdown());
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// How many bars are met, and which.
fn verdict(sections: &[Section]) -> String {
    let all: Vec<_> = sections.iter().flat_map(|section| section.bars.clone()).collect();
    let missed = all.iter().filter(|bar| !bar.met).count();
    let verdict = match missed {
        0 => format!("All {} bars are met.", all.len()),
        _ => format!("{missed} of {} bars are missed.", all.len()),
    };
    format!("{verdict}\n\n{}", bars(&all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Bar;

    #[test]
    fn a_bar_that_is_missed_stands_out_at_the_top() {
        let machine = Machine {
            kernel: "6.12".into(),
            processor: "A processor".into(),
            cpus: 2,
            load_average: "0.01".into(),
            others: Vec::new(),
        };
        let section = Section {
            title: "A part".into(),
            rough: true,
            bars: vec![
                Bar::new("start", "100 ms", "80 ms", true),
                Bar::new("memory", "20 MB", "21 MB", false),
            ],
            ..Section::default()
        };
        let text = render(&machine, &[section]);
        assert!(text.contains("1 of 2 bars are missed."), "{text}");
        assert!(text.contains("| memory | 20 MB | 21 MB | **missed** |"), "{text}");
        assert!(text.contains("These figures are rough"), "{text}");
        assert!(text.find("missed").unwrap() < text.find("## A part").unwrap(), "{text}");
    }
}
