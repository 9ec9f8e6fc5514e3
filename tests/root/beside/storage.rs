//! Needs root, to mount: what a path lies on, whatever bytes the mount points of the host have in their
//! names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::common::disk::Mounted;
use crate::common::needs;
use fsynctop::linux::storage::Storage;

#[test]
#[ignore = "needs root"]
fn root_a_mount_point_of_any_name_is_found_and_none_hides_the_others() {
    needs(&[]);
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let below = Storage::of(&directory.path().canonicalize().unwrap()).unwrap();
    for name in [&b"my data"[..], b"a\\040b\t", b"not\xffUTF-8"] {
        let point = directory.path().join(OsStr::from_bytes(name));
        std::fs::create_dir(&point).unwrap();
        let mounted = Mounted::on(&["-t", "tmpfs", "-o", "noatime", "fsynctop test"], &point);
        let storage = Storage::of(mounted.path()).unwrap();
        assert_eq!((storage.filesystem.as_str(), storage.device.as_str()), ("tmpfs", "fsynctop test"));
        assert!(storage.options.contains(&"noatime".to_owned()), "{storage:?}");
        assert_eq!(Storage::seen_by(std::process::id(), mounted.path()).unwrap(), storage);
        // One line that is no UTF-8 is no reason to know nothing of the others.
        assert_eq!(Storage::of(&directory.path().canonicalize().unwrap()).unwrap(), below);
    }
}
