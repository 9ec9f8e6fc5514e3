//! Which files were read and what each setting is, for `fsynctop check`.

use super::config::{Configuration, Overruled, Setting};
use crate::host::Verdict;
use crate::text::{counted, escape};

const NAME: &str = "configuration";

/// A line for each file and for each setting in them. `given`: whether an option of `check` itself was given.
pub(in super::super) fn verdicts(
    configuration: &Configuration,
    given: &dyn Fn(&str) -> bool,
) -> Vec<Verdict> {
    if configuration.files.is_empty() {
        return vec![Verdict::ok(NAME, "none is read (--no-config)")];
    }
    let files = configuration.files.iter().map(|file| {
        let path = escape(file.path.as_os_str().as_encoded_bytes());
        let found = match file.settings {
            Some(settings) => counted(settings as u64, "setting", "settings"),
            None => "not there".to_owned(),
        };
        Verdict::ok(NAME, format!("{path}: {found}"))
    });
    let settings = configuration.settings.iter().map(|setting| setting_line(configuration, setting, given));
    files.chain(settings.map(|line| Verdict::ok(NAME, line))).collect()
}

/// `comm = "mysqld", from /etc/fsynctop/fsynctop.toml:3`, and what it stands before or behind.
fn setting_line(configuration: &Configuration, setting: &Setting, given: &dyn Fn(&str) -> bool) -> String {
    let mut line =
        format!("{} = {}, from {}", setting.key.title(), setting.text, escape(setting.origin().as_bytes()));
    let by_this = |(_, at, path): &&(Setting, _, _)| *at == setting.at && *path == setting.path;
    for (earlier, _, _) in configuration.replaced.iter().filter(by_this) {
        let what =
            if earlier.key == setting.key { String::new() } else { format!("{} of ", earlier.key.title()) };
        line.push_str(&format!(" instead of {what}{}", escape(earlier.origin().as_bytes())));
    }
    // Each action has a command line of its own; what is known here is that of `check`.
    if setting.key.actions.contains(&"check") {
        match Overruled::of(setting.key, given) {
            Some(Overruled::ByOption) => line.push_str("; passed over: the command line says otherwise"),
            Some(Overruled::ByEnvironment) => line.push_str("; passed over: NO_COLOR is set"),
            None => {}
        }
    }
    line
}
