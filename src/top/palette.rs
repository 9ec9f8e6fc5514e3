//! Colours. Whatever background the terminal has, and whether it has colours at all: nothing is told by
//! colour alone.
//!
//! Text keeps the terminal's own colours, or brings its own background. Pictures use colours that stand out
//! from black and from white. The tests compute the contrasts.

use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colors {
    None,
    Sixteen,
    TwoHundredFiftySix,
}

/// What a text or a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Strong,
    /// Beside the point: axes, hints.
    Faint,
    Heading,
    /// The column that is sorted by, the view that is shown.
    Chosen,
    /// The selected row.
    Selected,
    /// A mode that one must not forget: paused, filtered.
    Mode,
    /// A log that is saturated.
    Warning,
    /// Stuck, failed, lost.
    Alarm,
    /// Of a picture: few to many, 0 to 3.
    Level(u8),
}

pub(crate) const LEVELS: usize = 4;
/// From few to many: the shades get denser as well.
pub(crate) const SHADES: [&str; LEVELS] = ["░", "▒", "▓", "█"];
pub(crate) const ASCII_SHADES: [&str; LEVELS] = [".", "+", "*", "#"];

const RED: u8 = 160;
const AMBER: u8 = 214;
const WHITE: u8 = 231;
const BLACK: u8 = 16;
const GREY: u8 = 243;
const RAMP: [u8; LEVELS] = [31, 98, 163, 166];

impl Colors {
    /// By NO_COLOR and what the terminal calls itself.
    pub(crate) fn from_environment<V: AsRef<std::ffi::OsStr>>(
        variable: impl Fn(&str) -> Option<V>,
    ) -> Colors {
        let text = |name: &str| {
            variable(name).map(|value| value.as_ref().to_string_lossy().into_owned()).unwrap_or_default()
        };
        let (term, colorterm) = (text("TERM"), text("COLORTERM"));
        if !text("NO_COLOR").is_empty() {
            Colors::None
        } else if ["truecolor", "24bit"].contains(&colorterm.as_str())
            || term.contains("256color")
            || ["kitty", "alacritty", "foot", "ghostty", "wezterm", "direct"].iter().any(|t| term.contains(t))
        {
            Colors::TwoHundredFiftySix
        } else if term.is_empty() || term == "dumb" || term.starts_with("vt") {
            Colors::None
        } else {
            Colors::Sixteen
        }
    }

    pub(crate) fn style(self, ink: Ink) -> Style {
        let style = Style::reset();
        match ink {
            Ink::Plain => style,
            Ink::Strong => style.add_modifier(Modifier::BOLD),
            Ink::Faint if self == Colors::TwoHundredFiftySix => style.fg(Color::Indexed(GREY)),
            Ink::Faint => style,
            Ink::Heading => style.add_modifier(Modifier::BOLD),
            Ink::Chosen => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            Ink::Selected | Ink::Mode => style.add_modifier(Modifier::REVERSED),
            Ink::Warning => {
                self.on(style, (BLACK, AMBER), (Color::Black, Color::Yellow), Modifier::UNDERLINED)
            }
            Ink::Alarm => self.on(style, (WHITE, RED), (Color::White, Color::Red), Modifier::REVERSED),
            Ink::Level(level) => self.level(style, usize::from(level).min(LEVELS - 1)),
        }
    }

    fn on(self, style: Style, indexed: (u8, u8), named: (Color, Color), without: Modifier) -> Style {
        let style = style.add_modifier(Modifier::BOLD);
        match self {
            Colors::None => style.add_modifier(without),
            Colors::Sixteen => style.fg(named.0).bg(named.1),
            Colors::TwoHundredFiftySix => style.fg(Color::Indexed(indexed.0)).bg(Color::Indexed(indexed.1)),
        }
    }

