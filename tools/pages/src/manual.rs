//! The manual pages of section 1: clap_mangen's of the options, and what `cli::manual` says beside them.

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use fsynctop::cli::manual::{self, Manual};
use roff::{Roff, bold, roman};

use crate::File;

pub const COLLECTION: &str = "fsynctop manual";

/// `command`: built, without what is hidden.
pub fn pages(command: &Command, date: &str) -> anyhow::Result<Vec<File>> {
    manual::all()
        .map(|manual| {
            let of = match manual.action {
                "" => command,
                action => {
                    command.find_subcommand(action).with_context(|| format!("there is no action {action}"))?
                }
            };
            let page = page(of, manual, command.get_version().unwrap_or_default(), date)?;
            Ok((format!("{}.1", name(manual)), page))
        })
        .collect()
}

fn name(manual: &Manual) -> String {
    match manual.action {
        "" => "fsynctop".to_owned(),
        action => format!("fsynctop-{action}"),
    }
}

fn page(command: &Command, manual: &Manual, version: &str, date: &str) -> anyhow::Result<Vec<u8>> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(command.clone().override_usage(usage))
        .title(name(manual).to_uppercase())
        .section("1")
        .date(date)
        .source(format!("fsynctop {version}"))
        .manual(COLLECTION);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    for note in manual.notes {
        text.extend(paragraph(note).render().into_bytes());
    }
    if manual.action.is_empty() {
        man.render_subcommands_section(&mut text)?;
    }
    man.render_options_section(&mut text)?;
    text.extend(rest(manual).render().into_bytes());
    Ok(tidied(&String::from_utf8(text)?).into_bytes())
}

/// What clap_mangen writes and mandoc complains of: blank lines, breaks on both sides of one, and the
/// definition of the apostrophe before each section, where once will do.
fn tidied(text: &str) -> String {
    let preamble = Roff::new().render();
    let text = text.replace(&preamble, "").replace("\n.br\n\n.br\n", "\n\n").replace("\n\n", "\n.sp\n");
    preamble + &text
}

fn rest(manual: &Manual) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["WHAT IT COSTS"]);
    for (i, text) in manual.costs.iter().enumerate() {
        if i > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*text)]);
    }
    let examples: Vec<_> = manual.examples.iter().map(|example| (example.command, example.what)).collect();
    for (title, rows) in [
        ("EXAMPLES", &examples[..]),
        ("EXIT STATUS", manual.exit),
        ("FILES", manual.files),
        ("ENVIRONMENT", manual.environment),
    ] {
        if !rows.is_empty() {
            roff.control("SH", [title]);
            list(&mut roff, rows);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    see_also(&mut roff, manual);
    roff
}

/// The other pages of this manual, and those of others.
fn see_also(roff: &mut Roff, manual: &Manual) {
    let own = manual::all().filter(|other| other.action != manual.action);
    let own = own.map(|other| format!("{}(1)", name(other)));
    let own = own.chain(std::iter::once("fsynctop.toml(5)".to_owned()));
    let pages: Vec<_> = own.chain(manual.see_also.iter().map(|&other| other.to_owned())).collect();
    for (i, page) in pages.iter().enumerate() {
        let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
        let comma = if i + 1 < pages.len() { "," } else { "" };
        roff.text([bold(name), roman(format!("{section}{comma}"))]);
    }
}

pub fn paragraph(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("PP", []);
    roff.text([roman(text)]);
    roff
}

fn list(roff: &mut Roff, rows: &[(&str, &str)]) {
    for (name, what) in rows {
        roff.control("TP", []);
        roff.text([bold(*name)]);
        roff.text([roman(format!("{}.", capitalized(what)))]);
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
