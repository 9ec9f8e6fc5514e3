//! Text for people: names that a traced process chose made harmless, latencies and counts with their units, and
//! the width and shortening of what stands in a table.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

/// Makes bytes that somebody else chose (a path, a comm) safe and visible on one line of a terminal: control
/// characters, invalid UTF-8 and characters that reorder or hide others become `\n`, `\x1b`, `\u{202e}`. A backslash
/// is doubled, so that the result tells one name from every other.
pub fn escape(bytes: &[u8]) -> String {
    escape_as(bytes, true, true)
}

/// As [`escape`], and everything beyond ASCII becomes `\u{e9}`: for a terminal that cannot show it.
pub fn escape_to_ascii(bytes: &[u8]) -> String {
    escape_as(bytes, false, true)
}

/// As [`escape`], but a backslash stays: for a sentence whose names are escaped already.
pub fn escape_sentence(text: &str) -> String {
    escape_as(text.as_bytes(), true, false)
}

fn escape_as(bytes: &[u8], unicode: bool, double_backslash: bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' if double_backslash => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                c if c.is_ascii_control() => push_byte(&mut out, c as u8),
                c if is_deceptive(c) || !unicode && !c.is_ascii() => {
                    let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| push_byte(&mut out, byte));
    }
    out
}

fn push_byte(out: &mut String, byte: u8) {
    let _ = write!(out, "\\x{byte:02x}");
}

/// Control characters, and those that are invisible or change the order or the place of what stands around them
/// (Unicode's bidirectional controls, zero-width characters, line separators, tags, fillers).
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A latency for a table: `85ns`, `1.7µs`, `240µs`, `3.1s`, `2m05s`. Two or three digits, which is what a histogram
/// of 3 % can bear.
pub fn duration(ns: u64) -> String {
    let (value, unit) = scaled(ns);
    value + unit
}

/// A latency for a sentence: `240 µs`, `3.1 s`, `2m05s`.
pub fn duration_in_words(ns: u64) -> String {
    let (value, unit) = scaled(ns);
    if unit.is_empty() { value } else { format!("{value} {unit}") }
}

fn scaled(ns: u64) -> (String, &'static str) {
    let seconds = (ns as f64 / 1e9).round() as u64;
    if seconds >= 3600 {
        return (format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60), "");
    }
    if seconds >= 60 {
        return (format!("{}m{:02}s", seconds / 60, seconds % 60), "");
    }
    let mut value = ns as f64;
    let mut unit = "ns";
    for larger in ["µs", "ms", "s"] {
        // 999.6 µs is 1.0 ms, not 1000 µs.
        if value.round() < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, larger);
    }
    // 9.96 is 10, not 10.0; there is no fraction of a nanosecond.
    let whole = unit == "ns" || value >= 9.95;
    (if whole { format!("{value:.0}") } else { format!("{value:.1}") }, unit)
}

/// The length of an interval: `1.37 s`, `10.0 s`, `300 s`.
pub fn interval(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s < 9.995 => format!("{s:.2} s"),
        s if s < 99.95 => format!("{s:.1} s"),
        s => format!("{} s", count(s.round() as u64)),
    }
}

/// A count with thousands separators: `3,237`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many in a time, per second: `2,366`, `0.4`; a dash where no time has passed.
pub fn rate(n: u64, over: std::time::Duration) -> String {
    if over.is_zero() {
        return "–".into();
    }
    match n as f64 / over.as_secs_f64() {
        0.0 => "0".into(),
        r if r < 0.05 => "<0.1".into(),
        r if r < 9.95 => format!("{r:.1}"),
        r => count(r.round() as u64),
    }
}

/// With a capital letter at the begin, as a sentence has it.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// A share (0 to 1) as a percentage: `57 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The columns that a text takes on a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Shortens an escaped path to at most `columns`, in the middle, and keeps the file name:
/// `/var/lib/…/#ib_redo5`. A name that is itself too long loses its own middle. Escapes are never cut in two.
pub fn shorten_path(path: &str, columns: usize, ellipsis: &str) -> String {
    if width(path) <= columns {
        return path.to_owned();
    }
    let dots = width(ellipsis);
    let (directory, name) = path.rfind('/').map_or(("", path), |slash| path.split_at(slash));
    if directory.is_empty() || width(name) + dots > columns {
        return shorten_middle(name.trim_start_matches('/'), columns, ellipsis);
    }
    let kept = take_columns(units(directory), columns - dots - width(name));
    // A cut between two directories reads better than one inside a name.
    let kept = match kept.rfind('/') {
        Some(slash) if slash > 0 => &kept[..=slash],
        _ => kept.as_str(),
    };
    format!("{kept}{ellipsis}{name}")
}

