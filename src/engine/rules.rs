//! The rules that assign roles: those of the user's own file first, then those of the engines' profiles.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::engines::Engines;
use super::members::Members;
use super::rule::{self, Patterns, Rule};
use super::source::{self, Complaint, FileError};
use crate::model::Engine;

/// The rules in their order: the first that holds decides.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
    pub(crate) names: Patterns,
    pub(crate) paths: Patterns,
    /// The server's settings that rules ask for.
    settings: BTreeSet<String>,
    engines: Arc<Engines>,
}

impl Rules {
    /// The rules that come with the program.
    pub fn builtin() -> Rules {
        Rules::of_engines(Engines::builtin(), None)
            .expect("they come with the program and are tested with it")
    }

    /// Those of a file of the user's in front.
    #[cfg(test)]
    pub(crate) fn with_user_file(path: &Path) -> Result<Rules, FileError> {
        Rules::of_engines(Engines::builtin(), Some(path))
    }

    /// The engines' rules, and those of a file of the user's in front of them.
    pub(crate) fn of_engines(engines: Arc<Engines>, user_file: Option<&Path>) -> Result<Rules, FileError> {
        let Some(path) = user_file else {
            let rules = engines.rules();
            return Ok(Rules::new(rules, engines).expect("each profile was compiled before"));
        };
        let text = source::read("rules file", path)?;
        let invalid = |complaint| source::invalid(path, &text, complaint);
        // One by one, so that a mistake is named with its line.
        let mut rules = of_file(&text, &engines).map_err(invalid)?;
        rules.extend(engines.rules());
        Rules::new(rules, engines)
            .map_err(|error| invalid((0, format!("the patterns cannot be used together: {error}"))))
    }

    fn new(rules: Vec<Rule>, engines: Arc<Engines>) -> Result<Rules, regex::Error> {
        let [names, paths] = rule::patterns(&rules)?;
        let settings = rules.iter().filter_map(|rule| Some(rule.setting.as_ref()?.name.clone())).collect();
        Ok(Rules { rules, names, paths, settings, engines })
    }

    /// The names of the server's settings that rules ask for.
    pub fn settings(&self) -> &BTreeSet<String> {
        &self.settings
    }

    pub fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    /// Which rules are about files of such a server. None: it is not known which engine it is, if any.
    pub(crate) fn about(&self, engine: Option<&Engine>) -> impl Fn(&Rule) -> bool {
        let member = engine.and_then(|engine| self.engines.member(&engine.name));
        move |rule| match (rule.of, member) {
            (None, _) => true,
            (Some(members), Some(member)) => members.has(member),
            (Some(_), None) => rule.guess,
        }
    }
}

fn of_file(text: &str, engines: &Engines) -> Result<Vec<Rule>, Complaint> {
    let members = |name: &str| {
        let member = engines.member(name).map(Members::of);
        member.ok_or_else(|| format!("there is no engine {name:?}: there are {}", engines.names()))
    };
    rule::of_file(text, &members)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    fn complaint(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, text).unwrap();
        let message = Rules::with_user_file(&path).unwrap_err().to_string();
        message.strip_prefix(path.to_str().unwrap()).unwrap().to_owned()
    }

    #[test]
    fn a_mistake_in_the_users_file_is_named_with_its_line() {
        for (text, start) in [
            ("\n\n[[rule]]\nrole = \"redoo\"\nname = 'x'\n", ":4: unknown variant `redoo`"),
            ("[[rule]]\nrole = \"redo\"\nname = '('\n", ":3: the pattern \"(\" cannot be used"),
            ("[[rule]]\nrole = \"redo\"\nnane = 'x'\n", ":3: unknown field `nane`"),
            (
                "[[rule]]\nrole = \"redo\"\nname = 'x'\n\n[[rule]]\nrole = \"redo\"\n",
                ":5: a rule needs at least",
            ),
            ("[[rule]]\nrole = \"redo\"\nsetting = \"x\"\n", ":1: `setting` needs"),
            ("[[rule]]\nrole = \"redo\"\nrest = 'x'\nname = 'x'\n", ":1: `setting` needs"),
            ("[[rule]]\nrole = \"redo\"\nsetting=\"x\"\nsetting_names = \"base\"\n", ":1: `rest` belongs"),
            ("[[rule]]\nrole = \"redo\"\ncontent = [\n{ hex = \"f\" }]\n", ":4: `hex` is pairs"),
            (
                "[[rule]]\nrole = \"redo\"\ncontent = [{ offset = 4095, text = \"ab\" }]\n",
                ":3: `content` lies",
            ),
            ("[[rule]]\nrole = \"redo\"\ncontent = [{ offset = 1 }]\n", ":3: `content` needs"),
            (
                "[[rule]]\nrole = \"redo\"\nengine = \"oracle\"\nname = 'x'\n",
                ":3: there is no engine \"oracle\": there are mysql, mariadb, postgres,",
            ),
            ("role = 1\n", ":1: unknown field `role`"),
            ("[[rule]\n", ":1: "),
        ] {
            let message = complaint(text);
            assert!(message.starts_with(start), "{message:?} should start with {start:?}");
        }
    }

    #[test]
    fn every_role_that_is_known_by_a_name_has_a_rule() {
        let rules = Rules::builtin();
        for role in Role::ALL.into_iter().filter(|role| !matches!(role, Role::Directory | Role::Other)) {
            assert!(rules.rules.iter().any(|rule| rule.role == role), "no rule leads to {role:?}");
        }
    }

    #[test]
    fn the_documentation_explains_every_role() {
        let documentation = include_str!("../../docs/roles.md");
        for role in Role::ALL {
            assert!(documentation.contains(&format!("\n| `{}` |", role.name())), "{}", role.name());
        }
    }

    #[test]
    fn the_example_is_that_of_the_documentation() {
        let example = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/roles.toml"));
        let builtin = Rules::builtin().rules.len();
        assert_eq!(Rules::with_user_file(example).unwrap().rules.len(), builtin + 2);
        let text = std::fs::read_to_string(example).unwrap();
        let (_, rules) = text.split_once("\n\n").unwrap();
        assert!(include_str!("../../docs/roles.md").contains(&format!("```toml\n{rules}```")), "{rules}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let message = Rules::with_user_file(Path::new("/no/such/rules.toml")).unwrap_err().to_string();
        assert!(message.starts_with("cannot read the rules file /no/such/rules.toml: "), "{message}");
    }
}
