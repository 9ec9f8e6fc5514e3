//! Which role a file has, by the rules. Pure: the first bytes come from the caller, and only when a rule
//! asks.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::engine::engines::Engines;
use crate::engine::rule::{Content, Rule, Setting, SettingNames};
use crate::engine::rules::Rules;
use crate::model::{Engine, Role};
use crate::server::what::roles::Roles;
use crate::server::what::settings::Settings;

/// A file whose role is wanted.
pub struct Candidate<'a> {
    /// Inside the server's own root; any bytes.
    pub path: &'a Path,
    pub is_directory: bool,
    /// The server's. None: not known, or none; then all engines' rules are tried, in a fixed order.
    pub engine: Option<&'a Engine>,
    pub settings: &'a Settings,
    /// At most [`FIRST_BYTES`](crate::engine::rule::FIRST_BYTES) of them; None where the file cannot be
    /// read. Called once at most, and only if a rule asks for them whose other conditions hold and before
    /// which none decides.
    pub first_bytes: &'a dyn Fn() -> Option<Vec<u8>>,
}

impl Rules {
    /// The role by the first rule that holds; a directory or another file if none does.
    pub fn classify(&self, candidate: &Candidate<'_>) -> Role {
        let first_bytes = OnceCell::new();
        let content =
            || -> &[u8] { first_bytes.get_or_init(|| (candidate.first_bytes)().unwrap_or_default()) };
        let name = candidate.path.file_name().unwrap_or_default().as_bytes();
        let (name_matches, path_matches) = (self.names.matches(name), OnceCell::new());
        let path = candidate.path.as_os_str().as_bytes();
        let is_about = self.about(candidate.engine);
        let mut by_name = (0..self.rules.len())
            .filter(|&at| is_about(&self.rules[at]))
            .filter(|&at| name_matches(at) && path_matches.get_or_init(|| self.paths.matches(path))(at));
        let by_rule =
            by_name.find(|&at| self.rules[at].holds(candidate, &content)).map(|at| self.rules[at].role);
        by_rule.unwrap_or(if candidate.is_directory { Role::Directory } else { Role::Other })
    }
}

impl Roles for Rules {
    fn engines(&self) -> Arc<Engines> {
        Rules::engines(self).clone()
    }

    fn engine(&self, command: &str, version: Option<&str>) -> Option<Arc<Engine>> {
        self.engines().of_server(command, version)
    }

    fn settings(&self) -> &BTreeSet<String> {
        Rules::settings(self)
    }

    fn is_redo(&self, path: &Path, engine: Option<&Engine>, settings: &Settings) -> bool {
        let candidate = Candidate { path, is_directory: false, engine, settings, first_bytes: &|| None };
        self.classify(&candidate) == Role::Redo
    }
}

impl Rule {
    /// Whether the conditions hold beside name and path. Cheap ones first: the content may cost a read.
    fn holds<'c>(&self, candidate: &Candidate<'_>, content: &impl Fn() -> &'c [u8]) -> bool {
        self.directory == candidate.is_directory
            && self.setting.as_ref().is_none_or(|setting| setting.names(candidate.path, candidate.settings))
            && self.content.iter().all(|expected| expected.is_in(content()))
    }
}

impl Content {
    fn is_in(&self, first_bytes: &[u8]) -> bool {
        first_bytes.get(self.offset..).is_some_and(|bytes| bytes.starts_with(&self.bytes))
    }
}

impl Setting {
    fn names(&self, path: &Path, settings: &Settings) -> bool {
        match self.names {
            SettingNames::FileList => settings.file_list(&self.name).iter().any(|file| file == path),
            SettingNames::File => settings.paths(&self.name).iter().any(|file| file == path),
            SettingNames::Directory => {
                settings.paths(&self.name).iter().any(|dir| path.parent() == Some(dir))
            }
            SettingNames::Tree => {
                settings.paths(&self.name).iter().any(|dir| path != dir && path.starts_with(dir))
            }
            SettingNames::Base => {
                let Some(rest_pattern) = &self.rest else { return false };
                settings.paths(&self.name).iter().any(|base| {
                    base_names(base).any(|base_name| {
                        path.parent() == base.parent()
                            && path
                                .file_name()
                                .and_then(|name| name.as_bytes().strip_prefix(base_name.as_bytes()))
                                .is_some_and(|rest| rest_pattern.is_match(rest))
                    })
                })
            }
        }
    }
}

/// A log's base name as it was given and without its extension, which servers replace: the first dot begins
/// it.
fn base_names(base: &Path) -> impl Iterator<Item = &OsStr> {
    let name = base.file_name().unwrap_or_default();
    let stem = name.as_bytes().iter().skip(1).position(|&b| b == b'.').map(|at| &name.as_bytes()[..=at]);
    std::iter::once(name).chain(stem.map(OsStr::from_bytes)).filter(|name| !name.is_empty())
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
