//! Draws the state: nothing here changes anything, and only what is seen is formatted.

mod details;
mod header;
mod log;
mod overlay;
mod pen;
mod readings;
#[cfg(test)]
mod small_tests;
mod table;
#[cfg(test)]
mod tests;

use ratatui::Frame;
use ratatui::layout::Rect;

use crate::model::neighbours;
use crate::model::{Op, ServerId};
use crate::text::{absence, capitalize, count, width};
use crate::top::keys::{Action, name_of};
use crate::top::layout::{LEAST_COLUMNS, LEAST_ROWS};
use crate::top::palette::Ink;
use crate::top::state::State;
use crate::top::view::View;
use pen::{Part, Pen};

pub fn draw(state: &State, frame: &mut Frame) {
    let area = frame.area();
    let pen = &mut Pen::new(frame.buffer_mut(), state);
    let areas = state.areas();
    if let Some(overlay) = state.overlay {
        return overlay::draw(state, overlay, area, pen);
    }
    if areas.too_small {
        return too_small(state, pen);
    }
    header::draw(state, &areas, pen);
    match nothing_to_show(state) {
        Some(why) => explain(state, &why, areas.heading.union(areas.rows), pen),
        None => table::draw(state, &areas, pen),
    }
    if let Some(area) = areas.details {
        details::draw(state, area, pen);
    }
    if let Some(area) = areas.log {
        log::draw(state, area, pen);
    }
    footer(state, areas.footer, pen);
}

/// Even then the worst is said.
fn too_small(state: &State, pen: &mut Pen) {
    let area = pen.area();
    let mut lines = vec![format!("{}x{} is too small", area.width, area.height)];
    let stuck = state.stuck().len();
    if stuck > 0 {
        lines.insert(0, format!("{stuck} STUCK"));
    }
    if state.record.past.log.failures() > 0 {
        lines.insert(0, format!("{} FAILED", count(state.record.past.log.failures())));
    }
    lines.push(format!("{LEAST_COLUMNS}x{LEAST_ROWS} is needed"));
    lines.push("q quits".into());
    for (y, line) in lines.iter().enumerate().take(usize::from(area.height)) {
        let ink = if line.chars().any(char::is_lowercase) { Ink::Plain } else { Ink::Alarm };
        pen.put(0, y as u16, area.width, line, ink);
    }
}

/// Why there is no table.
fn nothing_to_show(state: &State) -> Option<Vec<String>> {
    let waiting = || {
        if state.playing.is_some() {
            return vec!["The servers of this recording are of other times.".into()];
        }
        vec![
            format!("Waiting for {}.", state.options.waits_for),
            "It is traced from its very first sync.".into(),
            format!(
                "Meanwhile {} shows which other processes sync; {} shows every key.",
                name_of(Action::Show(View::Neighbour)),
                name_of(Action::Help)
            ),
        ]
    };
    let Some(figures) = &state.shown.figures else {
        return Some(match &state.record.paused {
            Some(_) if state.choice.cumulative => vec![format!(
                "This is before the figures were reset (key {}); {} shows those of the interval.",
                name_of(Action::CountFromNow),
                name_of(Action::Cumulative)
            )],
            Some(_) => vec!["Nothing is kept of this time.".into()],
            None if !state.tracing.attached => vec!["Attaching …".into()],
            None => waiting(),
        });
    };
    if !state.shown.rows.is_empty() {
        return None;
    }
    Some(match state.choice.view {
        _ if state.choice.filter.is_on() => vec![
            format!("No row {}.", if state.choice.filter.is_regex { "matches" } else { "contains the text" }),
            format!("{} shows all rows again.", name_of(Action::Back)),
        ],
        View::Neighbour => {
            let all: Vec<ServerId> = figures.m.servers.iter().map(|server| server.id).collect();
            let nobody = absence::neighbour(&figures.m.setup.net, &neighbours::filesystems(&figures.m, &all));
            vec![format!("{}.", capitalize(&nobody))]
        }
        View::Log => absence::slow_yet(state.shown.rows.len(), state.options.slow_from).into_iter().collect(),
        _ if figures.m.servers.is_empty() => waiting(),
        View::Thread if !figures.m.setup.by_thread => vec![
            "Rows by thread are not kept, because they cost the server a little more for each sync.".into(),
            format!(
                "{} attaches again with them, which resets the figures since the start. Or start with --by thread.",
                name_of(Action::Threads)
            ),
        ],
        View::Write if !figures.m.setup.ops.contains(&Op::Write) => vec![
            "Of writes only those that are durable, and those that fail, are watched: all of them cost the server a \
             little more for each."
                .into(),
            format!(
                "{} attaches again with them, which resets the figures since the start. Or start with --by writes.",
                name_of(Action::AllWrites)
            ),
        ],
        View::Write => absence::yet(state.shown.rows.len(), true).into_iter().collect(),
        View::Thread if state.choice.cumulative && state.record.paused.is_some() => vec![
            "Rows by thread are kept of each interval of the past, but not since the start.".into(),
            format!("{} shows the interval.", name_of(Action::Cumulative)),
        ],
        _ => absence::yet(state.shown.rows.len(), false).into_iter().collect(),
    })
}

