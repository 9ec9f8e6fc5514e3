//! The settings that an etcd was given: by its environment and its command line, which is the stronger one,
//! or by a configuration file, beside which neither counts (server/etcdmain/config.go).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::linux::rooted::Root;
use crate::server::what::launch::Launch;
use crate::server::what::settings::{Bounds, Settings, normalize};
use crate::server::what::settings_files::SettingsFiles;

/// Settings that fsynctop asks for, and the variables of the environment that stand for them. Others are not
/// kept, but for those that the rules name.
const SETTINGS: [(&str, &str); 8] = [
    ("config_file", "ETCD_CONFIG_FILE"),
    ("data_dir", "ETCD_DATA_DIR"),
    ("election_timeout", "ETCD_ELECTION_TIMEOUT"),
    ("heartbeat_interval", "ETCD_HEARTBEAT_INTERVAL"),
    ("listen_client_urls", "ETCD_LISTEN_CLIENT_URLS"),
    ("name", "ETCD_NAME"),
    ("unsafe_no_fsync", "ETCD_UNSAFE_NO_FSYNC"),
    ("wal_dir", "ETCD_WAL_DIR"),
];
/// Settings whose value is a path: relative to where etcd works, which is not its data directory.
const PATHS: [&str; 2] = ["data_dir", "wal_dir"];
/// Lists of URLs are the longest values that matter.
const MAX_VALUE: usize = 8_192;
/// Of a server without a name.
const DEFAULT_NAME: &str = "default";

type Values = BTreeMap<String, OsString>;

/// Of a running server; empty if nothing of it can be read. Reads a file of the server's root, so it can
/// block where its filesystem does: not for a hot path.
pub(in crate::server) fn of_server(proc_root: &Path, pid: u32, bounds: &Bounds<'_>) -> Settings {
    let Some(launch) = Launch::read(proc_root, pid, &SETTINGS.map(|(_, variable)| variable)) else {
        return Settings::default();
    };
    let root = Root::of_process(proc_root, pid).ok();
    read(&launch, root.as_ref(), bounds)
}

fn read(launch: &Launch, root: Option<&Root>, bounds: &Bounds<'_>) -> Settings {
    let works_in = launch.working_directory.as_deref().unwrap_or(Path::new("/"));
    let mut values: Values = SETTINGS
        .iter()
        .filter_map(|&(name, variable)| Some((name.to_owned(), launch.variable(variable)?.into())))
        .collect();
    values.extend(flags(&launch.command_line));
    if let Some(file) = values.get("config_file").filter(|file| !file.is_empty()) {
        let file = works_in.join(file);
        let contents = root.and_then(|root| SettingsFiles::new(root, bounds.over).contents(&file));
        values = contents.map(|contents| of_file(&contents)).unwrap_or_default();
    }
    let is_wanted =
        |name: &str| SETTINGS.iter().any(|(known, _)| *known == name) || bounds.also.contains(name);
    values.retain(|name, value| is_wanted(name) && value.len() <= MAX_VALUE);
    for name in PATHS {
        if let Some(path) = values.get_mut(name).filter(|path| !path.is_empty()) {
            *path = normalize(&works_in.join(&*path)).into();
        }
    }
    let told = |name: &str| values.get(name).filter(|value| !value.is_empty());
    let datadir = told("data_dir").map(PathBuf::from).unwrap_or_else(|| {
        let mut name = told("name").map_or(DEFAULT_NAME.into(), OsString::clone);
        name.push(".etcd");
        normalize(&works_in.join(name))
    });
    // A gateway has none, and a server that has only just begun makes it.
    let is_there = |root: &Root| root.look_up(&datadir, OFlags::DIRECTORY).is_ok();
    let base = root.is_some_and(is_there).then_some(datadir);
    let mut settings = Settings::relative_to(base);
    settings.values = values;
    if let Some(root) = root {
        settings.follow_symlinks(&["datadir", "wal_dir"], root, bounds);
    }
    settings
}

/// As other settings are called.
fn canonical(name: &[u8]) -> Option<String> {
    let is_name = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let is_valid = !name.is_empty() && name.iter().all(is_name);
    is_valid.then(|| String::from_utf8_lossy(name).replace('-', "_"))
}

/// `--name value`, `-name=value`; a flag that the next one follows is a switch, and on. etcd does not start
/// with an argument that is none of these.
fn flags(command_line: &[OsString]) -> Values {
    let mut values = Values::new();
    let mut words = command_line.iter().skip(1).map(|word| word.as_bytes()).peekable();
    while let Some(word) = words.next() {
        let Some(flag) = word.strip_prefix(b"-") else { break };
        let flag = flag.strip_prefix(b"-").unwrap_or(flag);
        let (name, value) = match flag.iter().position(|&byte| byte == b'=') {
            Some(at) => (&flag[..at], flag[at + 1..].to_vec()),
            None => {
                let value = words.next_if(|next| !next.starts_with(b"-"));
                (flag, value.unwrap_or(b"true").to_vec())
            }
        };
        let Some(name) = canonical(name) else { break };
        values.insert(name, OsString::from_vec(value));
    }
    values
}

