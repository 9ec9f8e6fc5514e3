//! Roles that the first bytes decide, of this process's own files: no privilege needed.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::*;
use crate::linux::open_files::DescriptorInfo;
use crate::linux::rooted;

const PATIENCE: Duration = Duration::from_secs(20);

struct Synced {
    _directory: tempfile::TempDir,
    file: File,
    path: PathBuf,
    key: FileKey,
    event: FileEvent,
}

/// A file of this process, and the event by which the kernel side would tell of it.
fn synced(name: &str, content: &str) -> Synced {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap().join(name);
    std::fs::write(&path, content).unwrap();
    let file = File::open(&path).unwrap();
    let server = processes::find(Path::new(PROC), std::process::id()).unwrap().id();
    let info = DescriptorInfo::read(Path::new(PROC), server.pid, file.as_raw_fd()).unwrap();
    let mount = mounts::mount_of(Path::new(PROC), server.pid, info.mount_id.unwrap()).unwrap();
    let inode = rooted::attributes(&file).unwrap().inode;
    let id = FileId { device: mount.device, inode, generation: 1, weak: false, part: false };
    let below = path.strip_prefix(&mount.mount_point).unwrap();
    let event = FileEvent {
        tid: std::process::id(),
        id: Default::default(),
        fd: file.as_raw_fd(),
        mount_id: info.mount_id.unwrap(),
        mode: libc::S_IFREG | 0o600,
        below: None,
        components: below.iter().rev().map(|name| name.as_bytes().to_vec()).collect(),
        complete: true,
    };
    Synced { _directory: directory, file, path, key: (server, id), event }
}

/// With a rule of the user's own for redo logs that begin with "mine".
fn names() -> Names {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rules.toml");
    let rule = "[[rule]]\nrole = \"engine_log\"\nname = 'ib_logfile.*'\ncontent = [{ text = \"mine\" }]\n";
    std::fs::write(&file, rule).unwrap();
    Names::new(Arc::new(Rules::with_user_file(&file).unwrap()))
}

#[test]
fn a_part_of_a_file_has_the_files_name_and_a_role_of_its_own() {
    let (mut names, whole) = (names(), synced("ibdata1", ""));
    let part = (whole.key.0, FileId { part: true, ..whole.key.1 });
    names.learn(whole.key, &whole.event);
    names.learn(part, &whole.event);
    names.settle(PATIENCE);
    let of = |key| (names.role_of(&key), names.info(&key).path.clone().unwrap());
    assert_eq!(of(whole.key), (Role::SystemTablespace, whole.path.clone()));
    assert_eq!(of(part), (Role::Doublewrite, whole.path.clone()));
    assert_eq!(names.owner_of(whole.key.1), Some(whole.key));
    let settings = Settings::default();
    names.set_server(part.0, None, settings);
    assert_eq!(names.role_of(&part), Role::Doublewrite);
}

#[test]
fn a_file_is_its_servers_by_its_own_identity_and_by_that_of_the_layer_below_an_overlay() {
    let (mut names, plain, mut layered) = (names(), synced("a", ""), synced("b", ""));
    names.learn(plain.key, &plain.event);
    let upper = 9 << 20;
    layered.event.below = Some(upper);
    names.learn(layered.key, &layered.event);
    assert_eq!(names.owner_of(plain.key.1), Some(plain.key));
    let below = FileId { device: upper, ..layered.key.1 };
    assert_eq!(names.owner_of(below), Some(layered.key));
    for other in [FileId { generation: 7, ..plain.key.1 }, FileId { device: 5, ..below }] {
        assert_eq!(names.owner_of(other), None);
    }
    // Of two that have synced it, the one that lives.
    let ended = ServerId { pid: 1 << 30, start_ns: 1 };
    let mut both = self::names();
    both.learn((ended, plain.key.1), &plain.event);
    both.server_ended(ended);
    assert_eq!(both.owner_of(plain.key.1), Some((ended, plain.key.1)), "what it wrote is still its own");
    both.learn(plain.key, &plain.event);
    assert_eq!(both.owner_of(plain.key.1), Some(plain.key));
}

/// As the file is looked at now and then while it is synced.
fn look_again(names: &mut Names, file: &Synced) {
    let first_bytes = names.named[&file.key].wants_content;
    names.ask(file.key, first_bytes);
    names.settle(PATIENCE);
}

#[test]
fn a_users_rule_by_content_comes_before_a_built_in_rule_by_name() {
    let (mut names, mine) = (names(), synced("ib_logfile0", "mine, and more"));
    names.learn(mine.key, &mine.event);
    assert_eq!(names.role_of(&mine.key), Role::Redo, "until its first bytes are known");
    names.settle(PATIENCE);
    assert_eq!(names.role_of(&mine.key), Role::EngineLog);
    assert_eq!(names.info(&mine.key).path.as_ref(), Some(&mine.path));
    for _ in 0..2 {
        assert!(!names.named[&mine.key].wants_content, "it is read once");
        look_again(&mut names, &mine);
        assert_eq!(names.role_of(&mine.key), Role::EngineLog);
    }
    names.set_server(mine.key.0, None, Settings::default());
    assert_eq!(names.role_of(&mine.key), Role::EngineLog);
    look_again(&mut names, &mine);
    assert_eq!(names.role_of(&mine.key), Role::EngineLog);
}

