//! An event as a line for people: when, which server, and its sentence.

use super::Line;
use crate::render::{Paint, Style};
use crate::text::escape_sentence;

impl Line {
    pub fn text(&self, style: &Style) -> String {
        // To the millisecond.
        let mut line = format!("{}Z ", self.time.get(..23).unwrap_or(&self.time));
        if let Some(server) = &self.server {
            line.push_str(&format!("{}: ", style.name(server.as_bytes())));
        }
        let mut said = escape_sentence(&self.sentence);
        if let Some(what) = &self.waits_for {
            said.push_str(&format!(" It waits for {}.", escape_sentence(what)));
        }
        if let (Some(id), Some(user)) = (self.connection_id, &self.user) {
            said.push_str(&format!(" Connection {id} of {} waits.", style.name(user.as_bytes())));
        }
        line.push_str(&style.paint(self.paint(), &said));
        line.push('\n');
        style.finish(line)
    }

    fn paint(&self) -> Paint {
        match (self.event, &self.verdict) {
            (_, Some(verdict)) => verdict.state.into(),
            ("in_flight", _) => Paint::Stuck,
            ("failed" | "left_out", _) => Paint::Error,
            _ => Paint::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime};

    use super::super::{Event, LeftOut, Stacks, Whose};
    use super::*;
    use crate::model::Role;
    use crate::model::fixture::{MYSQL, in_flight};
    use crate::verdict::{State, Verdict};

    fn line(event: Event) -> Line {
        let now = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        Line::of(event, Some("3306".into()), (&Stacks::default(), &Whose::new()), (Instant::now(), now))
    }

    fn hangs(path: &str) -> Line {
        line(Event::InFlight(in_flight(Role::Redo, path, Duration::from_secs(7))))
    }

    #[test]
    fn a_line_says_when_who_what_and_what_is_waited_for() {
        let mut line = hangs("/d/ib_logfile0");
        let plain = "2023-11-14T22:13:20.123Z 3306: An fdatasync of the redo log (/d/ib_logfile0) has not returned for \
                     7.0 s.";
        assert_eq!(line.text(&Style::default()), format!("{plain}\n"));
        line.waits_for = Some("the journal commit".into());
        (line.connection_id, line.user) = (Some(42), Some("app".into()));
        let whole = format!("{plain} It waits for the journal commit. Connection 42 of app waits.\n");
        assert_eq!(line.text(&Style::default()), whole);
        let left_out = LeftOut { counts: [("slow", 40)].into(), since: SystemTime::UNIX_EPOCH };
        assert_eq!(
            Line::left_out(left_out, SystemTime::UNIX_EPOCH).text(&Style::default()),
            "1970-01-01T00:00:00.000Z 40 events were left out: there were too many, or the journal took none.\n"
        );
    }

    #[test]
    fn what_strangers_chose_stays_on_its_line_and_sends_no_command_to_the_terminal() {
        for unicode in [true, false] {
            let mut line = hangs("/d/\x1b[2J\nib\u{202e}é");
            line.server = Some("33\n06\x1b[2J".into());
            line.waits_for = Some("\x07".into());
            (line.connection_id, line.user) = (Some(1), Some("\r\u{202e}root".into()));
            let text = line.text(&Style { unicode, ..Style::default() });
            let said = text.strip_suffix('\n').unwrap();
            assert!(!said.contains(|c: char| c.is_control() || c == '\u{202e}'), "{said:?}");
            assert!(unicode || said.is_ascii(), "{said}");
            for shown in ["33\\n06\\x1b[2J: ", "(/d/\\x1b[2J\\nib\\u{202e}", "of \\r\\u{202e}root waits."] {
                assert!(said.contains(shown), "{shown}: {said}");
            }
        }
    }

    #[test]
    fn what_hangs_or_fails_is_coloured_and_nothing_else() {
        let verdict = |state| {
            let (since, since_wall) = (Instant::now(), SystemTime::UNIX_EPOCH);
            let verdict = Verdict { server: MYSQL, state, since, since_wall, because: None, storage: None };
            line(Event::Verdict { from: None, verdict })
        };
        let colourful = Style { color: true, ..Style::default() };
        let painted = |line: &Line| line.text(&colourful).contains('\x1b');
        assert!(
            painted(&hangs("/d/a")) && painted(&verdict(State::Stalled)) && painted(&verdict(State::Failing))
        );
        assert!(
            !painted(&verdict(State::Ok)) && !painted(&line(Event::Ended { server: MYSQL, from: State::Ok }))
        );
        assert!(!hangs("/d/a").text(&Style::default()).contains('\x1b'), "a pipe");
    }
}
