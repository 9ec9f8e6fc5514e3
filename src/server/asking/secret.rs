//! A password: read from a file, the environment or a prompt, never from an argument, and never shown.

use std::fs::File;
use std::io::{self, BufRead, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// A password. Nothing prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(password: String) -> Secret {
        Secret(password)
    }

    /// For the client library alone.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Asks on the terminal, without an echo. An error where there is no terminal, or after Ctrl-C.
    pub fn ask() -> io::Result<Secret> {
        let terminal = File::options().read(true).write(true).open("/dev/tty")?;
        ask_on(&terminal)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(hidden)")
    }
}

/// Gives the terminal its settings back, however the question ends.
struct Quiet<'a>(&'a File, Termios);

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1); // it has gone
        let _ = writeln!(&mut &*self.0);
    }
}

/// Signals of the keyboard are off meanwhile, so that Ctrl-C cannot leave the terminal without its echo.
fn ask_on(terminal: &File) -> io::Result<Secret> {
    let before = tcgetattr(terminal)?;
    let mut quiet = before.clone();
    quiet.local_modes &= !(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
    // Before the prompt: what is typed after it must be neither shown nor thrown away.
    tcsetattr(terminal, OptionalActions::Flush, &quiet)?;
    let _restore = Quiet(terminal, before);
    write!(&mut &*terminal, "Password: ")?;
    read_line(std::io::BufReader::new(terminal))
}

fn read_line(input: impl BufRead) -> io::Result<Secret> {
    let mut password = Vec::new();
    for byte in input.bytes() {
        match byte? {
            b'\r' | b'\n' => break,
            3 => return Err(io::Error::new(io::ErrorKind::Interrupted, "given up")), // Ctrl-C
            8 | 127 => {
                // The last character, however many bytes it has.
                while password.pop().is_some_and(|byte: u8| byte & 0xc0 == 0x80) {}
            }
            other => password.push(other),
        }
    }
    let text = String::from_utf8(password).map_err(|_| io::Error::other("the password is not UTF-8"))?;
    Ok(Secret(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_as_it_is_typed_and_never_shown() {
        let typed = |bytes: &[u8]| read_line(bytes).map(|secret| secret.reveal().to_owned());
        assert_eq!(typed(b"abc\nrest").unwrap(), "abc");
        assert_eq!(typed(b"ab\x7fc\r").unwrap(), "ac");
        assert_eq!(typed("aé\x7f\x7f\x7fz\n".as_bytes()).unwrap(), "z");
        assert!(typed(b"ab\x03").is_err());
        assert!(typed(b"\xff\n").is_err());
        assert_eq!(format!("{:?}", Secret::new("abc".into())), "(hidden)");
    }
}
