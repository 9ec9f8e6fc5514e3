//! Needs root: a .deb of the program that the tests have, what it holds, and what dpkg makes of it in a tree
//! of its own: installed, upgraded over a changed configuration, removed, purged. `make packages-check` tries
//! the packages as they are released, in whole Debian releases; here their scripts run with this machine's
//! tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::turn::takes_long;
use crate::common::{built, needs};

const TOP: &str = env!("CARGO_MANIFEST_DIR");
const CONFIGURATION: [&str; 2] = ["etc/fsynctop/exporter.toml", "etc/fsynctop/fsynctop.toml"];
/// Of all packages and of `make install`, below /usr or /usr/local.
const FILES: [&str; 6] = [
    "bin/fsynctop",
    "lib/systemd/system/fsynctop-exporter.service",
    "lib/systemd/system/fsynctop-exporter.socket",
    "lib/sysusers.d/fsynctop.conf",
    "share/bash-completion/completions/fsynctop",
    "share/fish/vendor_completions.d/fsynctop.fish",
];

fn run(command: &mut Command) -> String {
    let output = command.current_dir(TOP).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn tool(name: &str) -> Command {
    Command::new(Path::new(TOP).join("tools").join(name))
}

/// The program without what a debugger wants, as packages have it, and its pages.
fn program_and_pages(directory: &Path) -> (PathBuf, PathBuf) {
    let (program, pages) = (directory.join("fsynctop"), directory.join("pages"));
    run(Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_fsynctop")));
    run(Command::new(built("pages")).arg(&pages));
    (program, pages)
}

/// What `tools/packages/lay-out` takes, as it takes it.
fn contents_of_packages(directory: &Path) -> [PathBuf; 3] {
    let (program, pages) = program_and_pages(directory);
    let licences = directory.join("LICENCES");
    run(tool("packages/licences").arg(&licences));
    [program, pages, licences]
}

fn package(directory: &Path) -> PathBuf {
    let contents = contents_of_packages(directory);
    run(tool("packages/lay-out").arg("deb").args(contents).arg("target/packages/deb"));
    let mut pack = tool("packages/pack");
    let path = run(pack.args(["deb", std::env::consts::ARCH]).arg(directory).env("FAST", "yes"));
    PathBuf::from(path.trim_end())
}

/// Every path and its mode and owner.
fn contents(package: &Path) -> BTreeMap<String, String> {
    let listing = run(Command::new("dpkg-deb").arg("--contents").arg(package));
    let line = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        (words[5].trim_start_matches("./").to_owned(), format!("{} {}", words[0], words[1]))
    };
    listing.lines().map(line).collect()
}

/// A tree with an empty database of dpkg.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Root {
        let root = tempfile::tempdir().unwrap();
        for directory in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"] {
            fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        fs::write(root.path().join("var/lib/dpkg/status"), "").unwrap();
        Root(root)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// The package's scripts run outside of the tree and are told where it is. They see no systemd: those of
    /// cargo-deb would have this machine's own stop or restart a service.
    fn dpkg(&self, arguments: &[&str]) {
        let script = r#"mount -t tmpfs tmpfs /run; exec "$@""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-euc", script, "sh", "dpkg", "--root"]);
        command.arg(self.0.path());
        run(command
            .args(["--force-script-chrootless", "--force-depends", "--force-confold"])
            .args(arguments));
    }

    /// What is there but for dpkg's own files.
    fn files(&self) -> Vec<PathBuf> {
        let listing =
            run(Command::new("find").arg(self.0.path()).args(["-not", "-type", "d", "-printf", "%P\n"]));
        let files = listing.lines().map(PathBuf::from);
        files.filter(|path| !path.starts_with("var/lib/dpkg") && !path.starts_with("var/log")).collect()
    }
}

