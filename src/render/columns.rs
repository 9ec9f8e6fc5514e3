//! The columns of tables: what a row is, and its figures.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::model::figures::{Figure, Line};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    Time,
    Server,
    Name,
    Tid,
    Device,
    Shared,
    Role,
    Op,
    Figure(Figure),
    /// How busy a log is that the server syncs one call at a time.
    Busy,
    Unsynced,
    /// The last minutes.
    Graph,
}

/// The column to sort by; figures the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Name,
    Role,
    Op,
    Figure(Figure),
}

/// A column of the table beside the one that says what a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Role,
    Op,
    Figure(Figure),
    Unsynced,
}

impl Sort {
    pub(crate) fn column(self) -> Column {
        match self {
            Sort::Name => Column::Name,
            Sort::Role => Column::Role,
            Sort::Op => Column::Op,
            Sort::Figure(figure) => Column::Figure(figure),
        }
    }
}

impl Shown {
    pub(crate) fn column(self) -> Column {
        match self {
            Shown::Role => Column::Role,
            Shown::Op => Column::Op,
            Shown::Figure(figure) => Column::Figure(figure),
            Shown::Unsynced => Column::Unsynced,
        }
    }
}

fn word(line: &'static Line) -> PossibleValue {
    let value = PossibleValue::new(line.word);
    if line.help.is_empty() { value } else { value.help(line.help) }
}

impl ValueEnum for Sort {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Sort>> = LazyLock::new(|| {
            let figures = Figure::by_place().into_iter().filter(|figure| figure.line().sorts);
            [Sort::Name, Sort::Role, Sort::Op].into_iter().chain(figures.map(Sort::Figure)).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Sort::Name => PossibleValue::new("name").help(
                "The first column: roles in their own order, files by path, threads by name, servers by pid",
            ),
            Sort::Role => PossibleValue::new("role").help("The role; by file only, elsewhere as `name`"),
            Sort::Op => PossibleValue::new("op"),
            Sort::Figure(Figure::Time) => PossibleValue::new(Figure::Time.line().word)
                .alias(Figure::InFlight.line().word)
                .help("The time spent in syncs, which is also the order of the mean number in flight and of the busy share"),
            Sort::Figure(figure) => word(figure.line()),
        })
    }
}

impl ValueEnum for Shown {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Shown>> = LazyLock::new(|| {
            let figures = Figure::by_place().into_iter().filter(|figure| !figure.line().title.is_empty());
            let figures = figures.map(Shown::Figure);
            [Shown::Role, Shown::Op].into_iter().chain(figures).chain([Shown::Unsynced]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Shown::Role => PossibleValue::new("role").help("The role, in a table by file"),
            Shown::Op => PossibleValue::new("op").help("The call"),
            Shown::Figure(figure) => word(figure.line()),
            Shown::Unsynced => PossibleValue::new("unsynced")
                .help("In a table of writes, what of them no sync has covered yet, and since when"),
        })
    }
}
