//! Which of a server's claims the kernel confirms. Anybody may start a process called `mysqld` with any port
//! and data directory on its command line, and in namespaces of their own also listen on that port and own a
//! directory of that name.

use std::path::{Path, PathBuf};

use super::owner;
use crate::model::{Owner, Proof, Server};

/// The first user namespace has this inode, whatever the kernel (PROC_USER_INIT_INO in
/// include/linux/proc_ns.h).
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// Completes what is known of a server by whose it is and which of its claims are confirmed.
pub(in crate::server) fn complete(proc_root: &Path, server: &mut Server, listens_on_socket: bool) {
    let pid = server.id.pid;
    let whose = owner::of_process(proc_root, pid);
    let view = View::of(proc_root, pid, whose);
    server.known_by.whose = whose;
    // What runs in a container may be a system of its own, with units of any name.
    let is_of_container = matches!(whose, Owner::Container(_));
    server.known_by.unit = if is_of_container { None } else { owner::unit(proc_root, pid) };
    let listens = server.known_by.port.is_some_and(|port| server.ports.contains(&port));
    server.known_by.proof = Proof {
        port: view.network && listens,
        datadir: view.files && server.known_by.proof.datadir,
        socket: view.files && listens_on_socket && server.known_by.proof.socket,
    };
}

/// Whether a process sees what root made: without rights, a user may have a network and mounts of their own.
struct View {
    network: bool,
    files: bool,
}

impl View {
    fn of(proc_root: &Path, pid: u32, whose: Owner) -> View {
        let link =
            |pid: &str, name: &str| std::fs::read_link(proc_root.join(format!("{pid}/ns/{name}"))).ok();
        let own = |name: &str| link(&pid.to_string(), name);
        let is_first = own("user") == Some(PathBuf::from(FIRST_USER_NAMESPACE));
        let is_hosts = |name: &str| own(name).is_some() && own(name) == link("1", name);
        match whose {
            // Below a root-made container everything is the container engine's.
            Owner::Container(_) => View { network: true, files: true },
            Owner::System(_) => View { network: is_first || is_hosts("net"), files: is_first },
            // Some programs of root's lend users namespaces without one of users (firejail, bwrap).
            Owner::User(_) | Owner::Unknown => {
                View { network: is_hosts("net"), files: is_first && is_hosts("mnt") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_user_sees_what_root_made_only_in_the_namespaces_of_the_host() {
        let proc_root = tempfile::tempdir().unwrap();
        let namespaces = |pid: u32, [user, net, mnt]: [&str; 3]| {
            let directory = proc_root.path().join(format!("{pid}/ns"));
            std::fs::create_dir_all(&directory).unwrap();
            for (name, target) in [("user", user), ("net", net), ("mnt", mnt)] {
                symlink(target, directory.join(name)).unwrap();
            }
        };
        namespaces(1, [FIRST_USER_NAMESPACE, "net:[1]", "mnt:[1]"]);
        namespaces(2, [FIRST_USER_NAMESPACE, "net:[1]", "mnt:[1]"]);
        namespaces(3, [FIRST_USER_NAMESPACE, "net:[2]", "mnt:[1]"]);
        namespaces(4, ["user:[2]", "net:[1]", "mnt:[1]"]);
        namespaces(6, ["user:[2]", "net:[2]", "mnt:[2]"]);
        let of = |pid, whose| {
            let View { network, files } = View::of(proc_root.path(), pid, whose);
            (network, files)
        };
        let user = Owner::User(1001);
        assert_eq!([of(2, user), of(3, user), of(4, user)], [(true, true), (false, true), (true, false)]);
        let service = Owner::System(999);
        assert_eq!(
            [of(3, service), of(4, service)],
            [(true, true), (true, false)],
            "PrivateNetwork=, PrivateUsers="
        );
        assert_eq!(of(4, Owner::Container(7)), (true, true), "userns-remap");
        assert_eq!((of(5, user), of(6, user)), ((false, false), (false, false)), "nothing is the host's");
    }
}