#[test]
fn a_file_that_is_none_of_the_users_by_its_content_has_the_role_of_its_name() {
    let (mut names, other) = (names(), synced("ib_logfile0", "another's"));
    names.learn(other.key, &other.event);
    names.settle(PATIENCE);
    assert_eq!(names.role_of(&other.key), Role::Redo);
    assert!(!names.named[&other.key].wants_content);
    look_again(&mut names, &other);
    assert_eq!(names.role_of(&other.key), Role::Redo);
}

#[test]
fn a_file_that_no_rule_by_content_can_be_about_is_not_read() {
    for name in ["binlog.000001", "ibdata1", "shop.ibd"] {
        let (mut names, file) = (names(), synced(name, "mine"));
        names.learn(file.key, &file.event);
        assert!(!names.named[&file.key].wants_content, "{name}");
    }
}

#[test]
fn an_empty_file_is_read_again_once_it_is_looked_at_again() {
    let (mut names, file) = (names(), synced("ib_logfile0", ""));
    names.learn(file.key, &file.event);
    names.settle(PATIENCE);
    assert_eq!(names.role_of(&file.key), Role::Redo);
    std::fs::write(&file.path, "mine").unwrap();
    look_again(&mut names, &file);
    assert_eq!(names.role_of(&file.key), Role::EngineLog);
    drop(file.file);
}

#[test]
fn what_is_not_complete_and_what_is_on_no_filesystem_has_no_absolute_path() {
    let mut deep = synced("deep", "");
    deep.event.complete = false;
    // Its descriptor is another file's by now.
    deep.event.fd = -1;
    let mut names = names();
    names.learn(deep.key, &deep.event);
    let end = deep.event.components.iter().rev().map(|name| OsStr::from_bytes(name)).collect::<PathBuf>();
    let path = |names: &Names| names.info(&deep.key).path.clone().unwrap();
    assert_eq!(path(&names), Path::new(CUT_OFF).join(&end));
    names.settle(PATIENCE);
    look_again(&mut names, &deep);
    assert_eq!(path(&names), Path::new(CUT_OFF).join(&end));
    assert!(!names.info(&deep.key).unlinked, "nobody has looked for it");

    let (mut socket, mut event) = (synced("a", ""), synced("b", ""));
    (socket.event.mode, socket.event.components) = (libc::S_IFSOCK, vec![b"TCP".to_vec()]);
    (event.event.mode, event.event.components) = (0o600, vec![b"[eventfd]".to_vec()]);
    names.learn(socket.key, &socket.event);
    names.learn(event.key, &event.event);
    let name = |key: &FileKey| names.info(key).path.clone().unwrap().into_os_string().into_string().unwrap();
    assert_eq!(name(&socket.key), format!("socket:[{}]", socket.key.1.inode));
    assert_eq!(name(&event.key), "anon_inode:[eventfd]");
}

/// A journal, and then its directory by the same descriptor and with the same inode number.
#[test]
fn a_file_does_not_become_a_directory() {
    let mut journal = synced("a-journal", "");
    let directory = File::open(journal.path.parent().unwrap()).unwrap();
    journal.key.1.inode = rooted::attributes(&directory).unwrap().inode;
    journal.event.fd = directory.as_raw_fd();
    journal.event.components[0] = journal.event.components[1].clone();
    let mut names = names();
    names.learn(journal.key, &journal.event);
    names.settle(PATIENCE);
    assert_ne!(names.role_of(&journal.key), Role::Directory);
}

/// Files of another owner that come by the thousand keep this one's from neither being looked at nor named.
#[test]
fn an_owner_whose_files_come_by_the_thousand_waits_behind_itself() {
    let (mut names, mine) = (names(), synced("ib_logfile0", "mine"));
    let stranger = ServerId { pid: 1 << 30, start_ns: 7 };
    names.know_owner(stranger, Owner::User(1001));
    for inode in 0..20_000 {
        let id = FileId { inode: 1_000_000 + inode, ..mine.key.1 };
        names.learn((stranger, id), &mine.event);
    }
    assert!(names.pending(stranger) >= HURRIED, "{}", names.pending(stranger));
    assert_eq!(names.pending(mine.key.0), 0);
    names.learn(mine.key, &mine.event);
    assert_eq!(names.pending(mine.key.0), 1);
    let end = Instant::now() + PATIENCE;
    while names.role_of(&mine.key) != Role::EngineLog && Instant::now() < end {
        names.collect();
    }
    assert_eq!(names.role_of(&mine.key), Role::EngineLog, "what its first bytes say");
    let waiting = names.pending(stranger);
    assert!(waiting > 0, "the others wait still");
    // What its own files may take is used up, and there is room for others' all the same.
    names.of_strangers.spend(BURST_OF_STRANGERS * 2);
    let before = names.pending(stranger);
    names.ask((stranger, FileId { inode: 1_000_000, ..mine.key.1 }), false);
    names.ask(mine.key, false);
    assert!(names.pending(stranger) <= before);
    assert_eq!(names.pending(mine.key.0), 1);
}
