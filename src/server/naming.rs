//! What a server is called: what a pager should say, the same over every restart of the server, and the same
//! again when whoever traces it is started anew.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::model::Server;
use crate::text;

const ROOT: u32 = 0;
/// Columns of a label.
const MAX_LENGTH: usize = 200;
/// In the metrics, what is no server's.
pub(crate) const UNKNOWN: &str = "unknown";
/// In the metrics, all servers that have no label of their own.
pub(crate) const OTHER: &str = "other";

/// A name that the user gave: `3306=orders`, `/var/lib/mysql2=billing`, `mysql-0=shop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenName {
    pub what: What,
    pub name: String,
}

/// Which server a given name is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The TCP port for clients.
    Port(u16),
    /// A data directory or a socket, as the server sees it.
    Path(PathBuf),
    /// A container or pod.
    Container(String),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GivenNameError {
    #[error("{0:?} is not WHICH=NAME, as in 3306=orders or /var/lib/mysql2=billing")]
    Form(String),
    #[error("{0:?} is no name: 1 to 100 characters that can be seen are")]
    Name(String),
}

impl FromStr for GivenName {
    type Err = GivenNameError;

    fn from_str(text: &str) -> Result<GivenName, GivenNameError> {
        let (what, name) = text.rsplit_once('=').ok_or_else(|| GivenNameError::Form(text.to_owned()))?;
        GivenName::new(what, name)
    }
}

impl GivenName {
    /// `what`: a port, a data directory, a socket or a container.
    pub fn new(what: &str, name: &str) -> Result<GivenName, GivenNameError> {
        let (what, name) = (what.trim(), name.trim());
        if what.is_empty() {
            return Err(GivenNameError::Form(format!("{what}={name}")));
        }
        let is_name =
            !name.is_empty() && name.chars().count() <= 100 && !name.chars().any(text::is_deceptive);
        if !is_name {
            return Err(GivenNameError::Name(name.to_owned()));
        }
        let what = match what.parse() {
            Ok(port) => What::Port(port),
            Err(_) if what.starts_with('/') => What::Path(what.into()),
            Err(_) => What::Container(what.to_owned()),
        };
        Ok(GivenName { what, name: name.to_owned() })
    }

    fn is_of(&self, server: &Server) -> bool {
        match &self.what {
            What::Port(port) => server.known_by.port == Some(*port),
            What::Path(path) => {
                let is =
                    |other: &Option<PathBuf>| other.as_deref().is_some_and(|other| same_path(path, other));
                is(&server.datadir) || is(&server.socket)
            }
            What::Container(name) => container(server).as_deref() == Some(name),
        }
    }
}

/// Whatever slashes stand at the end.
fn same_path(a: &Path, b: &Path) -> bool {
    a.components().eq(b.components())
}

/// By what a server is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The name of a process without a data directory.
    comm: String,
    datadir: Option<PathBuf>,
    inode: Option<(u64, u64)>,
    container: Option<String>,
    /// Whose process it is. All else is what the process says of itself.
    owner: Option<u32>,
}

impl Identity {
    pub fn of(server: &Server) -> Identity {
        Identity {
            comm: server.comm.clone(),
            datadir: server.datadir.clone(),
            inode: server.known_by.datadir,
            container: container(server),
            owner: server.known_by.owner,
        }
    }

    /// Takes note that the same process is described anew: it may have given up root's rights in between,
    /// and what it starts from then on is no longer root's.
    pub(crate) fn follow_owner(&mut self, before: &Server, now: &Server) {
        let (before, now) = (before.known_by.owner, now.known_by.owner);
        if before == Some(ROOT) && before == self.owner && now.is_some() {
            self.owner = now;
        }
    }

    /// True if a process of this user is trusted to say that it belongs to the server: the server's own user
    /// could do whatever the server does, and so could root.
    fn trusts(&self, new: &Identity) -> bool {
        new.owner == self.owner || new.owner == Some(ROOT)
    }

    /// True if both run on the same data directory.
    pub(crate) fn is_on_directory_of(&self, other: &Identity) -> bool {
        self.inode.is_some() && self.inode == other.inode && self.datadir == other.datadir
    }

    /// True if the process is not a known server, or has not been described yet.
    pub(crate) fn is_bare(&self) -> bool {
        self.datadir.is_none()
    }

