//! A profile: one file of TOML that says what is known of an engine. What views need of it is the
//! [`Engine`]; the rest is for those who ask that engine, audit it, or write the page about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::rule::{self, Check, Rule, RuleText};
use super::source::{self, Complaint};
use crate::model::{Datadir, Engine, Processes, Role, Threshold, Words};
use crate::sync_cost::plan::{Method, Pattern};

/// The kernel keeps so much of a process's name (TASK_COMM_LEN without its NUL).
pub(super) const COMM_LENGTH: usize = 15;
/// Names of one engine's processes.
pub(super) const MOST_COMMANDS: usize = 4;
pub(super) const LONGEST_NAME: usize = 32;
/// As long as the name of a class with its packages may sensibly be.
pub(super) const LONGEST_CLASS: usize = 128;
/// A title.
const LONGEST_TITLE: usize = 64;

#[derive(Clone, Debug)]
pub struct Profile {
    pub engine: Arc<Engine>,
    /// In a sentence or two: what it is that is synced here.
    pub about: String,
    /// Names of sets of rules, or of other engines, whose rules hold as well, after its own.
    pub(super) rules_of: Vec<String>,
    pub(super) rules: Vec<Rule>,
    pub calibrate: Option<Standard>,
    pub settings: Vec<Setting>,
    pub counters: Vec<Counter>,
    pub others: Vec<Other>,
}

/// Rules that are there already, as a profile names them.
pub(super) struct Set {
    pub roles: Vec<Role>,
    /// Whose rules belong to it as well.
    pub rules_of: Vec<String>,
}

/// What a filesystem must do to be good enough: `fsynctop calibrate --for`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standard {
    /// As the engine makes its log durable, by default.
    pub method: Method,
    pub pattern: Pattern,
    /// Above this, it is not. None: nobody gives a limit.
    pub p99_seconds: Option<f64>,
    /// What is said of it, in a sentence.
    pub says: String,
    pub source: String,
}

/// A setting on which it hangs what is durable.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub name: String,
    /// The values with which nothing that was acknowledged is lost.
    pub durable: String,
    /// What another value costs.
    pub otherwise: String,
    pub source: String,
}

/// Where the engine itself counts what is traced.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    pub counts: String,
    pub at: String,
    /// Of which versions, where not of all.
    pub versions: Option<String>,
    pub source: String,
}

/// A file that has no role, and what it is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    pub name: String,
    pub what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    name: Spanned<String>,
    title: Spanned<String>,
    #[serde(default)]
    about: String,
    #[serde(default)]
    commands: Vec<Spanned<String>>,
    #[serde(default)]
    main_classes: Vec<Spanned<String>>,
    #[serde(default)]
    processes: Processes,
    #[serde(default)]
    datadir: Datadir,
    #[serde(default)]
    serial: Vec<Spanned<Role>>,
    words: Option<Words>,
    #[serde(default)]
    rules_of: Vec<Spanned<String>>,
    #[serde(default)]
    threshold: Vec<Spanned<Threshold>>,
    calibrate: Option<Standard>,
    #[serde(default)]
    setting: Vec<Setting>,
    #[serde(default)]
    counter: Vec<Counter>,
    #[serde(default)]
    other: Vec<Other>,
    #[serde(default)]
    rule: Vec<Spanned<RuleText>>,
}

