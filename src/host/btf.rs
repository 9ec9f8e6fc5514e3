//! The kernel's type information (BTF), which CO-RE relocation needs.

use std::fs::File;
use std::io::{ErrorKind, Read};

use regex::bytes::Regex;

use super::roots::Roots;
use super::verdict::Verdict;

pub const NAME: &str = "BTF";
/// In native byte order (include/uapi/linux/btf.h).
pub(crate) const MAGIC: u16 = 0xeb9f;

pub fn check(roots: &Roots) -> Verdict {
    let path = roots.sys.join("kernel/btf/vmlinux");
    let mut magic = [0; 2];
    match File::open(&path).and_then(|mut file| file.read_exact(&mut magic)) {
        Ok(()) if u16::from_ne_bytes(magic) == MAGIC => Verdict::ok(NAME, "/sys/kernel/btf/vmlinux"),
        Ok(()) => Verdict::fail(NAME, "/sys/kernel/btf/vmlinux does not contain BTF").cured_by(OTHER_KERNEL),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Verdict::fail(NAME, "/sys/kernel/btf/vmlinux is empty").cured_by(OTHER_KERNEL)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Verdict::fail(NAME, "/sys/kernel/btf/vmlinux does not exist: the kernel has no type information")
                .cured_by(OTHER_KERNEL)
        }
        Err(error) => Verdict::fail(NAME, format!("/sys/kernel/btf/vmlinux cannot be read: {error}"))
            .cured_by("mount sysfs on /sys, and let this process read /sys/kernel/btf"),
    }
}

const OTHER_KERNEL: &str = "run a kernel that was built with CONFIG_DEBUG_INFO_BTF=y (Debian 11, Ubuntu 20.10, RHEL 8.2 and \
     later have it)";

/// Whether the kernel has a type or function of this name; true if its BTF cannot be read. Names end with a
/// NUL there. The file is searched in chunks.
pub(crate) fn may_have(roots: &Roots, name: &str) -> bool {
    const PIECE: usize = 256 << 10;
    let Ok(wanted) = Regex::new(&format!("\0{}\0", regex::escape(name))) else { return true };
    let Ok(mut file) = File::open(roots.sys.join("kernel/btf/vmlinux")) else { return true };
    let mut piece = vec![0; name.len() + 1 + PIECE];
    let mut kept = 0;
    loop {
        let read = match file.read(&mut piece[kept..]) {
            Ok(0) => return false,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return true,
        };
        let filled = kept + read;
        if wanted.is_match(&piece[..filled]) {
            return true;
        }
        // The name may span two chunks.
        kept = filled.min(name.len() + 1);
        piece.copy_within(filled - kept..filled, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::roots::fixture;
    use super::super::verdict::Status;
    use super::*;

    #[test]
    fn btf_is_there_when_its_magic_number_is() {
        let (keep, roots) = fixture(&[("sys/kernel/btf/vmlinux", "")]);
        let file = keep.path().join("sys/kernel/btf/vmlinux");
        std::fs::write(&file, MAGIC.to_ne_bytes()).unwrap();
        assert_eq!(check(&roots).status, Status::Ok);
        std::fs::write(&file, "no BTF").unwrap();
        assert_eq!(check(&roots).status, Status::Fail);
        std::fs::write(&file, "").unwrap();
        assert!(check(&roots).cure.unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
    }

    #[test]
    fn a_name_is_found_across_pieces_and_only_whole() {
        let (keep, roots) = fixture(&[("sys/kernel/btf/vmlinux", "")]);
        let file = keep.path().join("sys/kernel/btf/vmlinux");
        for padding in [0, (256 << 10) - 2, (256 << 10) + 3, 600_000] {
            let mut content = vec![b'x'; padding];
            content.extend(b"\0a_function\0");
            std::fs::write(&file, &content).unwrap();
            assert!(may_have(&roots, "a_function"), "{padding}");
            assert!(!may_have(&roots, "function") && !may_have(&roots, "a_func"), "{padding}");
        }
    }

    #[test]
    fn without_it_the_cure_names_the_kernel_option() {
        let (_keep, roots) = fixture(&[]);
        assert!(check(&roots).cure.unwrap().contains("CONFIG_DEBUG_INFO_BTF"));
    }
}
