//! A filesystem mounted for a moment, seen by nobody else.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::{chroot, fchdir};

/// Runs `work` with `filesystem` mounted at `point`. The calling thread alone moves into a mount namespace of its
/// own for that time and comes back afterwards; other threads and processes see nothing of it. The copy of the
/// mounts is a slave, so that what the host unmounts meanwhile goes away there too and is not held. What is opened
/// inside stays usable. Needs CAP_SYS_ADMIN and CAP_SYS_CHROOT.
pub fn with_mounted<R>(filesystem: &str, point: &Path, work: impl FnOnce() -> R) -> io::Result<R> {
    let home = Home::remember()?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // from here on, `home` brings the thread back on every way out
    let nothing = None::<&str>;
    mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_SLAVE, nothing)?;
    let harmless = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(filesystem), point, Some(filesystem), harmless, nothing)?;
    let outcome = work();
    drop(home);
    Ok(outcome)
}

/// Where the thread was: its mount namespace, root and working directory, which entering a namespace resets.
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
        // a thread that cannot go back stays in a slave copy of the mounts, where all goes on as before
        let _ = self.restore();
    }
}
