//! What the help and the manual pages say of each action beside its options: examples, exit statuses, files,
//! environment, what it costs. Written here once; `text.rs` makes the end of the help from it, `tools/pages`
//! the pages.

mod page;
mod text;
mod tracing;
mod untraced;

use clap::Command;

pub use page::{Example, Manual};

/// That of the program first, then the actions in the order of the help.
pub fn all() -> impl Iterator<Item = &'static Manual> {
    [
        &tracing::PROGRAM,
        &tracing::TOP,
        &tracing::ONCE,
        &untraced::HISTORY,
        &tracing::RECORD,
        &untraced::SEGMENTS,
        &untraced::EXPORT,
        &untraced::CHECK,
        &tracing::EXPLAIN,
        &tracing::EXPORTER,
        &untraced::STATUS,
        &untraced::ACK,
        &untraced::STUCK,
        &tracing::EVENTS,
        &untraced::CALIBRATE,
        &tracing::VERIFY,
    ]
    .into_iter()
}

/// None for actions that are no user's.
pub fn of(action: &str) -> Option<&'static Manual> {
    all().find(|manual| manual.action == action)
}

/// The command line with all this in its help.
pub(crate) fn with_manuals(command: Command) -> Command {
    let command = all().filter(|manual| !manual.action.is_empty()).fold(command, |command, manual| {
        command.mut_subcommand(manual.action, |action| with_manual(action, manual))
    });
    with_manual(command, &tracing::PROGRAM)
}

fn with_manual(command: Command, manual: &Manual) -> Command {
    let command = command.after_help(text::brief(manual)).after_long_help(text::full(manual));
    let Some(brief) = manual.brief else { return command };
    command.mut_args(|option| {
        let shown = option.get_long().map_or(!brief.is_empty(), |long| brief.contains(&long));
        option.hide_short_help(!shown)
    })
}

#[cfg(test)]
mod tests {
    use super::super::root;
    use super::*;
    use std::path::Path;

    #[test]
    fn every_action_has_a_page_and_every_page_an_action() {
        let command = root::command();
        let actions = command.get_subcommands().filter(|action| !action.is_hide_set());
        let actions: Vec<_> = actions.map(|action| action.get_name().to_owned()).collect();
        let pages: Vec<_> = all().map(|manual| manual.action).filter(|action| !action.is_empty()).collect();
        for action in &actions {
            assert!(pages.contains(&action.as_str()), "{action} has no page");
        }
        assert_eq!(pages.len(), actions.len(), "{pages:?} {actions:?}");
        for manual in all() {
            let name = manual.action;
            assert!(!manual.examples.is_empty() && !manual.exit.is_empty(), "{name:?}");
            assert!(!manual.costs.is_empty() && !manual.files.is_empty(), "{name:?}");
            assert!(manual.brief_examples <= manual.examples.len(), "{name:?}");
            assert!(manual.brief_examples >= 2, "{name:?} has room for examples");
        }
    }

    #[test]
    fn options_of_the_short_help_are_options() {
        let command = root::command();
        for manual in all() {
            let of = command.find_subcommand(manual.action).unwrap_or(&command);
            for long in manual.brief.unwrap_or_default() {
                let found = of.get_arguments().any(|option| option.get_long() == Some(long));
                assert!(found, "{:?} has no --{long}", manual.action);
            }
        }
    }

    #[test]
    fn every_example_is_a_command_line_that_the_program_takes() {
        let mut examples = 0;
        for manual in all() {
            for Example { command, what } in manual.examples {
                assert!(!what.is_empty() && !what.ends_with('.'), "{command}: {what}");
                // What stands before it (an assignment, sudo) and behind it (a pipe, a file) is the shell's.
                let line = command.split(" | ").find(|part| part.contains("fsynctop")).unwrap();
                let line = line.split(" >").next().unwrap();
                let words = shlex::split(line).expect(line);
                let program = words.iter().position(|word| word == "fsynctop").expect(line);
                if let Err(error) = root::command().try_get_matches_from(&words[program..]) {
                    panic!("{command}: {error}");
                }
                let action = words.get(program + 1).map_or("", String::as_str);
                assert!(
                    manual.action.is_empty() || action == manual.action,
                    "{command} is of another action"
                );
                examples += 1;
            }
        }
        assert!(examples > 30, "{examples}");
    }