    /// Whether a process with the second identity runs the server with the first, of which another process
    /// may be alive.
    pub(crate) fn is_taken_up_by(&self, new: &Identity, is_alive: bool) -> bool {
        if self.is_bare() || new.is_bare() {
            return self.is_bare() == new.is_bare()
                && self.comm == new.comm
                && self.container == new.container;
        }
        if self.datadir != new.datadir {
            return false;
        }
        // A directory that was made anew, or a pod's volume on another device; the user may be another one as
        // well. Two servers that run at the same time in directories of the same name are two, and so is
        // another user's process that says that it runs in the directory of one.
        match is_alive {
            true => self.is_on_directory_of(new) && self.trusts(new),
            false => self.is_on_directory_of(new) || self.container == new.container,
        }
    }
}

/// A container as people call it: a pod's or container's host name if it was given one, else its id.
fn container(server: &Server) -> Option<String> {
    // "docker 0123456789ab", "containerd 0123456789ab, pod 6f1f0d6c-…", "lxc db1"
    let text = server.container.as_deref()?;
    let (own, pod) = text.split_once(", pod ").map_or((text, None), |(own, pod)| (own, Some(pod)));
    let id = own.split_once(' ').map_or(own, |(_, id)| id);
    let is_hash = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hostname = server.known_by.hostname.as_deref();
    Some(match hostname {
        Some(name) if pod.is_some() => name.to_owned(),
        Some(name) if is_hash && name != id => name.to_owned(),
        _ => id.to_owned(),
    })
}

/// What a server can be called, the best first. What follows the first tells it from others of that name.
pub(crate) fn candidates(server: &Server, given: &[GivenName]) -> Vec<String> {
    let path = |path: &PathBuf| text::escape(path.as_os_str().as_encoded_bytes());
    // Of what is neither reached by clients nor has data, a port would be a guess.
    let is_one = server.known_by.listens || server.datadir.is_some();
    let names = [
        given.iter().find(|given| given.is_of(server)).map(|given| given.name.clone()),
        container(server).map(|name| text::escape(name.as_bytes())),
        server.known_by.port.filter(|_| is_one).map(|port| port.to_string()),
        server.socket.as_ref().map(path),
        server.datadir.as_ref().map(path),
    ];
    let mut names: Vec<String> = names.into_iter().flatten().collect();
    // What has no data is told from others of its container by its command.
    if server.datadir.is_none() {
        names.push(text::escape(server.comm.as_bytes()));
    }
    names.iter().map(|name| text::shorten_path(name, MAX_LENGTH, "…")).collect()
}

/// What each of these processes is called by all that is known of it now. Processes of one server have one
/// name: it, and what it starts under its own name; and so have all of one command that are no servers.
pub(crate) fn names(servers: &[&Server], given: &[GivenName]) -> Vec<String> {
    let groups = groups(servers);
    let candidates: Vec<Vec<String>> =
        groups.iter().map(|group| candidates(servers[group[0]], given)).collect();
    let labels = labels(&candidates, &BTreeSet::from([UNKNOWN, OTHER]));
    let mut names = vec![String::new(); servers.len()];
    for (group, label) in groups.iter().zip(labels) {
        group.iter().for_each(|&at| names[at].clone_from(&label));
    }
    names
}

/// The processes that are one server, by their places.
fn groups(servers: &[&Server]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    // Of those without a data directory there may be thousands: they are not compared one by one.
    let mut bare: HashMap<(&str, Option<String>), usize> = HashMap::new();
    let mut known: Vec<(Identity, bool, usize)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let identity = Identity::of(server);
        let group = if identity.is_bare() {
            *bare.entry((&server.comm, container(server))).or_insert(groups.len())
        } else {
            let same = known
                .iter_mut()
                .find(|(other, lives, _)| other.is_taken_up_by(&identity, *lives && server.alive));
            match same {
                Some((_, lives, group)) => {
                    *lives |= server.alive;
                    *group
                }
                None => {
                    known.push((identity, server.alive, groups.len()));
                    groups.len()
                }
            }
        };
        match groups.get_mut(group) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    groups
}

