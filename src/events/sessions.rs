//! Whose statement waits: the connection and the user of a thread, as its server says. A server that hangs
//! does not say it in time, and whatever listens in its place may say anything: it is asked by a thread of
//! its own, seldom, and a line does without.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Waits;
use crate::linux::blocking::{Limits, Pool, Share};
use crate::linux::proc_file;
use crate::model::{Owner, Server, ServerId};
use crate::server::asking::Scope;
use crate::server::asking::connection::Client as _;
use crate::server::asking::find::Target;
use crate::server::asking::options::ConnectOptions;
use crate::server::mysql::status::Connection;
use crate::server::mysql::status::client::Client;
use crate::server::mysql::status::sessions::{Session, Sessions};

const ALL: Share = Share { threads: 4, with_abandoned: 8, queue: 32 };
/// Anybody may start a server that hangs and answers nobody.
const OF_ONE_OWNER: Share = Share { threads: 1, with_abandoned: 2, queue: 4 };
/// To find the socket, which may lie on what hangs, to connect, and to be answered.
const TIMEOUT: Duration = Duration::from_secs(4);
/// How long the lines of a moment wait for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// A server is asked this often.
const SELDOM: Duration = Duration::from_secs(5);

struct Question {
    server: Server,
    options: ConnectOptions,
}

pub(crate) struct Asker {
    options: ConnectOptions,
    answers: Pool<Owner, Question, (ServerId, Option<Sessions>)>,
    asked: BTreeMap<ServerId, Instant>,
}

/// By the thread, as the host has it.
pub(crate) type Whose = BTreeMap<Waits, Session>;

impl Asker {
    pub fn new(options: ConnectOptions) -> Asker {
        let limits = Limits { all: ALL, of_one_owner: OF_ONE_OWNER, job_timeout: TIMEOUT, allowance: None };
        let answers = Pool::new("sessions", limits, answer);
        Asker { options, answers, asked: BTreeMap::new() }
    }

    /// The connections of these threads, as far as they can be had at once.
    pub fn of(&mut self, threads: &BTreeSet<Waits>, servers: &[std::sync::Arc<Server>]) -> Whose {
        // Answers that nobody waited for any more.
        while self.answers.poll().is_some() {}
        let now = Instant::now();
        self.asked.retain(|_, at| now.saturating_duration_since(*at) < SELDOM);
        let pids: BTreeSet<u32> = threads.iter().map(|waits| waits.pid).collect();
        let is_wanted = |server: &&std::sync::Arc<Server>| {
            server.alive && server.version.is_some() && pids.contains(&server.id.pid)
        };
        let mut waited_for = 0;
        // Services of the system first.
        let mut wanted: Vec<_> = servers.iter().filter(is_wanted).collect();
        wanted.sort_by_key(|server| server.known_by.whose);
        for server in wanted {
            if let Entry::Vacant(asked) = self.asked.entry(server.id) {
                asked.insert(now);
                let question = Question { server: (**server).clone(), options: self.options.clone() };
                waited_for += usize::from(self.answers.submit(server.known_by.whose, question));
            }
        }
        let until = now + PATIENCE;
        let mut whose = Whose::new();
        while waited_for > 0
            && let Some((server, sessions)) =
                self.answers.wait(until.saturating_duration_since(Instant::now()))
        {
            waited_for -= 1;
            let Some(sessions) = sessions else { continue };
            for &waits in threads.iter().filter(|waits| waits.pid == server.pid) {
                let own = own_tid(waits.pid, waits.tid);
                whose.extend(sessions.get(&own).map(|session| (waits, session.clone())));
            }
        }
        whose
    }
}

/// None of them where there is no answer: whoever waits need not go on waiting.
fn answer(question: &Question) -> Option<(ServerId, Option<Sessions>)> {
    Some((question.server.id, sessions(question)))
}

fn sessions(question: &Question) -> Option<Sessions> {
    let target = Target::of(question.options.clone(), &question.server, Client::DEFAULT_PORT).ok()?;
    let reading = Connection::open(&target).ok()?.read(Scope::Sessions).ok()?;
    // A place that was named is asked for each server that waits, and is one of them at most.
    reading.is_of(&question.server).ok()?;
    reading.sessions
}

/// As the server itself sees its thread's id: the last of NSpid, which is that of the innermost namespace.
fn own_tid(pid: u32, tid: u32) -> u32 {
    let status = proc_file::read(Path::new(&format!("/proc/{pid}/task/{tid}/status"))).unwrap_or_default();
    innermost(&String::from_utf8_lossy(&status)).unwrap_or(tid)
}

fn innermost(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;

    use super::*;
    use crate::model::{Op, fixture};

    #[test]
    fn servers_that_answer_nobody_keep_the_askers_from_no_service_of_the_system() {
        let directory = tempfile::tempdir().unwrap();
        let [silent, answers] = ["silent", "answers"].map(|name| directory.path().join(name));
        // Connections to it are made, and nobody takes them.
        let _silent = UnixListener::bind(&silent).unwrap();
        let listener = UnixListener::bind(&answers).unwrap();
        let (tell, asked) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(listener.accept().is_ok()));
        let pid = std::process::id();
        let server = |start_ns, socket: &Path, uid| {
            let server = fixture::server(ServerId { pid, start_ns }, "mysqld", "MySQL 9.7.4", 3306);
            Arc::new(fixture::owned(Server { socket: Some(socket.into()), ..server }, uid))
        };
        let mut servers: Vec<_> = (0..40).map(|number| server(number, &silent, 4711)).collect();
        servers.push(server(40, &answers, 112));
        let threads = BTreeSet::from([Waits { pid, tid: pid, op: Op::Fsync }]);
        let mut asker = Asker::new(ConnectOptions::default());
        assert_eq!(asker.of(&threads, &servers), Whose::new());
        assert_eq!(asked.recv_timeout(Duration::from_secs(3)), Ok(true));
    }

    #[test]
    fn a_thread_has_the_id_of_its_own_namespace() {
        assert_eq!(innermost("Name:\tmysqld\nNSpid:\t4711\t41\t7\n"), Some(7));
        assert_eq!(innermost("NSpid:\t4711\n"), Some(4711));
        assert_eq!(innermost("Name:\tmysqld\n"), None);
    }
}
