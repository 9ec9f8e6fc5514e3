//! The role of a file that a process has open, by the links in /proc alone: no filesystem is asked, so
//! nothing here waits for one that hangs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::engine::engines::Engines;
use crate::engine::rules::Rules;
use crate::files::classify::Candidate;
use crate::files::resolve::DELETED;
use crate::linux::mounts::root_of;
use crate::linux::open_files::{descriptors, tables};
use crate::linux::rooted::strip_root;
use crate::model::{Engine, Role};
use crate::server::what::settings::Settings;
use crate::server::who::instances::members;

/// How many descriptors are looked at.
const DESCRIPTORS: usize = 4_096;

/// What a process has open.
pub(crate) struct OpenFiles {
    /// The directory in which it is chrooted.
    root: Option<PathBuf>,
    /// Sorted: what lies in a directory stands behind it.
    links: Vec<PathBuf>,
}

impl OpenFiles {
    pub fn of_process(proc_root: &Path, pid: u32) -> OpenFiles {
        OpenFiles::of(proc_root, &[pid])
    }

    /// Of a server of several processes, by the first: of all of them, each file once.
    pub fn of_server(proc_root: &Path, engines: &Engines, first: u32) -> OpenFiles {
        let mut open = OpenFiles::of(proc_root, &members(proc_root, engines, &[first]));
        open.links.dedup();
        open
    }

    fn of(proc_root: &Path, pids: &[u32]) -> OpenFiles {
        let threads = pids.iter().flat_map(|&pid| tables(proc_root, pid));
        let all = threads.flat_map(|tid| descriptors(proc_root, tid).map(move |fd| (tid, fd)));
        let link = |(tid, fd)| std::fs::read_link(proc_root.join(format!("{tid}/fd/{fd}"))).ok();
        let links = all.take(DESCRIPTORS).filter_map(link);
        let mut links: Vec<PathBuf> = links.filter(|link| link.is_absolute()).collect();
        links.sort();
        OpenFiles { root: pids.first().and_then(|&pid| root_of(proc_root, pid)), links }
    }

    /// Where its descriptors lead, as /proc shows it: several may lead to one file.
    pub fn links(&self) -> impl Iterator<Item = &Path> {
        self.links.iter().map(PathBuf::as_path)
    }

    /// The role of the file that one of its descriptors leads to.
    pub fn role(&self, link: &Path, engine: Option<&Engine>, settings: &Settings, rules: &Rules) -> Role {
        let inside = |link: &Path| self.root.as_ref().and_then(|root| strip_root(link, root));
        let role = |link: &Path, is_directory| {
            let path = inside(link).unwrap_or_else(|| link.to_owned());
            let path = &*path;
            rules.classify(&Candidate { path, is_directory, engine, settings, first_bytes: &|| None })
        };
        let last_name = link.as_os_str().as_bytes().strip_suffix(DELETED).map(OsStr::from_bytes);
        // A name that really ends like this comes first: whether it does cannot be told here.
        let as_file = [Some(link), last_name.map(Path::new)].into_iter().flatten();
        let as_file = as_file.map(|link| role(link, false)).find(|&role| role != Role::Other);
        as_file.unwrap_or_else(|| if self.is_directory(link) { role(link, true) } else { Role::Other })
    }

    /// Something is open in it. Of a directory in which nothing is, it cannot be told.
    fn is_directory(&self, link: &Path) -> bool {
        let behind = self.links.partition_point(|other| other.as_path() <= link);
        self.links.get(behind).is_some_and(|next| next.starts_with(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn an_open_files_role_is_that_of_its_link_its_directory_and_the_settings() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let redo = directory.join("#innodb_redo");
        std::fs::create_dir(&redo).unwrap();
        let create = |path: PathBuf| (File::create_new(&path).unwrap(), path);
        let (_spare, spare) = create(redo.join("#ib_redo6"));
        let _files = [
            create(redo.join("#ib_redo5")).0,
            create(directory.join("odd.000007")).0,
            create(directory.join("notes (deleted)")).0,
            File::open(&redo).unwrap(),
        ];
        std::fs::remove_file(&spare).unwrap();

        let open = OpenFiles::of_process(Path::new("/proc"), std::process::id());
        let settings = Settings::from_pairs(&directory, [("log_bin", "odd")]);
        let role = |path: &Path| {
            assert!(open.links().any(|link| link == path), "{path:?} is open");
            open.role(path, None, &settings, &Rules::builtin())
        };
        assert_eq!(role(&redo), Role::Directory);
        assert_eq!(role(&redo.join("#ib_redo5")), Role::Redo);
        assert_eq!(role(&redo.join("#ib_redo6 (deleted)")), Role::Redo);
        assert_eq!(role(&directory.join("odd.000007")), Role::Binlog);
        assert_eq!(role(&directory.join("notes (deleted)")), Role::Other);
    }

    #[test]
    fn in_a_chroot_settings_name_files_as_the_process_sees_them() {
        let open = OpenFiles { root: Some("/jail".into()), links: vec!["/jail/logs/odd.000007".into()] };
        let settings = Settings::from_pairs(Path::new("/data"), [("log_bin", "/logs/odd")]);
        let role = open.role(Path::new("/jail/logs/odd.000007"), None, &settings, &Rules::builtin());
        assert_eq!(role, Role::Binlog);
    }

    #[test]
    fn a_directory_is_told_by_what_is_open_in_it_and_not_by_a_name_that_begins_like_its_own() {
        let links = ["/d/shop", "/d/shop-2/a.ibd", "/d/shop/b.ibd", "/d/shop2"].map(PathBuf::from);
        let mut open = OpenFiles { root: None, links: links.to_vec() };
        open.links.sort();
        let role =
            |open: &OpenFiles| open.role(Path::new("/d/shop"), None, &Settings::default(), &Rules::builtin());
        assert_eq!(role(&open), Role::Directory);
        open.links.retain(|link| link != Path::new("/d/shop/b.ibd"));
        assert_eq!(role(&open), Role::Other);
    }
}