/// One label for each list of candidates, all different and none of them taken. Of several that would have
/// the same, each gets what tells them apart: none takes what another could be known by already.
pub fn labels(candidates: &[Vec<String>], taken: &BTreeSet<&str>) -> Vec<String> {
    let mut depths = vec![0; candidates.len()];
    loop {
        let labels: Vec<String> =
            candidates.iter().zip(&depths).map(|(names, &depth)| label(names, depth)).collect();
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        labels.iter().for_each(|label| *times.entry(label).or_default() += 1);
        let clashes = |at: usize| taken.contains(labels[at].as_str()) || times[labels[at].as_str()] > 1;
        let (deeper, stuck): (Vec<usize>, Vec<usize>) = (0..labels.len())
            .filter(|&at| clashes(at))
            .partition(|&at| depths[at] + 1 < candidates[at].len());
        if deeper.is_empty() {
            return numbered(labels, &stuck, taken);
        }
        deeper.into_iter().for_each(|at| depths[at] += 1);
    }
}

/// Where nothing is left that tells them apart.
fn numbered(mut labels: Vec<String>, stuck: &[usize], taken: &BTreeSet<&str>) -> Vec<String> {
    let mut used: HashSet<String> = labels.iter().cloned().collect();
    let mut next: HashMap<String, u32> = HashMap::new();
    for &at in stuck {
        let number = next.entry(labels[at].clone()).or_default();
        labels[at] = loop {
            *number += 1;
            let label = format!("{} #{number}", labels[at]);
            if !taken.contains(label.as_str()) && used.insert(label.clone()) {
                break label;
            }
        };
    }
    labels
}

