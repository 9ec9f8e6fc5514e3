//! One rule that assigns a role, as data, and how it is read.

use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;
use toml::Spanned;

use super::members::Members;
use super::source::{self, Complaint};
use crate::model::Role;

/// How many of a file's first bytes a rule can look at.
pub(crate) const FIRST_BYTES: usize = 4096;
/// More rules than this in one file are no rules but a mistake.
pub(super) const MOST_RULES: usize = 512;

/// The patterns of all rules, matched in one pass: a server may open thousands of files in a second.
#[derive(Clone, Debug)]
pub(crate) struct Patterns {
    set: RegexSet,
    /// By rule: its pattern's place in the set. A rule without one matches everything.
    places: Vec<Option<usize>>,
}

/// All conditions of a rule must hold.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub role: Role,
    /// Whose files it is about. None: any process's.
    pub of: Option<Members>,
    /// Whether it also holds where it is not known which engine a process is.
    pub guess: bool,
    /// Matched with those of all rules, in one pass.
    name: Option<String>,
    path: Option<String>,
    pub directory: bool,
    pub setting: Option<Setting>,
    pub content: Vec<Content>,
}

impl Rule {
    /// The same of these engines' files alone.
    pub(super) fn about(&self, members: Members) -> Rule {
        Rule { of: Some(members), ..self.clone() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub name: String,
    pub names: SettingNames,
    pub rest: Option<Regex>,
}

/// How a setting's value relates to the file's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettingNames {
    /// The file itself.
    File,
    /// What its path begins with; `rest` matches what follows. An extension of the value is ignored, as
    /// servers do.
    Base,
    /// The directory in which it stands directly.
    Directory,
    /// A directory above it.
    Tree,
    /// One file of a list such as innodb_data_file_path.
    FileList,
}

/// Bytes at an offset.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub offset: usize,
    pub bytes: Vec<u8>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    role: Role,
    /// In a file of rules alone: a profile's are about its own engine.
    engine: Option<Spanned<String>>,
    #[serde(default = "yes")]
    guess: bool,
    name: Option<Spanned<String>>,
    path: Option<Spanned<String>>,
    #[serde(default)]
    directory: bool,
    setting: Option<String>,
    setting_names: Option<SettingNames>,
    rest: Option<Spanned<String>>,
    #[serde(default)]
    content: Vec<Spanned<ContentText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ContentText {
    #[serde(default)]
    offset: usize,
    /// Exactly one of the two.
    text: Option<String>,
    hex: Option<String>,
}

fn yes() -> bool {
    true
}

/// Says what is wrong with a pattern of a name or a path, which is otherwise compiled with all others only.
pub(super) type Check = fn(&str) -> Result<(), regex::Error>;

/// Patterns that come with the program are compiled, and tested, all together only.
pub(super) fn unchecked(_: &str) -> Result<(), regex::Error> {
    Ok(())
}

pub(super) fn checked(pattern: &str) -> Result<(), regex::Error> {
    regex(pattern).map(drop)
}

/// A file that has rules and nothing else.
pub(super) fn of_set(text: &str, check: Check) -> Result<Vec<Rule>, Complaint> {
    let file: RulesFile = toml::from_str(text).map_err(|error| source::complaint(&error))?;
    of_profile(file.rule, check)
}

/// Those of a profile, which are about its own engine: none may name one.
pub(super) fn of_profile(rules: Vec<Spanned<RuleText>>, check: Check) -> Result<Vec<Rule>, Complaint> {
    let not_here = |_: &str| Err("a profile's rules are about its own engine: leave `engine` out".to_owned());
    compile_all(rules, check, &not_here)
}

/// The user's own file, whose rules may name engines.
pub(super) fn of_file(text: &str, members: ByName) -> Result<Vec<Rule>, Complaint> {
    let file: RulesFile = toml::from_str(text).map_err(|error| source::complaint(&error))?;
    compile_all(file.rule, checked, members)
}

type ByName<'a> = &'a dyn Fn(&str) -> Result<Members, String>;

fn compile_all(rules: Vec<Spanned<RuleText>>, check: Check, members: ByName) -> Result<Vec<Rule>, Complaint> {
    if let Some(first_too_many) = rules.get(MOST_RULES) {
        return Err((first_too_many.span().start, format!("there are more than {MOST_RULES} rules")));
    }
    rules.into_iter().map(|rule| compile(rule, check, members)).collect()
}

fn compile(rule: Spanned<RuleText>, check: Check, members: ByName) -> Result<Rule, Complaint> {
    let at = rule.span().start;
    let text = rule.into_inner();
    let of = text.engine.map(|name| members(name.as_ref()).map_err(|message| (name.span().start, message)));
    let content = text.content.into_iter().map(compile_content).collect::<Result<Vec<_>, _>>()?;
    let rest = text.rest.map(|text| pattern(text, regex)).transpose()?;
    let setting = match (text.setting, text.setting_names) {
        (Some(name), Some(names)) => {
            if (names == SettingNames::Base) != rest.is_some() {
                let message = "`rest` belongs to `setting_names = \"base\"` and to no other";
                return Err((at, message.to_owned()));
            }
            Some(Setting { name: name.replace('-', "_"), names, rest })
        }
        (None, None) if rest.is_none() => None,
        _ => {
            let message = "`setting` needs `setting_names` (file, base, directory, tree or file_list), \
                           and `setting_names` and `rest` need `setting`";
            return Err((at, message.to_owned()));
        }
    };
    let checked = |text| pattern(text, |pattern| check(pattern).map(|()| pattern.to_owned()));
    let rule = Rule {
        role: text.role,
        of: of.transpose()?,
        guess: text.guess,
        name: text.name.map(checked).transpose()?,
        path: text.path.map(checked).transpose()?,
        directory: text.directory,
        setting,
        content,
    };
    if rule.name.is_none() && rule.path.is_none() && rule.setting.is_none() && rule.content.is_empty() {
        let message = "a rule needs at least one of `name`, `path`, `setting` and `content`";
        return Err((at, message.to_owned()));
    }
    Ok(rule)
}

/// Those of the names and those of the paths. An error: they cannot be used together.
pub(super) fn patterns(rules: &[Rule]) -> Result<[Patterns; 2], regex::Error> {
    let names = Patterns::new(rules.iter().map(|rule| rule.name.as_deref()))?;
    let paths = Patterns::new(rules.iter().map(|rule| rule.path.as_deref()))?;
    Ok([names, paths])
}

impl Patterns {
    fn new<'a>(patterns: impl Iterator<Item = Option<&'a str>> + Clone) -> Result<Patterns, regex::Error> {
        let set = RegexSetBuilder::new(patterns.clone().flatten())
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(8 << 20)
            .build()?;
        let mut next = 0..;
        let places = patterns.map(|pattern| pattern.and_then(|_| next.next())).collect();
        Ok(Patterns { set, places })
    }

