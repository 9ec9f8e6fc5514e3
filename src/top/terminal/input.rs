//! From what a terminal sends to keys and the mouse.

use std::time::{Duration, Instant};

use termina::Parser;
use termina::event::{Event as Sent, KeyCode, KeyEvent, KeyEventKind, Modifiers, MouseEventKind};

use crate::top::event::{Event, Mouse, MouseKind};
use crate::top::keys::Press;

/// An Esc after which nothing came for so long was the key; before that it may be the begin of another.
const ESC_ALONE: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(crate) struct Input {
    parser: Parser,
    /// When what may be incomplete is taken as it is.
    until: Option<Instant>,
}

impl Input {
    pub(crate) fn feed(&mut self, bytes: &[u8], now: Instant) -> Vec<Event> {
        self.parser.parse(bytes, true);
        self.until = Some(now + ESC_ALONE);
        self.events()
    }

    /// To be called when [`Input::due`] is over.
    pub fn settle(&mut self) -> Vec<Event> {
        self.until = None;
        self.parser.parse(&[], false);
        self.events()
    }

    pub fn due(&self) -> Option<Instant> {
        self.until
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.parser.pop()).flat_map(events).collect()
    }
}

fn events(sent: Sent) -> Vec<Event> {
    match sent {
        // Nothing needs Alt. Over a slow line it is an Esc that came together with the key after it.
        Sent::Key(key) if key.kind != KeyEventKind::Release && key.modifiers.contains(Modifiers::ALT) => {
            let presses = [Some(Press::Esc), press(key)];
            presses.into_iter().flatten().map(Event::Key).collect()
        }
        Sent::Key(key) if key.kind != KeyEventKind::Release => {
            press(key).map(Event::Key).into_iter().collect()
        }
        Sent::Mouse(mouse) => {
            let kind = match mouse.kind {
                MouseEventKind::Down(_) => MouseKind::Press,
                MouseEventKind::ScrollUp => MouseKind::WheelUp,
                MouseEventKind::ScrollDown => MouseKind::WheelDown,
                _ => return Vec::new(),
            };
            vec![Event::Mouse(Mouse { column: mouse.column, row: mouse.row, kind })]
        }
        _ => Vec::new(),
    }
}

fn press(key: KeyEvent) -> Option<Press> {
    let control = key.modifiers.contains(Modifiers::CONTROL);
    Some(match key.code {
        // What a terminal sends for Backspace, and for Enter on a keypad.
        KeyCode::Char('h') if control => Press::Backspace,
        KeyCode::Char('j') if control => Press::Enter,
        KeyCode::Char(c) if control => Press::Ctrl(c),
        KeyCode::Char(c) => Press::Char(c),
        KeyCode::Up => Press::Up,
        KeyCode::Down => Press::Down,
        KeyCode::Left => Press::Left,
        KeyCode::Right => Press::Right,
        KeyCode::PageUp => Press::PageUp,
        KeyCode::PageDown => Press::PageDown,
        KeyCode::Home => Press::Home,
        KeyCode::End => Press::End,
        KeyCode::Enter => Press::Enter,
        KeyCode::Escape => Press::Esc,
        KeyCode::Tab => Press::Tab,
        KeyCode::BackTab => Press::BackTab,
        KeyCode::Backspace => Press::Backspace,
        KeyCode::Function(n) => Press::F(n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Press> {
        let mut input = Input::default();
        let mut events = input.feed(bytes, Instant::now());
        events.extend(input.settle());
        events
            .into_iter()
            .filter_map(|event| match event {
                Event::Key(press) => Some(press),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn the_keys_of_the_usual_terminals_are_known() {
        use Press::*;
        for (bytes, press) in [
            (&b"q"[..], Char('q')),
            (b"K", Char('K')),
            (b" ", Char(' ')),
            (b"{", Char('{')),
            ("ü".as_bytes(), Char('ü')),
            (b"\x03", Ctrl('c')),
            (b"\x1a", Ctrl('z')),
            (b"\x0c", Ctrl('l')),
            (b"\x15", Ctrl('u')),
            (b"\r", Enter),
            (b"\n", Enter),
            (b"\t", Tab),
            (b"\x1b[Z", BackTab),
            (b"\x7f", Backspace),
            (b"\x08", Backspace),
            (b"\x1b", Esc),
            (b"\x1b[A", Up),
            (b"\x1bOB", Down),
            (b"\x1b[C", Right),
            (b"\x1b[D", Left),
            (b"\x1b[5~", PageUp),
            (b"\x1b[6~", PageDown),
            (b"\x1b[H", Home),
            (b"\x1b[1~", Home),
            (b"\x1b[4~", End),
            (b"\x1bOP", F(1)),
            (b"\x1b[21~", F(10)),
        ] {
            assert_eq!(keys(bytes), [press], "{bytes:?}");
        }
        assert_eq!(keys(b"\x1br"), [Esc, Char('r')], "two keys that came together");
        assert_eq!(keys(b"jj\x1b[Ak"), [Char('j'), Char('j'), Up, Char('k')]);
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        let mut input = Input::default();
        let now = Instant::now();
        assert!(input.feed(b"\x1b", now).is_empty());
        assert!(input.due().is_some());
        assert!(matches!(input.feed(b"[A", now)[..], [Event::Key(Press::Up)]));
        assert!(input.settle().is_empty());
        assert_eq!(input.due(), None);
    }

    #[test]
    fn the_mouse_is_understood_beyond_column_223() {
        let mut input = Input::default();
        let events = input.feed(b"\x1b[<0;300;7M\x1b[<0;300;7m\x1b[<64;2;3M\x1b[<65;2;3M", Instant::now());
        let kinds: Vec<Mouse> = events
            .into_iter()
            .filter_map(|event| match event {
                Event::Mouse(mouse) => Some(mouse),
                _ => None,
            })
            .collect();
        let at = |column, row, kind| Mouse { column, row, kind };
        let wheel = [at(1, 2, MouseKind::WheelUp), at(1, 2, MouseKind::WheelDown)];
        assert_eq!(kinds, [vec![at(299, 6, MouseKind::Press)], wheel.to_vec()].concat());
    }

    #[test]
    fn nonsense_does_nothing_and_does_not_stop_what_follows() {
        let mut noise: Vec<u8> = (0..=255u8).filter(|byte| *byte != 0x1b).collect();
        noise.extend_from_slice(b"\x1b[999;999;999zq");
        assert_eq!(keys(&noise).last(), Some(&Press::Char('q')));
    }
}