/// Shortens an escaped path to at most `columns` from its begin, between two directories: `…/shop/products.ibd`. What a
/// server's files have in common stands at the begin, and which schema a table belongs to at the end.
pub fn end_of_path(path: &str, columns: usize, ellipsis: &str) -> String {
    if width(path) <= columns {
        return path.to_owned();
    }
    let dots = width(ellipsis);
    let ends = path.match_indices('/').map(|(slash, _)| &path[slash..]);
    match ends.into_iter().find(|end| dots + width(end) <= columns) {
        Some(end) => format!("{ellipsis}{end}"),
        None => shorten_path(path, columns, ellipsis),
    }
}

/// Shortens a text to at most `columns` by leaving out its end, behind a word where there is one. Escapes are never cut
/// in two.
pub fn begin_of(text: &str, columns: usize, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let kept = take_columns(units(text), columns.saturating_sub(width(ellipsis)));
    let is_cut_in_word = !text[kept.len()..].starts_with(' ');
    let kept = match kept.rfind(' ') {
        Some(blank) if is_cut_in_word => &kept[..blank],
        _ => kept.as_str(),
    };
    take_columns(units(&format!("{}{ellipsis}", kept.trim_end())), columns)
}

/// Shortens an escaped text to at most `columns` by leaving out its middle. Escapes are never cut in two.
pub fn shorten_middle(text: &str, columns: usize, ellipsis: &str) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(width(ellipsis));
    let all: Vec<&str> = units(text).collect();
    let head = take_columns(all.iter().copied(), room.div_ceil(2));
    let mut tail: Vec<&str> = Vec::new();
    let mut left = room - width(&head);
    for &unit in all.iter().rev() {
        if width(unit) > left {
            break;
        }
        left -= width(unit);
        tail.push(unit);
    }
    tail.reverse();
    take_columns([head.as_str(), ellipsis, &tail.concat()].into_iter().flat_map(units), columns)
}

fn take_columns<'a>(units: impl Iterator<Item = &'a str>, columns: usize) -> String {
    let mut left = columns;
    units
        .take_while(|unit| {
            let fits = width(unit) <= left;
            left = left.saturating_sub(width(unit));
            fits
        })
        .collect()
}

/// The characters of an escaped text, an escape sequence being one.
fn units(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices();
        let (_, first) = chars.next()?;
        let length = match (first, rest.as_bytes().get(1)) {
            ('\\', Some(b'x')) => 4,
            ('\\', Some(b'u')) => rest.find('}').map_or(2, |end| end + 1),
            ('\\', Some(b'n' | b'r' | b't' | b'\\')) => 2,
            _ => first.len_utf8(),
        };
        let (unit, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        Some(unit)
    })
}

