//! Columns of text fitted to a width: the flexible column shrinks first, then columns are left out, the least
//! important first.

use super::style::{Paint, Style};
use crate::text::{shorten_middle, shorten_path, width};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub title: &'static str,
    pub align: Align,
    /// Where there is room, at least so wide: figures of several runs stay in place.
    pub roomy: usize,
    /// Left out when there is no room, the lowest first. None: never.
    pub drop_at: Option<u8>,
    /// Holds paths, which may be shortened.
    pub flexible: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    pub text: String,
    /// Stays when the text is shortened.
    pub suffix: String,
    pub paint: Paint,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell { text, ..Cell::default() }
    }
}

const GAP: usize = 2;
/// Below this, a path says too little: rather leave out another column.
const FLEXIBLE_AT_LEAST: usize = 24;

/// Lays out a table; every line ends with a newline and has no blanks at its end.
pub(crate) fn layout(columns: &[Column], rows: &[Vec<Cell>], style: &Style) -> String {
    let natural: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, column)| {
            let cells = rows.iter().map(|row| width(&row[at].text) + width(&row[at].suffix));
            cells.max().unwrap_or(0).max(width(column.title))
        })
        .collect();
    let roomy: Vec<usize> = columns.iter().zip(&natural).map(|(c, &n)| n.max(c.roomy)).collect();
    let limit = style.width.unwrap_or(usize::MAX);
    let all: Vec<usize> = (0..columns.len()).collect();
    if let Some(widths) = fit(columns, &roomy, &all, limit) {
        return write(columns, rows, &all, &widths, style);
    }
    let mut shown = all;
    loop {
        if let Some(widths) = fit(columns, &natural, &shown, limit) {
            return write(columns, rows, &shown, &widths, style);
        }
        let droppable = shown.iter().enumerate().filter_map(|(at, &c)| Some((columns[c].drop_at?, at)));
        match droppable.min() {
            Some((_, at)) => shown.remove(at),
            // Too narrow even for what must be there: let the terminal break the lines.
            None => return write(columns, rows, &shown, &natural, style),
        };
    }
}

/// The widths with which these columns fit, or None.
fn fit(columns: &[Column], wanted: &[usize], shown: &[usize], limit: usize) -> Option<Vec<usize>> {
    let mut widths = wanted.to_vec();
    let total: usize = shown.iter().map(|&c| wanted[c] + GAP).sum::<usize>().saturating_sub(GAP);
    if total <= limit {
        return Some(widths);
    }
    let flexible = shown.iter().copied().find(|&c| columns[c].flexible)?;
    let room = wanted[flexible].checked_sub(total - limit)?;
    widths[flexible] = room;
    (room >= FLEXIBLE_AT_LEAST).then_some(widths)
}

fn write(columns: &[Column], rows: &[Vec<Cell>], shown: &[usize], widths: &[usize], style: &Style) -> String {
    let heading: Vec<Cell> = columns
        .iter()
        .map(|column| Cell { text: column.title.into(), paint: Paint::Heading, ..Cell::default() })
        .collect();
    let mut out = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut pending = 0;
        for &c in shown {
            let text = fitted(&row[c], widths[c], style);
            let padding = widths[c].saturating_sub(width(&text));
            let (before, after) = if columns[c].align == Align::Left { (0, padding) } else { (padding, 0) };
            if !text.is_empty() {
                out.push_str(&" ".repeat(pending + before));
                out.push_str(&style.paint(row[c].paint, &text));
                pending = after + GAP;
            } else {
                pending += widths[c] + GAP;
            }
        }
        out.push('\n');
    }
    out
}

fn fitted(cell: &Cell, columns: usize, style: &Style) -> String {
    let room = columns.saturating_sub(width(&cell.suffix));
    // Our own words in brackets are no path.
    let shorten = if cell.text.starts_with('(') { shorten_middle } else { shorten_path };
    shorten(&cell.text, room, style.ellipsis()) + &cell.suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &'static str, drop_at: Option<u8>, flexible: bool) -> Column {
        let align = if flexible { Align::Left } else { Align::Right };
        Column { title, align, roomy: if flexible { 0 } else { 6 }, drop_at, flexible }
    }

    fn lay_out(columns: usize) -> String {
        let table = [column("FILE", None, true), column("P50", Some(1), false), column("MAX", None, false)];
        let path = Cell {
            text: "/var/lib/mysql/#innodb_redo/#ib_redo5".into(),
            suffix: " (gone)".into(),
            paint: Paint::Plain,
        };
        let rows = [vec![path, "200µs".to_owned().into(), "1.7ms".to_owned().into()]];
        layout(&table, &rows, &Style { width: Some(columns), ..Style::default() })
    }

    #[test]
    fn the_path_shrinks_before_a_column_goes() {
        assert_eq!(
            lay_out(60),
            "FILE                                             P50     MAX\n\
             /var/lib/mysql/#innodb_redo/#ib_redo5 (gone)   200µs   1.7ms\n"
        );
        let narrow = lay_out(42);
        assert!(narrow.contains("P50") && narrow.contains("/…/#ib_redo5 (gone)"), "{narrow}");
        let narrower = lay_out(34);
        assert!(!narrower.contains("P50") && narrower.contains("#ib_redo5 (gone)"), "{narrower}");
    }

    #[test]
    fn no_line_is_wider_than_asked_and_none_ends_in_blanks() {
        for columns in 31..80 {
            for line in lay_out(columns).lines() {
                assert!(width(line) <= columns && !line.ends_with(' '), "{columns}: {line}");
            }
        }
    }
}
