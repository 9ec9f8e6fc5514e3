//! The files of a web configuration: the prober, which may open them, reads them; the web process, which may
//! open nothing, gets what is in them.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::settings::{Settings, SettingsError};

use crate::linux::lock;

/// A chain of certificates is some kilobytes.
const LARGEST: u64 = 1 << 20;

/// The files of a configuration and what tells whether they changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen(Vec<(PathBuf, Option<Stamp>)>);

/// Device, inode, size, last change of content and of the inode (ns).
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl Seen {
    fn note(&mut self, path: &Path) {
        let stamp = std::fs::metadata(path).ok().map(|file| {
            let modified = (file.mtime(), file.mtime_nsec());
            (file.dev(), file.ino(), file.size(), modified, (file.ctime(), file.ctime_nsec()))
        });
        self.0.push((path.to_owned(), stamp));
    }

    fn is_current(&self) -> bool {
        let mut now = Seen::default();
        self.0.iter().for_each(|(path, _)| now.note(path));
        now == *self
    }
}

/// What the files hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Differs from that of every earlier one.
    pub generation: u64,
    /// The configuration file itself.
    path: PathBuf,
    text: Result<String, String>,
    /// Those that it names; why a file could not be read.
    files: Vec<(PathBuf, Result<Vec<u8>, String>)>,
}

impl Bundle {
    /// Reads the file and all that it names. It is looked at before it is read, so that a change in between
    /// is found the next time.
    fn read(path: &Path, generation: u64) -> (Bundle, Seen) {
        let mut seen = Seen::default();
        seen.note(path);
        let text = read(path).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
        });
        let text = text.map_err(|error| error.to_string());
        let mut bundle = Bundle { generation, path: path.to_owned(), text, files: Vec::new() };
        // What is wrong with the settings is found by whoever makes use of them.
        if let Ok(Settings { tls: Some(tls), .. }) = bundle.settings() {
            for file in [&tls.cert_file, &tls.key_file, &tls.client_ca_file].into_iter().flatten() {
                seen.note(file);
                bundle.files.push((file.clone(), read(file).map_err(|error| error.to_string())));
            }
        }
        (bundle, seen)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        match &self.text {
            Ok(text) => Settings::parse(&self.path, text),
            Err(error) => Err(SettingsError::Unreadable { path: self.path.clone(), error: error.clone() }),
        }
    }

    /// The content of a file that the settings name.
    pub(crate) fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let found = self.files.iter().find(|(known, _)| known == path).map(|(_, content)| content.clone());
        found.unwrap_or_else(|| Err("it was not read".into())).map_err(io::Error::other)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let text = format!("it is larger than {} kB", LARGEST >> 10);
        return Err(io::Error::new(ErrorKind::InvalidData, text));
    }
    Ok(bytes)
}

/// Where a configuration comes from.
pub trait Files: Send + Sync {
    /// What the files hold if that is another generation than this one, or in any case. None: they are as
    /// they were, or there is no configuration, or nobody can tell at present. May block.
    fn changed(&self, known: Option<u64>) -> Option<Bundle>;
}

/// A configuration that this process can read itself.
#[derive(Debug)]
pub struct OnDisk {
    path: PathBuf,
    /// The generation that was read last, usable or not, and the state of its files.
    last: Mutex<(u64, Seen)>,
}

impl OnDisk {
    pub fn new(path: PathBuf) -> OnDisk {
        OnDisk { path, last: Mutex::default() }
    }
}

impl Files for OnDisk {
    fn changed(&self, known: Option<u64>) -> Option<Bundle> {
        let mut last = lock(&self.last);
        if known == Some(last.0) && last.1.is_current() {
            return None;
        }
        let (bundle, seen) = Bundle::read(&self.path, last.0 + 1);
        *last = (bundle.generation, seen);
        Some(bundle)
    }
}
