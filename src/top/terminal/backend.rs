//! Turns what ratatui draws into bytes for the terminal and collects them: `Tty` writes them without ever
//! blocking.
//!
//! ratatui's own `CrosstermBackend<Vec<u8>>` could do this, but brings eight more crates (crossterm with its
//! own event loop and signal handlers, and proc macros), none of which would run: termina decodes the input.

use std::io;
use std::io::Write as _;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

#[derive(Debug, Default)]
pub struct Bytes {
    bytes: Vec<u8>,
    size: Size,
}

impl Bytes {
    pub fn new(columns: u16, rows: u16) -> Bytes {
        Bytes { bytes: Vec::new(), size: Size::new(columns, rows) }
    }

    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

/// Foreground, background, attributes.
type Look = (Color, Color, Modifier);

impl Backend for Bytes {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut at = None;
        let mut look: Option<Look> = None;
        for (x, y, cell) in content {
            if at != Some((x, y)) {
                write!(self.bytes, "\x1b[{};{}H", y + 1, x + 1)?;
            }
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if look != Some(wanted) {
                self.look(wanted)?;
                look = Some(wanted);
            }
            self.bytes.extend_from_slice(cell.symbol().as_bytes());
            // Terminals disagree on the width of some characters: move the cursor explicitly after a wide
            // one.
            at = (crate::text::width(cell.symbol()) == 1).then_some((x + 1, y));
        }
        if look.is_some() {
            self.bytes.extend_from_slice(b"\x1b[0m");
        }
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> io::Result<()> {
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.bytes.extend_from_slice(b"\x1b[0m\x1b[2J");
        Ok(())
    }

    fn clear_region(&mut self, _: ClearType) -> io::Result<()> {
        self.clear()
    }

    fn size(&self) -> io::Result<Size> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::default() })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bytes {
    /// Sends the whole style each time, so that nothing depends on what the terminal remembers.
    fn look(&mut self, (foreground, background, modifier): Look) -> io::Result<()> {
        self.bytes.extend_from_slice(b"\x1b[0");
        for (is, code) in
            [(Modifier::BOLD, 1), (Modifier::ITALIC, 3), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)]
        {
            if modifier.contains(is) {
                write!(self.bytes, ";{code}")?;
            }
        }
        self.color(foreground, 0)?;
        self.color(background, 10)?;
        self.bytes.push(b'm');
        Ok(())
    }

    /// `shift`: 0 for the foreground, 10 for the background.
    fn color(&mut self, color: Color, shift: u8) -> io::Result<()> {
        let code = match color {
            Color::Black => 30,
            Color::Red => 31,
            Color::Green => 32,
            Color::Yellow => 33,
            Color::Blue => 34,
            Color::Magenta => 35,
            Color::Cyan => 36,
            Color::Gray => 37,
            Color::White => 97,
            Color::Indexed(index) => return write!(self.bytes, ";{};5;{index}", 38 + shift),
            // The palette has no others.
            _ => return Ok(()),
        };
        write!(self.bytes, ";{}", code + shift)
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;
    use ratatui::{Terminal, TerminalOptions, Viewport};

    use super::*;

    #[test]
    fn only_what_changed_is_sent_and_styles_are_said_whole() {
        let options = TerminalOptions { viewport: Viewport::Fixed(ratatui::layout::Rect::new(0, 0, 10, 2)) };
        let mut terminal = Terminal::with_options(Bytes::new(10, 2), options).unwrap();
        let alarm = Style::reset().fg(Color::Indexed(231)).bg(Color::Red).add_modifier(Modifier::BOLD);
        let mut draw = |text: &str| {
            terminal.draw(|frame| frame.buffer_mut().set_string(2, 1, text, alarm)).map(drop).unwrap();
            String::from_utf8(terminal.backend_mut().take()).unwrap()
        };
        assert_eq!(draw("ab"), "\x1b[2;3H\x1b[0;1;38;5;231;41mab\x1b[0m");
        assert_eq!(draw("ab"), "");
        assert_eq!(draw("ac"), "\x1b[2;4H\x1b[0;1;38;5;231;41mc\x1b[0m");
    }

    #[test]
    fn a_wide_character_does_not_shift_what_follows() {
        let mut bytes = Bytes::new(10, 1);
        let cells: Vec<Cell> = ["デ", "x"].into_iter().map(Cell::new).collect();
        bytes.draw([(0, 0, &cells[0]), (2, 0, &cells[1])].into_iter()).unwrap();
        let text = String::from_utf8(bytes.take()).unwrap();
        assert!(text.contains("デ\x1b[1;3Hx"), "{text:?}");
    }
}