fn label(names: &[String], depth: usize) -> String {
    let first = names.first().map_or("", String::as_str);
    match names.get(depth).filter(|_| depth > 0) {
        Some(other) => format!("{first} {other}"),
        None => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::MYSQL;
    use crate::model::fixture::server as database;

    fn server(port: u16) -> Server {
        database(MYSQL, "mysqld", "MySQL 9.7.4", port)
    }

    fn named(server: &Server, given: &[&str]) -> String {
        let given: Vec<_> = given.iter().map(|given| given.parse().unwrap()).collect();
        candidates(server, &given)[0].clone()
    }

    #[test]
    fn a_server_is_called_by_the_best_that_is_known() {
        let mut server = server(3306);
        server.socket = Some("/run/my\x1bsqld.sock".into());
        assert_eq!(named(&server, &[]), "3306");
        for (given, expected) in [
            ("3306=orders", "orders"),
            ("/var/lib/mysql/=orders", "orders"),
            ("/run/other.sock=orders", "3306"),
            ("3307=orders", "3306"),
        ] {
            assert_eq!(named(&server, &[given]), expected, "{given}");
        }
        server.known_by.port = None;
        assert_eq!(named(&server, &[]), "/run/my\\x1bsqld.sock");
        server.socket = None;
        assert_eq!(named(&server, &[]), "/var/lib/mysql");
        server.datadir = None;
        assert_eq!(named(&server, &[]), "mysqld");

        for (container, hostname, expected) in [
            ("containerd 0123456789ab, pod 6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11", Some("mysql-0"), "mysql-0"),
            ("containerd 0123456789ab, pod 6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11", None, "0123456789ab"),
            ("docker 0123456789ab", Some("0123456789ab"), "0123456789ab"),
            ("docker 0123456789ab", Some("orders-db"), "orders-db"),
            ("lxc db1", Some("whatever"), "db1"),
        ] {
            server.container = Some(container.into());
            server.known_by.hostname = hostname.map(str::to_owned);
            assert_eq!(named(&server, &[]), expected);
            assert_eq!(named(&server, &[&format!("{expected}=shop")]), "shop");
        }
    }

    #[test]
    fn each_server_has_a_name_of_its_own_and_its_processes_have_the_same() {
        let at = |port, datadir: &str, inode| {
            let mut server = server(port);
            (server.datadir, server.known_by.datadir) = (Some(datadir.into()), Some((8, inode)));
            server
        };
        let bare = |comm: &str| Server::new(MYSQL, comm.into());
        let all = [
            at(3306, "/a", 1),
            at(3306, "/b", 2),
            at(3307, "/c", 3),
            at(3307, "/c", 3),
            bare("dd"),
            bare("other"),
            bare("dd"),
        ];
        let all: Vec<&Server> = all.iter().collect();
        assert_eq!(names(&all, &[]), ["3306 /a", "3306 /b", "3307", "3307", "dd", "other #1", "dd"]);
        let given = ["/a=orders".parse().unwrap()];
        assert_eq!(names(&all[..2], &given), ["orders", "3306"]);
    }

    #[test]
    fn a_server_that_was_started_anew_is_called_as_before() {
        let mut before = server(3306);
        before.known_by.datadir = Some((8, 77));
        let after = before.clone();
        before.alive = false;
        assert_eq!(names(&[&before, &after], &[]), ["3306", "3306"]);
    }

    #[test]
    fn given_names_are_checked() {
        for bad in ["", "orders", "=orders", "3306=", "3306=a\nb", "3306=\u{202e}x"] {
            assert!(bad.parse::<GivenName>().is_err(), "{bad:?}");
        }
        let path: GivenName = "/data/a=b=orders".parse().unwrap();
        assert_eq!((path.what, path.name.as_str()), (What::Path("/data/a=b".into()), "orders"));
        assert_eq!("65536=x".parse::<GivenName>().unwrap().what, What::Container("65536".into()));
    }

    #[test]
    fn labels_are_unique_whatever_the_servers_have_in_common() {
        let lists = |lists: &[&[&str]]| -> Vec<Vec<String>> {
            lists.iter().map(|names| names.iter().map(|&name| name.to_owned()).collect()).collect()
        };
        let all = lists(&[&["3306", "/a"], &["3306", "/b"], &["3307", "/c"]]);
        assert_eq!(labels(&all, &BTreeSet::new()), ["3306 /a", "3306 /b", "3307"]);
        // One that has its label already keeps it.
        assert_eq!(labels(&all[..1], &BTreeSet::from(["3306"])), ["3306 /a"]);
        let same = lists(&[&["3306", "/a"], &["3306", "/a"], &["3306", "/a"], &["3306 /a"]]);
        let labels = labels(&same, &BTreeSet::from(["3306 /a #2"]));
        assert_eq!(labels, ["3306 /a #1", "3306 /a #3", "3306 /a #4", "3306 /a #5"]);
    }

    #[test]
    fn a_server_is_known_again_by_its_data_directory() {
        let mut first = server(3306);
        first.known_by.datadir = Some((8, 77));
        let identity = Identity::of(&first);
        let mut again = first.clone();
        again.known_by.port = Some(3310);
        assert!(identity.is_taken_up_by(&Identity::of(&again), true), "another port, the same directory");
        again.known_by.datadir = Some((8, 78));
        assert!(identity.is_taken_up_by(&Identity::of(&again), false), "the directory was made anew");
        assert!(!identity.is_taken_up_by(&Identity::of(&again), true), "two that run at the same time");
        let owned = |server: &Server, owner| {
            let mut server = server.clone();
            server.known_by.owner = owner;
            server
        };
        let (own, same) = (Identity::of(&owned(&first, Some(999))), first.clone());
        for (owner, joins) in [(Some(999), true), (Some(0), true), (Some(1000), false), (None, false)] {
            let new = Identity::of(&owned(&same, owner));
            assert_eq!(own.is_taken_up_by(&new, true), joins, "{owner:?} beside a server that is alive");
            assert!(own.is_taken_up_by(&new, false), "{owner:?} after it has ended");
        }
        let (mut dropped, roots) = (Identity::of(&owned(&first, Some(0))), owned(&first, Some(0)));
        assert!(!dropped.is_taken_up_by(&own, true));
        dropped.follow_owner(&roots, &owned(&first, Some(999)));
        assert!(dropped.is_taken_up_by(&own, true), "it was root's when it began");
        dropped.follow_owner(&owned(&first, Some(999)), &owned(&first, Some(1000)));
        assert_eq!(dropped, own, "nobody but root can become another");
        again.container = Some("docker 0123456789ab".into());
        assert!(!identity.is_taken_up_by(&Identity::of(&again), false), "one of a container");
        again.known_by.datadir = Some((8, 77));
        assert!(identity.is_taken_up_by(&Identity::of(&again), true), "the same volume in another container");
        again.datadir = Some("/elsewhere".into());
        assert!(!identity.is_taken_up_by(&Identity::of(&again), false));
        let bare = Identity::of(&Server::new(MYSQL, "mysqld".into()));
        assert!(!identity.is_taken_up_by(&bare, false) && !bare.is_taken_up_by(&identity, false));
        assert!(bare.is_taken_up_by(&bare, true), "processes of one name are one");
    }
}
