//! Writes text on the screen: as much as fits, in characters that the terminal has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;

use crate::once::Style;
use crate::text::{shorten_middle, width};
use crate::top::palette::{Colors, Ink};
use crate::top::state::State;

pub struct Pen<'a> {
    buffer: &'a mut Buffer,
    style: Style,
    colors: Colors,
}

impl<'a> Pen<'a> {
    pub fn new(buffer: &'a mut Buffer, state: &State) -> Pen<'a> {
        Pen { buffer, style: state.style, colors: state.options.colors }
    }

    pub fn area(&self) -> Rect {
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
    pub fn put_fitted(&mut self, x: u16, y: u16, columns: u16, text: &str, ink: Ink) -> u16 {
        let text = shorten_middle(text, usize::from(columns), self.style.ellipsis());
        self.put(x, y, columns, &text, ink)
    }

    /// The text ends in the last of the columns.
    pub fn put_right(&mut self, x: u16, y: u16, columns: u16, text: &str, ink: Ink) {
        let taken = (width(text) as u16).min(columns);
        self.put(x + columns - taken, y, taken, text, ink);
    }

    /// Parts one after the other with two blanks between, as far as they fit; each whole. Of those that do not fit
    /// together, the ones with the lowest rank are left out.
    pub fn put_parts(&mut self, x: u16, y: u16, columns: u16, parts: &[Part]) -> u16 {
        let mut kept: Vec<usize> = (0..parts.len()).collect();
        let wide = |kept: &[usize]| kept.iter().map(|&at| width(&parts[at].text) + GAP).sum::<usize>();
        while kept.len() > 1 && wide(&kept) > usize::from(columns) + GAP {
            let Some(least) = kept.iter().copied().min_by_key(|&at| parts[at].rank) else { break };
            kept.retain(|&at| at != least);
        }
        let mut at = x;
        for part in kept {
            let left = (x + columns).saturating_sub(at);
            at += self.put_fitted(at, y, left, &parts[part].text, parts[part].ink) + GAP as u16;
        }
        at.saturating_sub(x + GAP as u16)
    }

    pub fn select(&mut self, area: Rect) {
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

const GAP: usize = 2;

/// A part of a line, and how much it matters.
#[derive(Clone, Debug)]
pub struct Part {
    pub rank: u8,
    pub text: String,
    pub ink: Ink,
}

impl Part {
    pub fn new(rank: u8, text: impl Into<String>, ink: Ink) -> Part {
        Part { rank, text: text.into(), ink }
    }
}
