//! By what a server is known again when another process runs it, and what a container is called.

use std::path::PathBuf;

use crate::model::{Owner, Server};

const ROOT: u32 = 0;

/// By what a server is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The name of a process without a data directory.
    comm: String,
    pub(super) datadir: Option<PathBuf>,
    inode: Option<(u64, u64)>,
    container: Option<String>,
    /// The user whose process it is, and who answers for it: from the kernel.
    owner: Option<u32>,
    whose: Owner,
    /// The directory is that user's own.
    owns_directory: bool,
}

impl Identity {
    pub fn of(server: &Server) -> Identity {
        Identity {
            comm: server.comm.clone(),
            datadir: server.datadir.clone(),
            inode: server.known_by.datadir,
            container: container(server),
            owner: server.known_by.owner,
            whose: server.known_by.whose,
            owns_directory: server.known_by.proof.datadir,
        }
    }

    pub(crate) fn whose(&self) -> Owner {
        self.whose
    }

    /// Takes note that the same process is described anew: it may have given up root's rights in between,
    /// and what it starts from then on is no longer root's.
    pub(crate) fn follow_owner(&mut self, before: &Server, now: &Server) {
        let (before, now) = (before.known_by.owner, &now.known_by);
        if before == Some(ROOT) && before == self.owner && now.owner.is_some() {
            (self.owner, self.whose) = (now.owner, now.whose);
            self.owns_directory = now.proof.datadir;
        }
    }

    /// True if a process of this user is trusted to say that it belongs to the server: the server's own user
    /// could do whatever the server does, and so could root. In a container, each may be any user. And who
    /// only says that a directory is theirs is not joined by those of whom it is true.
    fn trusts(&self, new: &Identity) -> bool {
        match (self.whose, new.whose) {
            (Owner::Container(own), Owner::Container(other)) => own == other,
            (Owner::Container(_), _) | (_, Owner::Container(_)) => false,
            (_, Owner::System(ROOT)) if self.owner != Some(ROOT) => {
                self.owns_directory || self.whose.is_system()
            }
            _ => self.owner.is_some() && self.owner == new.owner,
        }
    }

    /// True if a container took the place of another one that is called the same: a pod is made anew when its
    /// server is restarted. A container's name is chosen by whoever runs it.
    fn is_container_made_anew(&self, new: &Identity) -> bool {
        let are = matches!((self.whose, new.whose), (Owner::Container(_), Owner::Container(_)));
        are && self.owner == new.owner && self.container.is_some() && self.container == new.container
    }

    /// Of a process without a data directory: all services of the system share their commands' names.
    pub(super) fn class(&self) -> Owner {
        match self.whose {
            Owner::System(_) => Owner::System(ROOT),
            other => other,
        }
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
                && self.container == new.container
                && self.class() == new.class();
        }
        if self.datadir != new.datadir {
            return false;
        }
        // A directory that was made anew, or a pod's volume on another device. Two servers that run at the
        // same time in directories of the same name are two, and so is another user's process that says that
        // it runs in the directory of one. After its end, another user's is the server only where the
        // directory is theirs now.
        match is_alive {
            true => self.is_on_directory_of(new) && self.trusts(new),
            false if self.is_on_directory_of(new) => {
                let is_given_away = self.owns_directory && new.owns_directory;
                self.trusts(new) || is_given_away || self.is_container_made_anew(new)
            }
            false => {
                let is_same_place = self.trusts(new) && self.container == new.container;
                is_same_place || self.is_container_made_anew(new)
            }
        }
    }
}

/// From "docker 0123456789ab", "containerd 0123456789ab, pod 6f1f0d6c-…", "lxc db1".
pub(super) fn container_id(server: &Server) -> Option<&str> {
    let text = server.container.as_deref()?;
    let own = text.split_once(", pod ").map_or(text, |(own, _)| own);
    Some(own.split_once(' ').map_or(own, |(_, id)| id))
}

