//! Mounts a filesystem briefly and privately, invisible to all other processes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{chroot, fchdir};

/// Runs `work` with `filesystem` mounted at `point`. Only the calling thread enters a new mount namespace,
/// and returns to its own afterwards; other threads and processes do not see the mount. The copied mounts
/// are slaves, so that unmounts on the host propagate and are not blocked. Files opened inside stay usable.
/// Needs CAP_SYS_ADMIN and CAP_SYS_CHROOT.
pub(crate) fn with_mounted<R>(filesystem: &str, point: &Path, work: impl FnOnce() -> R) -> io::Result<R> {
    let home = Home::remember()?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // From here on, `home` moves the thread back on every return path.
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)?;
    let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(filesystem), point, Some(filesystem), harmless, nothing)?;
    let outcome = work();
    drop(home);
    Ok(outcome)
}

/// The thread's mount namespace, root and working directory; entering a namespace resets the last two.
struct Home {
    namespace: File,
    root: File,
    directory: File,
}

impl Home {
    fn remember() -> io::Result<Home> {
        let place = |path| OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path);
        Ok(Home {
            namespace: File::open("/proc/thread-self/ns/mnt")?,
            root: place("/")?,
            directory: place(".")?,
        })
    }

    fn restore(&self) -> nix::Result<()> {
        setns(&self.namespace, CloneFlags::CLONE_NEWNS)?;
        fchdir(&self.root)?;
        chroot(".")?;
        fchdir(&self.directory)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // A thread that cannot return stays in a slave copy of the mounts, where everything still works.
        let _ = self.restore();
    }
}
