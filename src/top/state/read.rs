//! What the figures on the screen say, in sentences, and who else syncs where the servers do.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use super::State;
use super::record::Figures;
use super::shown::Read;
use crate::model::{Interval, ServerId, neighbours};
use crate::recording::Incident;
use crate::render::ranked::{Ranked, ranked, ranked_over};
use crate::render::reading::{self, Sentence};
use crate::render::{self, Paint};
use crate::text::absence;
use crate::top::view::View;
use crate::verdict;

/// What is read from the figures is read from those of so long a time: sentences that change every second are
/// of no use.
const READ_OVER: Duration = Duration::from_secs(10);
/// A path in a sentence has so many columns at least.
const LEAST_PATH: usize = 24;

impl State {
    /// `recent`: [`State::recent`].
    pub(super) fn read(&self, recent: Option<Arc<Interval>>) -> Option<Read> {
        let figures = self.shown.figures.as_ref()?;
        if figures.m.span.duration.is_zero() {
            return None;
        }
        let since_hang = match self.choice.cumulative {
            true => None,
            false => match self.record.past.recent_since_hang(figures.tick, READ_OVER) {
                None => recent.clone(),
                Some(since_hang) => longer(since_hang, figures),
            },
        };
        let servers = self.servers();
        let sentences = self.sentences(since_hang.as_ref().unwrap_or(&figures.m), &servers);
        let with_devices = recent.as_ref().unwrap_or(&figures.m);
        let devices = neighbours::devices(with_devices, &servers);
        let nobody =
            absence::neighbour(&with_devices.setup.net, &neighbours::filesystems(&figures.m, &servers));
        let duration = |m: &Option<Arc<Interval>>| m.as_ref().map(|m| m.span.duration);
        Some(Read {
            sentences,
            sentences_over: duration(&since_hang).filter(|_| !self.tells_incidents()),
            devices_over: duration(&recent).unwrap_or(figures.m.span.duration),
            devices_are_recent: recent.is_some(),
            devices,
            nobody,
        })
    }

    /// What is shown may be a part of a longer time; None: it is not.
    pub(super) fn recent(&self) -> Option<Arc<Interval>> {
        let figures = self.shown.figures.as_ref().filter(|_| !self.choice.cumulative)?;
        self.record.past.recent(figures.tick, READ_OVER).and_then(|recent| longer(recent, figures))
    }

    fn sentence_options(&self) -> render::Options {
        render::Options {
            style: self.style,
            stuck_after: self.options.stuck_after,
            longest_path: Some((usize::from(self.size.0) / 3).max(LEAST_PATH)),
            ..Default::default()
        }
    }

    /// The servers that there are figures of. What the exporter knows holds for now, and not for the past.
    pub(super) fn ranked(&self, recent: Option<&Interval>) -> Vec<Ranked> {
        let Some(figures) = &self.shown.figures else { return Vec::new() };
        let standing = self.record.standing.servers.iter().filter(|_| self.record.paused.is_none());
        let failing = standing.filter(|of| of.state == verdict::State::Failing).map(|of| of.pid).collect();
        let options = render::Options { failing, ..self.sentence_options() };
        let ranked = match recent {
            Some(recent) => ranked_over(&figures.m, recent, &options),
            None => ranked(&figures.m, &options),
        };
        ranked.into_iter().filter(|one| figures.m.server(one.id).is_some()).collect()
    }

    /// The log has incidents above it, and not what the last seconds say.
    fn tells_incidents(&self) -> bool {
        self.choice.view == View::Log && !self.shown.incidents.is_empty()
    }

    /// Those of the servers in scope that had begun by the time that is shown, the newest first.
    pub(super) fn incidents(&self) -> Vec<Sentence> {
        let Some(figures) = &self.shown.figures else { return Vec::new() };
        let until = self.record.paused_at().map(|tick| tick.end);
        let is_shown = |incident: &&Incident| {
            let is_in_scope = incident.server == ServerId::NONE || self.choice.scope.has(incident.server);
            is_in_scope && until.is_none_or(|until| incident.begin <= until)
        };
        let options = self.sentence_options();
        let all = self.record.past.incidents.list().into_iter().rev().filter(is_shown);
        all.map(|incident| reading::incident(incident, &figures.m, &options)).collect()
    }

    fn sentences(&self, m: &Interval, servers: &[ServerId]) -> Vec<Sentence> {
        let options = self.sentence_options();
        let mut sentences: Vec<Sentence> = reading::lost(m, &options);
        if self.tells_incidents() {
            sentences.extend(self.shown.incidents.iter().cloned());
            return sentences;
        }
        // Those that do most, first.
        let busy = |id: ServerId| {
            let times = m.roles.iter().filter(|row| row.server == id).map(|row| row.stats.sum_ns);
            times.fold(0, u64::saturating_add)
        };
        let mut servers = servers.to_vec();
        servers.sort_by_key(|&id| Reverse(busy(id)));
        for &server in &servers {
            // What is stuck has lines of its own.
            let said = reading::of_server(m, server, &options);
            let mut said: Vec<_> = said.into_iter().filter(|said| said.paint != Paint::Stuck).collect();
            if servers.len() > 1 {
                let name = self.server_name(server);
                said.iter_mut().for_each(|said| said.text.insert_str(0, &format!("{name}: ")));
            }
            sentences.extend(said);
        }
        sentences.sort_by_key(|said| said.paint != Paint::Error);
        sentences
    }
}

/// The longer time, with what is so now.
fn longer(recent: Interval, figures: &Figures) -> Option<Arc<Interval>> {
    let (in_flight, servers) = (figures.m.in_flight.clone(), figures.m.servers.clone());
    let whole_disks = figures.m.whole_disks.clone();
    (recent.span.duration > figures.m.span.duration)
        .then(|| Arc::new(Interval { in_flight, servers, whole_disks, ..recent }))
}