fn explain(state: &State, lines: &[String], area: Rect, pen: &mut Pen) {
    let style = crate::render::Style { width: Some(usize::from(area.width)), ..state.style };
    let wrapped: Vec<String> = lines.iter().flat_map(|line| style.wrap(line, 0)).collect();
    for (at, line) in wrapped.iter().enumerate().take(usize::from(area.height).saturating_sub(1)) {
        pen.put(area.x, area.y + 1 + at as u16, area.width, line, Ink::Plain);
    }
}

fn footer(state: &State, area: Rect, pen: &mut Pen) {
    if let Some(edit) = &state.choice.edit {
        let kind = if edit.is_regex { "rows that match" } else { "rows that contain" };
        let typed = state.style.name(edit.text.as_bytes());
        let prompt = format!("{kind}: {typed}");
        let hint = match &state.choice.filter.error {
            Some(error) => state.style.name(error.as_bytes()),
            None if edit.is_regex => "Tab: plain text  Enter keeps it  Esc restores the old one".into(),
            None => "Tab: regular expression  Enter keeps it  Esc restores the old one".into(),
        };
        let taken = pen.put(area.x, area.y, area.width, &prompt, Ink::Strong);
        pen.put(area.x + taken, area.y, 1, " ", Ink::Selected);
        let room = area.width.saturating_sub(taken + 3);
        let columns = (width(&hint) as u16).min(room);
        let ink = if state.choice.filter.error.is_some() { Ink::Alarm } else { Ink::Faint };
        pen.put(area.right() - columns, area.y, columns, &hint, ink);
    } else if let Some(message) = state.message.text() {
        pen.put_fitted(area.x, area.y, area.width, message, Ink::Strong);
    } else {
        let pause = match (&state.playing, &state.record.paused) {
            (Some(playing), _) if !playing.is_on => "play",
            (None, Some(_)) => "resume",
            _ => "pause",
        };
        let hint =
            |rank, action, what: &str| Part::new(rank, format!("{} {what}", name_of(action)), Ink::Faint);
        let parts = [
            hint(9, Action::Quit, "quit"),
            hint(8, Action::Help, "help"),
            hint(7, Action::Pause, pause),
            hint(6, Action::StepBack, "back in time"),
            hint(5, Action::Filter, "filter"),
            hint(4, Action::SortRight, "sort"),
            hint(3, Action::Cumulative, if state.choice.cumulative { "interval" } else { "since start" }),
            hint(2, Action::Open, "open"),
            hint(1, Action::Write, "write JSON"),
            hint(if state.stuck().is_empty() { 0 } else { 7 }, Action::Stacks, "kernel stacks"),
        ];
        pen.put_parts(area.x, area.y, area.width, &parts);
    }
}
