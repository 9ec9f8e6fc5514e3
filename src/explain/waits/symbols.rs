//! Kernel function names by address, from /proc/kallsyms.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Functions of the kernel and its modules, by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// (address, offset in `names`, length), sorted by address.
    places: Vec<(u64, u32, u16)>,
    names: String,
}

/// Why the kernel's symbols cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    #[error("cannot read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error(
        "{0} hides its addresses, so stacks have no function names: run as root or with CAP_SYSLOG, and set \
         kernel.kptr_restrict below 2"
    )]
    Hidden(String),
}

impl Symbols {
    pub fn load(path: &Path) -> Result<Symbols, SymbolError> {
        let failed = |source| SymbolError::Read { path: path.display().to_string(), source };
        let file = std::fs::File::open(path).map_err(failed)?;
        let symbols = Symbols::parse(BufReader::new(file)).map_err(failed)?;
        match symbols.places.last() {
            Some((address, ..)) if *address > 0 => Ok(symbols),
            _ => Err(SymbolError::Hidden(path.display().to_string())),
        }
    }

    /// Parses lines of "ffffffff81000000 T _text [module]"; other symbols than functions are skipped.
    pub(super) fn parse(mut lines: impl BufRead) -> io::Result<Symbols> {
        let mut symbols = Symbols::default();
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 {
            let mut fields = line.split_ascii_whitespace();
            if let (Some(address), Some("t" | "T" | "w" | "W"), Some(name)) = (
                fields.next().and_then(|hex| u64::from_str_radix(hex, 16).ok()),
                fields.next(),
                fields.next(),
            ) {
                let name = without_compiler_suffix(name);
                let length = name.len().min(usize::from(u16::MAX));
                symbols.places.push((address, symbols.names.len() as u32, length as u16));
                symbols.names.push_str(&name[..length]);
            }
            line.clear();
        }
        symbols.places.sort_by_key(|place| place.0);
        Ok(symbols)
    }

    fn text(&self, (_, at, length): (u64, u32, u16)) -> &str {
        self.names.get(at as usize..at as usize + usize::from(length)).unwrap_or_default()
    }

    /// The function that contains a call, by its return address, which may lie just past the function's
    /// end.
    pub fn name(&self, return_address: u64) -> Option<&str> {
        let at = return_address.checked_sub(1)?;
        let after = self.places.partition_point(|place| place.0 <= at);
        after.checked_sub(1).map(|i| self.text(self.places[i]))
    }

    /// The functions that `wanted` selects, as (start, end, its result). Several functions may share a
    /// name.
    pub fn ranges<T>(&self, wanted: impl Fn(&str) -> Option<T>) -> Vec<(u64, u64, T)> {
        let ranges = self.places.iter().enumerate().filter_map(|(i, &place)| {
            let what = wanted(self.text(place))?;
            let next = self.places[i..].iter().map(|place| place.0).find(|&next| next > place.0);
            Some((place.0, next.unwrap_or(u64::MAX), what))
        });
        ranges.collect()
    }
}

/// Strips suffixes that compilers append.
fn without_compiler_suffix(name: &str) -> &str {
    // Names such as ".text" start with a dot.
    match name.get(1..).and_then(|rest| rest.find('.')) {
        Some(dot) => &name[..dot + 1],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "\
ffffffff81000100 t jbd2_log_wait_commit\n\
ffffffff81000000 T _text\n\
ffffffff81000200 d some_data\n\
ffffffff81000300 t do_fsync.isra.0\n\
ffffffffc0000000 t ext4_sync_file\t[ext4]\n\
nonsense\n";

    #[test]
    fn an_address_belongs_to_the_function_that_begins_before_it() {
        let symbols = Symbols::parse(KALLSYMS.as_bytes()).unwrap();
        let names = [0xffffffff81000150, 0xffffffff81000300, 0xffffffff81000301, 0xffffffffc0001000, 0x10];
        let names = names.map(|address| symbols.name(address));
        // The second address follows a call that is the last instruction of a function.
        let expected = [
            Some("jbd2_log_wait_commit"),
            Some("jbd2_log_wait_commit"),
            Some("do_fsync"),
            Some("ext4_sync_file"),
            None,
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_functions_range_ends_where_the_next_begins() {
        let symbols = Symbols::parse(KALLSYMS.as_bytes()).unwrap();
        let ranges = symbols.ranges(|name| name.starts_with("do_").then_some(7));
        assert_eq!(ranges, [(0xffffffff81000300, 0xffffffffc0000000, 7)]);
    }

    #[test]
    fn hidden_addresses_are_an_error_that_says_what_to_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0000000000000000 T _text\n").unwrap();
        let error = Symbols::load(file.path()).unwrap_err().to_string();
        assert!(error.contains("CAP_SYSLOG"), "{error}");
    }
}