#[test]
#[ignore = "needs root, dpkg and cargo-deb"]
fn root_a_package_has_what_belongs_to_it_and_leaves_nothing_behind() {
    needs(&["/usr/bin/dpkg", "/usr/bin/systemd-sysusers", "/usr/bin/deb-systemd-helper"]);
    takes_long("it packs a debug build and the licences of 300 crates");
    let directory = tempfile::tempdir().unwrap();
    let package = package(directory.path());

    let contents = contents(&package);
    for (path, mode_and_owner) in &contents {
        let expected = match path.as_str() {
            _ if path.ends_with('/') => "drwxr-xr-x 0/0",
            "usr/bin/fsynctop" => "-rwxr-xr-x 0/0",
            _ => "-rw-r--r-- 0/0",
        };
        assert_eq!(mode_and_owner, expected, "{path}");
    }
    let usr = FILES.map(|path| format!("usr/{path}"));
    let doc = [
        "copyright",
        "changelog.gz",
        "LICENCES-OF-WHAT-IS-BUILT-IN.gz",
        "examples/roles.toml",
        "README.md",
        "docs/exporter.md",
        "docs/live.svg",
    ];
    let doc = doc.map(|path| format!("usr/share/doc/fsynctop/{path}"));
    let examples = ["grafana/fsynctop.json", "prometheus/fsynctop.rules.yml", "prometheus/scrape.yml"];
    let examples = examples.map(|path| format!("usr/share/doc/fsynctop/examples/{path}"));
    let pages =
        ["man1/fsynctop.1", "man1/fsynctop-once.1", "man1/fsynctop-exporter.1", "man5/fsynctop.toml.5"];
    let pages = pages.map(|path| format!("usr/share/man/{path}.gz"));
    let zsh = ["usr/share/zsh/vendor-completions/_fsynctop".to_owned()];
    let configuration = CONFIGURATION.map(str::to_owned);
    for path in [&usr[..], &doc, &examples, &pages, &zsh, &configuration].concat() {
        assert!(contents.contains_key(&path), "no {path} in {contents:#?}");
    }

    let field = |name: &str| run(Command::new("dpkg-deb").arg("--field").arg(&package).arg(name));
    assert_eq!(field("Version").trim(), concat!(env!("CARGO_PKG_VERSION"), "-1"));
    assert_eq!(field("Architecture"), run(Command::new("dpkg").arg("--print-architecture")));
    assert!(field("Depends").contains("systemd-sysusers"));
    let control = directory.path().join("control");
    run(Command::new("dpkg-deb").arg("--control").args([&package, &control]));
    let conffiles = fs::read_to_string(control.join("conffiles")).unwrap();
    let mut conffiles: Vec<_> = conffiles.lines().map(|line| line.trim_start_matches('/')).collect();
    conffiles.sort();
    assert_eq!(conffiles, CONFIGURATION);

    // Not what dpkg installs, which may leave out documentation where its configuration says so.
    let unpacked = directory.path().join("unpacked");
    run(Command::new("dpkg-deb").arg("--extract").args([&package, &unpacked]));
    run(tool("packages/links").arg(unpacked.join("usr/share/doc/fsynctop")));

    // To restart a socket whose service runs fails, and leaves the port closed.
    let postinst = fs::read_to_string(control.join("postinst")).unwrap();
    let restarts: Vec<_> = postinst.lines().filter(|line| line.contains("restart")).collect();
    assert!(
        matches!(restarts[..], [one] if one.contains("try-restart fsynctop-exporter.service >")),
        "{postinst}"
    );

    // Installed: a user, and nothing that starts by itself.
    let root = Root::new();
    root.dpkg(&["--install", package.to_str().unwrap()]);
    for file in &usr {
        assert!(root.path(file).exists(), "{file}");
    }
    let unit = fs::read_to_string(root.path("usr/lib/systemd/system/fsynctop-exporter.service")).unwrap();
    let starts = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert_eq!(starts, "ExecStart=/usr/bin/fsynctop exporter --config /etc/fsynctop/exporter.toml");
    let users = fs::read_to_string(root.path("etc/passwd")).unwrap();
    let user = users.lines().find(|line| line.starts_with("fsynctop:")).expect(&users);
    assert!(user.contains(":fsynctop exporter:/:") && user.ends_with("/nologin"), "{user}");
    assert!(!root.path("etc/systemd/system").exists(), "a unit is enabled");

    // Upgraded: what the administrator changed stays, and the new default is beside it.
    let edited = root.path(CONFIGURATION[0]);
    let changed = fs::read_to_string(&edited).unwrap() + "interval = \"2s\"\n";
    fs::write(&edited, &changed).unwrap();
    let next = next_version(&package, directory.path());
    root.dpkg(&["--install", next.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&edited).unwrap(), changed);
    let default = fs::read_to_string(root.path("etc/fsynctop/exporter.toml.dpkg-dist")).unwrap();
    assert!(default.ends_with("# A new default\n"), "{default}");

    // Removed, the configuration is left; purged, nothing but the user.
    let calibrated = root.path("var/lib/fsynctop/calibration.json");
    fs::create_dir_all(calibrated.parent().unwrap()).unwrap();
    fs::write(&calibrated, "").unwrap();
    root.dpkg(&["--remove", "fsynctop"]);
    assert!(edited.exists() && calibrated.exists() && !root.path("usr/bin/fsynctop").exists());
    root.dpkg(&["--purge", "fsynctop"]);
    let left = root.files();
    let of_users = ["passwd", "group", "shadow", "gshadow", ".pwd.lock"];
    let of_users = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        path.starts_with("etc") && of_users.contains(&name.trim_end_matches('-'))
    };
    assert!(left.iter().all(of_users), "left behind: {left:#?}");
    assert_eq!(fs::read_to_string(root.path("etc/passwd")).unwrap(), users);
}

