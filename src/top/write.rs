//! Writes what the screen shows to a file, as `--output json` would.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::model::Interval;
use crate::render::json;
use crate::text;

/// A file of this time, which was not there before: nothing is overwritten, and no link is followed.
pub fn write(m: &Interval, directory: &Path, now: SystemTime) -> io::Result<PathBuf> {
    let time: String = text::rfc3339(now).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect();
    let mut text = Vec::new();
    json::write(m, &mut text)?;
    let mut number = 0;
    loop {
        let name = match number {
            0 => format!("fsynctop-{time}Z.json"),
            n => format!("fsynctop-{time}Z-{n}.json"),
        };
        let path = directory.join(name);
        match File::options().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(&text)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::fixture::busy;

    #[test]
    fn a_file_is_new_and_holds_what_output_json_prints() {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_779_937_200);
        let precious = directory.path().join("precious");
        std::os::unix::fs::symlink(&precious, directory.path().join("fsynctop-20260528T030000Z.json"))
            .unwrap();
        let path = write(&busy(), directory.path(), now).unwrap();
        assert_eq!(path.file_name().unwrap(), "fsynctop-20260528T030000Z-1.json");
        assert!(!precious.exists());
        let mut expected = Vec::new();
        json::write(&busy(), &mut expected).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        assert!(write(&busy(), Path::new("/no/such/directory"), now).is_err());
    }
}
