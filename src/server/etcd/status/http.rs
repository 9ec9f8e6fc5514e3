//! The answer to a GET in HTTP/1.1, by lines, from a peer that is taken for hostile: each part has a limit,
//! and the connection below has one for all of it and a deadline. Redirections lead to places that nobody
//! named, so they are not followed.

use std::io::{self, BufRead, BufReader, Read};

/// The status and the headers.
const HEAD_BYTES: u64 = 16 << 10;
const HEADERS: usize = 64;
/// The length of a chunk, and what may follow that on its line.
const CHUNK_LINE_BYTES: u64 = 256;
/// What comes after the last chunk.
const TRAILER_LINES: usize = 16;
/// The longest line of etcd 3.4 has 148 bytes.
const LINE_BYTES: u64 = 4 << 10;
/// etcd 3.4 sends some 1,500.
const LINES: usize = 50_000;

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Not a byte came.
    #[error("it closed the connection without an answer")]
    NoAnswer,
    #[error("what answers there speaks no HTTP: {0}")]
    NoHttp(httparse::Error),
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("{0}")]
    Broken(&'static str),
}

/// Reads an answer to its last byte, so that the connection can be asked again, and hands its lines over.
pub(super) fn answer<R: BufRead, E: From<HttpError>>(
    stream: &mut R,
    on_line: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let framing = head(stream)?;
    let mut body = BufReader::new(Body { stream, left: framing.first(), framing });
    let mut line = Vec::new();
    for _ in 0..LINES {
        line.clear();
        let count = (&mut body).take(LINE_BYTES).read_until(b'\n', &mut line).map_err(HttpError::from)?;
        match line.strip_suffix(b"\n") {
            Some(whole) => on_line(whole)?,
            None if count == 0 => return Ok(()),
            None if count as u64 == LINE_BYTES => {
                return Err(HttpError::Broken("a line of it is too long").into());
            }
            None => on_line(&line)?,
        }
    }
    Err(HttpError::Broken("it has too many lines").into())
}

/// How it is told where an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
}

impl Framing {
    /// Bytes until the next chunk begins, or the end.
    fn first(self) -> u64 {
        match self {
            Framing::Length(bytes) => bytes,
            Framing::Chunked => 0,
        }
    }
}

fn head(stream: &mut impl BufRead) -> Result<Framing, HttpError> {
    // What is no HTTP need not have lines to be waited for.
    const BEGIN: &[u8] = b"HTTP/";
    match stream.fill_buf()? {
        [] => return Err(HttpError::NoAnswer),
        first if first.iter().zip(BEGIN).any(|(byte, expected)| byte != expected) => {
            return Err(HttpError::NoHttp(httparse::Error::Version));
        }
        _ => {}
    }
    let mut bytes = Vec::new();
    let mut limited = stream.take(HEAD_BYTES);
    loop {
        let begin = bytes.len();
        if limited.read_until(b'\n', &mut bytes)? == 0 {
            return Err(match limited.limit() {
                0 => HttpError::Broken("its header has no end"),
                _ => HttpError::Broken("its header is cut off"),
            });
        }
        if matches!(&bytes[begin..], b"\r\n" | b"\n") {
            return framing(&bytes);
        }
    }
}

fn framing(head: &[u8]) -> Result<Framing, HttpError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(head).map_err(HttpError::NoHttp)?;
    match response.code {
        Some(200) => {}
        code => return Err(HttpError::Status(code.unwrap_or_default())),
    }
    let values = |name: &str| {
        let of_it = response.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        of_it.map(|header| header.value.trim_ascii()).collect::<Vec<_>>()
    };
    if values("content-encoding").iter().any(|value| !value.eq_ignore_ascii_case(b"identity")) {
        return Err(HttpError::Broken("it is compressed, which was not asked for"));
    }
    match (&*values("transfer-encoding"), &*values("content-length")) {
        ([encoding], []) if encoding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        ([], [length]) => {
            let digits = Some(length).filter(|length| length.iter().all(u8::is_ascii_digit));
            let bytes = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            bytes.map(Framing::Length).ok_or(HttpError::Broken("its length is no number"))
        }
        _ => Err(HttpError::Broken("it does not say in one way where it ends")),
    }
}

/// The content alone. Its end is told from a connection that ends.
struct Body<'a, R> {
    stream: &'a mut R,
    framing: Framing,
    /// Of the chunk, or of all of it.
    left: u64,
}

impl<R: BufRead> Read for Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            match self.framing {
                Framing::Length(_) => return Ok(0),
                Framing::Chunked => self.left = chunk(self.stream)?,
            }
            if self.left == 0 {
                self.framing = Framing::Length(0);
                return Ok(0);
            }
        }
        let room = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.stream.read(&mut buffer[..room])?;
        if count == 0 && room > 0 {
            return Err(cut_off());
        }
        self.left -= count as u64;
        if self.left == 0 && self.framing == Framing::Chunked && line(self.stream)? != b"\r\n" {
            return Err(io::Error::other("a chunk of its answer is longer than it says"));
        }
        Ok(count)
    }
}

fn cut_off() -> io::Error {
    io::Error::other("its answer is cut off")
}

/// How long the next chunk is; 0: that was the last one, and what follows it has been read.
fn chunk(stream: &mut impl BufRead) -> io::Result<u64> {
    let no_length = || io::Error::other("a chunk of its answer has no length");
    match httparse::parse_chunk_size(&line(stream)?).map_err(|_| no_length())? {
        httparse::Status::Complete((_, 0)) => {}
        httparse::Status::Complete((_, length)) => return Ok(length),
        httparse::Status::Partial => return Err(no_length()),
    }
    for _ in 0..TRAILER_LINES {
        if line(stream)? == b"\r\n" {
            return Ok(0);
        }
    }
    Err(io::Error::other("its answer goes on after its end"))
}

