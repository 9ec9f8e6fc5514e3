//! The keys of the live view: one table, from which a key's meaning and the help are both taken.

use super::view::View;

/// A key as a terminal sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Press {
    Char(char),
    Ctrl(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    F(u8),
}

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    Help,
    Show(View),
    NextServer,
    PreviousServer,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Back,
    SortLeft,
    SortRight,
    Reverse,
    Filter,
    Pause,
    StepBack,
    StepForward,
    MinuteBack,
    MinuteForward,
    Longer,
    Shorter,
    Cumulative,
    CountFromNow,
    Units,
    Graph,
    TimeOut,
    TimeIn,
    Details,
    Stacks,
    Threads,
    AllWrites,
    Write,
    Mouse,
    Redraw,
    Suspend,
}

/// Where a key stands in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Show,
    Move,
    Table,
    Time,
    Rest,
}

impl Group {
    pub const ALL: [Group; 5] = [Group::Show, Group::Move, Group::Table, Group::Time, Group::Rest];

    pub fn title(self) -> &'static str {
        match self {
            Group::Show => "What is shown",
            Group::Move => "Moving",
            Group::Table => "The table",
            Group::Time => "Time",
            Group::Rest => "Other",
        }
    }
}

/// Keys that do the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub keys: &'static [Press],
    pub action: Action,
    pub group: Group,
    pub help: &'static str,
}

const fn key(keys: &'static [Press], action: Action, group: Group, help: &'static str) -> Binding {
    Binding { keys, action, group, help }
}

use Group::{Move, Rest, Show, Table, Time};
use Press::{Char, Ctrl, F};

/// Every key there is, but for those that mean something else while a filter is typed.
pub(crate) const KEYS: &[Binding] = &[
    key(&[Char('r'), Char('1')], Action::Show(View::Role), Show, "by role: redo log, binary log, …"),
    key(&[Char('f'), Char('2')], Action::Show(View::File), Show, "by file"),
    key(&[Char('t'), Char('3')], Action::Show(View::Thread), Show, "by thread"),
    key(&[Char('s'), Char('4')], Action::Show(View::Server), Show, "by server"),
    key(
        &[Char('n'), Char('5')],
        Action::Show(View::Neighbour),
        Show,
        "neighbours: other processes that sync",
    ),
    key(
        &[Char('l'), Char('6')],
        Action::Show(View::Log),
        Show,
        "log: incidents, syncs that failed, slow ones",
    ),
    key(&[Char('W'), Char('7')], Action::Show(View::Write), Show, "all writes, by file, with their bytes"),
    key(&[Press::Tab], Action::NextServer, Show, "only the next server; after the last, all of them"),
    key(&[Press::BackTab], Action::PreviousServer, Show, "only the previous server"),
    key(&[Char('K')], Action::Stacks, Show, "where stuck syncs wait in the kernel"),
    key(&[Char('d')], Action::Details, Show, "show the selected row's latencies, or more rows"),
    key(&[Char('T')], Action::Threads, Show, "attach again, with or without rows by thread"),
    key(&[Char('A')], Action::AllWrites, Show, "attach again, with or without all writes"),
    key(&[Press::Up, Char('k')], Action::Up, Move, "up"),
    key(&[Press::Down, Char('j')], Action::Down, Move, "down"),
    key(&[Press::PageUp, Ctrl('b'), Char('b')], Action::PageUp, Move, "a page up"),
    key(&[Press::PageDown, Ctrl('f')], Action::PageDown, Move, "a page down"),
    key(&[Press::Home, Char('g')], Action::First, Move, "the first row"),
    key(&[Press::End, Char('G')], Action::Last, Move, "the last row"),
    key(
        &[Press::Enter],
        Action::Open,
        Move,
        "open the row: a server's roles, a role's files, the time of a log entry",
    ),
    key(
        &[Press::Esc, Press::Backspace],
        Action::Back,
        Move,
        "back: close the row, clear the filter, return to live",
    ),
    key(&[Char('<'), Char(',')], Action::SortLeft, Table, "sort by the column to the left"),
    key(&[Char('>'), Char('.')], Action::SortRight, Table, "sort by the column to the right"),
    key(&[Char('R'), Char('I')], Action::Reverse, Table, "reverse the order"),
    key(
        &[Char('/'), Char('&')],
        Action::Filter,
        Table,
        "only rows that contain a text (Tab: that match a regex)",
    ),
    key(&[Char('u')], Action::Units, Table, "unit of latencies: automatic, µs, ms, s"),
    key(&[Char('m')], Action::Graph, Table, "the small graphs: p99, maximum or rate"),
    key(&[Char('c')], Action::Cumulative, Table, "figures of the interval, or since the start"),
    key(&[Char('0')], Action::CountFromNow, Table, "reset: count since now"),
    key(&[Char(' '), Char('p')], Action::Pause, Time, "pause; resume (a recording: play; pause)"),
    key(&[Press::Left], Action::StepBack, Time, "one interval back (ten minutes are kept; a recording, all)"),
    key(&[Press::Right], Action::StepForward, Time, "one interval forward"),
    key(&[Char('{')], Action::MinuteBack, Time, "one minute back"),
    key(&[Char('}')], Action::MinuteForward, Time, "one minute forward"),
    key(&[Char('+'), Char('=')], Action::Longer, Time, "longer intervals (a recording: play faster)"),
    key(&[Char('-')], Action::Shorter, Time, "shorter intervals (a recording: play slower)"),
    key(&[Char('[')], Action::TimeOut, Time, "more time in the heat map"),
    key(&[Char(']')], Action::TimeIn, Time, "less time in the heat map"),
    key(&[Char('w')], Action::Write, Rest, "write the figures shown to a JSON file"),
    key(&[Char('M')], Action::Mouse, Rest, "mouse: used here, or left to the terminal"),
    key(&[Char('?'), Char('h'), F(1)], Action::Help, Rest, "this help"),
    key(&[Ctrl('l')], Action::Redraw, Rest, "redraw the screen"),
    key(&[Ctrl('z')], Action::Suspend, Rest, "suspend"),
    key(&[Char('q'), Ctrl('c'), F(10)], Action::Quit, Rest, "quit"),
];

