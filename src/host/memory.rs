//! The memory cgroup of this process, which is charged for BPF maps since Linux 5.11: if its limit is too
//! low, map updates fail.

use std::fs;
use std::path::{Path, PathBuf};

use super::roots::Roots;
use super::verdict::Verdict;
use crate::linux::mountinfo;

pub const NAME: &str = "memory limit";
/// Allowance for the process's own memory, besides the maps.
const PROCESS_BYTES: u64 = 20 << 20;

/// Formats "35.7 MB" (decimal megabytes).
pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// `maps_bytes`: the memory that the maps will use.
pub fn check(roots: &Roots, maps_bytes: u64) -> Verdict {
    let need = maps_bytes + PROCESS_BYTES;
    let needs = format!("{} needed, {} of it for maps", megabytes(need), megabytes(maps_bytes));
    let Some(group) = find_group(roots) else {
        return Verdict::ok(NAME, format!("no memory cgroup; {needs}"));
    };
    // The limits of all ancestors apply as well.
    let levels: Vec<Level> =
        group.directories().filter_map(|directory| group.read_level(&directory)).collect();
    let Some(tightest) = levels.iter().min_by_key(|level| level.room()) else {
        return Verdict::ok(NAME, format!("none; {needs}"));
    };
    let limit = megabytes(tightest.limit);
    if levels.iter().any(|level| level.limit < need) {
        Verdict::fail(NAME, format!("the cgroup's limit is {limit}; {needs}")).cured_by(
            "raise `MemoryMax=` of the systemd unit or the container's memory limit, or track fewer files",
        )
    } else if tightest.room() < need {
        let room = megabytes(tightest.room());
        Verdict::warn(NAME, format!("{room} are left of the cgroup's {limit}; {needs}"))
            .cured_by("raise `MemoryMax=` of the systemd unit or the container's memory limit")
    } else {
        Verdict::ok(NAME, format!("{limit} by the cgroup; {needs}"))
    }
}

struct Level {
    limit: u64,
    used: u64,
    /// The page cache included in `used`, which the kernel reclaims first.
    cache: u64,
}

impl Level {
    fn room(&self) -> u64 {
        self.limit.saturating_sub(self.used.saturating_sub(self.cache))
    }
}

struct Group {
    mount: PathBuf,
    directory: PathBuf,
    files: &'static Files,
}

struct Files {
    limit: &'static str,
    used: &'static str,
    cache: &'static str,
}

const V1: Files =
    Files { limit: "memory.limit_in_bytes", used: "memory.usage_in_bytes", cache: "total_cache" };
const V2: Files = Files { limit: "memory.max", used: "memory.current", cache: "file" };

/// A cgroup v1 hierarchy with the memory controller takes precedence: v2 then has no such controller.
fn find_group(roots: &Roots) -> Option<Group> {
    let cgroup = roots.read_proc("self/cgroup").ok()?;
    let mounts = fs::read(roots.proc.join("self/mountinfo")).ok()?;
    let point_of = |matches: &dyn Fn(&str, &Path) -> bool| {
        let found = mountinfo::parse(&mounts)
            .into_iter()
            .find(|mount| matches(&mount.filesystem, &mount.mount_point));
        found.map(|mount| roots.locate(&mount.mount_point))
    };
    let v1 = path_of(&cgroup, "memory").and_then(|path| {
        let mount = point_of(&|filesystem, point| filesystem == "cgroup" && has_memory_controller(point))?;
        Some((path, mount, &V1))
    });
    let (path, mount, files) = v1.or_else(|| {
        let mount = point_of(&|filesystem, _| filesystem == "cgroup2")?;
        Some((path_of(&cgroup, "")?, mount, &V2))
    })?;
    // In a container the path may be the host's; only the mount's root is visible here.
    let directory = mount.join(path.trim_start_matches('/'));
    let directory = if directory.is_dir() { directory } else { mount.clone() };
    Some(Group { mount, directory, files })
}

/// Parses "4:memory:/path" or, for version 2, "0::/path".
fn path_of<'a>(cgroup: &'a str, controller: &str) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|found| found == controller).then(|| fields.next())?
    })
}

/// Mount points of version 1 are named after their controllers: "memory", "cpu,cpuacct".
fn has_memory_controller(point: &Path) -> bool {
    let name = point.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.split(',').any(|controller| controller == "memory")
}