    /// Lines of the help on a terminal of 80 columns.
    fn lines(action: &str, long: bool) -> (usize, String) {
        let mut command = root::command().term_width(80);
        command.build();
        let of = match action {
            "" => &mut command,
            action => command.find_subcommand_mut(action).unwrap(),
        };
        let text = match long {
            true => of.render_long_help(),
            false => of.render_help(),
        };
        (text.to_string().lines().count(), text.to_string())
    }

    #[test]
    fn the_short_help_fits_on_a_screen() {
        let mut too_long = Vec::new();
        for manual in all() {
            // A line is left for the prompt that follows.
            let room = if manual.action.is_empty() { 23 } else { 40 };
            let (lines, text) = lines(manual.action, false);
            for example in &manual.examples[..manual.brief_examples] {
                assert!(text.contains(&format!("  {}\n", example.what)), "{example:?} takes two lines");
            }
            if lines > room {
                too_long.push(format!("{lines} lines instead of {room}:\n{text}"));
            }
            let wide = text.lines().find(|line| crate::text::width(line) > 80);
            assert!(wide.is_none(), "{:?}: {wide:?}", manual.action);
        }
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
    }

    #[test]
    fn the_long_help_is_complete() {
        let mut command = root::command();
        command.build();
        for manual in all() {
            let (_, text) = lines(manual.action, true);
            let of = command.find_subcommand(manual.action).unwrap_or(&command);
            for option in of.get_arguments().filter(|option| !option.is_hide_set()) {
                let Some(long) = option.get_long() else { continue };
                assert!(text.contains(&format!("--{long}")), "{:?} hides --{long}", manual.action);
            }
            for part in ["Examples:", "Exit status:", "Files:", "What it costs:"] {
                assert!(text.contains(part), "{:?} lacks {part}", manual.action);
            }
            for Example { command, what } in manual.examples {
                assert!(text.contains(command), "{:?} lacks {command}", manual.action);
                assert!(text.contains(&format!("  {what}\n")), "{what:?} of {command:?} takes two lines");
            }
        }
    }

    /// Figures of the texts on costs, each with the row and the column of docs/overhead.md that it is from.
    /// The page is written anew on other machines, so what must agree is the order of magnitude.
    #[test]
    fn what_is_said_of_costs_is_what_was_measured() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/overhead.md");
        let page = std::fs::read_to_string(page).unwrap();
        let measured = |section: &str, row: &str, column: usize| -> f64 {
            let section = page.split("\n## ").find(|part| part.starts_with(section)).expect(section);
            let line = section.lines().find(|line| line.starts_with(row)).expect(row);
            let cell = line.split('|').nth(column).unwrap().trim().trim_start_matches('+');
            let number = cell.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(cell.len());
            cell[..number].parse().expect(line)
        };
        let tracing = [
            // What two machines had, and what lies between them.
            ("150 to 300 ns", 212.0, measured("Added to each fsync", "| fsynctop, tracepoint", 2)),
            ("10 to 40 ns", 21.0, measured("Added to each system call", "| fsynctop, tracepoint", 2)),
            ("80 ns", 80.0, measured("Added to each write", "| neighbour, write |", 5)),
            ("25 MB", 25.0, measured("fsynctop itself", "| fsynctop | 10 |", 4)),
            ("46 MB", 46.0, measured("fsynctop itself", "| fsynctop | 10 |", 6)),
            ("0.2 to 0.4 %", 0.3, measured("fsynctop itself", "| 9999 |", 2)),
        ];
        let live = [("1 to 6 %", 3.0, measured("fsynctop itself", "| 50000, in the live view", 2))];
        let explain = [("400 ns", 400.0, measured("The wait probes", "| the same as `explain` has them", 4))];
        let check = [("46 MB", 46.0, measured("fsynctop itself", "| fsynctop | 10 |", 6))];
        let texts = [
            (&tracing::TRACING[..], &tracing[..]),
            (&[tracing::LIVE], &live),
            (&[tracing::WAITS], &explain),
            (untraced::CHECK.costs, &check),
        ];
        for (text, figures) in texts {
            for (figure, said, measured) in figures {
                assert!(text.iter().any(|text| text.contains(figure)), "no {figure} in {text:?}");
                assert!(
                    (0.5..=2.0).contains(&(said / measured)),
                    "{figure} is said, {measured} was measured"
                );
            }
        }
    }
}
