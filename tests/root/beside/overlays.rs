//! Needs root: files of an overlay are on the device of its upper layer, where all who sync there are
//! neighbours, whichever overlay they see it through.

use std::fs::{File, create_dir};
use std::path::Path;

use crate::common::disk::Mounted;
use crate::common::explained::{Explained, load};
use crate::common::faults::{fsynctop, output, stdout};
use crate::common::measured::{Measured, number, text};
use crate::common::needs;
use crate::common::traced::Traced;
use fsynctop::linux::mountinfo::format_device;
use serde_json::Value;

/// A filesystem on a device, and two overlays on it, each of a server in a container.
struct Containers {
    first: Mounted,
    second: Mounted,
    disk: Mounted,
}

impl Containers {
    fn new() -> Containers {
        let disk = Mounted::image("ext4", 400);
        let overlay = |name: &str| {
            let directory = disk.path().join(name);
            create_dir(&directory).unwrap();
            Mounted::overlay(&directory)
        };
        Containers { first: overlay("first"), second: overlay("second"), disk }
    }

    /// The device's number and name.
    fn device(&self) -> (String, String) {
        let number = format_device(crate::common::id_of(self.disk.path()).device);
        let name = std::fs::read_link(format!("/sys/dev/block/{number}")).unwrap();
        (number, format!("/dev/{}", name.file_name().unwrap().to_str().unwrap()))
    }
}

fn sync_file_and_directory(directory: &Path) {
    let file = File::create(directory.join("ibdata1")).unwrap();
    (0..3).for_each(|_| file.sync_all().unwrap());
    File::open(directory).unwrap().sync_all().unwrap();
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_files_of_an_overlay_keep_their_identity_and_are_on_the_device_below() {
    let test = Traced::begin(sync_file_and_directory);
    let containers = Containers::new();
    let (_, device) = containers.device();
    let measured = test.measure(containers.first.path(), &[]);
    measured.assert_nothing_lost();
    assert_eq!(measured.total(), 4);
    let own = crate::common::id_of(containers.first.path()).device;
    for row in measured.files() {
        assert_eq!(
            (text(row, "device"), text(row, "device_number")),
            (device.clone(), format_device(own)),
            "{row}"
        );
        assert_eq!(text(row, "filesystem"), "overlay");
    }
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_who_syncs_on_another_overlay_of_the_device_is_a_neighbour() {
    needs(&["/sbin/mkfs.ext4"]);
    let containers = Containers::new();
    let (number_of_device, device) = containers.device();
    let (first, second) = (containers.first.path(), containers.second.path());
    let server = load(first, "mysqld", &["--write", "512"]);
    let neighbours = [
        load(second, "another", &["--write", "512", "--op", "fsync"]),
        load(containers.disk.path(), "host", &[]),
    ];
    let once = |options: &[&str]| {
        let output = output(fsynctop().args(["once", "-d", "2"]).args(options));
        assert!(output.status.success(), "{output:?}");
        stdout(&output)
    };
    let pid = server.0.id().to_string();
    let measured = Measured::parse(&once(&["--pid", &pid, "--output", "json"]));
    for comm in ["another", "host"] {
        let rows = measured.0["neighbours"].as_array().unwrap().iter();
        // Other tests have devices of their own.
        let is_it = |row: &&Value| row["comm"] == comm && text(row, "device_number") == number_of_device;
        let of_device: Vec<&Value> = rows.filter(is_it).collect();
        let [row] = of_device[..] else { panic!("one row of {comm}: {}", measured.0["neighbours"]) };
        assert_eq!(text(row, "device"), device);
        assert!(number(row, "count") > 0);
    }
    let table = once(&["--pid", &pid]);
    let line = table.lines().find(|line| line.starts_with(&format!("also on {device}: ")));
    let line = line.unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains("another ") && line.contains("host "), "{table}");

    // As servers, each is told of the other. Not by command: servers of other tests have no neighbours.
    let another = neighbours[0].0.id().to_string();
    let table = once(&["--pid", &pid, "--pid", &another]);
    assert!(table.contains("(traced)") && !table.contains("no other process"), "{table}");
}

#[test]
#[ignore = "needs root and a kernel with BTF"]
fn root_explain_sees_the_journal_below_an_overlay() {
    needs(&["/sbin/mkfs.ext4"]);
    let containers = Containers::new();
    let (_, device) = containers.device();
    let load_of = |directory, comm| load(directory, comm, &["--write", "4096", "--append"]);
    let server = load_of(containers.first.path(), "mysqld");
    let _neighbour = load_of(containers.second.path(), "another");
    let explained = Explained::of(server.0.id(), 4, &[]);
    explained.assert_adds_up();
    let journal = explained.journal();
    assert_eq!(journal["device"], *device, "{journal:#}");
    assert!(number(journal, "syncs") > 0 && number(journal, "commits") > 0, "{journal:#}");
    assert_eq!(journal["neighbours"][0]["comm"], "another", "{journal:#}");
    // The committer's work is attributed to the waits for it.
    assert!(explained.seconds("device_flush", Some("journal_commit")) > 0.0, "{}", explained.shown());
}
