//! The second version of Redis' protocol, which every version speaks to whoever asks for no other, as far as
//! answers to INFO and CONFIG GET need it, from a peer that is taken for hostile: each part has a limit, and
//! the connection below has one for all of it and a deadline.

use std::io::{self, BufRead, Read};

/// A line: an error, or the length of what follows. The longest one of Redis 7 has some 1,000 bytes.
const LINE_BYTES: u64 = 4 << 10;
/// A section of INFO: that of the commands has some 80 bytes for each of those that were called, of which
/// there are 400, and those of modules.
const TEXT_BYTES: u64 = 256 << 10;
/// Of CONFIG GET of one setting: its name and its value.
const ITEMS: u64 = 16;

#[derive(Debug, thiserror::Error)]
pub(super) enum RespError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not a byte came.
    #[error("it closed the connection without an answer")]
    NoAnswer,
    #[error("what answers there does not speak Redis' protocol")]
    NoResp,
    #[error("{0}")]
    Broken(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    /// Texts. What is no text is left out.
    List(Vec<String>),
    /// The server's own words.
    Error(String),
    /// A number, or nothing at all: no answer to what is asked here.
    Other,
}

/// As a client sends it: a list of texts.
pub(super) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
    }
    bytes
}

/// Reads one answer to its last byte.
pub(super) fn reply(stream: &mut impl BufRead) -> Result<Reply, RespError> {
    match stream.fill_buf()? {
        [] => return Err(RespError::NoAnswer),
        // What is of another protocol need not have lines to be waited for.
        [first, ..] if !matches!(first, b'+' | b'-' | b':' | b'$' | b'*') => return Err(RespError::NoResp),
        _ => {}
    }
    let line = line(stream)?;
    if line.first() != Some(&b'*') {
        return one(&line, stream);
    }
    let items = number(&line)?.unwrap_or(0);
    if items > ITEMS {
        return Err(RespError::Broken("its answer has more parts than any of Redis'"));
    }
    let mut list = Vec::new();
    for _ in 0..items {
        let line = self::line(stream)?;
        if let Reply::Text(text) = one(&line, stream)? {
            list.push(text);
        }
    }
    Ok(Reply::List(list))
}

/// What is no list. `first`: its line, which may be all of it.
fn one(first: &[u8], stream: &mut impl BufRead) -> Result<Reply, RespError> {
    let rest = first.get(1..).unwrap_or_default();
    match first.first() {
        Some(b'+') => Ok(Reply::Text(text(rest))),
        Some(b'-') => Ok(Reply::Error(text(rest))),
        Some(b':') => Ok(Reply::Other),
        Some(b'$') => match number(first)? {
            Some(length) => bulk(length, stream),
            None => Ok(Reply::Other),
        },
        _ => Err(RespError::NoResp),
    }
}

fn bulk(length: u64, stream: &mut impl BufRead) -> Result<Reply, RespError> {
    if length > TEXT_BYTES {
        return Err(RespError::Broken("its answer is longer than any of Redis'"));
    }
    let mut bytes = Vec::new();
    stream.take(length + 2).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length + 2 {
        return Err(cut_off());
    }
    match bytes.strip_suffix(b"\r\n") {
        Some(whole) => Ok(Reply::Text(text(whole))),
        None => Err(RespError::Broken("its answer is longer than it says")),
    }
}

