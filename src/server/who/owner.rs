//! Whose a process is, where something is shared out among those who may start processes: room in tables,
//! processor time, turns. Nobody may have two shares by starting processes in another way.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use super::processes;
use crate::linux::rooted::Root;
use crate::linux::{passwd, proc_file};
use crate::model::Owner;

/// Users of the system's own have numbers below this one (login.defs, SYS_UID_MAX) …
const FIRST_USER: u32 = 1000;
/// … or are made by systemd for a unit (DynamicUser=).
const DYNAMIC_USERS: std::ops::RangeInclusive<u32> = 61_184..=65_519;
/// Bytes of /etc/passwd and /etc/subuid.
const LIMIT: u64 = 1 << 20;
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Of a process, as /proc has it.
pub(crate) fn of_process(proc_root: &Path, pid: u32) -> Owner {
    let group = group(Path::new(CONTROL_GROUPS), &control_groups(proc_root, pid));
    if let Group::Container(inode) = group {
        return Owner::Container(inode);
    }
    // The real user: a program may belong to another one and lend that one's rights to whoever runs it.
    match processes::owner(proc_root, pid) {
        Some(uid) => of_user(uid, group, &SUBORDINATES),
        None => Owner::Unknown,
    }
}

/// The innermost unit of systemd that a process runs in, if root made its control group: a user's service
/// manager makes groups of any name below the user's own.
pub(crate) fn unit(proc_root: &Path, pid: u32) -> Option<String> {
    unit_in(Path::new(CONTROL_GROUPS), &control_groups(proc_root, pid))
}

fn control_groups(proc_root: &Path, pid: u32) -> Vec<u8> {
    proc_file::read_start(&proc_root.join(format!("{pid}/cgroup")), LIMIT).unwrap_or_default()
}

/// The control groups of a process: the controllers of each hierarchy, and the path in it.
fn paths(groups: &[u8]) -> impl Iterator<Item = (String, String)> {
    groups.split(|&b| b == b'\n').filter_map(|line| {
        // hierarchy:controllers:path, and a path may contain colons.
        let mut fields = line.splitn(3, |&b| b == b':');
        let (controllers, path) = (fields.nth(1)?, fields.next()?);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some((text(controllers), text(path)))
    })
}

fn unit_in(root: &Path, groups: &[u8]) -> Option<String> {
    let is_unit = |component: &&str| component.ends_with(".service");
    paths(groups).find_map(|(controllers, path)| {
        let components: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
        let at = components.iter().rposition(is_unit)?;
        let path: PathBuf = components[..=at].iter().collect();
        made_by_root(root, &controllers, &path).map(|_| components[at].to_owned())
    })
}

fn of_user(uid: u32, group: Group, subordinates: &Subordinates) -> Owner {
    if group == Group::OfNoContainer && (uid < FIRST_USER || DYNAMIC_USERS.contains(&uid)) {
        return Owner::System(uid);
    }
    Owner::User(subordinates.user_of(uid).unwrap_or(uid))
}

/// The user to whom a user's number belongs, which may be subordinate to theirs (/etc/subuid).
pub(crate) fn account(uid: u32) -> u32 {
    SUBORDINATES.user_of(uid).unwrap_or(uid)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    OfNoContainer,
    /// By its inode.
    Container(u64),
    /// It is called like one, and it cannot be seen that root made it: its root is nobody's service.
    Unproven,
}

/// The outermost group that is a container's or a pod's, if it is root who made it: below it, whoever runs in
/// it may make others, and anybody may below a group that was given to them. Of version 2, or of whichever
/// hierarchy of version 1 has it.
fn group(root: &Path, groups: &[u8]) -> Group {
    let found = paths(groups)
        .filter_map(|(controllers, path)| Some(made_by_root(root, &controllers, &outermost(&path)?)));
    let mut group = Group::OfNoContainer;
    for inode in found {
        match inode {
            Some(inode) => return Group::Container(inode),
            None => group = Group::Unproven,
        }
    }
    group
}

