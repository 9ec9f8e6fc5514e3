//! All engines that are known: the user's own profiles, then those that come with the program.

use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use super::members::{Member, Members};
use super::profile::{Profile, Set};
use super::rule::{self, Rule};
use super::source::{self, FileError};
use crate::model::Engine;

/// In the order in which their rules are tried where it is not known which engine a process is. A database
/// of RocksDB or SQLite may be part of any program, so their rules, of the most general names, come last.
const PROFILES: [&str; 10] = [
    include_str!("profiles/mysql.toml"),
    include_str!("profiles/mariadb.toml"),
    include_str!("profiles/postgres.toml"),
    include_str!("profiles/etcd.toml"),
    include_str!("profiles/redis.toml"),
    include_str!("profiles/valkey.toml"),
    include_str!("profiles/kafka.toml"),
    include_str!("profiles/zookeeper.toml"),
    include_str!("profiles/rocksdb.toml"),
    include_str!("profiles/sqlite.toml"),
];
/// Rules that several engines share.
const SHARED: [(&str, &str); 1] = [("innodb", include_str!("rules/innodb.toml"))];
/// Profiles of the user's own.
pub(super) const MOST_OF_A_USER: usize = 16;

static BUILTIN: LazyLock<Arc<Engines>> = LazyLock::new(|| Arc::new(Engines::parse()));

/// Profiles, and the rules that they share.
#[derive(Clone, Debug, Default)]
pub struct Engines {
    profiles: Vec<Profile>,
    /// Also those of an engine whose place a user's profile has taken.
    shared: Vec<(String, Vec<Rule>)>,
}

impl Engines {
    /// Those that come with the program.
    pub fn builtin() -> Arc<Engines> {
        BUILTIN.clone()
    }

    fn parse() -> Engines {
        const TESTED: &str = "it comes with the program and is tested with it";
        let set = |text| rule::of_set(text, rule::unchecked).expect(TESTED);
        let shared = SHARED.map(|(name, text)| (name.to_owned(), set(text))).to_vec();
        let mut engines = Engines { profiles: Vec::new(), shared };
        for text in PROFILES {
            let known = |name: &str| engines.set(name);
            let profile = Profile::parse(text, rule::unchecked, &known).expect(TESTED);
            engines.profiles.push(profile);
        }
        engines
    }

    /// The user's own profiles in front. One with the name of another engine takes its place.
    pub(crate) fn with_user_files(files: &[impl AsRef<Path>]) -> Result<Arc<Engines>, FileError> {
        let mut engines = Engines::builtin();
        for (number, path) in files.iter().enumerate() {
            let path = path.as_ref();
            let text = source::read("profile", path)?;
            let invalid = |complaint| source::invalid(path, &text, complaint);
            if number >= MOST_OF_A_USER {
                return Err(invalid((0, format!("at most {MOST_OF_A_USER} profiles can be read"))));
            }
            let profile = Profile::parse(&text, rule::checked, &|name| engines.set(name)).map_err(invalid)?;
            Arc::make_mut(&mut engines).insert(number, profile).map_err(|message| invalid((0, message)))?;
            // Its patterns are good one by one; whether they are together is to be said with its name.
            rule::patterns(&engines.rules())
                .map_err(|error| invalid((0, format!("the patterns cannot be used together: {error}"))))?;
        }
        Ok(engines)
    }

