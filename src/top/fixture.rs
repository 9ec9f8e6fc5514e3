//! A world for the tests: servers whose figures grow, snapshots of them, and a view that sees those.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::event::{Effect, Event};
use super::keys::Press;
use super::palette::Colors;
use super::screen;
use super::state::{Options, State};
use super::view::View;
use crate::live::Published;
use crate::model::fixture::{self, quiet};
use crate::model::{
    FileRow, InFlight, Interval, NeighbourRow, Op, Role, Server, ServerId, Snapshot, ThreadRow,
};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

fn add_file(files: &mut Vec<FileRow>, row: &FileRow) {
    let same =
        |known: &&mut FileRow| (known.server, known.target, known.op) == (row.server, row.target, row.op);
    match files.iter_mut().find(same) {
        Some(known) => {
            known.stats.merge(&row.stats);
            known.info = row.info.clone();
        }
        None => files.push(row.clone()),
    }
}

/// What was counted so far.
pub(crate) struct World {
    pub snapshot: Snapshot,
    before: Option<Arc<Snapshot>>,
}

impl World {
    pub fn new() -> World {
        let m = quiet();
        let begun = Instant::now();
        let snapshot = Snapshot {
            servers: m.servers.into_iter().collect(),
            ..Snapshot::empty(begun, SystemTime::UNIX_EPOCH + Duration::from_secs(1_779_937_200), m.setup)
        };
        World { snapshot, before: None }
    }

    pub fn take(&mut self) -> Event {
        let snapshot = Arc::new(self.snapshot.clone());
        let before = self.before.replace(snapshot.clone());
        Event::Published(match before {
            Some(before) => Published::after(before, snapshot),
            None => Published::first(snapshot),
        })
    }

    /// A second goes by in which this happened.
    pub fn second(&mut self, m: &Interval) -> Event {
        self.snapshot.taken += SECOND;
        self.snapshot.taken_wall += SECOND;
        m.files.iter().for_each(|row| add_file(&mut self.snapshot.files, row));
        m.writes.iter().for_each(|row| add_file(&mut self.snapshot.writes, row));
        m.threads.iter().for_each(|row| self.thread(row));
        m.neighbours.iter().for_each(|row| self.neighbour(row));
        self.snapshot.in_flight = m.in_flight.clone();
        for server in &m.servers {
            self.server(server);
        }
        self.take()
    }

    fn server(&mut self, server: &Arc<Server>) {
        match self.snapshot.servers.iter_mut().find(|known| known.id == server.id) {
            Some(known) => *known = server.clone(),
            None => self.snapshot.servers.push(server.clone()),
        }
    }

    fn thread(&mut self, row: &ThreadRow) {
        let same =
            |known: &&mut ThreadRow| (known.server, known.tid, known.op) == (row.server, row.tid, row.op);
        match self.snapshot.threads.iter_mut().find(same) {
            Some(known) => known.stats.merge(&row.stats),
            None => self.snapshot.threads.push(row.clone()),
        }
    }

    fn neighbour(&mut self, row: &NeighbourRow) {
        let same =
            |known: &&mut NeighbourRow| (known.device_number, &known.comm) == (row.device_number, &row.comm);
        match self.snapshot.neighbours.iter_mut().find(same) {
            Some(known) => known.stats.merge(&row.stats),
            None => self.snapshot.neighbours.push(row.clone()),
        }
    }

    pub fn now(&self) -> (Instant, SystemTime) {
        (self.snapshot.taken, self.snapshot.taken_wall)
    }
}

/// A view of a world.
pub struct Bench {
    pub world: World,
    pub state: State,
    pub effects: Vec<Effect>,
}

impl Bench {
    pub fn new(columns: u16, rows: u16) -> Bench {
        Bench::with(columns, rows, |_| {})
    }