/// The inode of a control group that is seen to be root's.
fn made_by_root(root: &Path, controllers: &str, path: &Path) -> Option<u64> {
    // Above what this process can see there is nothing to look at.
    if path.iter().any(|component| component == "..") {
        return None;
    }
    let mut hierarchies = ["", controllers.trim_start_matches("name="), "unified"].into_iter();
    let at = |name| std::fs::symlink_metadata(root.join(name).join(path)).ok();
    let group = hierarchies.find_map(at)?;
    (group.is_dir() && group.uid() == 0).then(|| group.ino())
}

fn outermost(path: &str) -> Option<PathBuf> {
    let components: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
    let at = (0..components.len()).find(|&at| {
        is_containers(components[at]) || at > 0 && matches!(components[at - 1], "lxc" | "lxc.payload")
    })?;
    Some(components[..=at].iter().collect())
}

/// Container managers name groups by 64 hexadecimal digits, Kubernetes a pod's by its UUID.
fn is_containers(component: &str) -> bool {
    let is_hash = |part: &str| part.len() == 64 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let by_hash = component.split(|c: char| !c.is_ascii_alphanumeric()).any(is_hash);
    let is_uuid = |text: &str| {
        let digits: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b'_')).take(32).collect();
        digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit)
    };
    let by_pod = component.match_indices("pod").any(|(at, name)| is_uuid(&component[at + name.len()..]));
    by_hash || by_pod || component.starts_with("lxc.payload.") || component.starts_with("systemd-nspawn@")
}

/// Whose the numbers are that users were given beside their own.
#[derive(Default)]
struct Subordinates {
    /// By the first number of a range: the one after its last, and the user.
    ranges: BTreeMap<u32, (u32, u32)>,
}

/// Of the host, also where this runs in a container that sees the host's processes.
static SUBORDINATES: LazyLock<Subordinates> = LazyLock::new(|| {
    let root = Root::of_process(Path::new("/proc"), 1).or_else(|_| Root::at(Path::new("/")));
    let Ok(root) = root else { return Subordinates::default() };
    let subuid = root.read(Path::new("/etc/subuid"), LIMIT).unwrap_or_default();
    Subordinates::parse(&subuid, &passwd::read(&root, LIMIT).unwrap_or_default())
});

/// Reads whose numbers are whose, as they stand now. To be called before there is tracing that a filesystem
/// could hold up.
pub(crate) fn prepare() {
    LazyLock::force(&SUBORDINATES);
}

impl Subordinates {
    /// subuid(5): a user's name or number, the first number and how many.
    fn parse(subuid: &[u8], passwd: &str) -> Subordinates {
        let users: HashMap<&[u8], u32> =
            passwd::entries(passwd).map(|entry| (entry.name.as_bytes(), entry.uid)).collect();
        let range = |line: &[u8]| {
            let mut fields = line.split(|&b| b == b':');
            let (name, first, count) = (fields.next()?, number(fields.next()?)?, number(fields.next()?)?);
            // Of a name that nobody has, the range is one owner all the same.
            let user = number(name).or_else(|| users.get(name).copied()).unwrap_or(first);
            Some((first, (first.saturating_add(count), user)))
        };
        Subordinates { ranges: subuid.split(|&b| b == b'\n').filter_map(range).collect() }
    }

    fn user_of(&self, uid: u32) -> Option<u32> {
        let (_, &(end, user)) = self.ranges.range(..=uid).next_back()?;
        (uid < end).then_some(user)
    }
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const POD: &str = "6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11";

    #[test]
    fn a_user_is_one_owner_with_all_subordinate_numbers() {
        let subordinates = Subordinates::parse(
            b"alice:100000:65536\n1002:165536:65536\ngone:300000:10\nbroken\n:\n",
            "root:x:0:0::/:\nalice:x:1001:1001::/:\n",
        );
        let of = |uid| of_user(uid, Group::OfNoContainer, &subordinates);
        assert_eq!([of(1001), of(100_000), of(165_535)], [Owner::User(1001); 3]);
        assert_eq!((of(165_536), of(231_071)), (Owner::User(1002), Owner::User(1002)));
        assert_eq!((of(231_072), of(300_009)), (Owner::User(231_072), Owner::User(300_000)));
        assert_eq!(
            (of(0), of(999), of(61_184)),
            (Owner::System(0), Owner::System(999), Owner::System(61_184))
        );
        assert_eq!((of(1000), of(65_534)), (Owner::User(1000), Owner::User(65_534)), "nobody is no service");
        assert_eq!(
            of_user(0, Group::Unproven, &subordinates),
            Owner::User(0),
            "root of a container is none here"
        );
    }