    fn insert(&mut self, at: usize, profile: Profile) -> Result<(), String> {
        let name = &profile.engine.name;
        if self.shared.iter().any(|(set, _)| set == name) {
            return Err(format!("there are rules called {name:?} already: choose another name"));
        }
        if let Some(before) = self.profiles.iter().position(|known| known.engine.name == *name) {
            // Others may go by its rules.
            self.shared.push((name.clone(), self.profiles.remove(before).rules));
        }
        self.profiles.insert(at, profile);
        Ok(())
    }

    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.engine.name == name)
    }

    pub fn by_name(&self, name: &str) -> Option<Arc<Engine>> {
        self.profile(name).map(|profile| profile.engine.clone())
    }

    /// By what a user calls it: its name, or its title in any spelling (PostgreSQL, postgresql).
    pub(crate) fn called(&self, word: &str) -> Option<Arc<Engine>> {
        let is_title = |profile: &&Profile| profile.engine.title.eq_ignore_ascii_case(word);
        let titled = || self.profiles.iter().find(is_title).map(|profile| profile.engine.clone());
        self.by_name(word).or_else(titled)
    }

    /// The engine of a process by what its main thread is called; a name that any process can give itself.
    pub fn by_command(&self, command: &str) -> Option<Arc<Engine>> {
        let has = |profile: &&Profile| profile.engine.commands.iter().any(|known| known == command);
        self.profiles.iter().find(has).map(|profile| profile.engine.clone())
    }

    /// The engine of a Java process by a word of its command line, which is its own choice as well.
    pub(crate) fn by_main_class(&self, command_line: &[OsString]) -> Option<Arc<Engine>> {
        let is_a_word = |class: &String| command_line.iter().skip(1).any(|word| word == class.as_str());
        let has = |profile: &&Profile| profile.engine.main_classes.iter().any(is_a_word);
        self.profiles.iter().find(has).map(|profile| profile.engine.clone())
    }

    /// From now on a process of this name is this engine's.
    pub(crate) fn add_command(&mut self, engine: &str, command: &str) {
        let profile = self.profiles.iter_mut().find(|profile| profile.engine.name == engine);
        if let Some(profile) =
            profile.filter(|profile| !profile.engine.commands.iter().any(|known| known == command))
        {
            Arc::make_mut(&mut profile.engine).commands.push(command.to_owned());
        }
    }

    /// By what is known of a server: its version, "MariaDB 10.3.39", tells more than its command, "mysqld".
    pub fn of_server(&self, command: &str, version: Option<&str>) -> Option<Arc<Engine>> {
        let product = version.and_then(|version| version.split(' ').next());
        let by_product = |product: &str| self.profiles.iter().find(|profile| profile.engine.title == product);
        let engine = product.and_then(by_product).map(|profile| profile.engine.clone());
        engine.or_else(|| self.by_command(command))
    }

    /// Those that have processes of their own.
    pub(crate) fn with_processes(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.profiles.iter().map(|profile| &profile.engine).filter(|engine| engine.has_processes())
    }

    /// "mysql, mariadb, postgres".
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.profiles.iter().map(|profile| &*profile.engine.name).collect();
        names.join(", ")
    }

    pub(super) fn member(&self, name: &str) -> Option<Member> {
        let at = self.profiles.iter().position(|profile| profile.engine.name == name)?;
        u8::try_from(at).ok().map(Member)
    }

    /// What a profile takes over that goes by the rules of a set or of an engine.
    fn set(&self, name: &str) -> Option<Set> {
        let roles = |rules: &[Rule]| rules.iter().map(|rule| rule.role).collect();
        let shared = self.shared.iter().find(|(set, _)| set == name);
        let shared = shared.map(|(_, rules)| Set { roles: roles(rules), rules_of: Vec::new() });
        shared.or_else(|| {
            let profile = self.profile(name)?;
            Some(Set { roles: profile.engine.roles.clone(), rules_of: profile.rules_of.clone() })
        })
    }

    /// All rules, each with the engines that it is about: of each engine its own before those that it shares.
    pub(super) fn rules(&self) -> Vec<Rule> {
        let mut rules = Vec::new();
        let mut left: Vec<_> = self.shared.iter().collect();
        for (at, profile) in self.profiles.iter().enumerate() {
            let of = Members(1 << at).with(self.sharing(&profile.engine.name));
            rules.extend(profile.rules.iter().map(|rule| rule.about(of)));
            left.retain(|(name, set)| {
                let is_its = profile.rules_of.contains(name);
                if is_its {
                    let of = self.sharing(name);
                    rules.extend(set.iter().map(|rule| rule.about(of)));
                }
                !is_its
            });
        }
        rules
    }

    /// The engines that go by the rules of a set or of another engine.
    fn sharing(&self, name: &str) -> Members {
        let has = |profile: &Profile| profile.rules_of.iter().any(|of| of == name);
        let places = self.profiles.iter().enumerate().filter(|(_, profile)| has(profile));
        Members(places.fold(0, |all, (at, _)| all | 1 << at))
    }
}

#[cfg(test)]
#[path = "engines_tests.rs"]
mod tests;