fn line(stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    stream.take(CHUNK_LINE_BYTES).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(cut_off());
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines, and what is left of the stream; or why there are none.
    fn read(stream: &[u8]) -> Result<(Vec<String>, usize), String> {
        let (mut lines, mut rest) = (Vec::new(), stream);
        let mut on_line = |line: &[u8]| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        };
        answer::<_, HttpError>(&mut rest, &mut on_line).map_err(|error| error.to_string())?;
        Ok((lines, rest.len()))
    }

    fn chunked(chunks: &[u8]) -> Vec<u8> {
        [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ntransfer-encoding: Chunked\r\n\r\n", chunks]
            .concat()
    }

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_no_further() {
        let of_length = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na\nbc\nHTTP/1.1 200 OK";
        assert_eq!(read(of_length), Ok((lines(&["a", "bc"]), 15)));
        let whole = chunked(b"3\r\na\nb\r\n02;x=y\r\nc\n\r\n1\r\nd\r\n0\r\nlate: yes\r\n\r\nnext");
        assert_eq!(read(&whole), Ok((lines(&["a", "bc", "d"]), 4)));
        assert_eq!(read(&chunked(b"0\r\n\r\n")), Ok((vec![], 0)));
        assert_eq!(read(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"), Ok((vec![], 0)));
    }

    #[test]
    fn an_answer_that_is_cut_off_is_none() {
        let whole = chunked(b"3\r\na\nb\r\n4\r\ncde\n\r\n0\r\n\r\n");
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        assert!(read(&whole).is_ok());
        assert_eq!(
            read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na\n").unwrap_err(),
            "its answer is cut off"
        );
        assert_eq!(read(b"").unwrap_err(), "it closed the connection without an answer");
    }

    #[test]
    fn what_is_no_plain_answer_is_an_error_in_words() {
        let head = |head: &str| read(format!("HTTP/1.1 {head}\r\n\r\na\n").as_bytes()).unwrap_err();
        assert_eq!(head("404 Not Found\r\nContent-Length: 2"), "it answers with status 404");
        assert_eq!(head("301 Moved\r\nLocation: http://192.0.2.1/metrics"), "it answers with status 301");
        assert_eq!(head("100 Continue"), "it answers with status 100");
        let no_end = "it does not say in one way where it ends";
        for headers in [
            "Connection: close",
            "Content-Length: 2\r\nContent-Length: 3",
            "Content-Length: 2\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
        ] {
            assert_eq!(head(&format!("200 OK\r\n{headers}")), no_end, "{headers}");
        }
        for length in ["+2", "2x", "", "99999999999999999999"] {
            assert_eq!(head(&format!("200 OK\r\nContent-Length: {length}")), "its length is no number");
        }
        assert!(head("200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2").contains("compressed"));
        assert!(head("200 OK\r\nno header\r\nContent-Length: 2").contains("speaks no HTTP"));
        for other in [&b"SSH-2.0-OpenSSH\r\n"[..], b"\x15\x03\x01\0\x02\x02\x46", b"J\0\0\0\x0a8.0.36\0"] {
            assert!(read(other).unwrap_err().contains("speaks no HTTP"), "{other:?}");
        }
    }

    #[test]
    fn each_part_has_a_limit() {
        let many = |text: &str, times| text.repeat(times).into_bytes();
        let header = [b"HTTP/1.1 200 OK\r\n".to_vec(), many("a: b\r\n", 9_999)].concat();
        assert_eq!(read(&header).unwrap_err(), "its header has no end");
        let long = [b"HTTP/1.1 200 OK\r\n".to_vec(), vec![b'a'; 1 << 20]].concat();
        assert_eq!(read(&long).unwrap_err(), "its header has no end");
        let headers = [b"HTTP/1.1 200 OK\r\n".to_vec(), many("a: b\r\n", 65), b"\r\n".to_vec()].concat();
        assert!(read(&headers).unwrap_err().contains("too many headers"));
        assert_eq!(read(&chunked(&many("0", 9_999))).unwrap_err(), "its answer is cut off");
        let trailers = [b"0\r\n".to_vec(), many("a: b\r\n", 99)].concat();
        assert_eq!(read(&chunked(&trailers)).unwrap_err(), "its answer goes on after its end");
        for bad in [&b"x\r\n"[..], b"\r\n", b"-1\r\na", b"ffffffffffffffffff\r\n"] {
            assert!(read(&chunked(bad)).is_err(), "{bad:?}");
        }
        assert!(read(&chunked(b"1\r\nab\r\n")).unwrap_err().contains("longer than it says"));
        let body = |body: Vec<u8>| {
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes(), body].concat()
        };
        assert_eq!(read(&body(vec![b'a'; 5_000])).unwrap_err(), "a line of it is too long");
        assert_eq!(read(&body(many("\n", LINES + 1))).unwrap_err(), "it has too many lines");
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_a_panic(body: Vec<u8>, head in "[ -~\r\n]{0,80}") {
            let _ = (read(&body), read(&chunked(&body)));
            let _ = read(&[format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n").into_bytes(), body].concat());
        }

        /// However it is cut into chunks.
        #[test]
        fn chunks_are_put_together_again(parts in proptest::collection::vec("[a-z\n]{1,40}", 0..20)) {
            let chunks: String = parts.iter().map(|part| format!("{:x}\r\n{part}\r\n", part.len())).collect();
            let expected: Vec<String> = parts.concat().lines().map(str::to_owned).collect();
            let stream = chunked(format!("{chunks}0\r\n\r\n").as_bytes());
            proptest::prop_assert_eq!(read(&stream), Ok((expected, 0)));
        }
    }
}
