//! Makes untrusted text (paths, names, error messages) harmless and visible on one line of a terminal.

use std::fmt::Write as _;

/// Makes untrusted bytes (a path, a comm) safe and visible on one line of a terminal: control characters,
/// invalid UTF-8 and characters that reorder or hide others become `\n`, `\x1b`, `\u{202e}`. Backslashes
/// are doubled, so that different names stay different.
pub(crate) fn escape(bytes: &[u8]) -> String {
    escape_as(bytes, true, true)
}

/// As [`escape`], and non-ASCII characters become `\u{e9}`, for a terminal that cannot show them.
pub(crate) fn escape_to_ascii(bytes: &[u8]) -> String {
    escape_as(bytes, false, true)
}

/// As [`escape`], but keeps backslashes: for a sentence whose names are already escaped.
pub(crate) fn escape_sentence(text: &str) -> String {
    escape_as(text.as_bytes(), true, false)
}

/// As [`escape_sentence`], for a terminal that cannot show other characters than ASCII.
pub(crate) fn sentence_to_ascii(text: &str) -> String {
    escape_as(text.as_bytes(), false, false)
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

/// Control characters, and characters that are invisible or change the order or position of others
/// (Unicode's bidirectional controls, zero-width characters, line separators, tags, fillers).
pub(crate) fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}