    pub fn with(columns: u16, rows: u16, change: impl FnOnce(&mut Options)) -> Bench {
        let mut world = World::new();
        world.snapshot.servers.clear();
        let mut options = Options {
            unicode: true,
            colors: Colors::None,
            stuck_after: SECOND,
            slow_from: Duration::from_micros(1),
            waits_for: "a process called mysqld or mariadbd".into(),
            interval: SECOND,
            view: View::Role,
            mouse: true,
        };
        change(&mut options);
        let (now, wall) = world.now();
        Bench { state: State::new(options, (columns, rows), now, wall), world, effects: Vec::new() }
    }

    /// The busy MySQL, after so many seconds.
    pub fn busy(columns: u16, rows: u16, seconds: u32) -> Bench {
        let mut bench = Bench::new(columns, rows);
        bench.world.snapshot.servers = quiet().servers.into();
        bench.apply_first();
        bench.seconds(seconds, &fixture::busy());
        bench
    }

    pub(crate) fn apply_first(&mut self) {
        let event = self.world.take();
        self.apply(event);
    }

    pub fn second(&mut self, m: &Interval) {
        let event = self.world.second(m);
        let (now, wall) = self.world.now();
        self.apply(Event::Tick(now, wall));
        self.apply(event);
    }

    pub fn seconds(&mut self, n: u32, m: &Interval) {
        (0..n).for_each(|_| self.second(m));
    }

    /// Time goes by without a snapshot.
    pub fn wait(&mut self, time: Duration) {
        let (now, wall) = self.world.now();
        self.apply(Event::Tick(now + time, wall + time));
    }

    pub(crate) fn apply(&mut self, event: Event) {
        let effects = self.state.apply(event);
        self.effects.extend(effects);
    }

    pub(crate) fn press(&mut self, key: Press) {
        self.apply(Event::Key(key));
    }

    pub fn keys(&mut self, keys: &str) {
        keys.chars().for_each(|key| self.press(Press::Char(key)));
    }

    pub fn terminal(&self) -> Terminal<TestBackend> {
        let (columns, rows) = self.state.size;
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| screen::draw(&self.state, frame)).unwrap();
        terminal
    }

    /// What the screen shows, a line each, without blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let terminal = self.terminal();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            let mut text = String::new();
            let mut x = 0;
            while x < buffer.area.width {
                let symbol = buffer[(x, y)].symbol();
                text.push_str(symbol);
                // The cell after a wide character is its second half.
                x += crate::text::width(symbol).max(1) as u16;
            }
            text.trim_end().to_owned()
        };
        (0..buffer.area.height).map(line).collect()
    }

    pub fn screen(&self) -> String {
        self.lines().join("\n") + "\n"
    }

    #[track_caller]
    pub(crate) fn assert_shows(&self, text: &str) {
        let screen = self.screen();
        assert!(screen.contains(text), "{text:?} is not on the screen:\n{screen}");
    }

    #[track_caller]
    pub(crate) fn assert_shows_not(&self, text: &str) {
        let screen = self.screen();
        assert!(!screen.contains(text), "{text:?} is on the screen:\n{screen}");
    }

    pub(crate) fn selected_name(&self) -> String {
        self.state.selected().map(|row| row.name(&self.state.style)).unwrap_or_default()
    }
}

/// So many files of a server, each synced a little more than the one before.
pub(crate) fn many_files(n: u64) -> Interval {
    let one = |inode| {
        let path = format!("/var/lib/mysql/shop/t{inode:05}.ibd");
        let stats = fixture::stats(&[(1 + inode % 7, 200_000 + inode * 10)]);
        fixture::row(fixture::MYSQL, inode, &path, Role::Tablespace, Op::Fsync, stats)
    };
    fixture::with_files(quiet(), Vec::from_iter((1..=n).map(one)), Vec::new())
}

pub fn stuck(server: ServerId, path: &str, age: Duration) -> InFlight {
    InFlight { server, ..fixture::in_flight(Role::Redo, path, age) }
}