    #[test]
    fn the_outermost_group_of_a_container_or_a_pod_counts() {
        let under = POD.replace('-', "_");
        let pod = format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice");
        for (path, expected) in [
            (format!("/docker/{HASH}"), Some(format!("docker/{HASH}"))),
            (
                format!("/system.slice/docker-{HASH}.scope/docker/{HASH}"),
                Some(format!("system.slice/docker-{HASH}.scope")),
            ),
            (format!("/{pod}/cri-containerd-{HASH}.scope"), Some(pod.clone())),
            (format!("/kubepods/besteffort/pod{POD}/{HASH}"), Some(format!("kubepods/besteffort/pod{POD}"))),
            ("/lxc/web/init.scope".into(), Some("lxc/web".into())),
            ("/lxc.payload.web/init.scope".into(), Some("lxc.payload.web".into())),
            (
                "/machine.slice/systemd-nspawn@web.service".into(),
                Some("machine.slice/systemd-nspawn@web.service".into()),
            ),
            ("/system.slice/mariadb.service".into(), None),
            ("/user.slice/user-1000.slice/podman.scope".into(), None),
            ("/".into(), None),
            (format!("/../docker/{HASH}"), Some(format!("../docker/{HASH}"))),
        ] {
            assert_eq!(outermost(&path), expected.map(PathBuf::from), "{path}");
        }
    }

    #[test]
    fn only_a_group_that_root_made_separates() {
        let root = tempfile::tempdir().unwrap();
        let group_directory = root.path().join("docker").join(HASH);
        std::fs::create_dir_all(&group_directory).unwrap();
        let groups = format!("1:name=systemd:/\n0::/docker/{HASH}\n");
        let inode = std::fs::metadata(&group_directory).unwrap().ino();
        let is_roots = std::fs::metadata(&group_directory).unwrap().uid() == 0;
        let expected = if is_roots { Group::Container(inode) } else { Group::Unproven };
        assert_eq!(group(root.path(), groups.as_bytes()), expected);
        if is_roots {
            std::os::unix::fs::chown(&group_directory, Some(1001), None).unwrap();
            assert_eq!(group(root.path(), groups.as_bytes()), Group::Unproven, "1001 may have made it up");
        }
        let of = |text: &str| group(root.path(), text.as_bytes());
        assert_eq!(of("0::/system.slice/mariadb.service\n"), Group::OfNoContainer);
        let unit = "user.slice/user@1001.service/app.slice/mariadb.service";
        std::fs::create_dir_all(root.path().join(unit)).unwrap();
        let unit_of = |text: &str| unit_in(root.path(), text.as_bytes());
        if is_roots {
            assert_eq!(unit_of(&format!("0::/{unit}/child\n")).as_deref(), Some("mariadb.service"));
            std::os::unix::fs::chown(root.path().join(unit), Some(1001), None).unwrap();
        }
        assert_eq!(unit_of(&format!("0::/{unit}\n")), None, "1001 may call it what they like");
        assert_eq!(unit_of("0::/user.slice/session-1.scope\n"), None);
        assert_eq!(of(&format!("0::/docker/{}\n", HASH.replace('0', "1"))), Group::Unproven, "not there");
        assert_eq!(of(&format!("0::/../docker/{HASH}\n")), Group::Unproven, "above what is seen");
        assert_eq!(of("\n:\n0::/\u{ff}\n"), Group::OfNoContainer);
    }

    #[test]
    fn a_process_of_one_s_own_has_an_owner_and_one_that_is_not_there_has_none() {
        let own = rustix::process::getuid().as_raw();
        assert_eq!(of_process(Path::new("/proc"), 1 << 30), Owner::Unknown);
        match of_process(Path::new("/proc"), std::process::id()) {
            Owner::System(uid) => assert_eq!(uid, own),
            Owner::User(_) => assert!(own >= FIRST_USER),
            Owner::Container(_) => {}
            Owner::Unknown => panic!("it is this process"),
        }
    }
}
