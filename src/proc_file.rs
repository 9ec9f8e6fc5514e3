//! Files of /proc are short and have no length that could be asked for: the standard library asks for it all the same,
//! and begins to read 32 bytes at a time. Who looks at each process of a host each second notices.

use std::fs::File;
use std::io::{Read, Result};
use std::path::Path;

/// Most of them fit into it.
const FIRST: usize = 4096;

/// The whole file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(FIRST);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What the first reading of a file gives, `N` bytes at most, in one system call; what is shorter is whole.
pub fn read_once<const N: usize>(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = [0; N];
    let length = File::open(path)?.read(&mut bytes)?;
    Ok(bytes[..length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end_however_long_it_is() {
        let maps = read(Path::new("/proc/self/smaps")).unwrap();
        assert!(maps.len() > FIRST && maps.ends_with(b"\n"), "{}", maps.len());
        assert!(read(Path::new("/proc/self/no-such-file")).is_err());
    }

    #[test]
    fn one_reading_gives_a_short_file_and_the_beginning_of_a_long_one() {
        let comm = std::fs::read("/proc/self/comm").unwrap();
        assert_eq!(read_once::<64>(Path::new("/proc/self/comm")).unwrap(), comm);
        assert_eq!(read_once::<3>(Path::new("/proc/self/comm")).unwrap(), comm[..3]);
    }
}
