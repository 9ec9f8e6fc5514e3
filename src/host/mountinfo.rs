//! What is mounted where, from /proc/PID/mountinfo. Names in it are bytes, not text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A mount as /proc/PID/mountinfo describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Major and minor, of the superblock.
    pub device: (u32, u32),
    /// As the process sees it.
    pub point: PathBuf,
    pub filesystem: String,
    /// "/dev/vda1", "server:/export", "tmpfs".
    pub source: PathBuf,
}

/// The mount with this id, as `mnt_id` in fdinfo names it.
pub fn find_mount(mountinfo: &[u8], id: u64) -> Option<Mount> {
    mounts(mountinfo).find(|(found, _)| *found == id).map(|(_, mount)| mount)
}

/// All mounts with their ids; lines that make no sense are left out.
pub fn mounts(mountinfo: &[u8]) -> impl Iterator<Item = (u64, Mount)> + '_ {
    mountinfo.split(|&b| b == b'\n').filter_map(|line| {
        let mut fields = line.split(|&b| b == b' ');
        let id = number(fields.next()?)?;
        let device = fields.nth(1)?;
        let colon = device.iter().position(|&b| b == b':')?;
        let point = unescape(fields.nth(1)?);
        // options and a varying number of tags up to a lone "-"
        fields.find(|field| *field == b"-")?;
        let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
        let source = unescape(fields.next()?);
        let device = (number(&device[..colon])? as u32, number(&device[colon + 1..])? as u32);
        Some((id, Mount { device, point, filesystem, source }))
    })
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| digits.iter().all(|b| (b'0'..=b'7').contains(b)));
        match (first, octal) {
            (b'\\', Some(digits)) => {
                plain.push(digits.iter().fold(0u8, |value, b| value.wrapping_mul(8).wrapping_add(b - b'0')));
                rest = &after[3..];
            }
            _ => {
                plain.push(first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_by_its_id() {
        let text = b"23 1 254:0 / / rw - ext4 /dev/root rw\n\
            45 27 7:1 /sub /mnt/a\\040b rw,relatime shared:1 master:2 - ext4 /dev/loop1 rw,x\nnonsense\n";
        let mount = find_mount(text, 45).unwrap();
        assert_eq!(mount.device, (7, 1));
        assert_eq!(mount.point, PathBuf::from("/mnt/a b"));
        assert_eq!((mount.filesystem.as_str(), mount.source.to_str()), ("ext4", Some("/dev/loop1")));
        assert_eq!(find_mount(text, 4), None);
    }
}
