//! What a server is called: what a pager should say, the same over every restart of the server, and the same
//! again when whoever traces it is started anew.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use super::identity::{Identity, container, container_id};
use crate::model::{Owner, Server};
use crate::text;

/// What a user is named by, for a given name: `uid:1001=shop`.
const UID: &str = "uid:";
/// Columns of a label.
const MAX_LENGTH: usize = 200;
/// In the metrics, what is no server's.
pub(crate) const UNKNOWN: &str = "unknown";
/// In the metrics, all servers that have no label of their own.
pub(crate) const OTHER: &str = "other";

/// A name that the user gave: `3306=orders`, `/var/lib/mysql2=billing`, `mariadb@b.service=stock`,
/// `uid:999=books`, `mysql-0=shop`.
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
    /// A unit of systemd.
    Unit(String),
    /// The user whose process it is, by number.
    User(u32),
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
    /// `what`: a port, a data directory, a socket, a unit, a user or a container.
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
            Err(_) if what.ends_with(".service") => What::Unit(what.to_owned()),
            Err(_) => match what.strip_prefix(UID).map(str::parse) {
                Some(Ok(uid)) => What::User(uid),
                Some(Err(_)) => return Err(GivenNameError::Form(format!("{what}={name}"))),
                None => What::Container(what.to_owned()),
            },
        };
        Ok(GivenName { what, name: name.to_owned() })
    }

    /// As it was typed.
    fn which(&self) -> String {
        match &self.what {
            What::Port(port) => port.to_string(),
            What::Path(path) => text::escape(path.as_os_str().as_encoded_bytes()),
            What::Unit(name) | What::Container(name) => text::escape(name.as_bytes()),
            What::User(uid) => format!("{UID}{uid}"),
        }
    }

    /// What a process only says of itself gives it no name that was meant for another.
    fn is_of(&self, server: &Server) -> bool {
        let known_by = &server.known_by;
        let holds = |is_proven: bool| is_proven || known_by.whose.is_system();
        match &self.what {
            What::Port(port) => known_by.port == Some(*port) && holds(known_by.proof.port),
            What::Path(path) => {
                let is =
                    |other: &Option<PathBuf>| other.as_deref().is_some_and(|other| same_path(path, other));
                is(&server.datadir) && holds(known_by.proof.datadir)
                    || is(&server.socket) && holds(known_by.proof.socket)
            }
            What::Unit(name) => known_by.unit.as_ref() == Some(name),
            // A container's users are others, whatever their numbers.
            What::User(uid) => known_by.owner == Some(*uid) && !matches!(known_by.whose, Owner::Container(_)),
            What::Container(name) => container(server).as_deref() == Some(name) && holds(false),
        }
    }
}

/// Whatever slashes stand at the end.
fn same_path(a: &Path, b: &Path) -> bool {
    a.components().eq(b.components())
}

/// How well a server's claim to its name stands against the same claim of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The kernel confirms it.
    is_proven: bool,
    /// An administrator set the server up: it is a service or a container.
    is_system: bool,
}

impl Standing {
    /// True if the other one has to give the name up. Of two of which each has what the other lacks, neither
    /// has: then the name says nothing.
    pub fn beats(self, other: Standing) -> bool {
        self != other && self.is_proven >= other.is_proven && self.is_system >= other.is_system
    }

    /// True if no claim beats it.
    pub fn is_best(self) -> bool {
        self.is_proven && self.is_system
    }
}

/// What a server can be called, the best name first. What follows the first tells it from others of that
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub names: Vec<String>,
    pub(crate) standing: Standing,
}

