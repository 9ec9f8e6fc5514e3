//! Which columns fit beside each other, and how wide each is.

use crate::render::columns::Column;
use crate::render::row::Row;
use crate::text::width;
use crate::top::cells::{Cell, Format, cell, short_server};
use crate::top::view::Sort;

/// Names get at least so much, if they are that long; less where even the servers are short.
const NAME_AT_LEAST: usize = 24;
const NAME_BESIDE_SHORT_SERVERS: usize = 14;
const GRAPH: std::ops::RangeInclusive<usize> = 7..=60;

/// Which columns there are room for, and where.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    pub columns: Vec<Placed>,
    /// The title of each column.
    pub titles: Vec<String>,
    /// Of the rows that are seen: a cell for each column.
    pub cells: Vec<Vec<Cell>>,
    /// The index of the first of them.
    pub first: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub column: Column,
    pub x: u16,
    pub columns: u16,
}

/// Fits these columns into so much room. `seen`: the rows on the screen, `first` the index of the first of
/// them.
pub fn plan(
    format: &Format,
    columns: &[Column],
    seen: &[Row],
    first: usize,
    sort: Sort,
    room: usize,
) -> Plan {
    let mut cells: Vec<Vec<Cell>> =
        seen.iter().map(|row| columns.iter().map(|column| cell(format, row, *column)).collect()).collect();
    let mut titles: Vec<String> = columns.iter().map(|column| heading(format, sort, *column)).collect();
    let wide = |cells: &[Vec<Cell>], titles: &[String], at: usize| {
        let widest = cells.iter().map(|row| width(&row[at].text) + width(&row[at].suffix)).max();
        widest.unwrap_or(0).max(columns[at].least()).max(width(&titles[at]))
    };
    let mut natural: Vec<usize> = (0..columns.len()).map(|at| wide(&cells, &titles, at)).collect();
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let mut name_at_least = NAME_AT_LEAST;
    let needs = |kept: &[usize], natural: &[usize], name: usize| -> usize {
        let column = |at: usize| match columns[at] {
            Column::Graph => *GRAPH.start(),
            Column::Name => natural[at].min(name),
            _ => natural[at],
        };
        kept.iter().map(|&at| column(at) + 1).sum::<usize>().saturating_sub(1)
    };
    let mut servers_are_short = false;
    while needs(&kept, &natural, name_at_least) > room {
        let stays = |column: Column| column == Column::Server && servers_are_short;
        let may_go = kept.iter().copied().filter(|&at| !stays(columns[at]));
        let goes = may_go.filter_map(|at| Some((columns[at].drop_at(format.view)?, at))).min();
        let Some((_, goes)) = goes else { break };
        if columns[goes] == Column::Server {
            // Without it the rows of two servers could not be told apart.
            servers_are_short = true;
            name_at_least = NAME_BESIDE_SHORT_SERVERS;
            titles[goes] = title(format, sort, Column::Server, "PID");
            cells.iter_mut().zip(seen).for_each(|(cells, row)| cells[goes] = short_server(row));
            natural[goes] = wide(&cells, &titles, goes);
        } else {
            kept.retain(|&at| at != goes);
        }
    }
    // What is left over goes to the names, then to the graphs.
    let needed = needs(&kept, &natural, name_at_least);
    name_at_least = name_at_least.saturating_sub(needed.saturating_sub(room));
    let mut spare = room.saturating_sub(needed);
    for &at in &kept {
        match columns[at] {
            Column::Name => {
                let more = natural[at].saturating_sub(name_at_least).min(spare);
                natural[at] = natural[at].min(name_at_least) + more;
                spare -= more;
            }
            Column::Graph => natural[at] = (*GRAPH.start() + spare).min(*GRAPH.end()),
            _ => {}
        }
    }
    let mut x = 0;
    let placed = kept.iter().map(|&at| {
        let columns_wide = natural[at] as u16;
        x += columns_wide + 1;
        Placed { column: columns[at], x: x - columns_wide - 1, columns: columns_wide }
    });
    let placed = placed.collect();
    let titles = kept.iter().map(|&at| titles[at].clone()).collect();
    let cells = cells.into_iter().map(|row| kept.iter().map(|&at| row[at].clone()).collect()).collect();
    Plan { columns: placed, titles, cells, first }
}

/// The title, with an arrow at the column that is sorted by.
fn heading(format: &Format, sort: Sort, column: Column) -> String {
    title(format, sort, column, column.title(format.view))
}

fn title(format: &Format, sort: Sort, column: Column, title: &str) -> String {
    if sort.column != column {
        return title.to_owned();
    }
    // Figures come the greatest first, text in its own order.
    let descends = (column.is_figure() && column != Column::Tid
        || matches!(column, Column::Time | Column::Shared))
        != sort.reverse;
    let arrow = match (format.style.unicode, descends) {
        (true, true) => "▼",
        (true, false) => "▲",
        (false, true) => "v",
        (false, false) => "^",
    };
    format!("{title}{arrow}")
}
