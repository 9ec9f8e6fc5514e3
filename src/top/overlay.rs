//! What covers the table until it is closed: the help, and where stuck syncs wait in the kernel.

use super::keys::{Action, EDIT_KEYS, Group, KEYS, Press};
use super::palette::Ink;
use super::stuck::{self, Stuck};
use crate::render::Style;
use crate::text::{absence, width};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Help,
    Stacks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlay {
    pub topic: Topic,
    /// The number of its lines above the screen.
    pub offset: usize,
}

impl Overlay {
    pub fn of(topic: Topic) -> Overlay {
        Overlay { topic, offset: 0 }
    }

    /// What a key makes of it: scrolls it, changes the topic or closes it. It may be beyond its end then.
    pub fn after(self, action: Action, page: usize) -> Option<Overlay> {
        let offset = match (action, self.topic) {
            (Action::Up, _) => self.offset.saturating_sub(1),
            (Action::Down, _) => self.offset.saturating_add(1),
            (Action::PageUp, _) => self.offset.saturating_sub(page),
            (Action::PageDown | Action::Pause, _) => self.offset.saturating_add(page),
            (Action::First, _) => 0,
            (Action::Last, _) => usize::MAX,
            (Action::Help, Topic::Stacks) => return Some(Overlay::of(Topic::Help)),
            (Action::Stacks, Topic::Help) => return Some(Overlay::of(Topic::Stacks)),
            _ => return None,
        };
        Some(Overlay { offset, ..self })
    }
}

const ABOUT: [&str; 10] = [
    "BUSY: the share of the time during which a log was being synced; the server syncs each log one call at a time, so at",
    "80 % commits begin to queue. IN FLIGHT: the mean number of syncs under way; `1 STUCK`: one has been under way for",
    "longer than --stuck-after. MAX with ≤: an upper bound. SHARED: on a device that the servers use, too.",
    "0 lost: every one of the watched calls was counted, and that was checked; `fsynctop check` lists the ways to make data",
    "durable that are not watched, such as msync.",
    "The small graphs: one bar per interval, the newest to the right; every row has its own scale. The heat map: time from",
    "left to right, latency from bottom to top; a line holds latencies from its label up to the label above. The legend",
    "says how many syncs a shade stands for; the bars to the right count the interval shown. ! in both: a sync failed then.",
    "A column of ║: a sync was in flight for the whole interval, and had taken as long by its end as the column is high.",
    "The log has one entry for a file and interval, with the latency of its slowest sync.",
];

/// From the table of the keys.
pub fn help(style: &Style, columns: usize) -> Vec<(String, Ink)> {
    let mut lines = Vec::new();
    let names = |keys: &[Press]| keys.iter().map(|key| key.to_string()).collect::<Vec<_>>().join(" ");
    let all = KEYS.iter().map(|binding| binding.keys).chain(EDIT_KEYS.iter().map(|binding| binding.keys));
    let widest = all.map(|keys| width(&names(keys))).max().unwrap_or(0);
    let line = |keys: &[Press], help: &str| {
        let keys = names(keys);
        let blanks = " ".repeat(widest - width(&keys) + 2);
        (format!("  {keys}{blanks}{help}"), Ink::Plain)
    };
    for group in Group::ALL {
        lines.push((group.title().to_owned(), Ink::Heading));
        let of_group = KEYS.iter().filter(|binding| binding.group == group);
        lines.extend(of_group.map(|binding| line(binding.keys, binding.help)));
    }
    lines.push(("While a filter is typed".to_owned(), Ink::Heading));
    lines.extend(EDIT_KEYS.iter().map(|binding| line(binding.keys, binding.help)));
    lines.push((String::new(), Ink::Plain));
    let style = Style { width: Some(columns), ..*style };
    lines.extend(style.wrap(&ABOUT.join(" "), 0).into_iter().map(|line| (line, Ink::Plain)));
    lines
}

/// `of_anybody`: see [`crate::model::Setup`].
pub(crate) fn stacks(all: &[Stuck], of_anybody: bool, style: &Style, columns: usize) -> Vec<(String, Ink)> {
    let mut lines = Vec::new();
    lines.extend(absence::stuck_now(all.is_empty(), of_anybody).map(|text| (text, Ink::Plain)));
    for sync in all {
        let said = stuck::one(sync, style, columns);
        lines.extend(said.into_iter().map(|line| (line, Ink::Alarm)));
        match &sync.waiting {
            None => lines.push(("    not looked at yet".into(), Ink::Faint)),
            Some(waiting) if waiting.stack.is_empty() => {
                let text = format!("    state {}; its kernel stack cannot be read", waiting.state);
                lines.push((text, Ink::Plain));
            }
            Some(waiting) => {
                for frame in &waiting.stack {
                    let frame = style.name(frame.as_bytes());
                    let decides = waiting.wait.as_ref().is_some_and(|wait| wait.frame == frame);
                    let ink = if decides { Ink::Strong } else { Ink::Plain };
                    let mark = if decides { "  > " } else { "    " };
                    lines.push((format!("{mark}{frame}"), ink));
                }
            }
        }
    }
    lines
}
