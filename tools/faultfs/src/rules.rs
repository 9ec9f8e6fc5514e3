//! What a sync does, and the language that says so: commands written to `.control`, and names of files.

use std::fmt;
use std::time::Duration;

/// The errors that fsync(2) documents, by their names.
const ERRNOS: [(&str, i32); 10] = [
    ("EIO", libc::EIO),
    ("ENOSPC", libc::ENOSPC),
    ("EDQUOT", libc::EDQUOT),
    ("EROFS", libc::EROFS),
    ("EINVAL", libc::EINVAL),
    ("EINTR", libc::EINTR),
    ("EBADF", libc::EBADF),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("ESTALE", libc::ESTALE),
];

/// What happens to a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    Ok,
    Delay(Duration),
    Fail(i32),
    Hang,
}

/// One line written to `.control`.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// For files whose name begins with the prefix, or for all that have no rule of their own.
    Set(Behaviour, Option<String>),
    /// Completes the syncs that hang now, with an error or without, and ends the rules that hang.
    Release(Option<i32>),
}

/// The rules in force; the longest matching prefix wins, then what the file's name itself says, then the
/// default.
#[derive(Debug)]
pub struct Rules {
    default: Behaviour,
    by_prefix: Vec<(String, Behaviour)>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { default: Behaviour::Ok, by_prefix: Vec::new() }
    }
}

impl Rules {
    pub fn of(&self, name: &str) -> Behaviour {
        let matching = self.by_prefix.iter().filter(|(prefix, _)| name.starts_with(prefix.as_str()));
        let longest = matching.max_by_key(|(prefix, _)| prefix.len()).map(|(_, behaviour)| *behaviour);
        longest.or_else(|| from_name(name)).unwrap_or(self.default)
    }

    /// `ok` for all files also removes the rules by prefix.
    pub fn set(&mut self, behaviour: Behaviour, prefix: Option<String>) {
        let Some(prefix) = prefix else {
            self.default = behaviour;
            if behaviour == Behaviour::Ok {
                self.by_prefix.clear();
            }
            return;
        };
        self.by_prefix.retain(|(existing, _)| *existing != prefix);
        self.by_prefix.push((prefix, behaviour));
    }

    /// Ends every rule that hangs; `hang-` files go on hanging, because their name says so.
    pub fn stop_hanging(&mut self) {
        self.by_prefix.retain(|(_, behaviour)| *behaviour != Behaviour::Hang);
        if self.default == Behaviour::Hang {
            self.default = Behaviour::Ok;
        }
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "{}", self.default)?;
        self.by_prefix.iter().try_for_each(|(prefix, behaviour)| writeln!(f, "{behaviour} on {prefix}"))
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Behaviour::Ok => write!(f, "ok"),
            Behaviour::Delay(delay) => write!(f, "delay {}", humantime::format_duration(*delay)),
            Behaviour::Fail(errno) => match ERRNOS.iter().find(|(_, number)| number == errno) {
                Some((name, _)) => write!(f, "fail {name}"),
                None => write!(f, "fail {errno}"),
            },
            Behaviour::Hang => write!(f, "hang"),
        }
    }
}

/// `slow-10ms-…`, `fail-EIO-…` and `hang-…`.
fn from_name(name: &str) -> Option<Behaviour> {
    if name.starts_with("hang-") {
        return Some(Behaviour::Hang);
    }
    if let Some((delay, _)) = name.strip_prefix("slow-").and_then(|rest| rest.split_once('-')) {
        return humantime::parse_duration(delay).ok().map(Behaviour::Delay);
    }
    let (errno, _) = name.strip_prefix("fail-")?.split_once('-')?;
    parse_errno(errno).ok().map(Behaviour::Fail)
}

/// Parses one line: `ok`, `delay 10ms`, `fail EIO`, `hang`, each with an optional `on PREFIX`; `release`,
/// `release EIO`.
pub fn parse(line: &str) -> Result<Command, String> {
    let (command, prefix) = match line.split_once(" on ") {
        Some((command, prefix)) => (command, Some(prefix.trim().to_owned())),
        None => (line, None),
    };
    let words: Vec<&str> = command.split_whitespace().collect();
    let behaviour = match words.as_slice() {
        ["ok"] => Behaviour::Ok,
        ["delay", delay] => {
            Behaviour::Delay(humantime::parse_duration(delay).map_err(|e| format!("'{delay}': {e}"))?)
        }
        ["fail", errno] => Behaviour::Fail(parse_errno(errno)?),
        ["hang"] => Behaviour::Hang,
        ["release"] if prefix.is_none() => return Ok(Command::Release(None)),
        ["release", errno] if prefix.is_none() => return Ok(Command::Release(Some(parse_errno(errno)?))),
        _ => return Err(format!("'{line}' is none of: ok, delay TIME, fail ERRNO, hang, release [ERRNO]")),
    };
    Ok(Command::Set(behaviour, prefix))
}

fn parse_errno(text: &str) -> Result<i32, String> {
    // ENOSYS is not among them: the kernel takes it to mean "never ask this file system to sync again".
    ERRNOS.iter().find(|(name, _)| *name == text).map(|(_, number)| *number).ok_or_else(|| {
        let names: Vec<&str> = ERRNOS.iter().map(|(name, _)| *name).collect();
        format!("'{text}' is none of the errors that a sync returns ({})", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_understood() {
        let ten = Behaviour::Delay(Duration::from_millis(10));
        assert_eq!(parse("delay 10ms"), Ok(Command::Set(ten, None)));
        assert_eq!(parse("hang on binlog."), Ok(Command::Set(Behaviour::Hang, Some("binlog.".into()))));
        assert_eq!(parse("fail ENOSPC"), Ok(Command::Set(Behaviour::Fail(libc::ENOSPC), None)));
        assert_eq!(parse("release"), Ok(Command::Release(None)));
        assert_eq!(parse("release EIO"), Ok(Command::Release(Some(libc::EIO))));
    }

    #[test]
    fn what_is_not_a_command_is_refused() {
        for line in ["", "delay", "delay soon", "fail ENOSYS", "fail 5", "hang forever", "release on a"] {
            assert!(parse(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn the_longest_prefix_wins_over_the_name_and_the_name_over_the_default() {
        let mut rules = Rules::default();
        rules.set(Behaviour::Fail(libc::EIO), None);
        rules.set(Behaviour::Hang, Some("slow-".into()));
        rules.set(Behaviour::Ok, Some("slow-1ms-a".into()));
        assert_eq!(rules.of("ibdata1"), Behaviour::Fail(libc::EIO));
        assert_eq!(rules.of("slow-1ms-b"), Behaviour::Hang);
        assert_eq!(rules.of("slow-1ms-a"), Behaviour::Ok);
        rules.stop_hanging();
        assert_eq!(rules.of("slow-1ms-b"), Behaviour::Delay(Duration::from_millis(1)));
        assert_eq!(rules.of("fail-ENOSPC-x"), Behaviour::Fail(libc::ENOSPC));
        assert_eq!(rules.of("hang-x"), Behaviour::Hang);
        rules.set(Behaviour::Ok, None);
        assert_eq!(rules.to_string(), "ok\n");
    }
}