pub(crate) fn claim(server: &Server, given: &[GivenName]) -> Claim {
    let path = |path: &PathBuf| text::escape(path.as_os_str().as_encoded_bytes());
    let known_by = &server.known_by;
    let (proof, is_system) = (known_by.proof, known_by.whose.is_system());
    let is_of_container = matches!(known_by.whose, Owner::Container(_));
    // What a container calls itself is its own choice, but for what stands for a port or was given to
    // another.
    let is_taken =
        |name: &String| name.parse::<u16>().is_ok() || given.iter().any(|given| given.name == *name);
    let container = container(server).and_then(|name| match is_taken(&name) {
        true => container_id(server).map(str::to_owned),
        false => Some(name),
    });
    // Of what is neither reached by clients nor has data, a port would be a guess.
    let is_one = known_by.listens || server.datadir.is_some();
    let given = given.iter().find(|given| given.is_of(server)).map(|given| given.name.clone());
    let names = [
        given.map(|name| (name, true)),
        container.map(|name| (text::escape(name.as_bytes()), is_of_container)),
        known_by.port.filter(|_| is_one).map(|port| (port.to_string(), proof.port)),
        server.socket.as_ref().map(|socket| (path(socket), proof.socket)),
        server.datadir.as_ref().map(|datadir| (path(datadir), proof.datadir)),
    ];
    let mut names: Vec<(String, bool)> = names.into_iter().flatten().collect();
    let user = match known_by.owner {
        Some(uid) => format!("(uid {uid})"),
        None => "(of an unknown user)".to_owned(),
    };
    // What has no data is told from others of its container by its command, which the kernel knows. But
    // whoever likes to calls its command as a server's.
    if server.datadir.is_none() {
        names.push((text::escape(server.comm.as_bytes()), is_system || server.engine.is_none()));
        if !is_system {
            names.push((user.clone(), true));
        }
    }
    let is_proven = names.first().is_some_and(|&(_, is_proven)| is_proven);
    let mut names: Vec<String> =
        names.iter().map(|(name, _)| text::shorten_path(name, MAX_LENGTH, "…")).collect();
    // Nobody asks for it by the name alone, and learns of a server that it is not.
    if let Some(first) = names.first_mut().filter(|_| !is_proven && !is_system) {
        *first = format!("{first} {user}");
    }
    Claim { names, standing: Standing { is_proven, is_system } }
}

/// What each of these processes is called by all that is known of it now. Processes of one server have one
/// name: it, and what it starts under its own name; and so have all of one command that are no servers.
pub(crate) fn names(servers: &[&Server], given: &[GivenName]) -> Vec<String> {
    let groups = groups(servers);
    let claims: Vec<Claim> = groups.iter().map(|group| claim(servers[group[0]], given)).collect();
    let labels = labels(&claims, &BTreeSet::from([UNKNOWN, OTHER]));
    let mut names = vec![String::new(); servers.len()];
    for (group, label) in groups.iter().zip(labels) {
        group.iter().for_each(|&at| names[at].clone_from(&label));
    }
    names
}

/// Names that were given, and that no server has: a sentence about each. `servers`: as they are described.
pub(crate) fn unmatched<S: Borrow<Server>>(servers: &[S], given: &[GivenName]) -> Vec<String> {
    let is_unused = |given: &&GivenName| !servers.iter().any(|server| given.is_of(server.borrow()));
    let sentence = |given: &GivenName| {
        let (which, name) = (given.which(), text::escape(given.name.as_bytes()));
        format!(
            "--server-name {which}={name} names none of the servers that were seen: none has {}",
            match given.what {
                What::Port(_) => format!("the port {which}"),
                What::Path(_) => format!("{which} for its data directory or socket"),
                What::Unit(_) => format!("a unit called {which}"),
                What::User(uid) => format!("the user {uid}"),
                What::Container(_) => format!("a container called {which}"),
            }
        )
    };
    given.iter().filter(is_unused).map(sentence).collect()
}

/// For what runs for long: tells once which of the given names no server has.
#[derive(Debug)]
pub(crate) struct Unmatched {
    given: Vec<GivenName>,
    /// By then the servers that run were found and described. None: it was told.
    due: Option<Instant>,
}

impl Unmatched {
    const AFTER: Duration = Duration::from_secs(15);

    pub fn begin(given: Vec<GivenName>, now: Instant) -> Unmatched {
        Unmatched { given, due: Some(now + Unmatched::AFTER) }
    }

    /// The sentences that are due.
    pub fn tell<S: Borrow<Server>>(&mut self, servers: &[S], now: Instant) -> Vec<String> {
        match self.due.take_if(|due| now >= *due) {
            Some(_) => unmatched(servers, &self.given),
            None => Vec::new(),
        }
    }
}

