//! A file of the user's, with limits, and what is wrong in it by its line.

use std::path::{Path, PathBuf};

use crate::linux::own_file::{self, OwnFileError};

/// Of rules or a profile, so much is read: those of all engines together are a fifth of it.
pub(super) const LARGEST: u64 = 256 << 10;

/// Why a file of rules or a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read the {what} {path}: {source}", path = path.display())]
    Unreadable { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the {what} {path} is not used: {why}", path = path.display())]
    Refused { what: &'static str, path: PathBuf, why: String },
    #[error("{path}:{line}: {message}", path = path.display())]
    Invalid { path: PathBuf, line: usize, message: String },
}

/// A message and the byte of the file it is about.
pub(super) type Complaint = (usize, String);

/// `what`: "rules file".
pub(super) fn read(what: &'static str, path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { what, path: path.to_owned(), source };
    match own_file::read(path, rustix::process::geteuid().as_raw(), LARGEST) {
        Ok(Some(text)) => Ok(text),
        Ok(None) => Err(unreadable(rustix::io::Errno::NOENT.into())),
        Err(OwnFileError::Unreadable(source)) => Err(unreadable(source)),
        Err(OwnFileError::Refused(why)) => Err(FileError::Refused { what, path: path.to_owned(), why }),
    }
}

pub(super) fn invalid(path: &Path, text: &str, (at, message): Complaint) -> FileError {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    FileError::Invalid { path: path.to_owned(), line, message }
}

/// What is wrong with TOML, or with what stands in it.
pub(super) fn complaint(error: &toml::de::Error) -> Complaint {
    (error.span().map_or(0, |span| span.start), error.message().to_owned())
}
