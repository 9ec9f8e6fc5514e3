//! The container of a process, from the names that container managers give their control groups.

use regex::bytes::Regex;

/// (manager, pattern of a control group's path). The last match in a path is the innermost container. Not
/// kept: they take a quarter of a megabyte, and are asked for some times in a server's life.
fn managers() -> impl DoubleEndedIterator<Item = (&'static str, Regex)> {
    const ID: &str = "([0-9a-f]{64})";
    [
        ("docker", format!(r"/docker[-/]{ID}")),
        ("containerd", format!(r"[/:]cri-containerd[-:]{ID}")),
        ("cri-o", format!(r"/crio-{ID}")),
        ("podman", format!(r"/libpod-{ID}")),
        ("lxc", r"/lxc(?:\.payload)?[./]([0-9A-Za-z_.-]+)".to_owned()),
        ("nspawn", r"/machine\.slice/systemd-nspawn@([0-9A-Za-z_.-]+)\.service".to_owned()),
        // Kubernetes with the cgroupfs driver does not say which runtime it was.
        ("container", format!(r"/pod[0-9a-f_-]{{32,36}}/{ID}")),
        ("containerd", format!(r"^/[0-9A-Za-z_.-]+/{ID}$")),
    ]
    .into_iter()
    .map(|(manager, pattern)| {
        (manager, Regex::new(&format!("(?-u){pattern}")).expect("constant, covered by tests"))
    })
}

fn pod() -> Regex {
    let uid = "[0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12}";
    Regex::new(&format!("(?-u)pod({uid})")).expect("constant, covered by tests")
}

/// From the contents of /proc/PID/cgroup: "docker 0123456789ab", "containerd 0123456789ab, pod 6f1f0d6c-…".
/// None for what runs in no container, such as a service of systemd.
pub(crate) fn of_cgroups(cgroups: &[u8]) -> Option<String> {
    cgroups.split(|&b| b == b'\n').find_map(|line| {
        // hierarchy:controllers:path, and a path may contain colons.
        let path = line.splitn(3, |&b| b == b':').nth(2)?;
        of_path(path)
    })
}

fn of_path(path: &[u8]) -> Option<String> {
    // What runs in no container is most often in the root, or in a service or a session of systemd.
    if path == b"/" || path.is_empty() {
        return None;
    }
    let innermost = managers()
        .filter_map(|(manager, pattern)| Some((manager, pattern.captures_iter(path).last()?.get(1)?)))
        // Of two that match the same id, the first in the list says more.
        .rev()
        .max_by_key(|(_, id)| id.start());
    let (manager, id) = innermost?;
    let id = id.as_bytes();
    let is_hash = id.len() == 64 && id.iter().all(u8::is_ascii_hexdigit);
    let id = String::from_utf8_lossy(if is_hash { &id[..12] } else { id });
    let pod = pod().captures(path).map(|found| String::from_utf8_lossy(&found[1]).replace('_', "-"));
    Some(match pod {
        Some(pod) => format!("{manager} {id}, pod {pod}"),
        None => format!("{manager} {id}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_known_by_their_control_groups() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "6f1f0d6c-3c44-4a51-9bbb-8f0a6d6f2b11";
        let under = uid.replace('-', "_");
        for (path, container) in [
            (format!("/docker/{id}"), Some("docker 0123456789ab".to_owned())),
            (format!("/system.slice/docker-{id}.scope"), Some("docker 0123456789ab".into())),
            (format!("/machine.slice/libpod-{id}.scope/container"), Some("podman 0123456789ab".into())),
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{under}.slice/cri-containerd-{id}.scope"
                ),
                Some(format!("containerd 0123456789ab, pod {uid}")),
            ),
            (
                format!("/kubelet/kubepods-pod{under}.slice:cri-containerd:{id}"),
                Some(format!("containerd 0123456789ab, pod {uid}")),
            ),
            (
                format!("/kubepods.slice/kubepods-pod{under}.slice/crio-{id}.scope"),
                Some(format!("cri-o 0123456789ab, pod {uid}")),
            ),
            (
                format!("/kubepods/besteffort/pod{uid}/{id}"),
                Some(format!("container 0123456789ab, pod {uid}")),
            ),
            (format!("/default/{id}"), Some("containerd 0123456789ab".into())),
            ("/lxc/db1/system.slice/mysql.service".into(), Some("lxc db1".into())),
            ("/lxc.payload.db1/system.slice".into(), Some("lxc db1".into())),
            (format!("/lxc/host1/docker/{id}"), Some("docker 0123456789ab".into())),
            ("/machine.slice/systemd-nspawn@db1.service/payload".into(), Some("nspawn db1".into())),
            ("/system.slice/mysql.service".into(), None),
            ("/system.slice/docker.service".into(), None),
            ("/user.slice/user-0.slice/session-1.scope".into(), None),
            ("/".into(), None),
        ] {
            assert_eq!(of_cgroups(format!("0::{path}\n").as_bytes()), container, "{path}");
        }
    }

    proptest::proptest! {
        /// A container's name reaches terminals and labels.
        #[test]
        fn no_control_group_makes_a_name_of_strange_characters(contents: Vec<u8>, path in "[0-9]:[a-z]*:/[ -~]{0,80}") {
            for text in [&contents[..], path.as_bytes()] {
                let name = of_cgroups(text).unwrap_or_default();
                proptest::prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b" ._-,".contains(&b)));
            }
        }
    }

    #[test]
    fn any_hierarchy_may_tell() {
        let id = "f".repeat(64);
        let text = format!("12:pids:/\n9:name=systemd:/docker/{id}\n0::/\n");
        assert_eq!(of_cgroups(text.as_bytes()).unwrap(), "docker ffffffffffff");
        assert_eq!(of_cgroups(b"garbage\n\xff:\n"), None);
    }
}