/// The processes that are one server, by their places.
fn groups(servers: &[&Server]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    // Of those without a data directory there may be thousands: they are not compared one by one.
    let mut bare: HashMap<(&str, Option<String>, Owner), usize> = HashMap::new();
    // Those on directories of the same name.
    let mut known: HashMap<Option<PathBuf>, Vec<(Identity, bool, usize)>> = HashMap::new();
    for (at, server) in servers.iter().enumerate() {
        let identity = Identity::of(server);
        let group = if identity.is_bare() {
            let key = (&*server.comm, container(server), identity.class());
            *bare.entry(key).or_insert(groups.len())
        } else {
            let known = known.entry(identity.datadir.clone()).or_default();
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

/// One label for each claim, all different and none of them taken. Of several that would have the same, the
/// one that beats all others keeps it, and each other one gets what tells it apart: none takes what another
/// could be known by already.
pub fn labels(claims: &[Claim], taken: &BTreeSet<&str>) -> Vec<String> {
    let mut depths = vec![0; claims.len()];
    loop {
        let labels: Vec<String> =
            claims.iter().zip(&depths).map(|(claim, &depth)| label(&claim.names, depth)).collect();
        let mut claimants: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        labels.iter().enumerate().for_each(|(at, label)| claimants.entry(label).or_default().push(at));
        let clashes = |at: usize| {
            let mut others = claimants[labels[at].as_str()].iter().filter(|&&other| other != at);
            let beats = |&other: &usize| claims[at].standing.beats(claims[other].standing);
            taken.contains(labels[at].as_str()) || others.any(|other| !beats(other))
        };
        let (deeper, stuck): (Vec<usize>, Vec<usize>) = (0..labels.len())
            .filter(|&at| clashes(at))
            .partition(|&at| depths[at] + 1 < claims[at].names.len());
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
    use crate::model::Proof;
    use crate::model::fixture::MYSQL;
    use crate::model::fixture::server as database;

    fn server(port: u16) -> Server {
        database(MYSQL, "mysqld", "MySQL 9.7.4", port)
    }

    fn named(server: &Server, given: &[&str]) -> String {
        let given: Vec<_> = given.iter().map(|given| given.parse().unwrap()).collect();
        claim(server, &given).names[0].clone()
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

        server.known_by.whose = Owner::Container(7);
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
        let bare = |comm: &str| {
            let mut bare = Server::new(MYSQL, comm.into());
            bare.known_by.whose = Owner::System(0);
            bare
        };
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

    /// A stranger's process that says what the server says, of which it can prove this much.
    fn claimant(of: &Server, proof: Proof) -> Server {
        let mut claimant = of.clone();
        claimant.known_by.owner = Some(1001);
        claimant.known_by.whose = Owner::User(1001);
        claimant.known_by.datadir = Some((8, 78));
        claimant.known_by.proof = proof;
        claimant
    }

    #[test]
    fn who_has_proof_keeps_the_bare_name_and_a_mere_claim_never_has_it() {
        let mut real = server(3306);
        real.known_by.datadir = Some((8, 77));
        let none = Proof::default();
        let stranger = claimant(&real, none);
        for order in [[&real, &stranger], [&stranger, &real]] {
            let names = names(&order, &[]);
            let of = |one: &Server| names[order.iter().position(|at| *at == one).unwrap()].clone();
            assert_eq!((of(&real), of(&stranger)), ("3306".to_owned(), "3306 (uid 1001)".to_owned()));
        }
        // Not even where the server is not there.
        assert_eq!(names(&[&stranger], &[]), ["3306 (uid 1001)"]);
        // On another address it does listen there; an administrator's server comes first.
        let listens = claimant(&real, Proof { port: true, ..none });
        assert_eq!(names(&[&listens, &real], &[]), ["3306 /var/lib/mysql", "3306"]);
        assert_eq!(names(&[&listens], &[]), ["3306"], "a user's own server");
        // The server recovers from a crash and does not listen, and a stranger does: nobody is believed.
        real.known_by.proof.port = false;
        assert_eq!(names(&[&listens, &real], &[]), ["3306 /var/lib/mysql #1", "3306 /var/lib/mysql #2"]);
        let given = ["3306=orders".parse().unwrap(), "/var/lib/mysql=billing".parse().unwrap()];
        assert_eq!(names(&[&stranger, &real], &given), ["3306 (uid 1001)", "orders"]);
    }

    #[test]
    fn a_container_that_calls_itself_a_port_or_by_a_given_name_is_called_by_its_id() {
        let mut pod = server(3306);
        pod.container = Some("docker 0123456789ab".into());
        (pod.known_by.whose, pod.known_by.owner) = (Owner::Container(7), Some(999));
        for (hostname, expected) in [("3306", "0123456789ab"), ("orders", "0123456789ab"), ("shop", "shop")] {
            pod.known_by.hostname = Some(hostname.into());
            assert_eq!(named(&pod, &["3307=orders"]), expected);
        }
        assert_eq!(named(&pod, &["uid:999=books"]), "shop", "its users are others");
    }

    #[test]
    fn a_server_is_named_by_its_user_or_its_unit() {
        let mut one = server(3306);
        (one.known_by.owner, one.known_by.unit) = (Some(999), Some("mariadb@a.service".into()));
        for (given, expected) in [
            ("uid:999=orders", "orders"),
            ("uid:998=orders", "3306"),
            ("mariadb@a.service=orders", "orders"),
            ("mariadb.service=orders", "3306"),
        ] {
            assert_eq!(named(&one, &[given]), expected, "{given}");
        }
        assert!("uid:x=orders".parse::<GivenName>().is_err());
    }

    #[test]
    fn commands_of_a_user_and_of_the_system_are_told_apart() {
        let bare = |whose, owner| {
            let mut bare = Server::new(MYSQL, "dd".into());
            (bare.known_by.whose, bare.known_by.owner) = (whose, owner);
            bare
        };
        let all = [
            bare(Owner::System(0), Some(0)),
            bare(Owner::User(1001), Some(1001)),
            bare(Owner::System(27), Some(27)),
        ];
        assert_eq!(names(&all.iter().collect::<Vec<_>>(), &[]), ["dd", "dd (uid 1001)", "dd"]);

        let mut called = bare(Owner::User(1001), Some(1001));
        (called.comm, called.engine) = ("mysqld".into(), crate::model::fixture::engine("mysqld"));
        assert_eq!(names(&[&called], &[]), ["mysqld (uid 1001)"], "whoever likes to calls itself so");
        called.known_by.whose = Owner::System(27);
        assert_eq!(names(&[&called], &[]), ["mysqld"]);
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
    fn a_given_name_that_no_server_has_is_told() {
        let given = ["3306=orders", "3307=x", "/srv/db=y", "nosuch=z"].map(|given| given.parse().unwrap());
        assert_eq!(
            unmatched(&[&server(3306)], &given),
            [
                "--server-name 3307=x names none of the servers that were seen: none has the port 3307",
                "--server-name /srv/db=y names none of the servers that were seen: none has /srv/db for its data \
                 directory or socket",
                "--server-name nosuch=z names none of the servers that were seen: none has a container called nosuch",
            ]
        );
        let begun = Instant::now();
        let mut later = Unmatched::begin(given.to_vec(), begun);
        let mut told = |after| later.tell(&[server(3306)], begun + Duration::from_secs(after)).len();
        assert_eq!([told(1), told(20), told(21)], [0, 3, 0]);
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
        let lists = |lists: &[&[&str]]| -> Vec<Claim> {
            let claim = |names: &&[&str]| Claim {
                names: names.iter().map(|&name| name.to_owned()).collect(),
                standing: Standing::default(),
            };
            lists.iter().map(claim).collect()
        };
        let all = lists(&[&["3306", "/a"], &["3306", "/b"], &["3307", "/c"]]);
        assert_eq!(labels(&all, &BTreeSet::new()), ["3306 /a", "3306 /b", "3307"]);
        // One that has its label already keeps it.
        assert_eq!(labels(&all[..1], &BTreeSet::from(["3306"])), ["3306 /a"]);
        let same = lists(&[&["3306", "/a"], &["3306", "/a"], &["3306", "/a"], &["3306 /a"]]);
        let labels = labels(&same, &BTreeSet::from(["3306 /a #2"]));
        assert_eq!(labels, ["3306 /a #1", "3306 /a #3", "3306 /a #4", "3306 /a #5"]);
    }
}
