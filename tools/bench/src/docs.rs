//! Puts docs/overhead.md together from what the parts have left.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::section::{Bar, Section, bars};

/// The parts' files are in the order of the page. Where some are missing, the sections of the others take their place in
/// the page as it is. Returns the bars of those that are there.
pub fn write(parts: &[PathBuf], page: &Path) -> Result<String> {
    let there: Vec<_> = parts.iter().filter(|part| part.exists()).collect();
    let sections: Vec<Section> = there.iter().map(|part| Section::read(part)).collect::<Result<_>>()?;
    ensure!(!there.is_empty(), "nothing was measured yet");
    let text = if there.len() == parts.len() {
        render(&sections)
    } else {
        let old = std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        sections.iter().try_fold(old, |text, section| put_into(&text, section))?
    };
    std::fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))?;
    Ok(verdict(&sections))
}

const HEAD: &str = "# Overhead\n\nMade by `make bench`, on a virtual machine or a real one as it comes: each part says on which. \
     Absolute figures are that machine's; what is compared was measured in turns within one run. `make bench ONLY=sync` \
     measures one part, `QUICK=1` roughly. What is met depends on the processor: [earlier runs on an AMD EPYC]\
     (overhead-epyc.md) have a page of their own.\n\n";

fn render(sections: &[Section]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&format!("{}{}\n", BARS.trim_start(), verdict(sections)));
    for section in sections {
        let section = Section { bars: Vec::new(), ..section.clone() };
        text.push_str(&section.markdown());
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// The page with a new section instead of the one of the same title, or behind all others; its bars take the places of
/// those of the same names.
fn put_into(page: &str, section: &Section) -> Result<String> {
    let page = if section.bars.is_empty() { page.to_owned() } else { with_bars(page, &section.bars)? };
    let new = Section { bars: Vec::new(), ..section.clone() }.markdown();
    let heading = format!("\n## {}\n", section.title);
    let (before, after) = match page.find(&heading) {
        Some(at) => {
            let (before, old) = page.split_at(at + 1);
            (before, old.find("\n## ").map_or("", |end| &old[end..]))
        }
        None => (page.as_str(), ""),
    };
    Ok(format!("{}\n\n{}\n{after}", before.trim_end(), new.trim_end()))
}

const BARS: &str = "\n## The bars\n\n";

fn with_bars(page: &str, new: &[Bar]) -> Result<String> {
    let (before, rest) = page.split_once(BARS).context("the page has no bars: measure everything")?;
    let end = rest.find("\n## ").context("the page has no sections: measure everything")?;
    let (old, after) = rest.split_at(end);
    let mut all: Vec<Bar> = old.lines().filter_map(Bar::read).collect();
    for bar in new {
        match all.iter_mut().find(|known| known.what == bar.what) {
            Some(known) => known.clone_from(bar),
            None => all.push(bar.clone()),
        }
    }
    Ok(format!("{before}{BARS}{}{after}", verdict_on(&all)))
}

/// How many bars are met, and which.
fn verdict(sections: &[Section]) -> String {
    let all: Vec<_> = sections.iter().flat_map(|section| section.bars.clone()).collect();
    verdict_on(&all)
}

fn verdict_on(all: &[Bar]) -> String {
    let missed = all.iter().filter(|bar| !bar.met).count();
    let verdict = match missed {
        0 if all.is_empty() => return String::new(),
        0 => format!("All {} bars are met.", all.len()),
        _ => format!("{missed} of {} bars are missed.", all.len()),
    };
    format!("{verdict}\n\n{}", bars(all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Machine;

    #[test]
    fn one_section_takes_its_place_and_leaves_the_others_alone() {
        let section = |title: &str, about: &str| Section {
            title: title.into(),
            about: vec![about.to_owned()],
            ..Section::default()
        };
        let page = render(&[section("One", "First."), section("Two", "Second.")]);
        let page = put_into(&page, &section("One", "Anew.")).unwrap();
        assert!(!page.contains("First.") && page.contains("## The bars"), "{page}");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("## One\n\nAnew.\n") < at("\n\n## Two\n\nSecond.\n"));
        let longer = put_into(&page, &section("Three", "Third.")).unwrap();
        assert!(
            longer.starts_with(page.trim_end()) && longer.contains("\n\n## Three\n\nThird.\n"),
            "{longer}"
        );
    }

    #[test]
    fn the_bars_of_one_section_take_their_places_among_the_others() {
        let section = |title: &str, bars: &[(&str, bool)]| Section {
            title: title.into(),
            bars: bars.iter().map(|&(what, met)| Bar::new(what, "1.5 x", "1.2 (1.1 to 1.3)", met)).collect(),
            ..Section::default()
        };
        let both = [section("One", &[("a", false), ("b", true)]), section("Two", &[("c", false)])];
        let page = render(&both);
        assert!(page.contains("2 of 3 bars are missed."), "{page}");
        let page = put_into(&page, &section("One", &[("a", true), ("d", true)])).unwrap();
        let all = [("a", true), ("b", true), ("c", false), ("d", true)];
        let expected = verdict(&[section("", &all)]);
        assert!(expected.starts_with("1 of 4 bars are missed."), "{expected}");
        assert!(page.contains(&format!("## The bars\n\n{expected}\n## One\n")), "{page}");
        assert!(put_into("# Another page\n", &section("One", &[("a", true)])).is_err());
    }

    #[test]
    fn a_bar_that_is_missed_stands_out_at_the_top() {
        let section = Section {
            title: "A part".into(),
            rough: true,
            bars: vec![
                Bar::new("start", "100 ms", "80 ms", true),
                Bar::new("memory", "20 MB", "21 MB", false),
            ],
            ..Section::default()
        };
        let text = render(&[section]);
        assert!(text.contains("1 of 2 bars are missed."), "{text}");
        assert!(text.contains("| memory | 20 MB | 21 MB | **missed** |"), "{text}");
        assert!(text.contains("These figures are rough"), "{text}");
        assert!(text.find("missed").unwrap() < text.find("## A part").unwrap(), "{text}");
    }

    #[test]
    fn each_section_says_on_which_machine_it_was_measured() {
        let section = |title: &str, load_average: &str| Section {
            title: title.into(),
            machine: Some(Machine {
                kernel: "6.12".into(),
                processor: "A processor".into(),
                cpus: 2,
                load_average: load_average.into(),
                others: Vec::new(),
            }),
            ..Section::default()
        };
        let page = render(&[section("One", "0.01"), section("Two", "0.02")]);
        let page = put_into(&page, &section("Two", "0.03")).unwrap();
        let said: Vec<_> = page.lines().filter(|line| line.starts_with("Measured on")).collect();
        let expected = |load: &str| {
            format!("Measured on A processor, 2 CPUs, Linux 6.12, load average {load} when the run began.")
        };
        assert_eq!(said, [expected("0.01"), expected("0.03")]);
    }
}
