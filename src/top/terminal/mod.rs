//! The view in a terminal: waits for keys, snapshots, signals and time, tells the state, draws it. Drawing
//! drops frames where the terminal is slow to read; nothing here ever makes the sampler wait.

mod backend;
mod input;
mod signals;
mod tty;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::event::{self, Effect, Event, Extras, Standing};
use super::look::Looker;
use super::screen;
use super::source::{Letter, Mail, Source, Start, StartError};
use super::state::{Options, State};
use super::write::write;
use crate::linux::lock;
use crate::live::Live;
use crate::model::Interval;
use crate::recording::{History, Troubles};
use backend::Bytes;
use input::Input;
use signals::Signals;
use tty::Tty;

/// Two frames are at least so far apart.
const FRAME: Duration = Duration::from_millis(40);
/// Time is told at least so often.
const TICK: Duration = Duration::from_secs(1);

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Everything since the start, or since figures were last begun anew.
    pub summary: Option<Interval>,
    /// What went wrong since the view began.
    pub session: Troubles,
}

/// The terminal, if there is one to show something on and to type on.
pub struct Screen(Tty);

impl Screen {
    pub fn open() -> Option<Screen> {
        Tty::open().map(Screen)
    }

    /// Takes the terminal over, with the mouse; see [`giving_back`].
    pub fn take_over(&mut self) -> io::Result<()> {
        self.0.enter(true)?;
        self.0.write()
    }
}

/// An exporter on this host, if there is one. Asked on a thread of its own.
pub struct Exporter {
    /// What it remembers of the last minutes.
    pub earlier: Box<dyn FnOnce() -> Option<event::Earlier> + Send>,
    /// How it says that the servers stand now.
    pub standing: Box<dyn Fn() -> Standing + Send>,
}

/// What is shown.
pub enum Feed {
    Live {
        start: Start,
        extras: Extras,
        exporter: Exporter,
    },
    /// And which moment of it first; None: its end.
    Recording(Box<History>, Option<SystemTime>),
}

const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Why there is no view.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the terminal: {0}")]
    Terminal(#[from] io::Error),
}

/// Shows the view, and meanwhile attaches; until it is quit.
pub fn run(screen: Screen, options: Options, feed: Feed) -> Result<Ended, ViewError> {
    let Screen(tty) = screen;
    let signals = Signals::new()?;
    let (mail, letters) = Mail::new()?;
    let looker = Looker::start(mail.clone());
    let (attached, sessions) = channel();
    let interval = options.interval;
    let mut state = State::new(options, tty.size(), Instant::now(), SystemTime::now());
    let source = match feed {
        Feed::Live { start, extras, exporter } => {
            ask(exporter, mail.clone());
            let mut source = Source::new(start, interval, mail.clone());
            source.attach(extras, attached.clone())?;
            source
        }
        Feed::Recording(recording, at) => {
            state.apply(Event::Recording(recording, at));
            let never = |_, _| Err(StartError("a recording is shown".into()));
            Source::new(Arc::new(never), interval, mail.clone())
        }
    };
    let mut view = View {
        terminal: terminal(state.size)?,
        tty,
        state,
        signals,
        mail,
        letters,
        source,
        sessions,
        attached,
        looker,
        input: Input::default(),
        is_stale: true,
        drawn: Instant::now() - FRAME,
        ticked: Instant::now(),
    };
    let ended = giving_back(|| {
        view.tty.enter(view.state.mouse)?;
        view.go_on()
    });
    let View { state, source, .. } = view;
    source.abandon();
    Ok(Ended { signal: ended?, summary: state.record.summary(), session: state.record.session.clone() })
}

fn ask(exporter: Exporter, mail: Mail) {
    let task = move || {
        mail.send(Event::Standing((exporter.standing)()));
        if let Some(earlier) = (exporter.earlier)() {
            mail.send(Event::Earlier(Box::new(earlier)));
        }
        loop {
            std::thread::sleep(ASK_AGAIN);
            mail.send(Event::Standing((exporter.standing)()));
        }
    };
    // Without a thread the past begins now.
    let _ = std::thread::Builder::new().name("earlier".into()).spawn(task);
}

