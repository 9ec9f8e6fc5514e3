//! Writes text on the screen: as much as fits, in characters that the terminal has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::render::Style;
use crate::text::{shorten_middle, width};
use crate::top::palette::{Colors, Ink};
use crate::top::state::State;

pub(crate) struct Pen<'a> {
    buffer: &'a mut Buffer,
    style: Style,
    colors: Colors,
}

impl<'a> Pen<'a> {
    pub fn new(buffer: &'a mut Buffer, state: &State) -> Pen<'a> {
        Pen { buffer, style: state.style, colors: state.options.colors }
    }

    pub(crate) fn area(&self) -> Rect {
        self.buffer.area
    }

    /// At most `columns` wide. Returns the columns it took.
    pub fn put(&mut self, x: u16, y: u16, columns: u16, text: &str, ink: Ink) -> u16 {
        let area = self.buffer.area;
        if y >= area.bottom() || x >= area.right() || columns == 0 {
            return 0;
        }
        let text = self.style.finish(text.to_owned());
        let (end, _) = self.buffer.set_stringn(x, y, text, usize::from(columns), self.colors.style(ink));
        end - x
    }

    /// As [`Pen::put`], and a text that is too long loses its middle.
    pub(crate) fn put_fitted(&mut self, x: u16, y: u16, columns: u16, text: &str, ink: Ink) -> u16 {
        let text = shorten_middle(text, usize::from(columns), self.style.ellipsis());
        self.put(x, y, columns, &text, ink)
    }

    /// The text ends in the last of the columns.
    pub(crate) fn put_right(&mut self, x: u16, y: u16, columns: u16, text: &str, ink: Ink) {
        let taken = (width(text) as u16).min(columns);
        self.put(x + columns - taken, y, taken, text, ink);
    }

    /// Parts one after the other with two blanks between, each whole, as far as they fit: see [`fit`].
    pub(crate) fn put_parts(&mut self, x: u16, y: u16, columns: u16, parts: &[Part]) -> u16 {
        let mut at = x;
        for (text, ink) in fit(parts, usize::from(columns)) {
            let left = (x + columns).saturating_sub(at);
            at += self.put_fitted(at, y, left, text, ink) + GAP as u16;
        }
        at.saturating_sub(x + GAP as u16)
    }

    pub(crate) fn select(&mut self, area: Rect) {
        let style = self.colors.style(Ink::Selected);
        for position in area.intersection(self.buffer.area).positions() {
            let cell = &mut self.buffer[position];
            // An alarm keeps its own colours.
            if !cell.style().add_modifier.contains(Modifier::REVERSED)
                && cell.bg == ratatui::style::Color::Reset
            {
                cell.set_style(style);
            }
        }
    }

    pub fn clear(&mut self, area: Rect) {
        let style = self.colors.style(Ink::Plain);
        for position in area.intersection(self.buffer.area).positions() {
            self.buffer[position].set_symbol(" ").set_style(style);
        }
    }
}

/// Blanks between two parts.
pub(crate) const GAP: usize = 2;

/// A part of a line, and how much it matters.
#[derive(Clone, Debug)]
pub struct Part {
    pub rank: u8,
    pub text: String,
    /// What does where there is no room for all of it.
    pub short: Option<String>,
    pub ink: Ink,
}

impl Part {
    pub fn new(rank: u8, text: impl Into<String>, ink: Ink) -> Part {
        Part { rank, text: text.into(), short: None, ink }
    }

    pub fn or(self, short: impl Into<String>) -> Part {
        Part { short: Some(short.into()), ..self }
    }
}

/// What of the parts fits on so many columns, at least one of them. First those with the lowest rank become
/// short, then they are left out.
pub(crate) fn fit(parts: &[Part], columns: usize) -> Vec<(&str, Ink)> {
    let mut kept: Vec<(&Part, &str)> = parts.iter().map(|part| (part, part.text.as_str())).collect();
    let is_too_wide = |kept: &[(&Part, &str)]| {
        kept.iter().map(|(_, text)| width(text) + GAP).sum::<usize>() > columns + GAP
    };
    let mut by_rank: Vec<usize> = (0..parts.len()).collect();
    by_rank.sort_by_key(|&at| parts[at].rank);
    for at in by_rank {
        if let Some(short) = parts[at].short.as_deref().filter(|_| is_too_wide(&kept)) {
            kept[at].1 = short;
        }
    }
    while kept.len() > 1 && is_too_wide(&kept) {
        let least = kept.iter().enumerate().min_by_key(|(_, (part, _))| part.rank);
        let Some((least, _)) = least else { break };
        kept.remove(least);
    }
    kept.into_iter().map(|(part, text)| (text, part.ink)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_least_becomes_short_first_and_then_goes() {
        let part = |rank, text: &str| Part::new(rank, text, Ink::Plain);
        let parts = [part(5, "one hundred").or("100"), part(2, "of them"), part(4, "exactly").or("exact")];
        let fitted =
            |columns| fit(&parts, columns).into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("  ");
        assert_eq!(fitted(29), "one hundred  of them  exactly");
        assert_eq!(fitted(28), "one hundred  of them  exact");
        assert_eq!(fitted(26), "100  of them  exact");
        assert_eq!(fitted(18), "100  exact");
        assert_eq!(fitted(9), "100");
        assert_eq!(fitted(1), "100", "one stays, and is cut where it is drawn");
    }
}
