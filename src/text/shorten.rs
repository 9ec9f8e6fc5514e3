//! Shortens text to a number of terminal columns, without splitting an escape or a wide character.

use unicode_width::UnicodeWidthStr;

/// The width of a text in terminal columns.
pub fn width(text: &str) -> usize {
    text.width()
}

/// Shortens an escaped path to at most `columns`, in the middle, and keeps the file name:
/// `/var/lib/…/#ib_redo5`. A name that is too long by itself is shortened in its middle. Escapes are never
/// split.
pub(crate) fn shorten_path(path: &str, columns: usize, ellipsis: &str) -> String {
    if width(path) <= columns {
        return path.to_owned();
    }
    let dots = width(ellipsis);
    let (directory, name) = path.rfind('/').map_or(("", path), |slash| path.split_at(slash));
    if directory.is_empty() || width(name) + dots > columns {
        return shorten_middle(name.trim_start_matches('/'), columns, ellipsis);
    }
    let kept = take_columns(units(directory), columns - dots - width(name));
    // A cut between two directories is easier to read than one inside a name.
    let kept = match kept.rfind('/') {
        Some(slash) if slash > 0 => &kept[..=slash],
        _ => kept.as_str(),
    };
    format!("{kept}{ellipsis}{name}")
}

/// Shortens an escaped path to at most `columns` from the front, between two directories:
/// `…/shop/products.ibd`. A server's files have the front in common; the end names the table and its
/// schema.
pub(crate) fn end_of_path(path: &str, columns: usize, ellipsis: &str) -> String {
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

/// Shortens a text to at most `columns` at its end, between two words if possible. Escapes are never split.
pub(crate) fn shorten_end(text: &str, columns: usize, ellipsis: &str) -> String {
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

/// Shortens an escaped text to at most `columns` in its middle. Escapes are never split.
pub(crate) fn shorten_middle(text: &str, columns: usize, ellipsis: &str) -> String {
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

/// The characters of an escaped text; an escape sequence is one unit.
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