/// A container as people call it: a pod's or container's host name if it was given one, else its id.
pub(super) fn container(server: &Server) -> Option<String> {
    let id = container_id(server)?;
    let is_pod = server.container.as_deref().is_some_and(|text| text.contains(", pod "));
    let is_hash = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hostname = server.known_by.hostname.as_deref();
    Some(match hostname {
        Some(name) if is_pod => name.to_owned(),
        Some(name) if is_hash && name != id => name.to_owned(),
        _ => id.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fixture::{MYSQL, server};

    #[test]
    fn a_server_is_known_again_by_its_data_directory() {
        let mut first = server(MYSQL, "mysqld", "MySQL 9.7.4", 3306);
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
            server.known_by.whose = match owner {
                Some(uid) if uid < 1000 => Owner::System(uid),
                Some(uid) => Owner::User(uid),
                None => Owner::Unknown,
            };
            server
        };
        let (own, same) = (Identity::of(&owned(&first, Some(999))), first.clone());
        for (owner, joins) in [(Some(999), true), (Some(0), true), (Some(1000), false), (None, false)] {
            let mut new = Identity::of(&owned(&same, owner));
            new.owns_directory = false;
            assert_eq!(own.is_taken_up_by(&new, true), joins, "{owner:?} beside a server that is alive");
            assert_eq!(own.is_taken_up_by(&new, false), joins, "{owner:?} after it has ended");
            new.owns_directory = true;
            assert!(own.is_taken_up_by(&new, false), "the directory was given to {owner:?}");
            new.inode = Some((8, 78));
            assert_eq!(own.is_taken_up_by(&new, false), joins, "{owner:?} in another one of that name");
        }
        let (mut dropped, roots) = (Identity::of(&owned(&first, Some(0))), owned(&first, Some(0)));
        assert!(!dropped.is_taken_up_by(&own, true));
        dropped.follow_owner(&roots, &owned(&first, Some(999)));
        assert!(dropped.is_taken_up_by(&own, true), "it was root's when it began");
        dropped.follow_owner(&owned(&first, Some(999)), &owned(&first, Some(1000)));
        assert_eq!(dropped, own, "nobody but root can become another");
        again.container = Some("docker 0123456789ab".into());
        again.known_by.whose = Owner::Container(5);
        assert!(!identity.is_taken_up_by(&Identity::of(&again), false), "one of a container");
        again.known_by.datadir = Some((8, 77));
        assert!(
            !identity.is_taken_up_by(&Identity::of(&again), true),
            "it may have been given the directory"
        );
        assert!(identity.is_taken_up_by(&Identity::of(&again), false), "the same volume in a container");
        let pod = |group, inode| {
            let mut pod = again.clone();
            pod.known_by.whose = Owner::Container(group);
            pod.known_by.datadir = Some((9, inode));
            Identity::of(&pod)
        };
        assert!(pod(5, 1).is_taken_up_by(&pod(6, 2), false), "made anew");
        let mut with_group = (pod(5, 1), pod(6, 1));
        (with_group.0.owns_directory, with_group.1.owns_directory) = (false, false);
        assert!(
            with_group.0.is_taken_up_by(&with_group.1, false),
            "on the same volume, which is its group's"
        );
        assert!(!pod(5, 1).is_taken_up_by(&pod(6, 2), true) && !pod(5, 1).is_taken_up_by(&pod(6, 1), true));
        again.datadir = Some("/elsewhere".into());
        assert!(!identity.is_taken_up_by(&Identity::of(&again), false));
        let bare = Identity::of(&Server::new(MYSQL, "mysqld".into()));
        let of_user = Identity { whose: Owner::User(1001), ..bare.clone() };
        assert!(!bare.is_taken_up_by(&of_user, false), "of another user");
        assert!(!identity.is_taken_up_by(&bare, false) && !bare.is_taken_up_by(&identity, false));
        assert!(bare.is_taken_up_by(&bare, true), "processes of one name are one");

        // Who says that another's directory is theirs is not joined by the server itself, whoever is seen
        // first, and neither takes the other's place.
        let real = Identity::of(&owned(&first, Some(0)));
        let mut says = Identity::of(&owned(&first, Some(1001)));
        says.owns_directory = false;
        for is_alive in [true, false] {
            assert!(!says.is_taken_up_by(&real, is_alive) && !real.is_taken_up_by(&says, is_alive));
        }
    }
}