/// Behind the first byte; None: there is nothing, which is less than an empty text.
fn number(line: &[u8]) -> Result<Option<u64>, RespError> {
    let digits = line.get(1..).unwrap_or_default();
    if digits == b"-1" {
        return Ok(None);
    }
    let digits = Some(digits).filter(|digits| digits.iter().all(u8::is_ascii_digit));
    let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.map(Some).ok_or(RespError::Broken("the length of its answer is no number"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Without its end.
fn line(stream: &mut impl BufRead) -> Result<Vec<u8>, RespError> {
    let mut line = Vec::new();
    let mut limited = stream.take(LINE_BYTES);
    limited.read_until(b'\n', &mut line)?;
    match line.strip_suffix(b"\r\n") {
        Some(whole) => Ok(whole.to_owned()),
        None if limited.limit() == 0 => Err(RespError::Broken("a line of its answer is too long")),
        None => Err(cut_off()),
    }
}

fn cut_off() -> RespError {
    RespError::Broken("its answer is cut off")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer, and what is left of the stream; or why there is none.
    fn read(mut stream: &[u8]) -> Result<(Reply, usize), String> {
        let reply = reply(&mut stream).map_err(|error| error.to_string())?;
        Ok((reply, stream.len()))
    }

    #[test]
    fn each_kind_of_answer_is_read_to_its_end_and_no_further() {
        let text = |text: &str| Reply::Text(text.into());
        assert_eq!(read(b"+OK\r\n+next"), Ok((text("OK"), 5)));
        assert_eq!(read(b"$4\r\na\r\nb\r\n:1\r\n"), Ok((text("a\r\nb"), 4)));
        assert_eq!(read(b"$0\r\n\r\n"), Ok((text(""), 0)));
        assert_eq!(read(b"$-1\r\n"), Ok((Reply::Other, 0)));
        assert_eq!(read(b":12\r\n"), Ok((Reply::Other, 0)));
        let error = Reply::Error("NOAUTH Authentication required.".into());
        assert_eq!(read(b"-NOAUTH Authentication required.\r\n"), Ok((error, 0)));
        let list = Reply::List(vec!["appendfsync".into(), "always".into()]);
        assert_eq!(read(b"*3\r\n$11\r\nappendfsync\r\n:5\r\n$6\r\nalways\r\n"), Ok((list, 0)));
        assert_eq!(read(b"*0\r\n"), Ok((Reply::List(vec![]), 0)));
        assert_eq!(read(b"*-1\r\n"), Ok((Reply::List(vec![]), 0)));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        for whole in [&b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n"[..], b"+OK\r\n", b"$3\r\nabc\r\n"] {
            for length in 0..whole.len() {
                assert!(read(&whole[..length]).is_err(), "{length}");
            }
            assert!(read(whole).is_ok());
        }
    }

    #[test]
    fn each_part_has_a_limit() {
        let long = [&b"+"[..], &[b'a'; 5_000], b"\r\n"].concat();
        assert_eq!(read(&long).unwrap_err(), "a line of its answer is too long");
        assert!(read(b"$999999999999\r\n").unwrap_err().contains("longer than any"));
        assert!(read(b"*17\r\n").unwrap_err().contains("more parts than any"));
        assert!(read(b"$1\r\nabc").unwrap_err().contains("longer than it says"));
        for bad in [&b"$+1\r\n"[..], b"$1x\r\n", b"$-2\r\n", b"$99999999999999999999999\r\n", b"*x\r\n"] {
            assert!(read(bad).unwrap_err().contains("is no number"), "{bad:?}");
        }
        // A list of lists is none of the answers.
        assert!(read(b"*1\r\n*1\r\n*1\r\n").unwrap_err().contains("does not speak"));
        for other in [&b"SSH-2.0-OpenSSH\r\n"[..], b"HTTP/1.1 400 Bad Request\r\n", b"\x15\x03\x01\0\x02"] {
            assert!(read(other).unwrap_err().contains("does not speak"), "{other:?}");
        }
    }

    #[test]
    fn a_command_is_a_list_of_texts_whatever_these_hold() {
        assert_eq!(command(&["AUTH", "a\r\nb"]), b"*2\r\n$4\r\nAUTH\r\n$4\r\na\r\nb\r\n");
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_a_panic_and_nothing_is_more_than_its_bytes(bytes: Vec<u8>, text in "[*$:+-]{1,2}[0-9]{0,2}\r\n[ -~\r\n]{0,80}") {
            for stream in [&bytes[..], text.as_bytes()] {
                if let Ok((Reply::Text(text) | Reply::Error(text), left)) = read(stream) {
                    // A byte that is no text becomes a character of three.
                    proptest::prop_assert!(text.len() <= 3 * (stream.len() - left));
                }
            }
        }
    }
}