    fn level(self, style: Style, level: usize) -> Style {
        match (self, level) {
            (Colors::TwoHundredFiftySix, level) => style.fg(Color::Indexed(RAMP[level])),
            // Of the sixteen, only this one is readable on black and on white in every usual set.
            (Colors::Sixteen, 2..) => style.fg(Color::Magenta),
            _ => style,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As xterm has them.
    fn rgb(index: u8) -> [f64; 3] {
        let step = |n: u8| if n == 0 { 0.0 } else { f64::from(n) * 40.0 + 55.0 };
        match index {
            16..=231 => {
                let n = index - 16;
                [step(n / 36), step(n / 6 % 6), step(n % 6)]
            }
            232.. => [f64::from(index - 232) * 10.0 + 8.0; 3],
            _ => panic!("differs from terminal to terminal"),
        }
    }

    /// Relative luminance, as the Web Content Accessibility Guidelines define it.
    fn luminance(rgb: [f64; 3]) -> f64 {
        let linear = rgb.map(|channel| {
            let c = channel / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn foreground(ink: Ink) -> [f64; 3] {
        let Some(Color::Indexed(index)) = Colors::TwoHundredFiftySix.style(ink).fg else {
            panic!("{ink:?} has a colour of its own")
        };
        rgb(index)
    }

    #[test]
    fn text_on_a_background_of_its_own_can_be_read() {
        for ink in [Ink::Alarm, Ink::Warning] {
            let Some(Color::Indexed(background)) = Colors::TwoHundredFiftySix.style(ink).bg else { panic!() };
            let contrast = contrast(foreground(ink), rgb(background));
            assert!(contrast >= 4.5, "{ink:?}: {contrast:.1}");
        }
    }

    #[test]
    fn text_without_one_can_be_read_on_black_and_on_white() {
        for background in [[0.0; 3], [255.0; 3]] {
            let contrast = contrast(foreground(Ink::Faint), background);
            assert!(contrast >= 4.5, "{contrast:.1}");
        }
    }

    #[test]
    fn pictures_stand_out_from_black_and_from_white() {
        for level in 0..LEVELS as u8 {
            for background in [[0.0; 3], [255.0; 3]] {
                let contrast = contrast(foreground(Ink::Level(level)), background);
                assert!(contrast >= 3.0, "{level} on {background:?}: {contrast:.1}");
            }
        }
    }

    #[test]
    fn without_colours_every_alarm_still_differs_from_plain_text() {
        for colors in [Colors::None, Colors::Sixteen, Colors::TwoHundredFiftySix] {
            let plain = colors.style(Ink::Plain);
            for ink in [Ink::Strong, Ink::Chosen, Ink::Selected, Ink::Mode, Ink::Warning, Ink::Alarm] {
                assert_ne!(colors.style(ink), plain, "{ink:?} with {colors:?}");
            }
            assert_ne!(colors.style(Ink::Warning), colors.style(Ink::Alarm));
        }
        let none = |ink| Colors::None.style(ink);
        for ink in [Ink::Alarm, Ink::Warning, Ink::Faint, Ink::Level(3)] {
            let set = |color: Option<Color>| color.is_some_and(|color| color != Color::Reset);
            assert!(!set(none(ink).fg) && !set(none(ink).bg), "{ink:?}");
        }
    }

    #[test]
    fn the_terminal_says_how_many_colours_it_has() {
        let of = |variables: &[(&str, &str)]| {
            let variables: Vec<(String, String)> =
                variables.iter().map(|&(k, v)| (k.into(), v.into())).collect();
            Colors::from_environment(move |name| {
                variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
            })
        };
        assert_eq!(of(&[("TERM", "xterm-256color")]), Colors::TwoHundredFiftySix);
        assert_eq!(of(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Colors::TwoHundredFiftySix);
        assert_eq!(of(&[("TERM", "linux")]), Colors::Sixteen);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Colors::None);
        assert_eq!(of(&[("TERM", "vt220")]), Colors::None);
        assert_eq!(of(&[]), Colors::None);
    }
}