/// The plain values at the top level of a file in YAML. What is nested there is certificates and the like.
fn of_file(contents: &[u8]) -> Values {
    let value = |line: &[u8]| {
        let at = line.iter().position(|&byte| byte == b':')?;
        let value = line[at + 1..].trim_ascii();
        let quoted = |quote: u8| {
            let rest = value.strip_prefix(&[quote])?;
            Some(&rest[..rest.iter().position(|&byte| byte == quote)?])
        };
        let plain = || {
            let comment = value.windows(2).position(|pair| pair == b" #");
            value[..comment.unwrap_or(value.len())].trim_ascii_end()
        };
        let value = quoted(b'"').or_else(|| quoted(b'\'')).unwrap_or_else(plain);
        let is_plain =
            !matches!(value.first(), None | Some(b'#' | b'&' | b'*' | b'[' | b'{' | b'|' | b'>' | b'!'));
        is_plain.then(|| Some((canonical(&line[..at])?, OsStr::from_bytes(value).to_owned())))?
    };
    contents.split(|&byte| byte == b'\n').filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(words: &[&str], environment: &[(&str, &str)], works_in: &Path) -> Launch {
        Launch {
            command_line: words.iter().map(Into::into).collect(),
            environment: environment.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            working_directory: Some(works_in.to_owned()),
        }
    }

    #[test]
    fn a_command_line_is_stronger_than_the_environment() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path()).unwrap();
        std::fs::create_dir_all(directory.path().join("w/data")).unwrap();
        let line = [
            "etcd",
            "--data-dir",
            "data",
            "-name=n",
            "--unsafe-no-fsync",
            "--wal-dir=/wal/./x",
            "--other",
            "1",
        ];
        let environment = [("ETCD_DATA_DIR", "/elsewhere"), ("ETCD_HEARTBEAT_INTERVAL", "300")];
        let settings = read(&launch(&line, &environment, Path::new("/w")), Some(&root), &Bounds::NONE);
        assert_eq!(settings.datadir(), Some(Path::new("/w/data")));
        assert_eq!(settings.path("wal_dir").as_deref(), Some(Path::new("/wal/x")));
        assert_eq!((settings.text("name"), settings.number("heartbeat_interval")), (Some("n"), Some(300)));
        assert_eq!((settings.flag("unsafe_no_fsync"), settings.get("other")), (Some(true), None));
    }

    #[test]
    fn without_a_data_directory_the_name_says_which_it_is_if_it_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path()).unwrap();
        let of = |line: &[&str]| {
            read(&launch(line, &[], Path::new("/")), Some(&root), &Bounds::NONE).datadir().map(Path::to_owned)
        };
        assert_eq!(of(&["etcd"]), None);
        for name in ["default.etcd", "one.etcd"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(of(&["etcd"]).as_deref(), Some(Path::new("/default.etcd")));
        assert_eq!(of(&["etcd", "--name", "one"]).as_deref(), Some(Path::new("/one.etcd")));
        assert_eq!(of(&["etcd", "--name", "two"]), None);
    }

    #[test]
    fn beside_a_file_nothing_else_counts() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at(directory.path()).unwrap();
        std::fs::create_dir(directory.path().join("d")).unwrap();
        let text = "# the member\nname: 'm1'\ndata-dir: \"/d\" # here\nlisten-client-urls: http://a:1,http://b:2  # both\n\
                    client-transport-security:\n  cert-file: /c\nquota: |\nheartbeat-interval: 250\nwal-dir:\n";
        std::fs::write(directory.path().join("etcd.yml"), text).unwrap();
        let line = ["etcd", "--config-file", "etcd.yml", "--data-dir=/other", "--unsafe-no-fsync"];
        let settings =
            read(&launch(&line, &[("ETCD_WAL_DIR", "/w")], Path::new("/")), Some(&root), &Bounds::NONE);
        assert_eq!(settings.datadir(), Some(Path::new("/d")));
        assert_eq!(settings.text("listen_client_urls"), Some("http://a:1,http://b:2"));
        assert_eq!((settings.text("name"), settings.number("heartbeat_interval")), (Some("m1"), Some(250)));
        let others =
            ["unsafe_no_fsync", "wal_dir", "cert_file", "quota"].map(|name| settings.get(name).is_some());
        assert_eq!(others, [false; 4]);
    }

    proptest::proptest! {
        /// Whatever a file or a command line holds, what is kept of it is no longer than that.
        #[test]
        fn nothing_is_more_than_its_bytes(contents: Vec<u8>, text in "[a-z:'\"# \n-]{0,200}", words: Vec<Vec<u8>>) {
            for contents in [&contents[..], text.as_bytes()] {
                let kept: usize = of_file(contents).iter().map(|(name, value)| name.len() + value.len()).sum();
                proptest::prop_assert!(kept <= contents.len());
            }
            let line: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            flags(&line);
        }
    }
}
