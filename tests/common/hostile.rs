//! A client that meets a peer which answers wrongly on purpose: how it ends, how long that takes, in how much
//! memory, and whether a thread is left behind.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fsynctop::model::Server;
use fsynctop::server::asking::Scope;
use fsynctop::server::asking::connection::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, Client, Connection};
use fsynctop::server::asking::find::Target;
use fsynctop::server::asking::options::{ConnectOptions, Place};
use fsynctop::server::who::processes;

/// Beyond the deadlines themselves, on a machine that is busy.
pub const SLACK: Duration = Duration::from_secs(4);
/// An answer may have some megabytes; what it is made into takes a few times that.
const MEMORY: u64 = 96 << 20;

/// Both ends of a connection that was accepted.
pub trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// One at a time: memory and threads are those of the whole process.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks there: it ends in time, in little memory, with an error that says this, and leaves no thread behind.
pub fn judge<C: Client>(target: &Target, says: &str) {
    std::fs::write("/proc/self/clear_refs", "5").unwrap(); // the peak begins anew
    let begin = Instant::now();
    let read = Connection::<C>::open(target).and_then(|mut connection| connection.read(Scope::Everything));
    let error = read.map(|_| ()).expect_err("that was no answer").to_string();
    let took = begin.elapsed();
    let end = Instant::now() + SLACK;
    while threads_of_the_client() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let peak = peak_memory();
    assert_eq!(threads_of_the_client(), 0, "a thread still waits for the peer: {error}");
    assert!(error.contains(says), "no {says:?} in {error:?}");
    assert!(error.len() < 1_500 && !error.contains(char::is_control), "{} bytes: {error:.200?}", error.len());
    assert!(took < CONNECT_TIMEOUT + ANSWER_TIMEOUT + SLACK, "{took:?}");
    assert!(peak < MEMORY, "{peak} bytes of memory at the peak");
}

pub fn threads_of_the_client() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim_end() == "server-status").count()
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Sends that again and again, until the client has gone.
pub fn for_ever(stream: &mut (impl Write + ?Sized), bytes: &[u8]) {
    while stream.write_all(bytes).is_ok() {}
}

/// Listens at an address of this host, and does that with each connection.
pub fn listen(peer: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|stream| peer(&mut stream.unwrap())));
    address
}

/// Where that address is named, without a password.
pub fn at(address: SocketAddr) -> Target {
    let place = Place::Tcp { host: address.ip().to_string(), port: address.port() };
    Target::named(ConnectOptions::default(), place)
}

/// This process, as a server that is traced.
pub fn this_process(comm: &str) -> Server {
    let me = processes::find(Path::new("/proc"), std::process::id()).unwrap();
    Server::new(me.id(), comm.into())
}
