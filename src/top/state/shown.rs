//! What is shown: figures, the rows made of them, and what they say.

use std::sync::Arc;
use std::time::Duration;

use super::record::Figures;
use crate::model::{Device, Server, ServerId};
use crate::render::ranked::Ranked;
use crate::render::reading::Sentence;
use crate::render::row::Row;

#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub figures: Option<Figures>,
    /// The servers, the sick ones first.
    pub ranked: Vec<Ranked>,
    /// The rows of the table, filtered and sorted.
    pub rows: Vec<Row>,
    /// How many there are without the filter.
    pub rows_before_filter: usize,
    pub read: Option<Read>,
    /// The newest first.
    pub incidents: Vec<Sentence>,
}

impl Shown {
    /// The servers that there are figures of, whether or not they are in scope.
    pub(crate) fn servers(&self) -> &[Arc<Server>] {
        self.figures.as_ref().map_or(&[], |figures| &figures.m.servers)
    }

    /// The server, as far as it is known.
    pub(crate) fn server(&self, id: ServerId) -> Option<&Server> {
        self.servers().iter().map(|server| &**server).find(|server| server.id == id)
    }
}

/// What the figures say.
#[derive(Clone, Debug)]
pub struct Read {
    /// The most urgent first.
    pub sentences: Vec<Sentence>,
    /// How long the time is that they are about. None: what is shown.
    pub sentences_over: Option<Duration>,
    /// The devices that the servers use, with whoever else syncs there.
    pub devices: Vec<Device>,
    /// What to say where there is nobody.
    pub nobody: String,
    /// How long the time is that these figures are of.
    pub devices_over: Duration,
    /// That time is another than what is shown.
    pub devices_are_recent: bool,
}
