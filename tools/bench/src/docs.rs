//! Puts docs/overhead.md together from what the parts have left.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use crate::section::{Goal, Section, Verdict, goals};

/// The parts' files are in the order of the page. Where some are missing, the sections of the others take
/// their place in the page as it is. Returns the goals of those that are there.
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

const HEAD: &str = "# Overhead\n\nMade by `make bench`, on a virtual machine or a real one as it comes: each part \
     says on which. Absolute figures are that machine's; what is compared was measured in turns within one run. \
     `make bench ONLY=sync` measures one part, `QUICK=1` roughly. What tracing costs depends on the processor as \
     much as on the programs, so a figure here is no promise for another machine.\n\n";

fn render(sections: &[Section]) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&format!("{}{}\n", GOALS.trim_start(), verdict(sections)));
    for section in sections {
        let section = Section { goals: Vec::new(), ..section.clone() };
        text.push_str(&section.markdown());
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// The page with a new section instead of the one of the same title, or behind all others; its goals take the
/// places of those of the same names.
fn put_into(page: &str, section: &Section) -> Result<String> {
    let page = if section.goals.is_empty() { page.to_owned() } else { with_goals(page, &section.goals)? };
    let new = Section { goals: Vec::new(), ..section.clone() }.markdown();
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

const GOALS: &str = "\n## Goals\n\n";

fn with_goals(page: &str, new: &[Goal]) -> Result<String> {
    let (before, rest) = page.split_once(GOALS).context("the page has no goals: measure everything")?;
    let end = rest.find("\n## ").context("the page has no sections: measure everything")?;
    let (old, after) = rest.split_at(end);
    let mut all: Vec<Goal> = old.lines().filter_map(Goal::read).collect();
    for goal in new {
        match all.iter_mut().find(|known| known.what == goal.what) {
            Some(known) => known.clone_from(goal),
            None => all.push(goal.clone()),
        }
    }
    Ok(format!("{before}{GOALS}{}{after}", verdict_on(&all)))
}

/// How many goals are met, and which.
fn verdict(sections: &[Section]) -> String {
    let all: Vec<_> = sections.iter().flat_map(|section| section.goals.clone()).collect();
    verdict_on(&all)
}

fn verdict_on(all: &[Goal]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let count = |verdict: Verdict| all.iter().filter(|goal| goal.verdict == verdict).count();
    let (met, missed) = (count(Verdict::Met), count(Verdict::Missed));
    let unresolved = match count(Verdict::Unresolved) {
        0 => String::new(),
        some => format!(", {some} unresolved"),
    };
    format!("Of {} goals, {met} met, {missed} missed{unresolved}.\n\n{}", all.len(), goals(all))
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
        assert!(!page.contains("First.") && page.contains("## Goals"), "{page}");
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("## One\n\nAnew.\n") < at("\n\n## Two\n\nSecond.\n"));
        let longer = put_into(&page, &section("Three", "Third.")).unwrap();
        assert!(
            longer.starts_with(page.trim_end()) && longer.contains("\n\n## Three\n\nThird.\n"),
            "{longer}"
        );
    }

    #[test]
    fn the_goals_of_one_section_take_their_places_among_the_others() {
        let section = |title: &str, goals: &[(&str, bool)]| Section {
            title: title.into(),
            goals: goals
                .iter()
                .map(|&(what, met)| Goal::new(what, "1.5 x", "1.2 (1.1 to 1.3)", Verdict::of(met)))
                .collect(),
            ..Section::default()
        };
        let both = [section("One", &[("a", false), ("b", true)]), section("Two", &[("c", false)])];
        let page = render(&both);
        assert!(page.contains("Of 3 goals, 1 met, 2 missed."), "{page}");
        let page = put_into(&page, &section("One", &[("a", true), ("d", true)])).unwrap();
        let all = [("a", true), ("b", true), ("c", false), ("d", true)];
        let expected = verdict(&[section("", &all)]);
        assert!(expected.starts_with("Of 4 goals, 3 met, 1 missed."), "{expected}");
        assert!(page.contains(&format!("## Goals\n\n{expected}\n## One\n")), "{page}");
        assert!(put_into("# Another page\n", &section("One", &[("a", true)])).is_err());
    }

    #[test]
    fn a_goal_that_is_missed_stands_out_at_the_top() {
        let section = Section {
            title: "A part".into(),
            rough: true,
            goals: vec![
                Goal::new("start", "100 ms", "80 ms", Verdict::Met),
                Goal::new("memory", "20 MB", "21 MB", Verdict::Missed),
                Goal::new("throughput", "1 %", "0.1 (-9 to 9) %", Verdict::Unresolved),
            ],
            ..Section::default()
        };
        let text = render(&[section]);
        assert!(text.contains("Of 3 goals, 1 met, 1 missed, 1 unresolved."), "{text}");
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

    #[test]
    fn sections_of_other_programs_are_told_from_those_of_a_build() {
        let section = |title: &str, objects: Option<&str>| Section {
            title: title.into(),
            objects: objects.map(str::to_owned),
            machine: Some(Machine {
                kernel: "6.12".into(),
                processor: "A processor".into(),
                cpus: 2,
                load_average: "0.01".into(),
                others: vec!["another tracer".into()],
            }),
            ..Section::default()
        };
        let page = tempfile::NamedTempFile::new().unwrap();
        let sections = [section("New", Some("0123456789ab")), section("Old", Some("ba9876543210"))];
        std::fs::write(page.path(), render(&sections) + &section("Older", None).markdown()).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../stale-sections");
        let output =
            std::process::Command::new(script).arg("0123456789ab").arg(page.path()).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "Old: measured with ba9876543210\nOlder: measured with programs of which no hash was kept\n"
        );
    }
}