/// What other threads said when they panicked: on the screen it would be drawn over.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Works on a terminal that was taken over, and gives it back however that ends. A panic of this thread can
/// be read then, as can what other threads said when they panicked.
pub fn giving_back<T>(work: impl FnOnce() -> T) -> T {
    restore_on_panic();
    let ended = work();
    tty::leave();
    for panic in lock(&PANICS).drain(..) {
        eprintln!("fsynctop: {panic}");
    }
    ended
}

fn restore_on_panic() {
    let print = std::panic::take_hook();
    let view = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == view {
            tty::leave();
            print(info);
        } else {
            lock(&PANICS).push(info.to_string());
        }
    }));
}

fn terminal((columns, rows): (u16, u16)) -> io::Result<Terminal<Bytes>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    Terminal::with_options(Bytes::new(columns, rows), TerminalOptions { viewport })
}

struct View {
    terminal: Terminal<Bytes>,
    tty: Tty,
    state: State,
    signals: Signals,
    mail: Mail,
    letters: Receiver<Letter>,
    source: Source,
    /// What came of attaching.
    sessions: Receiver<Result<Live, StartError>>,
    attached: Sender<Result<Live, StartError>>,
    looker: Looker,
    input: Input,
    /// What is drawn is not what is known.
    is_stale: bool,
    drawn: Instant,
    ticked: Instant,
}

/// Whether to go on.
enum Next {
    GoOn,
    End(Option<i32>),
}

impl View {
    fn go_on(&mut self) -> Result<Option<i32>, ViewError> {
        loop {
            self.draw()?;
            let ready = self.wait()?;
            self.take_sessions()?;
            for step in [View::look_at_signals, View::read_mail, View::look_at_time] {
                if let Next::End(signal) = step(self)? {
                    return Ok(signal);
                }
            }
            if ready.gone {
                // The terminal was closed. Nobody reads any more.
                return Ok(Some(signal_hook::consts::SIGHUP));
            }
            if ready.input
                && let Next::End(signal) = self.read_keys()?
            {
                return Ok(signal);
            }
            if ready.output {
                self.tty.write()?;
            }
        }
    }

    /// Draws the newest, unless the terminal still has the last frame to read.
    fn draw(&mut self) -> io::Result<()> {
        if !self.is_stale || !self.tty.is_idle() || self.drawn.elapsed() < FRAME {
            return Ok(());
        }
        let state = &self.state;
        self.terminal.draw(|frame| screen::draw(state, frame))?;
        let bytes = self.terminal.backend_mut().take();
        self.tty.queue(&bytes);
        (self.is_stale, self.drawn) = (false, Instant::now());
        self.tty.write()
    }

    fn wait(&self) -> io::Result<Ready> {
        let now = Instant::now();
        let mut until = self.ticked + TICK;
        if self.is_stale && self.tty.is_idle() {
            until = until.min(self.drawn + FRAME);
        }
        until = self.input.due().map_or(until, |due| until.min(due));
        let left = until.saturating_duration_since(now);
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let out = if self.tty.is_idle() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [
            PollFd::from_borrowed_fd(self.tty.input(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.tty.output(), out),
            PollFd::from_borrowed_fd(self.mail.wake(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.wake(), PollFlags::IN),
        ];
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error.into()),
        }
        let [input, output, mail, signals] = fds.map(|fd| fd.revents());
        if mail.contains(PollFlags::IN) {
            self.mail.drain();
        }
        if signals.contains(PollFlags::IN) {
            self.signals.drain();
        }
        let broken = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        Ok(Ready {
            input: input.contains(PollFlags::IN),
            output: output.contains(PollFlags::OUT),
            gone: input.intersects(broken) || output.intersects(broken),
        })
    }

    fn look_at_signals(&mut self) -> io::Result<Next> {
        if let Some(signal) = self.signals.end() {
            return Ok(Next::End(Some(signal)));
        }
        if self.signals.take_suspend() {
            self.suspend()?;
        } else if self.signals.take_resumed() {
            // Whoever had the terminal meanwhile may have changed it.
            self.come_back()?;
        }
        if self.signals.take_resized() {
            self.resize()?;
        }
        Ok(Next::GoOn)
    }

    fn take_sessions(&mut self) -> Result<(), ViewError> {
        while let Ok(outcome) = self.sessions.try_recv() {
            let event = self.source.take(outcome)?;
            self.apply(event)?;
        }
        Ok(())
    }

