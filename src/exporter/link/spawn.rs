//! Starts the other processes, and hands the web process what it needs: the sockets on which clients come,
//! and the lanes. The recorder has a lane alone, and asks what it needs.
//!
//! Each is this program anew, so that nothing of the prober's memory is in it, with an empty environment.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::lane::Lane;
use crate::exporter::confine::User;
use crate::exporter::history_socket::MAX_CLIENTS;

/// The hidden actions that they are started by.
const WEB_ACTION: &str = "exporter-web";
const RECORDER_ACTION: &str = "exporter-recorder";
/// How the log is written, and what a panic shows.
const ENVIRONMENT: [&str; 2] = ["JOURNAL_STREAM", "RUST_BACKTRACE"];
/// Life, metrics, status and configuration, which never wait for each other.
const LANES: usize = 4;
/// More sockets than anybody listens on, for all pages and for verdicts each; one message carries 253
/// (SCM_MAX_FD in include/net/scm.h).
const MAX_LISTENERS: usize = 64;
const MAX_DESCRIPTORS: usize = 2 * MAX_LISTENERS + 2 + LANES + MAX_CLIENTS;
const LONGEST_MESSAGE: usize = 256;

/// The sockets on which clients come.
#[derive(Debug)]
pub struct Sockets {
    pub listeners: Vec<TcpListener>,
    /// For verdicts alone.
    pub verdict_listeners: Vec<TcpListener>,
    pub history: Option<UnixListener>,
    pub verdicts: Option<UnixListener>,
}

/// What comes with the descriptors, and in which order they are: listeners, those for verdicts, history,
/// verdicts, lanes.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    listeners: usize,
    verdict_listeners: usize,
    history: bool,
    verdicts: bool,
    is_configured: bool,
    user: (u32, u32),
}

/// What the web process has.
#[derive(Debug)]
pub struct Given {
    pub sockets: Sockets,
    /// There is a web configuration to ask for.
    pub is_configured: bool,
    /// Who it is to be, if it was started as root.
    pub user: User,
    pub life: Lane,
    pub metrics: Lane,
    pub status: Lane,
    pub configuration: Lane,
    /// One for each client of the history that is answered at a time.
    pub of_history: Vec<Lane>,
}

/// A process of the exporter's, seen by the prober. It ends by itself when its lanes do.
#[derive(Debug)]
pub struct Subprocess(Child);

impl Subprocess {
    /// Starts the web process. Where this one is root's, the other becomes this user itself: in no moment
    /// could another process of that user trace it. The lanes are to be answered on. This process has none
    /// of the sockets any more.
    pub fn web(
        sockets: Sockets,
        is_configured: bool,
        user: User,
    ) -> io::Result<(Subprocess, Vec<UnixStream>)> {
        let Sockets { listeners, verdict_listeners, history, verdicts } = sockets;
        if listeners.len().max(verdict_listeners.len()) > MAX_LISTENERS {
            let text = format!("more than {MAX_LISTENERS} addresses to listen on");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let (own, theirs) = UnixStream::pair()?;
        let pairs: Vec<_> = (0..LANES + MAX_CLIENTS).map(|_| UnixStream::pair()).collect::<Result<_, _>>()?;
        let (lanes, their_lanes): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let child = spawn(WEB_ACTION, theirs)?;

        let message = Message {
            listeners: listeners.len(),
            verdict_listeners: verdict_listeners.len(),
            history: history.is_some(),
            verdicts: verdicts.is_some(),
            is_configured,
            user: (user.uid, user.gid),
        };
        let mut all: Vec<BorrowedFd<'_>> =
            listeners.iter().chain(&verdict_listeners).map(AsFd::as_fd).collect();
        all.extend(history.iter().chain(&verdicts).map(AsFd::as_fd));
        all.extend(their_lanes.iter().map(AsFd::as_fd));
        send(&own, &serde_json::to_vec(&message)?, &all)?;
        Ok((Subprocess(child), lanes))
    }

    /// Starts the recorder. The lane is to be answered on.
    pub fn recorder() -> io::Result<(Subprocess, UnixStream)> {
        let (own, theirs) = UnixStream::pair()?;
        Ok((Subprocess(spawn(RECORDER_ACTION, theirs)?), own))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.0.try_wait()
    }
}

/// This program anew, with this socket as its standard input.
fn spawn(action: &str, socket: UnixStream) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("fsynctop").arg(action).current_dir("/").env_clear();
    command.envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.stdin(OwnedFd::from(socket)).stdout(Stdio::null()).spawn()
}

/// In the recorder: its lane.
pub fn take_over_recorder() -> io::Result<Lane> {
    Ok(Lane::new(io::stdin().as_fd().try_clone_to_owned()?.into()))
}

fn send(to: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    sendmsg(to, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// In the web process: what the prober has sent on standard input.
pub fn take_over() -> io::Result<Given> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut bytes = [0; LONGEST_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut all = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            all.extend(descriptors);
        }
    }
    let message: Message = serde_json::from_slice(&bytes[..received.bytes])?;
    let local = usize::from(message.history) + usize::from(message.verdicts);
    let expected = message.listeners + message.verdict_listeners + local + LANES + MAX_CLIENTS;
    if all.len() != expected {
        let text = format!("{} descriptors came with it instead of {expected}", all.len());
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    let mut lanes: Vec<Lane> = all
        .split_off(expected - LANES - MAX_CLIENTS)
        .into_iter()
        .map(|lane| Lane::new(lane.into()))
        .collect();
    let verdicts = message.verdicts.then(|| all.pop()).flatten().map(UnixListener::from);
    let history = message.history.then(|| all.pop()).flatten().map(UnixListener::from);
    let verdict_listeners = all.split_off(message.listeners).into_iter().map(TcpListener::from).collect();
    let of_history = lanes.split_off(LANES);
    let mut lanes = lanes.into_iter();
    let mut next = || lanes.next().ok_or_else(|| io::Error::from(ErrorKind::InvalidData));
    Ok(Given {
        sockets: Sockets {
            listeners: all.into_iter().map(TcpListener::from).collect(),
            verdict_listeners,
            history,
            verdicts,
        },
        is_configured: message.is_configured,
        user: User { uid: message.user.0, gid: message.user.1 },
        life: next()?,
        metrics: next()?,
        status: next()?,
        configuration: next()?,
        of_history,
    })
}
