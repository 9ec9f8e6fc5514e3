//! Filesystems of which a part cannot be written any more: their image lies in memory, whole at first; then
//! what lies under a file is taken out of it, and the memory is full. The journal and all other metadata stay
//! as they were.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::disk::{Mounted, run};

/// How soon the kernel writes what is left in the page cache, and how often it looks; as it was when dropped.
pub struct SoonWritten(Vec<(&'static str, String)>);

impl SoonWritten {
    pub fn begin() -> SoonWritten {
        let settings =
            [("/proc/sys/vm/dirty_expire_centisecs", "20"), ("/proc/sys/vm/dirty_writeback_centisecs", "10")];
        let before = settings.map(|(path, _)| (path, std::fs::read_to_string(path).unwrap()));
        let soon = SoonWritten(before.into());
        settings.iter().for_each(|(path, soon)| std::fs::write(path, soon).unwrap());
        soon
    }
}

impl Drop for SoonWritten {
    fn drop(&mut self) {
        for (path, before) in &self.0 {
            if let Err(error) = std::fs::write(path, before.trim_end()) {
                eprintln!("{path}: {error}");
            }
        }
    }
}

/// A loop device with its image in memory.
pub struct Unwritable {
    // In the order in which they go.
    inner: Option<Mounted>,
    device: Loop,
    image: PathBuf,
    outer: Mounted,
}

struct Loop(PathBuf);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.0).status();
    }
}

impl Unwritable {
    /// Without a filesystem.
    pub fn device(megabytes: u64) -> Unwritable {
        let size = format!("size={}m", megabytes + 1);
        let outer = Mounted::new(&["-t", "tmpfs", "-o", &size, "fsynctop-test"]);
        let image = outer.path().join("image");
        let file = File::create(&image).unwrap();
        let zeros = vec![0; 1 << 20];
        (0..megabytes).for_each(|at| file.write_all_at(&zeros, at << 20).unwrap());
        let output = Command::new("losetup").args(["-f", "--show"]).arg(&image).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let device = Loop(String::from_utf8(output.stdout).unwrap().trim().into());
        Unwritable { inner: None, device, image, outer }
    }

    /// With a filesystem, which must not discard what its blocks lie on.
    pub fn filesystem(filesystem: &str, megabytes: u64) -> Unwritable {
        let mut made = Unwritable::device(megabytes);
        let device = made.device.0.to_str().unwrap();
        let options: &[&str] = match filesystem {
            // Of a write that does not begin with a page of the image a loop device takes the first part for
            // all.
            "ext4" => &["-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
            _ => &["-K"],
        };
        run(&format!("mkfs.{filesystem}"), &[&["-q"], options, &[device]].concat());
        made.inner = Some(Mounted::new(&[device]));
        made
    }

    pub fn node(&self) -> &Path {
        &self.device.0
    }

    pub fn path(&self) -> &Path {
        self.inner.as_ref().expect("a filesystem").path()
    }

    /// The filesystem of the image: nothing can be written there, once the first file was made.
    pub fn full(&self) -> &Path {
        self.outer.path()
    }

    /// Makes a file of that many bytes that can be written to, and never reaches the disk.
    pub fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.path().join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        file.write_all(&vec![1; bytes]).unwrap();
        file.sync_all().unwrap();
        for (start, length) in extents(&file) {
            self.take_out(start, length);
        }
        path
    }

    /// From now on nothing can be written to this part of the device.
    pub fn take_out(&self, start: u64, length: u64) {
        let image = OpenOptions::new().write(true).open(&self.image).unwrap();
        let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&image, mode, start, length).unwrap();
        let filler = self.outer.path().join("filler");
        let mut filler = OpenOptions::new().append(true).create(true).open(filler).unwrap();
        while filler.write(&[0; 4096]).is_ok() {}
    }
}

/// Where a file lies on its device: (start, length) in bytes.
fn extents(file: &File) -> Vec<(u64, u64)> {
    const FS_IOC_FIEMAP: libc::Ioctl = 0xc020_660b_u32 as libc::Ioctl;
    const EXTENTS: usize = 64;
    // include/uapi/linux/fiemap.h: the head is 4 words of 8 bytes, each extent 7.
    let mut map = [0_u64; 4 + 7 * EXTENTS];
    map[1] = u64::MAX;
    map[3] = EXTENTS as u64;
    #[expect(unsafe_code, reason = "there is no safe binding")]
    // SAFETY: the kernel writes no more extents than the head says there is room for.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, map.as_mut_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    let number = (map[2] >> 32) as usize;
    assert!(number > 0 && number < EXTENTS, "{number} extents");
    map[4..].chunks(7).take(number).map(|extent| (extent[1], extent[2])).collect()
}
