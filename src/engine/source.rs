//! A file of the user's, with limits, and what is wrong in it by its line.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Of rules or a profile, so much is read: those of all engines together are a fifth of it.
const LARGEST: u64 = 256 << 10;

/// Why a file of rules or a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read the {what} {path}: {source}", path = path.display())]
    Unreadable { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{path}:{line}: {message}", path = path.display())]
    Invalid { path: PathBuf, line: usize, message: String },
}

/// A message and the byte of the file it is about.
pub(super) type Complaint = (usize, String);

/// `what`: "rules file".
pub(super) fn read(what: &'static str, path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { what, path: path.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > LARGEST {
        return Err(unreadable(std::io::Error::other(format!("it is larger than {} KB", LARGEST >> 10))));
    }
    Ok(text)
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
