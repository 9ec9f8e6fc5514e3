//! `--fail-on`: the verdicts that end an action with a status of their own.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::options::duration;
use crate::model::{Server, ServerId};
use crate::verdict::{State, Thresholds, Verdicts};

/// `stalled`, `stalled=5s`, `failing`, `slow=50ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Condition {
    pub state: State,
    /// From when on; None: by default.
    pub threshold: Option<Duration>,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Condition, String> {
        const STATES: [State; 4] = [State::Stalled, State::Failing, State::Slow, State::Unknown];
        let (name, threshold) = match text.split_once('=') {
            Some((name, threshold)) => (name, Some(duration(threshold)?)),
            None => (text, None),
        };
        let state = STATES.into_iter().find(|state| state.name() == name);
        let state = state.ok_or("stalled, failing, slow or unknown is expected; stalled and slow may have a threshold, as in stalled=5s")?;
        match (state, threshold) {
            (State::Failing | State::Unknown, Some(_)) => Err(format!("{name} has no threshold")),
            _ => Ok(Condition { state, threshold }),
        }
    }
}

/// Of those, what can be said without tracing.
pub(crate) fn stalled(text: &str) -> Result<Condition, String> {
    match text.parse()? {
        condition @ Condition { state: State::Stalled, .. } => Ok(condition),
        _ => Err("only stalled can be told without tracing; `fsynctop once` knows the others".into()),
    }
}

/// A state alone: whoever judges has thresholds of its own.
pub(crate) fn state(text: &str) -> Result<State, String> {
    match text.parse()? {
        Condition { state, threshold: None } => Ok(state),
        Condition { state, .. } => Err(format!("{} has the threshold of whoever judges", state.name())),
    }
}

/// The default ones, but for what the conditions say.
pub(crate) fn thresholds(conditions: &[Condition]) -> Thresholds {
    let given = |state| conditions.iter().filter(|one| one.state == state).find_map(|one| one.threshold);
    let default = Thresholds::default();
    Thresholds {
        stalled: given(State::Stalled).unwrap_or(default.stalled),
        slow: given(State::Slow).unwrap_or(default.slow),
        ..default
    }
}

pub(crate) fn states(conditions: &[Condition]) -> Vec<State> {
    conditions.iter().map(|condition| condition.state).collect()
}

/// Servers as the metrics call them.
pub(crate) fn names(servers: &[Arc<Server>]) -> BTreeMap<ServerId, String> {
    servers.iter().map(|server| (server.id, server.name.to_string())).collect()
}

/// The verdicts that are conditions, as lines.
pub(crate) fn lines(verdicts: &Verdicts, states: &[State], name: impl Fn(ServerId) -> String) -> Vec<String> {
    let met = verdicts.servers.iter().filter(|verdict| states.contains(&verdict.state));
    met.map(|verdict| {
        let sentence = verdict.sentence();
        format!("{} is {}. {sentence}", name(verdict.server), verdict.state.name())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_a_state_and_may_have_a_threshold() {
        let parsed = |text: &str| text.parse::<Condition>();
        let threshold = Some(Duration::from_millis(50));
        assert_eq!(parsed("slow=50ms"), Ok(Condition { state: State::Slow, threshold }));
        assert_eq!(parsed("failing"), Ok(Condition { state: State::Failing, threshold: None }));
        for bad in ["", "ok", "failing=5s", "stalled=", "stalled=soon", "stalled=0", "Stalled"] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
        assert!(stalled("stalled=5s").is_ok() && stalled("slow").is_err());
    }

    #[test]
    fn thresholds_are_the_default_ones_but_for_what_is_said() {
        let conditions = ["stalled=2s", "slow"].map(|text| text.parse().unwrap());
        let default = Thresholds::default();
        let expected = Thresholds { stalled: Duration::from_secs(2), ..default };
        assert_eq!(thresholds(&conditions), expected);
        assert_eq!(thresholds(&[]), default);
    }
}