    /// Whether a rule, by its place, matches the text.
    pub(crate) fn matches(&self, text: &[u8]) -> impl Fn(usize) -> bool {
        let matched = self.set.matches(text);
        move |rule| self.places[rule].is_none_or(|place| matched.matched(place))
    }
}

/// A pattern over raw bytes that must match the whole of them.
fn pattern<T>(text: Spanned<String>, make: impl Fn(&str) -> Result<T, regex::Error>) -> Result<T, Complaint> {
    let complain = |error| format!("the pattern {:?} cannot be used: {error}", text.as_ref());
    make(&format!("^(?:{})$", text.as_ref())).map_err(|error| (text.span().start, complain(error)))
}

fn regex(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).dot_matches_new_line(true).size_limit(1 << 20).build()
}

fn compile_content(content: Spanned<ContentText>) -> Result<Content, Complaint> {
    let at = content.span().start;
    let complain = |message: &str| (at, message.to_owned());
    let content = content.into_inner();
    let bytes = match (content.text, content.hex) {
        (Some(text), None) => text.into_bytes(),
        (None, Some(hex)) => {
            unhex(&hex).ok_or_else(|| complain("`hex` is pairs of hexadecimal digits: \"fe 62 69 6e\""))?
        }
        _ => return Err(complain("`content` needs either `text` or `hex`")),
    };
    if bytes.is_empty() || content.offset.saturating_add(bytes.len()) > FIRST_BYTES {
        return Err(complain("`content` lies within the first 4096 bytes of the file and is not empty"));
    }
    Ok(Content { offset: content.offset, bytes })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != ' ').map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks(2);
    pairs.map(|pair| (pair.len() == 2).then(|| (pair[0] << 4 | pair[1]) as u8)).collect()
}