    fn read_mail(&mut self) -> io::Result<Next> {
        while let Ok(letter) = self.letters.try_recv() {
            if let Some(event) = self.source.read(letter) {
                if matches!(event, Event::Published(_)) {
                    self.tell_time();
                }
                if let Next::End(signal) = self.apply(event)? {
                    return Ok(Next::End(signal));
                }
            }
        }
        Ok(Next::GoOn)
    }

    fn look_at_time(&mut self) -> io::Result<Next> {
        let now = Instant::now();
        if now >= self.ticked + TICK {
            self.tell_time();
        }
        if self.input.due().is_some_and(|due| now >= due) {
            let events = self.input.settle();
            return self.apply_all(events);
        }
        Ok(Next::GoOn)
    }

    fn tell_time(&mut self) {
        self.ticked = Instant::now();
        let effects = self.state.apply(Event::Tick(self.ticked, SystemTime::now()));
        // Time asks for nothing but another look at what is stuck.
        for effect in effects {
            if let Effect::Look(threads) = effect {
                self.looker.ask(threads);
            }
        }
        self.is_stale = true;
    }

    fn read_keys(&mut self) -> io::Result<Next> {
        let mut bytes = [0; 1024];
        match rustix::io::read(self.tty.input(), &mut bytes) {
            Ok(0) => Ok(Next::End(Some(signal_hook::consts::SIGHUP))),
            Ok(n) => {
                let events = self.input.feed(&bytes[..n], Instant::now());
                self.apply_all(events)
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Next::GoOn),
            // The terminal has gone.
            Err(rustix::io::Errno::IO) => Ok(Next::End(Some(signal_hook::consts::SIGHUP))),
            Err(error) => Err(error.into()),
        }
    }

    fn apply_all(&mut self, events: Vec<Event>) -> io::Result<Next> {
        for event in events {
            if let Next::End(signal) = self.apply(event)? {
                return Ok(Next::End(signal));
            }
        }
        Ok(Next::GoOn)
    }

    fn apply(&mut self, event: Event) -> io::Result<Next> {
        self.is_stale = true;
        for effect in self.state.apply(event) {
            match effect {
                Effect::Quit => return Ok(Next::End(None)),
                Effect::Suspend => self.suspend()?,
                Effect::Redraw => self.draw_anew()?,
                Effect::Interval(interval) => self.source.set_interval(interval),
                Effect::Restart(extras) => self.source.attach(extras, self.attached.clone())?,
                Effect::Look(threads) => self.looker.ask(threads),
                Effect::Write(m) => self.write_file(m),
                Effect::Mouse(on) => self.tty.set_mouse(on),
            }
        }
        Ok(Next::GoOn)
    }

    /// On a thread of its own: the directory may be on the very disk that hangs.
    fn write_file(&self, m: Box<Interval>) {
        let (mail, unicode) = (self.mail.clone(), self.state.style);
        let task = move || {
            let directory = std::env::current_dir().unwrap_or_else(|_| ".".into());
            let text = match write(&m, &directory, SystemTime::now()) {
                Ok(path) => format!("written: {}", unicode.name(path.as_os_str().as_encoded_bytes())),
                Err(error) => {
                    let directory = unicode.name(directory.as_os_str().as_encoded_bytes());
                    format!("cannot write a file in {directory}: {error}")
                }
            };
            mail.send(Event::Said(text));
        };
        let _ = std::thread::Builder::new().name("write".into()).spawn(task);
    }

    fn suspend(&mut self) -> io::Result<()> {
        tty::leave();
        Signals::suspend();
        self.come_back()
    }

    fn come_back(&mut self) -> io::Result<()> {
        // It was told to go on twice: by the signal, and by coming back from the suspension.
        self.signals.take_resumed();
        tty::leave();
        self.tty.enter(self.state.mouse)?;
        self.resize()
    }

    fn resize(&mut self) -> io::Result<()> {
        let (columns, rows) = self.tty.size();
        self.terminal = terminal((columns, rows))?;
        self.apply(Event::Resize(columns, rows))?;
        self.draw_anew()
    }

    fn draw_anew(&mut self) -> io::Result<()> {
        self.is_stale = true;
        self.terminal.clear()
    }
}

/// What can be read and written.
#[derive(Clone, Copy, Debug, Default)]
struct Ready {
    input: bool,
    output: bool,
    /// The terminal has gone.
    gone: bool,
}
