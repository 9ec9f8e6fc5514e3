//! What `--output json` says, read back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub struct Measured(pub Value);

impl Measured {
    pub fn parse(line: &str) -> Measured {
        Measured(serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    fn rows(&self, table: &str) -> &[Value] {
        self.0[table].as_array().map_or(&[], Vec::as_slice)
    }

    pub fn files(&self) -> &[Value] {
        self.rows("files")
    }

    pub fn roles(&self) -> &[Value] {
        self.rows("roles")
    }

    pub fn threads(&self) -> &[Value] {
        self.rows("threads")
    }

    pub fn in_flight(&self) -> &[Value] {
        self.rows("in_flight")
    }

    pub fn lost(&self, what: &str) -> u64 {
        self.0["lost"][what].as_u64().unwrap_or_else(|| panic!("no {what} in {}", self.0["lost"]))
    }

    /// Everything was counted, and every file has its name. What other processes of the host do is theirs.
    pub fn assert_nothing_lost(&self) {
        self.assert_no_call_lost();
        assert_eq!(self.lost("unwatched"), 0);
    }

    /// The same of the watched calls, as far as the kernel ran them.
    pub fn assert_no_call_lost(&self) {
        let lost = self.0["lost"].as_object().unwrap();
        let mut watched = lost.iter().filter(|(kind, _)| !kind.ends_with("unwatched") && *kind != "answered");
        assert!(watched.all(|(_, n)| n.as_f64() == Some(0.0)), "{lost:?}");
    }

    /// The sum over roles, which is the sum over files.
    pub fn total(&self) -> u64 {
        let (roles, files) = (sum(self.roles()), sum(self.files()));
        assert_eq!(roles, files, "roles and files disagree");
        roles
    }

    pub fn of_role(&self, role: &str) -> u64 {
        sum(self.roles().iter().filter(|row| row["role"] == role))
    }

    /// (path below `directory`, call) → count, where each path has one row; paths elsewhere stay whole.
    pub fn by_path(&self, directory: &Path) -> BTreeMap<(PathBuf, String), u64> {
        let mut counts = BTreeMap::new();
        for row in self.files() {
            let path = path_of(row).unwrap_or_else(|| panic!("no path: {row}"));
            let path = path.strip_prefix(directory).map_or(path.clone(), Path::to_owned);
            let earlier = counts.insert((path, text(row, "op")), count(row));
            assert_eq!(earlier, None, "two rows for one path: {row}");
        }
        counts
    }

    /// The rows of a path.
    pub fn at(&self, path: &Path) -> Vec<&Value> {
        self.files().iter().filter(|row| path_of(row).as_deref() == Some(path)).collect()
    }

    /// The only row of a path.
    pub fn only(&self, path: &Path) -> &Value {
        let [row] = self.at(path)[..] else { panic!("one row of {}: {}", path.display(), self.0["files"]) };
        row
    }
}

/// Expected counts for [`Measured::by_path`].
pub fn counts<const N: usize>(rows: [(&str, &str, u64); N]) -> BTreeMap<(PathBuf, String), u64> {
    rows.into_iter().map(|(path, op, n)| ((path.into(), op.into()), n)).collect()
}

pub fn sum<'a>(rows: impl IntoIterator<Item = &'a Value>) -> u64 {
    rows.into_iter().map(count).sum()
}

pub fn count(row: &Value) -> u64 {
    number(row, "count")
}

pub fn number(row: &Value, field: &str) -> u64 {
    row[field].as_u64().unwrap_or_else(|| panic!("no number {field}: {row}"))
}

pub fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_else(|| panic!("no text {field}: {row}")).to_owned()
}

pub fn path_of(row: &Value) -> Option<PathBuf> {
    match row["path_bytes"].as_str() {
        None => row["path"].as_str().map(PathBuf::from),
        Some(hex) => {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            Some(OsString::from_vec((0..hex.len()).step_by(2).map(byte).collect()).into())
        }
    }
}
