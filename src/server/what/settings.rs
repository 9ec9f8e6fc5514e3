//! What a server was told, whichever engine it is of: each engine's own reader fills it
//! ([`crate::server::mysql::settings`]). A value that was changed at run time is not seen here, nor is a file
//! that was edited since.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::linux::rooted::Root;

/// Parts of a value that is a list of paths.
const MAX_PARTS: usize = 64;

/// Configured settings by name: lower case, underscores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub(in crate::server) values: BTreeMap<String, OsString>,
    /// What a relative value is relative to: the data directory, which is the server's working directory.
    pub(in crate::server) base: Option<PathBuf>,
    /// Configured path → the same without symlinks, where the two differ.
    real: BTreeMap<PathBuf, PathBuf>,
}

/// Bounds of reading a server's settings.
pub struct Bounds<'a> {
    /// Settings that are kept beside those that fsynctop itself asks for: those of the rules.
    pub also: &'a BTreeSet<String>,
    /// True: reading is to end, because it has taken too long or because the process has.
    pub over: &'a dyn Fn() -> bool,
}

#[cfg(test)]
impl Bounds<'_> {
    pub(crate) const NONE: Bounds<'static> = Bounds { also: &BTreeSet::new(), over: &|| false };
}

impl Settings {
    /// From text alone, with its values relative to `datadir`; what tests and other tools need.
    pub fn from_pairs<'a>(datadir: &Path, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Settings {
        let values = pairs.into_iter().map(|(name, value)| (name.replace('-', "_"), value.into())).collect();
        Settings { values, base: Some(datadir.to_owned()), real: BTreeMap::new() }
    }

    /// None at all, of a server that works in its data directory.
    pub(in crate::server) fn relative_to(datadir: Option<PathBuf>) -> Settings {
        Settings { base: datadir, ..Settings::default() }
    }

    /// Notes where the paths that these settings name really lie, because the kernel names files without
    /// symlinks.
    pub(in crate::server) fn follow_symlinks(&mut self, names: &[&str], root: &Root, bounds: &Bounds<'_>) {
        let mut real = BTreeMap::new();
        let paths = names.iter().flat_map(|name| self.configured(name));
        for path in paths.take_while(|_| !(bounds.over)()) {
            let followed = root.canonical(&path).or_else(|| {
                // Of a log's base name only the directory exists.
                Some(root.canonical(path.parent()?)?.join(path.file_name()?))
            });
            if let Some(followed) = followed.filter(|followed| *followed != path) {
                real.insert(path, followed);
            }
        }
        self.real = real;
    }

    /// The value as it was given; None if the setting was never given.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.values.get(name).map(OsString::as_os_str)
    }

    /// A value that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.to_str()
    }

    /// A number, with the suffixes that servers take: K, M, G, T.
    pub fn number(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?.trim();
        let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
            b'K' => (&text[..text.len() - 1], 10),
            b'M' => (&text[..text.len() - 1], 20),
            b'G' => (&text[..text.len() - 1], 30),
            b'T' => (&text[..text.len() - 1], 40),
            _ => (text, 0),
        };
        digits.parse::<u64>().ok()?.checked_mul(1 << shift)
    }

    /// ON or OFF; an option without a value is ON.
    pub fn flag(&self, name: &str) -> Option<bool> {
        match self.text(name)?.to_ascii_uppercase().as_str() {
            "" | "1" | "ON" | "TRUE" | "YES" => Some(true),
            "0" | "OFF" | "FALSE" | "NO" => Some(false),
            _ => None,
        }
    }

    /// The data directory, as the server was told or, where it was not, as it works in. None: not told, and
    /// the server has only just begun; ask again later.
    pub fn datadir(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    /// The path that a setting names; of several the first.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.configured(name).into_iter().next()
    }

    pub fn port(&self) -> Option<u16> {
        self.number("port").and_then(|port| port.try_into().ok())
    }

    /// Every path that a setting names, absolute, with and without its symlinks. Several for a list.
    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        let mut paths = self.configured(name);
        let followed: Vec<_> = paths.iter().filter_map(|path| self.real.get(path).cloned()).collect();
        paths.extend(followed);
        paths
    }

    /// The files of a list such as `innodb_data_file_path = ibdata1:12M;/big/ibdata2:1G:autoextend`.
    pub(crate) fn file_list(&self, name: &str) -> Vec<PathBuf> {
        let Some(value) = self.get(name) else { return Vec::new() };
        let homes = match self.paths("innodb_data_home_dir") {
            homes if homes.is_empty() => self.paths("datadir"),
            homes => homes,
        };
        let files = value.as_bytes().split(|&b| b == b';').take(MAX_PARTS).map(|file| {
            let end = file.iter().position(|&b| b == b':').unwrap_or(file.len());
            Path::new(OsStr::from_bytes(file[..end].trim_ascii()))
        });
        let files = files.filter(|file| !file.as_os_str().is_empty());
        files.flat_map(|file| homes.iter().map(move |home| normalize(&home.join(file)))).collect()
    }

    /// A path as the server takes it: a relative one in its data directory. None: that is not known.
    pub(crate) fn resolved(&self, path: &Path) -> Option<PathBuf> {
        let absolute = match &self.base {
            Some(base) => base.join(path),
            None => path.is_absolute().then(|| path.to_owned())?,
        };
        Some(normalize(&absolute))
    }

    fn configured(&self, name: &str) -> Vec<PathBuf> {
        if name == "datadir" {
            return self.base.iter().cloned().collect();
        }
        let Some(value) = self.get(name) else { return Vec::new() };
        if matches!(value.as_bytes(), b"" | b"ON" | b"OFF") {
            return Vec::new();
        }
        // tmpdir may be a list; its parts beside the whole, in which a ':' could also be part of the name.
        let bytes = value.as_bytes();
        let parts = name
            .ends_with("tmpdir")
            .then(|| bytes.split(|&b| b == b':').take(MAX_PARTS))
            .into_iter()
            .flatten();
        let whole = (!name.ends_with("tmpdir") || !bytes.contains(&b':')).then_some(bytes);
        parts
            .chain(whole)
            .filter(|part| !part.is_empty())
            .filter_map(|part| self.resolved(Path::new(OsStr::from_bytes(part))))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .collect()
    }
}

/// Without "." and, as far as the text tells, "..".
pub(in crate::server) fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
