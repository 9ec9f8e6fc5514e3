//! Draws what covers the table, with how much more there is of it.

use ratatui::layout::Rect;

use super::pen::Pen;
use crate::top::overlay::{Overlay, Topic};
use crate::top::palette::Ink;
use crate::top::state::State;

pub fn draw(state: &State, overlay: Overlay, area: Rect, pen: &mut Pen) {
    pen.clear(area);
    let lines = state.overlay_lines();
    let title = match overlay.topic {
        Topic::Help => format!("fsynctop {}: keys", env!("CARGO_PKG_VERSION")),
        Topic::Stacks => "Where stuck syncs wait in the kernel, the innermost function first".into(),
    };
    pen.put(area.x, area.y, area.width, &title, Ink::Strong);
    let page = usize::from(area.height).saturating_sub(2);
    let shown = lines.iter().skip(overlay.offset).take(page);
    for (at, (text, ink)) in shown.enumerate() {
        pen.put_fitted(area.x, area.y + 1 + at as u16, area.width, text, *ink);
    }
    let more = lines.len().saturating_sub(overlay.offset + page);
    let hint = match more {
        0 => "Esc closes this".to_owned(),
        n => format!("{n} more lines: Space, Down; Esc closes this"),
    };
    pen.put(area.x, area.bottom().saturating_sub(1), area.width, &hint, Ink::Faint);
}