/// What a key does while a filter is typed; every other character becomes part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditAction {
    Toggle,
    Keep,
    Undo,
    Erase,
    Clear,
}

/// Keys that do the same while a filter is typed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EditBinding {
    pub keys: &'static [Press],
    pub action: EditAction,
    pub help: &'static str,
}

const fn edit(keys: &'static [Press], action: EditAction, help: &'static str) -> EditBinding {
    EditBinding { keys, action, help }
}

pub(crate) const EDIT_KEYS: &[EditBinding] = &[
    edit(&[Press::Tab, Ctrl('r')], EditAction::Toggle, "switch between text and regular expression"),
    edit(&[Press::Enter], EditAction::Keep, "keep the filter"),
    edit(&[Press::Esc], EditAction::Undo, "restore the previous filter"),
    edit(&[Press::Backspace, Ctrl('h')], EditAction::Erase, "erase a character"),
    edit(&[Ctrl('u')], EditAction::Clear, "erase all of it"),
];

pub(crate) fn edit_action(press: Press) -> Option<EditAction> {
    EDIT_KEYS.iter().find(|binding| binding.keys.contains(&press)).map(|binding| binding.action)
}

/// What a key does. None: nothing.
pub fn action(press: Press) -> Option<Action> {
    KEYS.iter().find(|binding| binding.keys.contains(&press)).map(|binding| binding.action)
}

/// The first key of an action, as the help writes it.
pub(crate) fn name_of(action: Action) -> String {
    let binding = KEYS.iter().find(|binding| binding.action == action);
    binding.and_then(|binding| binding.keys.first()).map(|key| key.to_string()).unwrap_or_default()
}

impl std::fmt::Display for Press {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Press::Char(' ') => "Space",
            Press::Char(c) => return write!(f, "{c}"),
            Press::Ctrl(c) => return write!(f, "^{}", c.to_ascii_uppercase()),
            Press::F(n) => return write!(f, "F{n}"),
            Press::Up => "Up",
            Press::Down => "Down",
            Press::Left => "Left",
            Press::Right => "Right",
            Press::PageUp => "PgUp",
            Press::PageDown => "PgDn",
            Press::Home => "Home",
            Press::End => "End",
            Press::Enter => "Enter",
            Press::Esc => "Esc",
            Press::Tab => "Tab",
            Press::BackTab => "Shift-Tab",
            Press::Backspace => "Backspace",
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[track_caller]
    fn each_once<'a>(keys: impl Iterator<Item = &'a Press>) {
        let mut seen = BTreeSet::new();
        keys.for_each(|key| assert!(seen.insert(*key), "{key}"));
    }

    #[test]
    fn no_key_means_two_things_and_no_meaning_stands_twice() {
        each_once(KEYS.iter().flat_map(|binding| binding.keys));
        for (at, binding) in KEYS.iter().enumerate() {
            assert!(!binding.keys.is_empty() && !binding.help.is_empty());
            assert!(
                KEYS[at + 1..].iter().all(|other| other.action != binding.action),
                "{:?}",
                binding.action
            );
        }
    }

    #[test]
    fn no_key_of_the_filter_means_two_things() {
        let keys = EDIT_KEYS.iter().flat_map(|binding| binding.keys);
        assert!(!keys.clone().any(|key| matches!(key, Press::Char(_))), "those are typed");
        each_once(keys);
    }

    #[test]
    fn every_view_has_a_key() {
        for view in View::ALL {
            assert!(KEYS.iter().any(|binding| binding.action == Action::Show(view)), "{view:?}");
        }
    }
}
