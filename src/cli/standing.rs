//! What an exporter on this host remembers of servers, for views that look once: a failure that is not over
//! is told by each of them, however long ago it happened.

use std::path::Path;
use std::sync::Arc;

use crate::model::Server;
use crate::recording::remote;
use crate::render::Style;
use crate::text::escape_sentence;
use crate::top;
use crate::verdict::{OfServer, State};

/// The verdicts of an exporter, and why it does not record; nothing where none could be asked.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    servers: Vec<OfServer>,
    not_recording: Option<String>,
}

impl Standing {
    /// That there is no exporter, or none that may be asked, is no error: the past begins now.
    pub fn ask(socket: &Path) -> Standing {
        let Ok(standing) = remote::standing(socket) else { return Standing::default() };
        Standing {
            servers: standing.servers.into_iter().map(|of| of.verdict).collect(),
            not_recording: standing.not_recording,
        }
    }

    pub fn into_all(self) -> top::Standing {
        top::Standing { servers: self.servers, not_recording: self.not_recording }
    }

    /// Those of these servers whose failures are not over.
    pub fn failing<'a>(&'a self, servers: &'a [Arc<Server>]) -> impl Iterator<Item = &'a OfServer> {
        let is_shown = |of: &&OfServer| servers.iter().any(|server| server.id.pid == of.pid && server.alive);
        self.servers.iter().filter(|of| of.state == State::Failing).filter(is_shown)
    }

    /// The same in words, for the end of a table; empty if there are none.
    pub fn text(&self, servers: &[Arc<Server>], style: &Style) -> String {
        let lines =
            self.failing(servers).map(sentence).chain(self.not_recording.as_deref().map(not_recording));
        let wrapped = lines.flat_map(|line| style.wrap(&line, 2));
        wrapped.map(|line| style.finish(format!("{line}\n"))).collect()
    }
}

/// A failure that is not over, whenever it began.
pub(crate) fn sentence(of: &OfServer) -> String {
    let (name, said) = (escape_sentence(&of.server), escape_sentence(&of.sentence));
    let since = moment(&of.since);
    format!("{name} has been failing since {since}. {said} (The exporter remembers it: `fsynctop status`.)")
}

pub(crate) fn not_recording(why: &str) -> String {
    format!("The exporter does not record: {}.", escape_sentence(why))
}

/// A time of RFC 3339 for people.
pub(crate) fn moment(rfc3339: &str) -> String {
    let text = rfc3339.get(..19).unwrap_or(rfc3339);
    format!("{} UTC", escape_sentence(&text.replace('T', " ")))
}
