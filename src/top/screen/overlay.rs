//! What stands before the table until it is closed: the help, and where stuck syncs wait in the kernel.

use ratatui::layout::Rect;

use super::pen::Pen;
use crate::text::width;
use crate::top::keys::{EDIT_KEYS, Group, KEYS, Press};
use crate::top::palette::Ink;
use crate::top::state::{Overlay, State};
use crate::top::stuck;

const ABOUT: [&str; 8] = [
    "STUCK: a sync that has been in flight for longer than --stuck-after. % busy: how much of the time a log that the",
    "server syncs one call at a time was being synced. IN FLIGHT: the mean number of syncs under way. MAX with ≤: at most",
    "so much. SHARED: on a device that the servers use, too. 0 lost: every one of the watched calls was counted, and that",
    "was checked; `fsynctop check` lists the ways to make data durable that are not watched, io_uring among them.",
    "The small graphs: an interval each, the newest to the right; every row has a scale of its own. The picture: time from",
    "left to right, latency from below upwards, each line from the latency beside it to that of the line above, denser",
    "where more syncs took so long; to its right, how many did in the interval. ! in both: a sync failed then.",
    "The log has one entry for a file and interval, with the latency of its slowest sync.",
];

pub fn lines(state: &State, overlay: Overlay) -> Vec<(String, Ink)> {
    match overlay {
        Overlay::Help => help(state),
        Overlay::Stacks => stacks(state),
    }
}

/// From the table of the keys.
fn help(state: &State) -> Vec<(String, Ink)> {
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
    let style = crate::render::Style { width: Some(usize::from(state.size.0)), ..state.style };
    lines.extend(style.wrap(&ABOUT.join(" "), 0).into_iter().map(|line| (line, Ink::Plain)));
    lines
}

fn stacks(state: &State) -> Vec<(String, Ink)> {
    let mut lines = Vec::new();
    let all = state.stuck();
    if all.is_empty() {
        lines.push(("Nothing is stuck.".to_owned(), Ink::Plain));
    }
    for sync in &all {
        let said = stuck::one(state, sync, usize::from(state.size.0));
        lines.extend(said.into_iter().map(|line| (line, Ink::Alarm)));
        match state.waiting(sync.tid) {
            None => lines.push(("    not looked at yet".into(), Ink::Faint)),
            Some(waiting) if waiting.stack.is_empty() => {
                let text = format!("    state {}; its kernel stack cannot be read", waiting.state);
                lines.push((text, Ink::Plain));
            }
            Some(waiting) => {
                for frame in &waiting.stack {
                    let frame = state.style.name(frame.as_bytes());
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

pub fn draw(state: &State, overlay: Overlay, area: Rect, pen: &mut Pen) {
    pen.clear(area);
    let lines = lines(state, overlay);
    let title = match overlay {
        Overlay::Help => format!("fsynctop {}: keys", env!("CARGO_PKG_VERSION")),
        Overlay::Stacks => "Where stuck syncs wait in the kernel, the innermost function first".into(),
    };
    pen.put(area.x, area.y, area.width, &title, Ink::Strong);
    let page = usize::from(area.height).saturating_sub(2);
    let shown = lines.iter().skip(state.overlay_offset).take(page);
    for (at, (text, ink)) in shown.enumerate() {
        pen.put_fitted(area.x, area.y + 1 + at as u16, area.width, text, *ink);
    }
    let more = lines.len().saturating_sub(state.overlay_offset + page);
    let hint = match more {
        0 => "Esc closes this".to_owned(),
        n => format!("{n} more lines: Space, Down; Esc closes this"),
    };
    pen.put(area.x, area.bottom().saturating_sub(1), area.width, &hint, Ink::Faint);
}