/// The same package, of a later version and with another default.
fn next_version(package: &Path, directory: &Path) -> PathBuf {
    let (tree, next) = (directory.join("next"), directory.join("next.deb"));
    run(Command::new("dpkg-deb").arg("--raw-extract").args([package, &tree]));
    let control = fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    let version = concat!("Version: ", env!("CARGO_PKG_VERSION"), "-");
    assert!(control.contains(version));
    fs::write(tree.join("DEBIAN/control"), control.replace(&format!("{version}1"), &format!("{version}2")))
        .unwrap();
    let default = fs::read_to_string(tree.join(CONFIGURATION[0])).unwrap();
    fs::write(tree.join(CONFIGURATION[0]), default + "# A new default\n").unwrap();
    run(Command::new("dpkg-deb").args(["--root-owner-group", "-Znone", "--build"]).args([&tree, &next]));
    next
}

#[test]
#[ignore = "needs root, as the rest of this file"]
fn root_links_of_the_pages_lead_to_files_in_each_format() {
    needs(&["/usr/bin/python3", "/usr/bin/strip"]);
    let directory = tempfile::tempdir().unwrap();
    let contents = contents_of_packages(directory.path());
    for (format, pages) in [("deb", "usr/share/doc/fsynctop"), ("rpm", "usr/share/doc/fsynctop"), ("tar", "")]
    {
        let tree = directory.path().join(format);
        run(tool("packages/lay-out").arg(format).args(&contents).arg(&tree));
        let pages = tree.join(pages);
        run(tool("packages/links").arg(&pages));

        // And it would be said if one did not.
        fs::remove_file(pages.join("docs/roles.md")).unwrap();
        let output = tool("packages/links").arg(&pages).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("docs/README.md: roles.md"), "{format}: {said}");
    }
}

#[test]
#[ignore = "needs root, as the rest of this file"]
fn root_what_is_installed_is_taken_away_again() {
    needs(&["/usr/bin/strip"]);
    let directory = tempfile::tempdir().unwrap();
    let (program, pages) = program_and_pages(directory.path());
    let destination = directory.path().join("a host");
    let install = |arguments: &[&Path]| {
        let mut install = tool("install");
        run(install.args(arguments).env("DESTDIR", &destination).env_remove("PREFIX"));
    };
    let files = || run(Command::new("find").arg(&destination).args(["-type", "f", "-printf", "%P\n"]));
    let installing = [Path::new("--binary"), &program, Path::new("--pages"), &pages];
    install(&installing);
    let installed = files();
    let expected = FILES.map(|path| format!("usr/local/{path}"));
    let others = ["usr/local/share/zsh/site-functions/_fsynctop", "usr/local/share/man/man1/fsynctop.1"];
    for path in expected.iter().map(String::as_str).chain(others).chain(CONFIGURATION) {
        assert!(installed.lines().any(|line| line == path), "no {path} in {installed}");
    }
    let unit = fs::read_to_string(destination.join(&expected[1])).unwrap();
    assert!(unit.contains("\nExecStart=/usr/local/bin/fsynctop exporter "), "{unit}");

    // A configuration that was changed survives a second installation, and the removal.
    let edited = destination.join(CONFIGURATION[0]);
    let default = fs::read_to_string(&edited).unwrap();
    fs::write(&edited, "interval = \"2s\"\n").unwrap();
    install(&installing);
    assert_eq!(fs::read_to_string(&edited).unwrap(), "interval = \"2s\"\n");
    install(&[Path::new("--remove")]);
    assert_eq!(files(), format!("{}\n", CONFIGURATION[0]));
    fs::write(&edited, default).unwrap();
    install(&[Path::new("--remove")]);
    assert_eq!(files(), "");
    assert!(!destination.join("etc/fsynctop").exists());
}
