//! What stands before the table until it is closed: the help, and where stuck syncs wait in the kernel.

use ratatui::layout::Rect;

use super::header::stuck_line;
use super::pen::Pen;
use crate::text::width;
use crate::top::keys::{Group, KEYS};
use crate::top::palette::Ink;
use crate::top::state::{Overlay, State};

const ABOUT: [&str; 5] = [
    "STUCK: a sync that has been in flight for longer than --stuck-after. % busy: how much of the time a log",
    "that the server syncs one call at a time was being synced. IN FLIGHT: the mean number of syncs under way.",
    "MAX with ≤: at most so much. ! in a graph or a picture: a sync failed then. The picture: time from left to",
    "right, latency from below upwards, darker where more syncs took so long. exact: no sync was missed, and",
    "that was checked.",
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
    let names = |keys: &[crate::top::keys::Press]| {
        keys.iter().map(|key| key.to_string()).collect::<Vec<_>>().join(" ")
    };
    let widest = KEYS.iter().map(|binding| width(&names(binding.keys))).max().unwrap_or(0);
    for group in Group::ALL {
        lines.push((group.title().to_owned(), Ink::Heading));
        for binding in KEYS.iter().filter(|binding| binding.group == group) {
            let keys = names(binding.keys);
            let blanks = " ".repeat(widest - width(&keys) + 2);
            lines.push((format!("  {keys}{blanks}{}", binding.help), Ink::Plain));
        }
    }
    lines.push((String::new(), Ink::Plain));
    let style = crate::once::Style { width: Some(usize::from(state.size.0)), ..state.style };
    lines.extend(style.wrap(&ABOUT.join(" "), 0).into_iter().map(|line| (line, Ink::Plain)));
    lines
}

fn stacks(state: &State) -> Vec<(String, Ink)> {
    let mut lines = Vec::new();
    let stuck = state.stuck();
    if stuck.is_empty() {
        lines.push(("Nothing is stuck.".to_owned(), Ink::Plain));
    }
    for sync in &stuck {
        lines.push((stuck_line(state, sync, usize::from(state.size.0)), Ink::Alarm));
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
