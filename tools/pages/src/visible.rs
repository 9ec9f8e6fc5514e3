//! The command line without what the help hides: actions and options that only keep something working. The
//! generators of clap write them down all the same.

use clap::Command;

/// As a user sees it, with the names that clap works out filled in.
pub fn built(command: Command) -> Command {
    let mut command = visible(&command).disable_help_subcommand(true);
    command.build();
    command
}

fn visible(command: &Command) -> Command {
    let mut seen = Command::new(command.get_name().to_owned())
        .args_conflicts_with_subcommands(command.is_args_conflicts_with_subcommands_set())
        .disable_help_flag(command.is_disable_help_flag_set())
        .disable_version_flag(command.is_disable_version_flag_set());
    if let Some(version) = command.get_version() {
        seen = seen.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        seen = seen.about(about.clone());
    }
    if let Some(about) = command.get_long_about() {
        seen = seen.long_about(about.clone());
    }
    if let Some(name) = command.get_subcommand_value_name() {
        seen = seen.subcommand_value_name(name.to_owned());
    }
    if let Some(heading) = command.get_subcommand_help_heading() {
        seen = seen.subcommand_help_heading(heading.to_owned());
    }
    let options = command.get_arguments().filter(|option| !option.is_hide_set());
    // What `-h` leaves out is not hidden.
    let seen = seen.args(options.map(|option| option.clone().hide_short_help(false)));
    seen.subcommands(command.get_subcommands().filter(|action| !action.is_hide_set()).map(visible))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn what_is_hidden_is_gone_and_the_rest_is_whole() {
        let hidden = fsynctop::cli::command();
        let command = built(fsynctop::cli::command());
        command.clone().debug_assert();
        let name = |command: &Command, name: &str| command.find_subcommand(name).is_some();
        assert!(name(&hidden, "exporter-web") && !name(&command, "exporter-web"));
        let all = hidden.get_subcommands().filter(|action| !action.is_hide_set());
        for action in all {
            let shown = command
                .find_subcommand(action.get_name())
                .unwrap_or_else(|| panic!("{} is gone", action.get_name()));
            let ids = |command: &Command| -> Vec<String> {
                let options = command.get_arguments().filter(|option| !option.is_hide_set());
                let ids = options.map(|option| option.get_id().to_string());
                ids.filter(|id| id != "help").collect()
            };
            assert_eq!(ids(action), ids(shown));
            assert!(shown.get_arguments().all(|option: &Arg| !option.is_hide_set()));
        }
        let stuck = command.find_subcommand("stuck").unwrap();
        assert!(stuck.get_arguments().all(|option| option.get_long() != Some("json")), "an old form");
    }
}
