//! Stores the last result for each filesystem, so that `explain` can read it.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{CalibrateError, Calibration};
use crate::linux::storage::Storage;

const MAX_BYTES: u64 = 1 << 20;

/// systemd's state directory, else /var/lib/fsynctop for root, else the user's own. None: there is none.
pub fn directory() -> Option<PathBuf> {
    directory_by(rustix::process::geteuid().is_root(), |name| std::env::var_os(name).map(PathBuf::from))
}

fn directory_by(root: bool, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|path| path.is_absolute());
    if let Some(directory) = given("STATE_DIRECTORY") {
        return Some(directory);
    }
    if root {
        return Some("/var/lib/fsynctop".into());
    }
    given("XDG_STATE_HOME")
        .or_else(|| Some(given("HOME")?.join(".local/state")))
        .map(|path| path.join("fsynctop"))
}

fn file_of(state: &Path, filesystem_id: u64) -> PathBuf {
    state.join(format!("calibrate-{filesystem_id:016x}.json"))
}

/// Stores the result, replacing an earlier one. Returns the path.
pub fn save(state: &Path, calibration: &Calibration) -> Result<PathBuf, CalibrateError> {
    let path = file_of(state, calibration.place.filesystem_id);
    let io = |what| CalibrateError::io(&path, what);
    std::fs::create_dir_all(state).map_err(io("create its directory"))?;
    let text = serde_json::to_vec(calibration).map_err(|error| io("write it")(error.into()))?;
    // Replaced atomically: a reader sees either the old result or the new one.
    let new = path.with_extension(format!("new-{}", std::process::id()));
    let written = std::fs::File::create(&new)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| std::fs::rename(&new, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new); // it may not exist
    }
    written.map_err(io("write it"))?;
    Ok(path)
}

/// The last result for the filesystem of a path in our own root.
pub fn load(state: &Path, path: &Path) -> Option<Calibration> {
    let storage = Storage::of(&path.canonicalize().ok()?).ok()?;
    load_of(state, path, &storage)
}

/// As [`load`], for a path whose storage is known. The device and the kind of filesystem must match.
pub(crate) fn load_of(state: &Path, path: &Path, storage: &Storage) -> Option<Calibration> {
    let file = file_of(state, rustix::fs::statvfs(path).ok()?.f_fsid);
    if std::fs::metadata(&file).ok()?.len() > MAX_BYTES {
        return None;
    }
    let calibration: Calibration = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let same =
        calibration.place.device == storage.device && calibration.place.filesystem == storage.filesystem;
    (same && calibration.schema == 1).then_some(calibration)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync_cost::Place;

    #[test]
    fn a_result_is_found_again_by_any_path_of_its_filesystem() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let state = directory.path().join("state");
        let place = Place::inspect(directory.path()).unwrap();
        assert_eq!(load(&state, directory.path()), None);
        let mut calibration = Calibration {
            schema: 1,
            when: "2026-01-01T00:00:00Z".into(),
            place,
            kernel: "6.12".into(),
            block_bytes: 4096,
            seconds_each: 1.0,
            outcomes: Vec::new(),
            complete: true,
        };
        save(&state, &calibration).unwrap();
        assert_eq!(load(&state, &state).as_ref(), Some(&calibration));
        calibration.place.device = "/dev/other".into();
        save(&state, &calibration).unwrap();
        assert_eq!(load(&state, &state), None, "another device has that name now");
        std::fs::write(file_of(&state, calibration.place.filesystem_id), "{").unwrap();
        assert_eq!(load(&state, &state), None);
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
    }

    #[test]
    fn the_state_is_the_users_own_where_it_is_not_roots() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/home/a"));
        assert_eq!(directory_by(true, home).unwrap(), Path::new("/var/lib/fsynctop"));
        assert_eq!(directory_by(false, home).unwrap(), Path::new("/home/a/.local/state/fsynctop"));
        let systemd = |name: &str| (name == "STATE_DIRECTORY").then(|| PathBuf::from("/var/lib/x"));
        assert_eq!(directory_by(true, systemd).unwrap(), Path::new("/var/lib/x"));
        assert_eq!(directory_by(false, |_| None), None);
    }
}