impl Group {
    /// This process's cgroup and its ancestors, up to the mount point.
    fn directories(&self) -> impl Iterator<Item = PathBuf> + '_ {
        self.directory
            .ancestors()
            .take_while(|directory| directory.starts_with(&self.mount))
            .map(Path::to_path_buf)
    }

    /// None if there is no limit.
    fn read_level(&self, directory: &Path) -> Option<Level> {
        let number = |file: &str| fs::read_to_string(directory.join(file)).ok()?.trim().parse::<u64>().ok();
        // Version 2 writes "max", version 1 the greatest multiple of a page.
        let limit = number(self.files.limit).filter(|&limit| limit < i64::MAX as u64 - (1 << 20))?;
        let stat = fs::read_to_string(directory.join("memory.stat")).unwrap_or_default();
        let cache = stat.lines().find_map(|line| {
            let (name, value) = line.split_once(' ')?;
            (name == self.files.cache).then(|| value.parse().ok())?
        });
        Some(Level { limit, used: number(self.files.used).unwrap_or(0), cache: cache.unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    const MAPS: u64 = 30_000_000;
    const V2_MOUNT: (&str, &str) =
        ("proc/self/mountinfo", "38 1 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    const V2_SELF: (&str, &str) = ("proc/self/cgroup", "0::/system.slice/fsynctop.service\n");

    fn v2(own: &str, above: &str, used: &str, stat: &str) -> Verdict {
        let (_keep, roots) = fixture(&[
            V2_MOUNT,
            V2_SELF,
            ("sys/fs/cgroup/system.slice/memory.max", above),
            ("sys/fs/cgroup/system.slice/fsynctop.service/memory.max", own),
            ("sys/fs/cgroup/system.slice/fsynctop.service/memory.current", used),
            ("sys/fs/cgroup/system.slice/fsynctop.service/memory.stat", stat),
        ]);
        check(&roots, MAPS)
    }

    #[test]
    fn a_limit_below_the_need_fails_at_any_level() {
        assert_eq!(v2("max", "max", "0", "").status, Status::Ok);
        assert_eq!(v2("40000000\n", "max", "0", "").status, Status::Fail);
        assert_eq!(v2("max", "40000000\n", "0", "").status, Status::Fail);
        assert_eq!(v2("100000000\n", "max", "1000000", "").status, Status::Ok);
    }

    #[test]
    fn what_is_used_counts_but_for_the_page_cache() {
        let verdict = v2("100000000\n", "max", "90000000\n", "anon 1\nfile 5000000\n");
        assert_eq!(verdict.status, Status::Warn);
        assert!(
            verdict.detail.starts_with("15.0 MB are left of the cgroup's 100.0 MB"),
            "{}",
            verdict.detail
        );
        assert_eq!(v2("100000000\n", "max", "90000000\n", "anon 1\nfile 80000000\n").status, Status::Ok);
    }

    #[test]
    fn version_1_is_read_where_it_has_the_memory_controller() {
        let mountinfo = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let verdict = |limit: &str| {
            let (_keep, roots) = fixture(&[
                ("proc/self/mountinfo", mountinfo),
                ("proc/self/cgroup", "4:memory:/a:b\n1:cpu:/\n0::/\n"),
                ("sys/fs/cgroup/memory/a:b/memory.limit_in_bytes", limit),
                ("sys/fs/cgroup/memory/a:b/memory.usage_in_bytes", "0"),
            ]);
            check(&roots, MAPS)
        };
        assert_eq!(verdict("9223372036854771712\n").detail, "none; 51.0 MB needed, 30.0 MB of it for maps");
        assert_eq!(verdict("40000000\n").status, Status::Fail);
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_root_of_the_mount() {
        let (_keep, roots) = fixture(&[
            V2_MOUNT,
            ("proc/self/cgroup", "0::/kubepods/pod1\n"),
            ("sys/fs/cgroup/memory.max", "40000000\n"),
        ]);
        assert_eq!(check(&roots, MAPS).status, Status::Fail);
    }

    #[test]
    fn a_host_without_cgroups_has_no_limit() {
        let (_keep, roots) = fixture(&[]);
        assert_eq!(check(&roots, MAPS).status, Status::Ok);
    }
}
