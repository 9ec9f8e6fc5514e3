//! The end of the help, from an action's page.

use std::fmt::Write;

use super::page::{Example, Manual};

/// A heading as clap has them, by the style of the terminal.
fn heading(text: &mut String, title: &str) {
    let style = clap::builder::Styles::default();
    let style = style.get_header();
    let gap = if text.is_empty() { "" } else { "\n\n" };
    let _ = write!(text, "{gap}{style}{title}:{style:#}");
}

/// For `-h`: a few examples as far as there is room, and where there is more.
pub(super) fn brief(manual: &Manual) -> String {
    let mut text = String::new();
    let (gap, of) = match manual.action {
        "" => ("", String::new()),
        action => ("-", format!(" {action}")),
    };
    let more = format!("fsynctop{of} --help, man fsynctop{gap}{}", manual.action);
    heading(&mut text, &format!("Examples (more: {more})"));
    examples(&mut text, &manual.examples[..manual.brief_examples], 2);
    text
}

/// For `--help`: everything.
pub(super) fn full(manual: &Manual) -> String {
    let mut text = manual.notes.join("\n\n");
    heading(&mut text, "Examples");
    examples(&mut text, manual.examples, 2);
    for (title, rows) in
        [("Exit status", manual.exit), ("Files", manual.files), ("Environment", manual.environment)]
    {
        if !rows.is_empty() {
            heading(&mut text, title);
            for (name, what) in rows {
                let _ = write!(text, "\n  {name}: {what}");
            }
        }
    }
    heading(&mut text, "What it costs");
    let _ = write!(text, "\n{}", manual.costs.join("\n"));
    text
}

/// Commands of a like length have what they do beside them; a longer one has it below.
fn examples(text: &mut String, examples: &[Example], indent: usize) {
    const WIDEST: usize = 42;
    let widths = examples.iter().map(|example| example.command.len()).filter(|&width| width <= WIDEST);
    let column = widths.max().unwrap_or(0);
    for Example { command, what } in examples {
        let _ = match command.len() <= WIDEST {
            true => write!(text, "\n{:indent$}{command:column$}  {what}", ""),
            false => write!(text, "\n{:indent$}{command}\n{:indent$}{:column$}  {what}", "", "", ""),
        };
    }
}