/// The name of an errno: `EIO`; a number where it has none.
pub fn errno(number: i32) -> String {
    match nix::errno::Errno::from_raw(number) {
        nix::errno::Errno::UnknownErrno => format!("errno {number}"),
        known => format!("{known:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Nothing that moves a cursor, hides or reorders reaches a terminal, and no two names look alike.
        #[test]
        fn what_is_escaped_is_visible_and_tells_one_name_from_every_other(a: Vec<u8>, b: Vec<u8>) {
            for text in [escape(&a), escape_to_ascii(&a), escape_sentence(&String::from_utf8_lossy(&a))] {
                proptest::prop_assert!(!text.chars().any(is_deceptive));
            }
            proptest::prop_assert!(escape_to_ascii(&a).is_ascii());
            proptest::prop_assert_eq!(escape(&a) == escape(&b), a == b);
            proptest::prop_assert_eq!(escape_to_ascii(&a) == escape_to_ascii(&b), a == b);
            proptest::prop_assert!(escape(&a).len() <= 10 * a.len());
        }

        #[test]
        fn what_is_shortened_fits(name: Vec<u8>, columns in 1usize..100) {
            let path = escape(&name);
            proptest::prop_assert!(width(&shorten_path(&path, columns, "…")) <= columns);
            proptest::prop_assert!(width(&shorten_middle(&path, columns, "…")) <= columns);
        }
    }
    use std::time::Duration;

    #[test]
    fn what_a_process_chose_reaches_no_terminal_as_it_is() {
        assert_eq!(escape(b"/a\nb\x1b[2J\x07\x7f"), "/a\\nb\\x1b[2J\\x07\\x7f");
        assert_eq!(
            escape("gpj.\u{202e}exe \u{200b}\u{9b}31m".as_bytes()),
            "gpj.\\u{202e}exe \\u{200b}\\u{9b}31m"
        );
        assert_eq!(escape(b"\xff\xc3ok\xe2\x82"), "\\xff\\xc3ok\\xe2\\x82");
        assert_eq!(escape("bücher".as_bytes()), "bücher");
        assert_eq!(escape_to_ascii("bücher".as_bytes()), "b\\u{fc}cher");
        assert_eq!(escape_sentence("a\\nb\u{1b}"), "a\\nb\\x1b");
    }

    #[test]
    fn names_that_differ_stay_different() {
        assert_ne!(escape(b"a\nb"), escape(b"a\\nb"));
        assert_ne!(escape(b"a\xff"), escape(b"a\\xff"));
    }

    #[test]
    fn latencies_have_two_or_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0ns"),
            (85, "85ns"),
            (999, "999ns"),
            (1_000, "1.0µs"),
            (9_949, "9.9µs"),
            (9_960, "10µs"),
            (240_400, "240µs"),
            (999_600, "1.0ms"),
            (1_700_000, "1.7ms"),
            (90_000_000, "90ms"),
            (3_100_000_000, "3.1s"),
            (59_400_000_000, "59s"),
            (59_600_000_000, "1m00s"),
            (125_000_000_000, "2m05s"),
            (3_725_000_000_000, "1h02m"),
        ] {
            assert_eq!(duration(ns), text, "{ns}");
        }
        assert_eq!(duration_in_words(90_000_000), "90 ms");
        assert_eq!(duration_in_words(125_000_000_000), "2m05s");
    }

    #[test]
    fn intervals_counts_and_rates() {
        assert_eq!(interval(Duration::from_millis(1_368)), "1.37 s");
        assert_eq!(interval(Duration::from_millis(9_999)), "10.0 s");
        assert_eq!(interval(Duration::from_secs(86_400)), "86,400 s");
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        let second = Duration::from_secs(1);
        assert_eq!(rate(2_366, second), "2,366");
        assert_eq!(rate(14, Duration::from_millis(1_370)), "10");
        assert_eq!(rate(4, 10 * second), "0.4");
        assert_eq!(rate(1, 100 * second), "<0.1");
        assert_eq!(rate(0, second), "0");
        assert_eq!(rate(5, Duration::ZERO), "–");
        assert_eq!(percent(0.566), "57 %");
    }

    #[track_caller]
    fn never_wider(all: std::ops::Range<usize>, shortened: impl Fn(usize) -> String) {
        for columns in all {
            assert!(width(&shortened(columns)) <= columns, "{columns}");
        }
    }

    #[test]
    fn a_shortened_path_keeps_its_file_name() {
        let path = "/var/lib/mysql/#innodb_redo/#ib_redo5";
        assert_eq!(shorten_path(path, 40, "…"), path);
        assert_eq!(shorten_path(path, 30, "…"), "/var/lib/mysql/…/#ib_redo5");
        assert_eq!(shorten_path(path, 20, "…"), "/var/lib/…/#ib_redo5");
        assert_eq!(shorten_path(path, 22, "..."), "/var/lib/.../#ib_redo5");
        assert_eq!(shorten_path(path, 7, "…"), "#ib…do5");
        never_wider(1..45, |columns| shorten_path(path, columns, "…"));
    }

    #[test]
    fn the_end_of_a_path_keeps_the_directories_next_to_the_file() {
        let path = "/var/lib/mysql/shop/products.ibd";
        assert_eq!(end_of_path(path, 32, "…"), path);
        assert_eq!(end_of_path(path, 31, "…"), "…/lib/mysql/shop/products.ibd");
        assert_eq!(end_of_path(path, 24, "…"), "…/shop/products.ibd");
        assert_eq!(end_of_path(path, 24, "..."), ".../shop/products.ibd");
        assert_eq!(end_of_path(path, 14, "…"), "…/products.ibd");
        assert_eq!(end_of_path(path, 7, "…"), "pro…ibd");
        never_wider(1..40, |columns| end_of_path(path, columns, "…"));
    }

    #[test]
    fn the_begin_of_a_text_ends_with_a_word() {
        let text = "the binary log is busy";
        assert_eq!(begin_of(text, 22, " …"), text);
        assert_eq!(begin_of(text, 21, " …"), "the binary log is …");
        assert_eq!(begin_of(text, 20, " …"), "the binary log is …");
        assert_eq!(begin_of(text, 18, " …"), "the binary log …");
        assert_eq!(begin_of("unbreakable", 8, " …"), "unbrea …");
        never_wider(0..24, |columns| begin_of(text, columns, " …"));
    }

    #[test]
    fn shortening_cuts_no_escape_and_no_wide_character_in_two() {
        let name = escape("/d/\u{202e}\u{202e}データベース\n\n".as_bytes());
        for columns in 1..30 {
            let short = shorten_path(&name, columns, "…");
            assert!(width(&short) <= columns, "{columns}: {short}");
            assert_eq!(short.matches("\\u").count(), short.matches("\\u{202e}").count(), "{short}");
            assert_eq!(
                short.matches('\\').count(),
                short.matches("\\u{202e}").count() + short.matches("\\n").count()
            );
        }
    }

    #[test]
    fn errnos_have_their_names() {
        assert_eq!(errno(libc::EIO), "EIO");
        assert_eq!(errno(libc::ENOSPC), "ENOSPC");
        assert_eq!(errno(9_999), "errno 9999");
    }
}