impl Profile {
    /// `known`: the rules of a set or an engine that are there already.
    pub(super) fn parse(
        text: &str,
        check: Check,
        known: &dyn Fn(&str) -> Option<Set>,
    ) -> Result<Profile, Complaint> {
        let profile: ProfileText = toml::from_str(text).map_err(|error| source::complaint(&error))?;
        let name = valid_name(profile.name)?;
        let title = valid_text(profile.title)?;
        for (names, what) in [(&profile.commands, "commands"), (&profile.main_classes, "main classes")] {
            if let Some(one) = names.get(MOST_COMMANDS) {
                return Err((one.span().start, format!("an engine has at most {MOST_COMMANDS} {what}")));
            }
        }
        let commands = profile.commands.into_iter().map(valid_command).collect::<Result<Vec<_>, _>>()?;
        let main_classes = profile.main_classes.into_iter().map(valid_class).collect::<Result<_, _>>()?;
        let rules = rule::of_profile(profile.rule, check)?;
        let mut roles: BTreeSet<Role> = rules.iter().map(|rule| rule.role).collect();
        let mut rules_of = Vec::new();
        for set in profile.rules_of {
            let at = set.span().start;
            let name = set.into_inner();
            let set = known(&name).ok_or_else(|| (at, format!("there are no rules of {name:?}")))?;
            roles.extend(set.roles);
            rules_of.push(name);
            rules_of.extend(set.rules_of);
        }
        let mut serial: Vec<Role> = Vec::new();
        for role in profile.serial {
            let at = role.span().start;
            let role = role.into_inner();
            if !role.is_serial() || serial.contains(&role) || !roles.contains(&role) {
                let message = format!(
                    "`serial` names logs that a rule leads to, each once: {} is none, or stands there before",
                    role.name()
                );
                return Err((at, message));
            }
            serial.push(role);
        }
        let words = profile.words.unwrap_or_else(|| Words::of_any(serial.first().copied()));
        let engine = Engine {
            name,
            title,
            commands,
            main_classes,
            processes: profile.processes,
            datadir: profile.datadir,
            serial,
            roles: roles.into_iter().collect(),
            words,
            thresholds: profile.threshold.into_iter().map(valid_threshold).collect::<Result<_, _>>()?,
        };
        let limit = profile.calibrate.as_ref().and_then(|standard| standard.p99_seconds);
        if limit.is_some_and(|seconds| !(seconds > 0.0 && seconds.is_finite())) {
            return Err((0, "`p99_seconds` of [calibrate] is more than zero".to_owned()));
        }
        Ok(Profile {
            engine: Arc::new(engine),
            about: profile.about,
            rules_of,
            rules,
            calibrate: profile.calibrate,
            settings: profile.setting,
            counters: profile.counter,
            others: profile.other,
        })
    }
}

/// It stands in options, labels and JSON.
fn valid_name(name: Spanned<String>) -> Result<String, Complaint> {
    let is_valid = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
    };
    if !is_valid(name.as_ref()) {
        let message =
            format!("an engine's name has up to {LONGEST_NAME} lower-case letters, digits and underscores");
        return Err((name.span().start, message));
    }
    Ok(name.into_inner())
}

fn valid_text(text: Spanned<String>) -> Result<String, Complaint> {
    let is_valid =
        |text: &str| (1..=LONGEST_TITLE).contains(&text.len()) && !text.chars().any(|char| char.is_control());
    if !is_valid(text.as_ref()) {
        let message = format!("a title has up to {LONGEST_TITLE} bytes and no control characters");
        return Err((text.span().start, message));
    }
    Ok(text.into_inner())
}

fn valid_threshold(threshold: Spanned<Threshold>) -> Result<Threshold, Complaint> {
    let Threshold { quantile, seconds, syncs, of, .. } = threshold.as_ref();
    // Half of all syncs, and a day: beyond that, a number was mistyped.
    let is_valid = (0.5..=1.0).contains(quantile) && *seconds > 0.0 && *seconds <= 86_400.0;
    if !is_valid {
        let message = "a threshold is of a quantile from 0.5 to 1, and of more than zero seconds up to a day";
        return Err((threshold.span().start, message.to_owned()));
    }
    let is_named = matches!((syncs, of), (1, None) | (2, Some(_)));
    if !is_named || (*syncs == 2 && threshold.as_ref().is_of_the_longest()) {
        let message = "a threshold of what takes several syncs has `syncs = 2`, `of`, and a quantile below 1";
        return Err((threshold.span().start, message.to_owned()));
    }
    Ok(threshold.into_inner())
}

fn valid_command(command: Spanned<String>) -> Result<String, Complaint> {
    if !(1..=COMM_LENGTH).contains(&command.as_ref().len()) || command.as_ref().contains('\0') {
        let message =
            format!("a command is what the kernel keeps of a process's name: 1 to {COMM_LENGTH} bytes");
        return Err((command.span().start, message));
    }
    Ok(command.into_inner())
}

fn valid_class(class: Spanned<String>) -> Result<String, Complaint> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'$');
    let name = class.as_ref();
    if !(1..=LONGEST_CLASS).contains(&name.len()) || !name.bytes().all(is_part) {
        let message = format!("a main class is a name with its packages, of up to {LONGEST_CLASS} bytes");
        return Err((class.span().start, message));
    }
    Ok(class.into_inner())
}
